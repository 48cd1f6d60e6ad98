//! The environment as Windows takes it: `NAME=value` entries in one block, sorted without regard to case.

use std::collections::BTreeMap;

use stockade_protocol::RawText;
use stockade_sandboxing::Unenforceable;

/// The variables in the order of the block. Two names that differ only in case are one variable to
/// Windows: with two values, which of them a program sees would be left to chance.
pub(crate) fn compile(environment: &BTreeMap<RawText, RawText>) -> Result<Vec<(String, String)>, Unenforceable> {
    let mut sorted = BTreeMap::new();
    for (name, value) in environment {
        let refuse = |why: &str| Unenforceable {
            what: format!("the variable `{name}`"),
            why: why.to_owned(),
            remedy: String::from("leave it out of the environment"),
        };
        let (Some(name), Some(value)) = (name.as_str(), value.as_str()) else {
            return Err(refuse("it is not Unicode text"));
        };
        if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
            return Err(refuse("its name is empty, or it contains `=` or a zero character"));
        }
        let before = sorted.insert(folded(name), (name.to_owned(), value.to_owned()));
        if before.is_some_and(|(_, before)| before != value) {
            return Err(refuse("it is there with two values, since Windows ignores case"));
        }
    }
    Ok(sorted.into_values().collect())
}

fn folded(name: &str) -> String {
    name.chars().flat_map(char::to_uppercase).collect()
}

/// The block itself. An empty one has two zeros all the same.
pub(crate) fn block(variables: &[(String, String)]) -> Vec<u16> {
    let mut block: Vec<u16> = variables
        .iter()
        .flat_map(|(name, value)| format!("{name}={value}\0").encode_utf16().collect::<Vec<_>>())
        .collect();
    if block.is_empty() {
        block.push(0);
    }
    block.push(0);
    block
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compiled(pairs: &[(&str, &str)]) -> Result<Vec<(String, String)>, Unenforceable> {
        compile(&pairs.iter().map(|(name, value)| (RawText::from(*name), RawText::from(*value))).collect())
    }

    #[test]
    fn sorted_without_regard_to_case_and_ended_by_two_zeros() {
        let variables = compiled(&[("b", "2"), ("A", "1"), ("C", "")]).unwrap();
        let text = String::from_utf16(&block(&variables)).unwrap();
        assert_eq!(text, "A=1\0b=2\0C=\0\0");
        assert_eq!(block(&[]), [0, 0]);
        assert_eq!(compiled(&[("HTTP_PROXY", "x"), ("http_proxy", "x")]).unwrap().len(), 1);
    }

    #[test]
    fn what_has_two_meanings_is_refused() {
        for pairs in [&[("Path", "a"), ("PATH", "b")][..], &[("", "a")], &[("a=b", "c")], &[("a", "b\0c=d")]] {
            assert!(compiled(pairs).is_err(), "{pairs:?}");
        }
    }
}
