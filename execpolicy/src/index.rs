//! The rules as a tree of words, so that a decision costs the same with ten rules and ten thousand.
//!
//! A command walks down from the root, one edge for each word, and stops where no rule goes further:
//! neither the other rules nor the rest of a long command line are looked at. Alternatives are spread
//! out over the tree while that stays small; a pattern with many combinations (`[["a", "b"], ["c",
//! "d"], …]`) instead becomes a chain of its own, whose steps are shared by all its alternatives.
//! Words are found through hashes with random keys, so that no file can make the table slow.

use std::collections::HashMap;
use std::sync::Arc;

use stockade_protocol::Decision;

use crate::program;
use crate::rule::PrefixRule;

/// Combinations that a pattern may be spread out into.
const MAX_SPREAD: usize = 16;
/// What all patterns of a policy together may cost beyond their own length by being spread out.
const SPREAD_BUDGET: usize = 200_000;

const ROOT: NodeId = 0;

type NodeId = u32;
type WordId = u32;
pub(crate) type RuleId = u32;

#[derive(Debug, Default)]
pub(crate) struct Index {
    words: HashMap<Box<[u8]>, WordId>,
    longest_word: usize,
    edges: HashMap<(NodeId, WordId), NodeId>,
    /// Where chains begin. Several may begin at one node with the same word.
    chains: HashMap<(NodeId, WordId), Vec<NodeId>>,
    nodes: Vec<Node>,
}

/// A place in the tree: the words up to here have matched.
#[derive(Debug, Default)]
pub(crate) struct Node {
    /// The rules whose pattern ends here.
    pub(crate) rules: Vec<RuleId>,
    /// Whether one of them allows.
    pub(crate) allows: bool,
    /// The strictest of them that does not.
    pub(crate) restricts: Option<Decision>,
    /// A rule further down that does not allow, the strictest there is.
    pub(crate) below: Option<(Decision, RuleId)>,
    has_children: bool,
}

/// A word of a command, as far as it is known.
pub(crate) enum Seen<'a> {
    Known(&'a [u8]),
    Unknown,
}

/// What a walk meets, with the number of words that led there.
pub(crate) enum Met<'i> {
    /// Rules end here: they match.
    Rules(&'i Node, usize),
    /// The next word is not known, and rules that restrict go on: they may match.
    Unsure(&'i Node, usize),
}

impl Index {
    pub(crate) fn new(rules: &[Arc<PrefixRule>]) -> Self {
        let mut index = Self { nodes: vec![Node::default()], ..Self::default() };
        index.edges.reserve(rules.len());
        let mut budget = SPREAD_BUDGET;
        for (id, rule) in (0..).zip(rules) {
            index.insert(id, rule, &mut budget);
        }
        index
    }

    fn insert(&mut self, id: RuleId, rule: &PrefixRule, budget: &mut usize) {
        let spread = spread(rule, budget);
        let mut frontier = vec![ROOT];
        for (position, token) in rule.pattern.iter().enumerate() {
            for node in &frontier {
                self.note_below(*node, id, rule.decision);
            }
            let words: Vec<WordId> = token.alternatives().map(|word| self.intern(word, position)).collect();
            frontier = match position.cmp(&spread) {
                std::cmp::Ordering::Less => self.spread_out(&frontier, &words),
                std::cmp::Ordering::Equal => self.begin_chain(&frontier, &words),
                std::cmp::Ordering::Greater => self.extend_chain(&frontier, &words),
            };
        }
        for node in frontier {
            self.end_at(node, id, rule.decision);
        }
    }

    fn intern(&mut self, word: &str, position: usize) -> WordId {
        let key = if position == 0 { program::key(word.as_bytes()) } else { word.as_bytes().into() };
        if let Some(id) = self.words.get(key.as_ref()) {
            return *id;
        }
        let id = narrow(self.words.len());
        self.longest_word = self.longest_word.max(key.len());
        self.words.insert(key.into(), id);
        id
    }

    fn add_node(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        narrow(self.nodes.len() - 1)
    }

    fn spread_out(&mut self, frontier: &[NodeId], words: &[WordId]) -> Vec<NodeId> {
        let mut reached = Vec::with_capacity(frontier.len() * words.len());
        for (node, word) in frontier.iter().flat_map(|node| words.iter().map(move |word| (*node, *word))) {
            let child = match self.edges.get(&(node, word)) {
                Some(child) => *child,
                None => {
                    let child = self.add_node();
                    self.edges.insert((node, word), child);
                    child
                }
            };
            self.has_children(node);
            reached.push(child);
        }
        // An alternative may be written twice.
        reached.sort_unstable();
        reached.dedup();
        reached
    }

    fn begin_chain(&mut self, frontier: &[NodeId], words: &[WordId]) -> Vec<NodeId> {
        let child = self.add_node();
        for (node, word) in frontier.iter().flat_map(|node| words.iter().map(move |word| (*node, *word))) {
            let starts = self.chains.entry((node, word)).or_default();
            if starts.last() != Some(&child) {
                starts.push(child);
            }
            self.has_children(node);
        }
        vec![child]
    }

    fn extend_chain(&mut self, frontier: &[NodeId], words: &[WordId]) -> Vec<NodeId> {
        let child = self.add_node();
        for (node, word) in frontier.iter().flat_map(|node| words.iter().map(move |word| (*node, *word))) {
            self.edges.insert((node, word), child);
            self.has_children(node);
        }
        vec![child]
    }

    fn has_children(&mut self, node: NodeId) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.has_children = true;
        }
    }

    fn note_below(&mut self, node: NodeId, id: RuleId, decision: Decision) {
        if let Some(node) = self.nodes.get_mut(node as usize)
            && decision != Decision::Allow
            && node.below.is_none_or(|(strictest, _)| strictest < decision)
        {
            node.below = Some((decision, id));
        }
    }

    fn end_at(&mut self, node: NodeId, id: RuleId, decision: Decision) {
        let Some(node) = self.nodes.get_mut(node as usize) else { return };
        node.rules.push(id);
        match decision {
            Decision::Allow => node.allows = true,
            Decision::Prompt | Decision::Forbidden => node.restricts = node.restricts.max(Some(decision)),
        }
    }

    /// A rule that restricts, if there is any: a program that is not known may be its program.
    pub(crate) fn any_restriction(&self) -> Option<RuleId> {
        self.nodes.first().and_then(|root| root.below).map(|(_, id)| id)
    }

    /// Meets every rule that the words begin with; `word` gives the words behind the program.
    pub(crate) fn walk<'i, 'w>(
        &'i self,
        program: &[u8],
        word: impl Fn(usize) -> Option<Seen<'w>>,
        mut meet: impl FnMut(Met<'i>),
    ) {
        let mut pending = Vec::new();
        let mut next = self.step(ROOT, &program::key(program), 1, &mut pending);
        while let Some((id, depth)) = next.or_else(|| pending.pop()) {
            next = None;
            let Some(node) = self.nodes.get(id as usize) else { continue };
            if !node.rules.is_empty() {
                meet(Met::Rules(node, depth));
            }
            if !node.has_children {
                continue;
            }
            match word(depth) {
                Some(Seen::Known(text)) => next = self.step(id, text, depth + 1, &mut pending),
                Some(Seen::Unknown) if node.below.is_some() => meet(Met::Unsure(node, depth)),
                Some(Seen::Unknown) | None => {}
            }
        }
    }

    /// The node that a word leads to; chains that begin here are left for later.
    fn step(
        &self,
        from: NodeId,
        word: &[u8],
        depth: usize,
        pending: &mut Vec<(NodeId, usize)>,
    ) -> Option<(NodeId, usize)> {
        // A word longer than any in the rules is not even hashed.
        let word = if word.len() > self.longest_word { None } else { self.words.get(word) };
        let key = (from, *word?);
        if !self.chains.is_empty() {
            pending.extend(self.chains.get(&key).into_iter().flatten().map(|node| (*node, depth)));
        }
        self.edges.get(&key).map(|node| (*node, depth))
    }
}

/// How many leading positions of a pattern are spread out over the tree.
fn spread(rule: &PrefixRule, budget: &mut usize) -> usize {
    let widths = rule.pattern.iter().map(|token| token.alternatives.len());
    let linear: usize = widths.clone().sum();
    let (mut combinations, mut cost, mut positions) = (1_usize, 0_usize, 0);
    for width in widths.clone() {
        combinations = combinations.saturating_mul(width);
        if combinations > MAX_SPREAD {
            break;
        }
        cost += combinations;
        positions += 1;
    }
    // The first step of the chain starts at every place that the spread part ends at.
    let ends: usize = widths.clone().take(positions).product();
    let fan = widths.clone().nth(positions).map_or(0, |width| ends.saturating_mul(width));
    let extra = cost.saturating_add(fan).saturating_sub(linear);
    match budget.checked_sub(extra) {
        Some(left) => {
            *budget = left;
            positions
        }
        None => widths.take_while(|width| *width == 1).count(),
    }
}

/// Files are limited to a few megabytes, so there are never as many words or nodes as fit.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
