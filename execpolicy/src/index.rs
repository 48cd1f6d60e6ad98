//! The rules as a tree of words, so that a decision costs the same with ten rules and ten thousand.
//!
//! A command walks down from the root, one edge per word, and stops at the last node that matches: neither other rules
//! nor the rest of a long command line are visited. Alternatives are expanded in the tree while that stays small; a
//! pattern with many combinations (`[["a", "b"], ["c", "d"], …]`) becomes a separate chain whose steps are shared by
//! all alternatives.

mod edges;

use std::borrow::Cow;
use std::cmp::Ordering;

use stockade_protocol::Decision;

use self::edges::Edges;
use crate::program;
use crate::rule::{Extent, PrefixRule};

/// Limit on the combinations that a pattern is expanded into.
const MAX_SPREAD: usize = 16;
/// Limit on the total cost of expansion over all patterns of a policy.
const SPREAD_BUDGET: usize = 200_000;

const ROOT: NodeId = 0;

type NodeId = u32;
pub(crate) type RuleId = u32;

/// Marks the end of a list of rules.
const NONE: u32 = u32::MAX;

#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    edges: Edges,
    /// The first edges of chains, as indices into `chain_starts`: several may begin at one node with one word.
    chains: Edges,
    chain_starts: Vec<Vec<NodeId>>,
    nodes: Vec<Node>,
    /// The further rules that end at each node, as linked lists.
    ends: Vec<End>,
}

/// A node of the tree: the words up to here have matched.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    /// The first rule that ends here, stored inline since there is rarely another.
    first: Option<(Decision, RuleId)>,
    /// The others, as a list in `ends`.
    first_end: u32,
    last_end: u32,
    /// The strictest restricting rule below this node.
    pub(crate) below: Option<(Decision, RuleId)>,
    /// The strictest restricting decision of the rules that end here.
    pub(crate) restricts: Option<Decision>,
    /// Whether a rule that ends here allows, as a prefix.
    pub(crate) allows: bool,
    /// Whether a rule that ends here allows a command that ends here, too.
    pub(crate) allows_exactly: bool,
    has_children: bool,
}

#[derive(Clone, Debug)]
struct End {
    rule: (Decision, RuleId),
    next: u32,
}

impl Default for Node {
    fn default() -> Self {
        let (first_end, last_end) = (NONE, NONE);
        Self {
            first: None,
            first_end,
            last_end,
            below: None,
            restricts: None,
            allows: false,
            allows_exactly: false,
            has_children: false,
        }
    }
}

/// A word of a command, known or unknown.
pub(crate) enum Seen<'a> {
    Known(&'a [u8]),
    Unknown,
}

/// A node reached by a walk, with the number of words.
pub(crate) enum Met<'i> {
    /// Rules end here and match.
    Rules(&'i Node, usize),
    /// The next word is unknown and restricting rules continue: they may match.
    Unsure(&'i Node, usize),
}

impl Index {
    pub(crate) fn new(rules: &[PrefixRule]) -> Self {
        let mut index = Self { nodes: vec![Node::default()], ..Self::default() };
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
                self.pass_through(*node, id, rule.decision);
            }
            let words = token.alternatives().map(|word| match position {
                0 => program::key(word.as_bytes()),
                _ => Cow::Borrowed(word.as_bytes()),
            });
            frontier = match position.cmp(&spread) {
                Ordering::Less => self.spread_out(&frontier, words),
                Ordering::Equal => self.begin_chain(&frontier, words),
                Ordering::Greater => self.extend_chain(&frontier, words),
            };
        }
        for node in frontier {
            self.end_at(node, id, rule);
        }
    }

    fn add_node(&mut self) -> NodeId {
        self.nodes.push(Node::default());
        narrow(self.nodes.len() - 1)
    }

    fn spread_out<'w>(&mut self, frontier: &[NodeId], words: impl Iterator<Item = Cow<'w, [u8]>>) -> Vec<NodeId> {
        let mut reached = Vec::new();
        for word in words {
            for node in frontier {
                let child = self.edges.get(*node, &word).unwrap_or_else(|| {
                    let child = narrow(self.nodes.len());
                    self.nodes.push(Node::default());
                    self.edges.insert(*node, &word, child);
                    child
                });
                reached.push(child);
            }
        }
        // An alternative may occur twice.
        reached.sort_unstable();
        reached.dedup();
        reached
    }

    fn begin_chain<'w>(&mut self, frontier: &[NodeId], words: impl Iterator<Item = Cow<'w, [u8]>>) -> Vec<NodeId> {
        let child = self.add_node();
        for word in words {
            for node in frontier {
                // Indices count from one, since an edge's zero means none.
                let place = self.chains.get(*node, &word).unwrap_or_else(|| {
                    self.chain_starts.push(Vec::new());
                    let place = narrow(self.chain_starts.len());
                    self.chains.insert(*node, &word, place);
                    place
                });
                if let Some(starts) = self.chain_starts.get_mut(place as usize - 1)
                    && starts.last() != Some(&child)
                {
                    starts.push(child);
                }
            }
        }
        vec![child]
    }

    fn extend_chain<'w>(&mut self, frontier: &[NodeId], words: impl Iterator<Item = Cow<'w, [u8]>>) -> Vec<NodeId> {
        let child = self.add_node();
        for word in words {
            for node in frontier {
                if self.edges.get(*node, &word).is_none() {
                    self.edges.insert(*node, &word, child);
                }
            }
        }
        vec![child]
    }

    /// Records that a rule continues below a node.
    fn pass_through(&mut self, node: NodeId, id: RuleId, decision: Decision) {
        let Some(node) = self.nodes.get_mut(node as usize) else { return };
        node.has_children = true;
        if decision != Decision::Allow && node.below.is_none_or(|(strictest, _)| strictest < decision) {
            node.below = Some((decision, id));
        }
    }

    fn end_at(&mut self, node: NodeId, id: RuleId, rule: &PrefixRule) {
        let Some(node) = self.nodes.get_mut(node as usize) else { return };
        let end = (rule.decision, id);
        if node.first.is_none() {
            node.first = Some(end);
        } else {
            self.ends.push(End { rule: end, next: NONE });
            let end = narrow(self.ends.len() - 1);
            match self.ends.get_mut(node.last_end as usize) {
                Some(last) => last.next = end,
                None => node.first_end = end,
            }
            node.last_end = end;
        }
        match (rule.decision, rule.extent) {
            (Decision::Allow, Extent::Prefix) => node.allows = true,
            (Decision::Allow, Extent::Exact) => node.allows_exactly = true,
            (Decision::Prompt | Decision::Forbidden, _) => node.restricts = node.restricts.max(Some(rule.decision)),
        }
    }

    /// The rules that end at a node, in the order of the policy.
    pub(crate) fn rules_at(&self, node: &Node) -> impl Iterator<Item = (Decision, RuleId)> {
        let others = self.ends.get(node.first_end as usize);
        let others = std::iter::successors(others, |end| self.ends.get(end.next as usize)).map(|end| end.rule);
        node.first.into_iter().chain(others)
    }

    /// A restricting rule, if there is any: an unknown program may be its program.
    pub(crate) fn any_restriction(&self) -> Option<RuleId> {
        self.nodes.first().and_then(|root| root.below).map(|(_, id)| id)
    }

    /// Visits every rule that matches a prefix of the words; `word` gives the words after the program.
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
            if node.first.is_some() {
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

    /// The node that a word leads to; chains that begin here are queued.
    fn step(
        &self,
        from: NodeId,
        word: &[u8],
        depth: usize,
        pending: &mut Vec<(NodeId, usize)>,
    ) -> Option<(NodeId, usize)> {
        if !self.chains.is_empty()
            && let Some(place) = self.chains.get(from, word)
        {
            let starts = self.chain_starts.get(place as usize - 1);
            pending.extend(starts.into_iter().flatten().map(|node| (*node, depth)));
        }
        self.edges.get(from, word).map(|node| (node, depth))
    }
}

/// The number of leading positions of a pattern that are expanded in the tree.
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
    // The first step of the chain starts at every node at which the expanded part ends.
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

/// Files are limited to a few megabytes, so the count always fits.
fn narrow(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
