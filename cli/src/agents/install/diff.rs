//! Shows the change of a file.

/// Lines around the change.
const CONTEXT: usize = 3;

/// A unified diff with a single hunk: from the first line that differs to the last.
pub(crate) fn shown(name: &str, before: Option<&str>, after: Option<&str>) -> String {
    let lines = |text: Option<&str>| -> Vec<String> { text.unwrap_or_default().lines().map(String::from).collect() };
    let (old, new) = (lines(before), lines(after));
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let most = old.len().min(new.len()).saturating_sub(same);
    let end = old.iter().rev().zip(new.iter().rev()).take(most).take_while(|(old, new)| old == new).count();
    let start = same.saturating_sub(CONTEXT);
    let name_of = |text: Option<&str>| if text.is_some() { name } else { "/dev/null" };
    let mut told = format!("--- {}\n+++ {}\n", name_of(before), name_of(after));
    let mut add = |mark: char, lines: &[String]| lines.iter().for_each(|line| told += &format!("{mark}{line}\n"));
    add(' ', old.get(start..same).unwrap_or_default());
    add('-', old.get(same..old.len() - end).unwrap_or_default());
    add('+', new.get(same..new.len() - end).unwrap_or_default());
    let after_it = (old.len() - end + CONTEXT).min(old.len());
    add(' ', old.get(old.len() - end..after_it).unwrap_or_default());
    told
}

#[cfg(test)]
mod tests {
    use super::shown;

    #[test]
    fn a_change_has_lines_around_it() {
        let told = shown("f", Some("1\n2\n3\n4\n5\n6\n7\n8\n9\n"), Some("1\n2\n3\n4\nx\n6\n7\n8\n9\n"));
        assert_eq!(told, "--- f\n+++ f\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n");
        assert_eq!(shown("f", None, Some("a\n")), "--- /dev/null\n+++ f\n+a\n");
        assert_eq!(shown("f", Some("a\na\n"), Some("a\n")), "--- f\n+++ f\n a\n-a\n");
        assert_eq!(shown("f", Some("a\n"), None), "--- f\n+++ /dev/null\n-a\n");
    }
}
