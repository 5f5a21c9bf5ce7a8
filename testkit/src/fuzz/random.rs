//! Pseudo-random numbers, the same for the same seed, on every machine and in every version.

/// A source of such numbers.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The numbers of a seed for a purpose. Another purpose gets other numbers from the same seed.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        let mut random = Self(seed);
        for byte in purpose.bytes() {
            random.0 = random.bits() ^ u64::from(byte);
        }
        random
    }

    /// The next 64 bits: a counter in large odd steps, its bits then mixed until every one depends on every other.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below a limit; 0 where the limit is 0.
    pub fn below(&mut self, limit: usize) -> usize {
        // The remainder favours small numbers by less than one in a billion here.
        (self.bits() % (limit.max(1) as u64)) as usize
    }

    /// True once in this many times, on average.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// One of a list that is not empty.
    pub fn pick<'a, T>(&mut self, list: &'a [T]) -> &'a T {
        &list[self.below(list.len())]
    }

    /// A stretch of something with this length, not longer than a limit; empty if the length is 0.
    pub fn stretch(&mut self, length: usize, most: usize) -> std::ops::Range<usize> {
        let start = self.below(length);
        // Short stretches are the likelier ones.
        let most = most.min(length - start);
        let most = 1 + self.below(most);
        let end = start + 1 + self.below(most);
        start..end.min(length)
    }
}
