//! BLAKE3 of many short inputs at once.
//!
//! The blocks of an input depend on each other, so wide registers do not speed up a single message of a conversation. Here sixteen
//! inputs are hashed at once, each in its own lane of the registers. With AVX2 or AVX-512 a message of one kilobyte takes a third of
//! the time; elsewhere it takes about the same. Long inputs are left to the `blake3` crate, which splits them itself. The results
//! are the same: a test compares both for inputs of many lengths.
//!
//! An input is cut into chunks of 1,024 bytes, each chunk into blocks of 64. A chunk has a value of eight words, into which its
//! blocks are mixed one after the other. The values of the chunks are joined in pairs, as blocks of two values, until one is left.

use multiversion::multiversion;

/// The hashes of the inputs, in order.
pub(super) fn hash_each(inputs: &[&[u8]]) -> Vec<[u8; 32]> {
    let mut hashes = vec![[0; 32]; inputs.len()];
    let mut jobs = Vec::new();
    for (input, bytes) in inputs.iter().enumerate() {
        if inputs.len() < FEWEST || bytes.len() > LONGEST {
            hashes[input] = *blake3::hash(bytes).as_bytes();
            continue;
        }
        // An empty input has one empty chunk.
        let chunks = bytes.len().div_ceil(CHUNK).max(1);
        jobs.extend((0..chunks).map(|chunk| Job {
            input,
            bytes: &bytes[chunk * CHUNK..bytes.len().min((chunk + 1) * CHUNK)],
            counter: chunk as u32,
            first: CHUNK_START,
            last: CHUNK_END | if chunks == 1 { ROOT } else { 0 },
        }));
    }
    let mut values = run(&jobs);
    // Join neighbours until each input has one value. A value without a neighbour is carried over.
    loop {
        let nodes: Vec<&[(usize, [u8; 32])]> = values.chunk_by(|(one, _), (next, _)| one == next).collect();
        let is_done = nodes.iter().all(|of_input| of_input.len() == 1);
        if is_done {
            break;
        }
        let mut pairs: Vec<[u8; 64]> = Vec::new();
        let mut plan = Vec::new();
        for of_input in nodes {
            let root = if of_input.len() == 2 { ROOT } else { 0 };
            for pair in of_input.chunks(2) {
                let input = pair[0].0;
                match pair {
                    [(_, left), (_, right)] => {
                        let mut block = [0; 64];
                        block[..32].copy_from_slice(left);
                        block[32..].copy_from_slice(right);
                        pairs.push(block);
                        plan.push((input, Err(root)));
                    }
                    _ => plan.push((input, Ok(pair[0].1))),
                }
            }
        }
        let roots = plan.iter().filter_map(|(input, value)| Some((*input, value.err()?)));
        let jobs: Vec<Job<'_>> = pairs
            .iter()
            .zip(roots)
            .map(|(block, (input, root))| Job { input, bytes: block, counter: 0, first: PARENT, last: root })
            .collect();
        let mut joined = run(&jobs).into_iter();
        values = plan
            .into_iter()
            .map(|(input, value)| match value {
                Ok(value) => (input, value),
                Err(_) => joined.next().expect("BUG: every pair was joined"),
            })
            .collect();
    }
    for (input, value) in values {
        hashes[input] = value;
    }
    hashes
}

/// The number of inputs that are computed at once.
const LANES: usize = 16;

/// With fewer inputs most lanes would be empty.
const FEWEST: usize = 4;

/// Longer inputs have enough chunks to be computed side by side on their own.
const LONGEST: usize = 8 * CHUNK;

const CHUNK: usize = 1024;
const BLOCK: usize = 64;

/// A chunk, or a pair of values to join.
struct Job<'i> {
    /// The input to which it belongs.
    input: usize,
    bytes: &'i [u8],
    counter: u32,
    /// The flags of its first block, and of its last.
    first: u32,
    last: u32,
}

/// The flags of a block.
const CHUNK_START: u32 = 1;
const CHUNK_END: u32 = 2;
const PARENT: u32 = 4;
const ROOT: u32 = 8;

impl Job<'_> {
    fn blocks(&self) -> usize {
        self.bytes.len().div_ceil(BLOCK).max(1)
    }
}

/// One word of the state of each lane.
type Word = [u32; LANES];

/// The value of each job, with its input, in order.
fn run(jobs: &[Job<'_>]) -> Vec<(usize, [u8; 32])> {
    // Jobs of similar length are computed together, so that few lanes wait for the longest.
    let mut order: Vec<usize> = (0..jobs.len()).collect();
    order.sort_by_key(|job| std::cmp::Reverse(jobs[*job].bytes.len()));
    let mut values: Vec<(usize, [u8; 32])> = jobs.iter().map(|job| (job.input, [0; 32])).collect();
    for group in order.chunks(LANES) {
        let mut state = START.map(|word| [word; LANES]);
        let mut counters = [0; LANES];
        for (lane, job) in group.iter().enumerate() {
            counters[lane] = jobs[*job].counter;
        }
        for block in 0..jobs[group[0]].blocks() {
            let (mut blocks, mut lengths, mut flags) = ([[0; BLOCK]; LANES], [0; LANES], [0; LANES]);
            let begun = group.iter().take_while(|job| block < jobs[**job].blocks());
            for (lane, job) in begun.enumerate() {
                let job = &jobs[*job];
                let bytes = &job.bytes[block * BLOCK..job.bytes.len().min((block + 1) * BLOCK)];
                lengths[lane] = bytes.len() as u32;
                flags[lane] = if block == 0 { job.first } else { 0 }
                    | if block + 1 == job.blocks() { job.last } else { 0 };
                blocks[lane][..bytes.len()].copy_from_slice(bytes);
            }
            mix(&mut state, &blocks, &counters, &lengths, &flags);
            let ended = group.iter().enumerate().filter(|(_, job)| block + 1 == jobs[**job].blocks());
            for (lane, job) in ended {
                for (bytes, word) in values[*job].1.as_chunks_mut::<4>().0.iter_mut().zip(&state) {
                    *bytes = word[lane].to_le_bytes();
                }
            }
        }
    }
    values
}

/// Mixes one block of each lane into its state.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512vl", "x86_64+avx2"))]
fn mix(state: &mut [Word; 8], blocks: &[[u8; BLOCK]; LANES], counters: &Word, lengths: &Word, flags: &Word) {
    let mut words = [[0; LANES]; 16];
    for (lane, block) in blocks.iter().enumerate() {
        for (word, bytes) in words.iter_mut().zip(block.as_chunks::<4>().0) {
            word[lane] = u32::from_le_bytes(*bytes);
        }
    }
    let mut v = [[0; LANES]; 16];
    v[..8].copy_from_slice(state);
    for (word, start) in v[8..12].iter_mut().zip(START) {
        *word = [start; LANES];
    }
    // The upper half of the counter is zero: no input here has that many chunks.
    (v[12], v[14], v[15]) = (*counters, *lengths, *flags);
    for order in &ORDER {
        let word = |place: usize| words[order[place]];
        // The columns of the state, then its diagonals.
        step(&mut v, [0, 4, 8, 12], word(0), word(1));
        step(&mut v, [1, 5, 9, 13], word(2), word(3));
        step(&mut v, [2, 6, 10, 14], word(4), word(5));
        step(&mut v, [3, 7, 11, 15], word(6), word(7));
        step(&mut v, [0, 5, 10, 15], word(8), word(9));
        step(&mut v, [1, 6, 11, 12], word(10), word(11));
        step(&mut v, [2, 7, 8, 13], word(12), word(13));
        step(&mut v, [3, 4, 9, 14], word(14), word(15));
    }
    for (word, (low, high)) in state.iter_mut().zip(v[..8].iter().zip(&v[8..])) {
        *word = std::array::from_fn(|lane| low[lane] ^ high[lane]);
    }
}

#[inline(always)]
#[allow(
    clippy::needless_range_loop,
    reason = "all lanes at once: the compiler makes one instruction of the loop"
)]
fn sum(one: Word, other: Word) -> Word {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = one[lane].wrapping_add(other[lane]);
    }
    out
}

#[inline(always)]
#[allow(clippy::needless_range_loop, reason = "as in `sum`")]
fn turned(one: Word, other: Word, bits: u32) -> Word {
    let mut out = [0; LANES];
    for lane in 0..LANES {
        out[lane] = (one[lane] ^ other[lane]).rotate_right(bits);
    }
    out
}

/// Mixes two words of a block into four words of the state.
#[inline(always)]
fn step(v: &mut [Word; 16], [a, b, c, d]: [usize; 4], x: Word, y: Word) {
    v[a] = sum(sum(v[a], v[b]), x);
    v[d] = turned(v[d], v[a], 16);
    v[c] = sum(v[c], v[d]);
    v[b] = turned(v[b], v[c], 12);
    v[a] = sum(sum(v[a], v[b]), y);
    v[d] = turned(v[d], v[a], 8);
    v[c] = sum(v[c], v[d]);
    v[b] = turned(v[b], v[c], 7);
}

/// The order in which each round takes the words of a block.
const ORDER: [[usize; 16]; 7] = {
    const NEXT: [usize; 16] = [2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8];
    let mut order = [[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]; 7];
    let mut round = 1;
    while round < 7 {
        let mut place = 0;
        while place < 16 {
            order[round][place] = order[round - 1][NEXT[place]];
            place += 1;
        }
        round += 1;
    }
    order
};

/// The value with which every chunk begins.
const START: [u32; 8] =
    [0x6A09_E667, 0xBB67_AE85, 0x3C6E_F372, 0xA54F_F53A, 0x510E_527F, 0x9B05_688C, 0x1F83_D9AB, 0x5BE0_CD19];

#[cfg(test)]
mod tests {
    use super::*;

    /// Inputs of all lengths, alone and in groups of different lengths.
    #[test]
    fn the_hashes_are_those_of_blake3() {
        let bytes: Vec<u8> = (0..LONGEST + 70).map(|place| (place * 31 % 251) as u8).collect();
        let around = |length: usize| length.saturating_sub(2)..length + 3;
        let mut lengths: Vec<usize> = (0..=BLOCK * 2).collect();
        lengths.extend((1..=8).flat_map(|chunks| around(chunks * CHUNK)));
        lengths.extend((0..300).map(|place| place * 7_919 % bytes.len()));
        let inputs: Vec<&[u8]> = lengths.iter().map(|length| &bytes[..*length]).collect();
        let expected: Vec<[u8; 32]> = inputs.iter().map(|input| *blake3::hash(input).as_bytes()).collect();
        for size in [1, 3, 4, 15, 16, 17, 100, inputs.len()] {
            for (group, expected) in inputs.chunks(size).zip(expected.chunks(size)) {
                assert_eq!(hash_each(group), expected, "{size} at once");
            }
        }
    }
}
