//! Programs that run commands among other things: `find -exec`, `eval`, `trap`, `ssh`, `git`.
//!
//! They are always judged themselves. What they can be seen to start is listed so that a rule that
//! forbids it is heard; what can't be seen is their own affair, since no safe form of them has it.

use stockade_protocol::Word;

use super::{Inside, Started};

/// What the program `name` can be seen to start, if it is known to start anything.
pub(super) fn look(name: &str, words: &[Word]) -> Option<Inside> {
    let rest = words.get(1..).unwrap_or_default();
    let inside = match name {
        "eval" => evaluated(rest),
        "trap" => trapped(rest),
        "let" => Inside::nothing().opaque("arithmetic can't be predicted"),
        "alias" | "shopt" | "enable" | "set" => {
            Inside::nothing().opaque("the rest of the line may mean something else")
        }
        "declare" | "typeset" | "local" | "export" | "readonly" | "unset" | "read" | "getopts" | "wait" => {
            variable_builtin(rest)
        }
        "printf" | "test" | "[" => maybe_variable_builtin(name, rest),
        "source" | "." => Inside::nothing().opaque("a file is read as if it stood in the line"),
        "mapfile" | "readarray" => {
            Inside::runs(values_of(rest, &["-C"], "mapfile -C")).opaque("a command is run on each line")
        }
        "complete" | "bind" => Inside::nothing().opaque("a command is kept for later"),
        "find" | "gfind" => Inside::runs(found_by_find(rest)),
        "fd" | "fdfind" => Inside::runs(behind(rest, &["-x", "-X", "--exec", "--exec-batch"], "fd --exec")),
        "ssh" => Inside::runs(joined(operands(rest, "BbcDEeFIiJLlmOopQRSWw").skip(1), "ssh")),
        "watch" => Inside::runs(joined(operands(rest, "n"), "watch")),
        "su" | "runuser" | "sg" | "script" | "flock" => with_command_option(name, rest),
        "docker" | "podman" | "nerdctl" | "kubectl" => container(name, rest),
        "git" => Inside::runs(run_by_git(rest)),
        "gdb" | "lldb" => Inside::runs(behind(rest, &["--args", "--"], name)),
        "perf" => Inside::runs(words_from(operands(rest, "eopFgt").skip(1), name)),
        _ => return None,
    };
    Some(inside)
}

/// The operands of a command whose short options with a value are `values`. After the first one all
/// words are operands: these programs hand the rest on.
fn operands<'w>(words: &'w [Word], values: &'static str) -> impl Iterator<Item = &'w Word> {
    let mut at = 0;
    while let Some(text) = words.get(at).and_then(Word::as_str).filter(|text| text.len() > 1 && text.starts_with('-')) {
        at += 1;
        if text == "--" {
            break;
        }
        let takes_next = !text.starts_with("--") && text.chars().next_back().is_some_and(|last| values.contains(last));
        at += usize::from(takes_next && text.len() == 2);
    }
    words.get(at..).unwrap_or_default().iter()
}

fn text(word: &Word, via: &str) -> Option<Started> {
    Some(Started::Text { text: word.as_str()?.to_owned(), via: via.to_owned() })
}

fn words_from<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Vec<Started> {
    let words: Vec<Word> = words.cloned().collect();
    if words.is_empty() {
        return Vec::new();
    }
    vec![Started::Words { words, assigns: Vec::new(), via: via.to_owned() }]
}

/// The text that a shell gets when words are joined, as far as it is known.
fn joined<'w>(words: impl Iterator<Item = &'w Word>, via: &str) -> Vec<Started> {
    let known: Vec<&str> = words.map(|word| word.as_str().unwrap_or("\"$unknown\"")).collect();
    if known.is_empty() {
        return Vec::new();
    }
    vec![Started::Text { text: known.join(" "), via: via.to_owned() }]
}

fn evaluated(rest: &[Word]) -> Inside {
    let inside = Inside::runs(joined(operands(rest, ""), "eval"));
    if rest.iter().all(|word| word.known().is_some()) {
        inside
    } else {
        inside.opaque("the text for `eval` is made while the line runs")
    }
}

fn trapped(rest: &[Word]) -> Inside {
    match operands(rest, "").next() {
        Some(Word::Unknown) => Inside::nothing().opaque("the text for `trap` is made while the line runs"),
        Some(body) => Inside::runs(text(body, "trap").into_iter().collect()),
        None => Inside::nothing(),
    }
}

/// A builtin that takes names of variables. A subscript in a name is evaluated, with the commands
/// in it and in the values of variables that it names; so is the value of an integer (`-i`).
fn variable_builtin(words: &[Word]) -> Inside {
    let plain = |word: &Word| {
        word.as_str().is_some_and(|text| !(text.contains('[') || text.starts_with('-') && text.contains('i')))
    };
    if words.iter().all(plain) { Inside::nothing() } else { Inside::nothing().opaque("a subscript may be evaluated") }
}

/// `printf` and `test` take names of variables only behind `-v`, `-R` and in `%n`.
fn maybe_variable_builtin(name: &str, words: &[Word]) -> Inside {
    let judged = if name == "printf" { words.get(..1).unwrap_or_default() } else { words };
    let names_variable = |word: &Word| match word.as_str() {
        Some(text) if name == "printf" => text.starts_with("-v") || text.contains('%') && text.contains('n'),
        Some(text) => matches!(text, "-v" | "-R"),
        None => true,
    };
    if judged.iter().any(names_variable) { variable_builtin(words) } else { Inside::nothing() }
}

/// The words behind the first of `options`.
fn behind(rest: &[Word], options: &[&str], via: &str) -> Vec<Started> {
    let is_option = |word: &Word| word.as_str().is_some_and(|text| options.contains(&text));
    let at = rest.iter().position(is_option).map_or(rest.len(), |at| at + 1);
    words_from(rest.iter().skip(at), via)
}

/// The values of all `options`, each a text for a shell, as the next word or glued.
fn values_of(rest: &[Word], options: &[&str], via: &str) -> Vec<Started> {
    let value_at = |(at, word): (usize, &Word)| {
        let word = word.as_str()?;
        options.iter().find_map(|option| {
            let glued = word.strip_prefix(option)?;
            let glued = glued.strip_prefix('=').unwrap_or(glued);
            if glued.is_empty() { text(rest.get(at + 1)?, via) } else { text(&Word::from(glued), via) }
        })
    };
    rest.iter().enumerate().filter_map(value_at).collect()
}

fn found_by_find(rest: &[Word]) -> Vec<Started> {
    let mut starts = Vec::new();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if !matches!(word.as_str(), Some("-exec" | "-execdir" | "-ok" | "-okdir")) {
            continue;
        }
        // `find` puts file names in the place of `{}`.
        let command = words.by_ref().take_while(|word| !matches!(word.as_str(), Some(";" | "+")));
        let command = command.map(|word| match word.as_str() {
            Some(text) if !text.contains("{}") => word.clone(),
            Some(_) | None => Word::Unknown,
        });
        starts.push(Started::Words { words: command.collect(), assigns: Vec::new(), via: "find -exec".into() });
    }
    starts
}

/// `-c 'text'` anywhere, or else a command behind the operand.
fn with_command_option(name: &str, rest: &[Word]) -> Inside {
    let is_option = |word: &Word| {
        word.as_str().is_some_and(|text| {
            text == "--command" || (text.starts_with('-') && !text.starts_with("--") && text.ends_with('c'))
        })
    };
    let via = format!("{name} -c");
    if let Some(at) = rest.iter().position(is_option) {
        return Inside::runs(rest.get(at + 1).and_then(|body| text(body, &via)).into_iter().collect());
    }
    let glued = values_of(rest, &["--command="], &via);
    if !glued.is_empty() {
        return Inside::runs(glued);
    }
    match name {
        "flock" => Inside::runs(words_from(operands(rest, "wE").skip(1), name)),
        "runuser" => Inside::runs(words_from(operands(rest, "ugG"), name)),
        _ => Inside::nothing(),
    }
}

/// `docker exec NAME command …`, `docker run IMAGE command …`, `kubectl exec POD -- command …`.
fn container(name: &str, rest: &[Word]) -> Inside {
    let starts = |word: &Word| matches!(word.as_str(), Some("run" | "exec" | "create"));
    let Some(at) = rest.iter().position(starts) else { return Inside::nothing() };
    let rest = rest.get(at + 1..).unwrap_or_default();
    let via = format!("{name} run");
    if name == "kubectl" {
        return Inside::runs(behind(rest, &["--"], &via));
    }
    Inside::runs(words_from(operands(rest, "acehlmpuvw").skip(1), &via))
}

fn run_by_git(rest: &[Word]) -> Vec<Started> {
    let mut starts = Vec::new();
    for word in rest {
        // `-c alias.x='!command'`
        let alias = word.as_str().and_then(|text| text.split_once("=!")).filter(|(key, _)| key.contains("alias."));
        starts.extend(alias.and_then(|(_, body)| text(&Word::from(body), "git alias")));
    }
    let verb = |names: [&str; 2]| {
        rest.windows(2).position(|pair| {
            let texts: Vec<_> = pair.iter().map(Word::as_str).collect();
            texts == [Some(names[0]), Some(names[1])]
        })
    };
    if let Some(at) = verb(["submodule", "foreach"]) {
        starts.extend(joined(operands(rest.get(at + 2..).unwrap_or_default(), ""), "git submodule foreach"));
    }
    if let Some(at) = verb(["bisect", "run"]) {
        starts.extend(words_from(rest.iter().skip(at + 2), "git bisect run"));
    }
    if rest.iter().any(|word| matches!(word.as_str(), Some("rebase" | "difftool"))) {
        starts.extend(values_of(rest, &["--exec", "--extcmd", "-x"], "git -x"));
    }
    starts
}
