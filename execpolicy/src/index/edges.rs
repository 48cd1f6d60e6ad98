//! The edges of the tree: from a node, by a word, to a node.
//!
//! A custom hash table, because each word of a command costs one lookup, most of which is memory latency. A slot is
//! half a cache line and stores short words inline, as nearly all are, so a step touches one line. The hash is
//! randomly keyed: no file can choose colliding words.

use std::hash::{BuildHasher, Hasher, RandomState};

use super::NodeId;

/// Words up to this length are stored in the slot.
const INLINE: usize = 20;

#[derive(Clone, Debug, Default)]
pub(super) struct Edges {
    /// A power of two, at most half of them in use; empty before the first edge.
    slots: Vec<Slot>,
    used: usize,
    /// The words that are too long for a slot, concatenated.
    long_words: Vec<u8>,
    longest: usize,
    keys: RandomState,
}

#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))]
struct Slot {
    from: NodeId,
    /// Zero in an empty slot: no edge leads to the root.
    to: NodeId,
    length: u32,
    /// The word, or its offset in `long_words`.
    word: [u8; INLINE],
}

impl Edges {
    pub(super) fn is_empty(&self) -> bool {
        self.used == 0
    }

    pub(super) fn get(&self, from: NodeId, word: &[u8]) -> Option<NodeId> {
        // A word longer than any in the rules is not even hashed.
        if word.len() > self.longest || self.slots.is_empty() {
            return None;
        }
        let slot = self.slots.get(self.find(from, word))?;
        (slot.to != 0).then_some(slot.to)
    }

    /// Adds a new edge.
    pub(super) fn insert(&mut self, from: NodeId, word: &[u8], to: NodeId) {
        if self.slots.len() <= self.used * 2 {
            self.grow();
        }
        let mut slot = Slot { from, to, length: super::narrow(word.len()), word: [0; INLINE] };
        if let Some(inline) = slot.word.get_mut(..word.len()) {
            inline.copy_from_slice(word);
        } else {
            let start = super::narrow(self.long_words.len());
            self.long_words.extend_from_slice(word);
            slot.word.iter_mut().zip(start.to_le_bytes()).for_each(|(byte, start)| *byte = start);
        }
        self.longest = self.longest.max(word.len());
        let at = self.find(from, word);
        if let Some(place) = self.slots.get_mut(at) {
            *place = slot;
            self.used += 1;
        }
    }

    /// The slot of an edge, or the empty one to insert it at.
    fn find(&self, from: NodeId, word: &[u8]) -> usize {
        let mut hasher = self.keys.build_hasher();
        hasher.write_u32(from);
        hasher.write(word);
        let mask = self.slots.len().wrapping_sub(1);
        // Only the low bits are needed, on any platform.
        #[expect(clippy::cast_possible_truncation, reason = "the mask keeps fewer bits than either type has")]
        let mut at = hasher.finish() as usize & mask;
        while let Some(slot) = self.slots.get(at)
            && slot.to != 0
            && !(slot.from == from && self.word(slot) == Some(word))
        {
            at = (at + 1) & mask;
        }
        at
    }

    fn word<'s>(&'s self, slot: &'s Slot) -> Option<&'s [u8]> {
        let length = slot.length as usize;
        if length <= INLINE {
            return slot.word.get(..length);
        }
        let start = slot.word.first_chunk().map_or(0, |start| u32::from_le_bytes(*start)) as usize;
        self.long_words.get(start..start + length)
    }

    fn grow(&mut self) {
        let size = (self.slots.len() * 2).max(16);
        let old = std::mem::replace(&mut self.slots, vec![Slot::default(); size]);
        for slot in old.into_iter().filter(|slot| slot.to != 0) {
            let at = self.word(&slot).map(|word| self.find(slot.from, word));
            if let Some(place) = at.and_then(|at| self.slots.get_mut(at)) {
                *place = slot;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn edges_are_found_again() {
        let mut edges = Edges::default();
        assert_eq!(edges.get(0, b"x"), None);
        let words: Vec<Vec<u8>> = (0..40).map(|length| vec![b'w'; length]).collect();
        let all = || (0..50).flat_map(|from| words.iter().map(move |word| (from, word)));
        for ((from, word), to) in all().zip(1..) {
            edges.insert(from, word, to);
        }
        for ((from, word), to) in all().zip(1..) {
            assert_eq!(edges.get(from, word), Some(to));
        }
        assert_eq!(edges.get(50, b"w"), None);
        assert_eq!(edges.get(0, b"v"), None);
        assert_eq!(edges.get(0, &[b'w'; 40]), None);
    }
}
