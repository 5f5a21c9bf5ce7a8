//! BLAKE2b with digests of 16 bytes and no key, as in RFC 7693: the function with which `llm` names its messages.

const START: [u64; 8] = [
    0x6a09_e667_f3bc_c908,
    0xbb67_ae85_84ca_a73b,
    0x3c6e_f372_fe94_f82b,
    0xa54f_f53a_5f1d_36f1,
    0x510e_527f_ade6_82d1,
    0x9b05_688c_2b3e_6c1f,
    0x1f83_d9ab_fb41_bd6b,
    0x5be0_cd19_137e_2179,
];

/// The order in which each round takes the words of a block. The last two rounds repeat the first two.
const ORDER: [[usize; 16]; 10] = [
    [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
    [14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
    [11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
    [7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
    [9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
    [2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
    [12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
    [13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
    [6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
    [10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];

/// The words that each step of a round mixes: first the columns of the state, then its diagonals.
const STEPS: [[usize; 4]; 8] = [
    [0, 4, 8, 12],
    [1, 5, 9, 13],
    [2, 6, 10, 14],
    [3, 7, 11, 15],
    [0, 5, 10, 15],
    [1, 6, 11, 12],
    [2, 7, 8, 13],
    [3, 4, 9, 14],
];

const ROUNDS: usize = 12;
const BLOCK: usize = 128;

/// The digest in hexadecimal digits.
pub(super) fn hex(bytes: &[u8]) -> String {
    let mut state = START;
    state[0] ^= 0x0101_0010;
    let mut blocks = bytes.chunks(BLOCK).peekable();
    let mut counted = 0;
    loop {
        let block = blocks.next().unwrap_or_default();
        let is_last = blocks.peek().is_none();
        counted += block.len() as u128;
        compress(&mut state, block, counted, is_last);
        if is_last {
            break;
        }
    }
    state[..2].iter().flat_map(|word| word.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect()
}

fn compress(state: &mut [u64; 8], block: &[u8], counted: u128, is_last: bool) {
    let mut padded = [0; BLOCK];
    padded[..block.len()].copy_from_slice(block);
    let mut words = [0; 16];
    for (word, bytes) in words.iter_mut().zip(padded.chunks_exact(8)) {
        *word = bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    }
    let mut mixed = [0; 16];
    mixed[..8].copy_from_slice(state);
    mixed[8..].copy_from_slice(&START);
    mixed[12] ^= counted as u64;
    mixed[13] ^= (counted >> 64) as u64;
    if is_last {
        mixed[14] = !mixed[14];
    }
    for order in ORDER.iter().cycle().take(ROUNDS) {
        for ([a, b, c, d], pair) in STEPS.into_iter().zip(order.chunks_exact(2)) {
            for (word, turns) in [(words[pair[0]], (32, 24)), (words[pair[1]], (16, 63))] {
                mixed[a] = mixed[a].wrapping_add(mixed[b]).wrapping_add(word);
                mixed[d] = (mixed[d] ^ mixed[a]).rotate_right(turns.0);
                mixed[c] = mixed[c].wrapping_add(mixed[d]);
                mixed[b] = (mixed[b] ^ mixed[c]).rotate_right(turns.1);
            }
        }
    }
    for (number, word) in state.iter_mut().enumerate() {
        *word ^= mixed[number] ^ mixed[number + 8];
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The digests are those of Python's `hashlib.blake2b(…, digest_size=16)`.
    #[test]
    fn digests_are_those_of_other_implementations() {
        let cases: [(&[u8], &str); 5] = [
            (b"", "cae66941d9efbd404e4d88758ea67670"),
            (b"abc", "cf4ab791c62b8d2b2109c90275287816"),
            (&[b'x'; 128], "874acca82a22239ec64a3e70c3ae494e"),
            (&[b'x'; 129], "b9ee96f69e8210c624fee55d71d5a54f"),
            (&(0..=255).cycle().take(768).collect::<Vec<u8>>(), "e0892860f9fc0da273b9db57e857c19a"),
        ];
        for (bytes, digest) in cases {
            assert_eq!(hex(bytes), digest, "{} bytes", bytes.len());
        }
    }
}
