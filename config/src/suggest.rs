//! Suggestions for unknown names.

/// `: did you mean …?`, or the list of names if none is near.
pub(crate) fn suggest(name: &str, known: &[&str]) -> String {
    let near = known.iter().map(|known| (distance(name, known), known)).min();
    let begun = known.iter().find(|known| name.len() > 2 && (known.starts_with(name) || name.starts_with(*known)));
    match begun.map(|known| (0, known)).or(near) {
        Some((distance, known)) if distance <= 2.max(name.chars().count() / 3) => format!(": did you mean `{known}`?"),
        Some(_) => format!(": there are {}", known.join(", ")),
        None => String::new(),
    }
}

/// The edit distance, with swaps of adjacent letters.
fn distance(a: &str, b: &str) -> usize {
    let fold =
        |text: &str| text.chars().take(64).map(|c| if c == '-' { '_' } else { c.to_ascii_lowercase() }).collect();
    let (a, b): (Vec<char>, Vec<char>) = (fold(a), fold(b));
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX / 2);
    let mut before_last: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut row = vec![i + 1];
        for (j, to) in b.iter().enumerate() {
            let replaced = at(&last, j) + usize::from(from != to);
            let mut best = replaced.min(at(&last, j + 1) + 1).min(at(&row, j) + 1);
            let swapped = i > 0 && j > 0 && a.get(i - 1) == Some(to) && b.get(j - 1) == Some(from);
            if swapped {
                best = best.min(at(&before_last, j - 1) + 1);
            }
            row.push(best);
        }
        before_last = std::mem::replace(&mut last, row);
    }
    at(&last, b.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let known = ["writable_roots", "deny_read", "network"];
        assert_eq!(suggest("writeable-roots", &known), ": did you mean `writable_roots`?");
        assert_eq!(suggest("netwrok", &known), ": did you mean `network`?");
        assert_eq!(suggest("deny", &known), ": did you mean `deny_read`?");
        assert_eq!(suggest("colour", &known), ": there are writable_roots, deny_read, network");
        assert_eq!(suggest("x", &[]), "");
        assert_eq!([distance("ab", "ba"), distance("", "abc"), distance("kitten", "sitting")], [1, 3, 3]);
    }
}
