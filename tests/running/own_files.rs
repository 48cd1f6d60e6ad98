//! Stockade's own files: no command writes them, wherever they are kept, and none makes them lie elsewhere.

use std::path::{Path, PathBuf};

use super::home::{Home, User, said};

/// Settings, rules, trust and the trail decide over the next command. Wherever they are kept, and whatever is
/// granted around them, no command writes them.
#[test]
fn stockades_own_files_are_never_a_commands() {
    let attacks = [
        "echo 'sandbox.mode = \"danger-full-access\"' > $OWN/config.toml",
        "echo 'sandbox.mode = \"danger-full-access\"' > $OWN",
        "mkdir -p $OWN/rules; echo 'prefix_rule([\"sh\"])' > $OWN/rules/x.rules",
        "rm -rf $OWN; mkdir -p $OWN/rules; touch $OWN/evil",
        "mv $OWN $OWN.old; mkdir -p $OWN; touch $OWN/evil",
        "d=$(dirname $OWN); mv $d $d.old; mkdir -p $OWN; touch $OWN/evil",
        "d=$(dirname $OWN); rm -f $d; mkdir -p $OWN; touch $OWN/evil",
        "ln -sfn /tmp $OWN; rmdir $OWN; ln -s /tmp $OWN; true",
    ];
    let attacks: Vec<String> = attacks.iter().map(|attack| format!("( {attack} )")).collect();
    for user in [User::Own, User::Ordinary] {
        for kept in KEPT {
            let home = Home::of(user);
            let (own, options) = (kept.prepare)(&home);
            home.give_to_user();
            let before = own_tree(&own);
            let options: Vec<&str> = options.iter().map(String::as_str).collect();
            let told = home.runs(&options, &format!("OWN={}; {}; exit 0", own.display(), attacks.join("; ")), 0);
            let at = format!("{} as {user:?}: {}", kept.name, told.stderr);
            assert_eq!(own_tree(&own), before, "{at}");
            if home.exists("state/stockade") {
                assert!(home.says(&["audit", "verify"], 0).stdout.contains("whole"), "{at}");
            }
        }
    }
}

/// What stands in a directory, and where it leads; of the trail only the names, and not what waits for the next run, which is
/// empty.
fn own_tree(own: &Path) -> Vec<String> {
    let mut found = vec![format!(
        "{:?} {:?} {:?}",
        std::fs::canonicalize(own).ok(),
        std::fs::read_link(own).ok(),
        std::fs::read(own).ok()
    )];
    let mut waiting = vec![own.to_owned()];
    while let Some(directory) = waiting.pop() {
        assert!(found.len() < 100, "{found:?}");
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let waits = path.parent().unwrap().ends_with("stockade/held") || path.ends_with("stockade/held");
            if waits && entry.file_type().unwrap().is_dir() {
                waiting.push(path);
                continue;
            }
            let content = if path.to_str().unwrap().contains("audit.") { None } else { std::fs::read(&path).ok() };
            found.push(format!("{path:?} {:?} {content:?}", entry.file_type().unwrap()));
            waiting.extend(entry.file_type().unwrap().is_dir().then_some(path));
        }
    }
    found.sort();
    found
}

/// One way to keep Stockade's own files where a command may write around them.
struct Kept {
    name: &'static str,
    /// Makes it so, and gives the directory and the options of the run.
    prepare: fn(&Home) -> (PathBuf, Vec<String>),
}

const KEPT: &[Kept] = &[
    Kept {
        name: "the directory of settings is writable",
        prepare: |home| {
            home.write("config/stockade/config.toml", "");
            (home.path("config/stockade"), vec![String::from("--writable"), shown(&home.path("config"))])
        },
    },
    Kept {
        name: "it is named itself",
        prepare: |home| {
            home.write("config/stockade/config.toml", "");
            (home.path("config/stockade"), vec![String::from("--writable"), shown(&home.path("config/stockade"))])
        },
    },
    Kept {
        name: "it is missing",
        prepare: |home| (home.path("config/stockade"), vec![String::from("--writable"), shown(&home.path("config"))]),
    },
    Kept {
        name: "the directory above it is missing, too",
        prepare: |home| {
            (home.path("home/.config/stockade"), vec![String::from("--workspace"), shown(&home.path("home"))])
        },
    },
    Kept {
        name: "everything around it is the workspace",
        prepare: |home| {
            home.write("config/stockade/config.toml", "");
            (home.path("config/stockade"), vec![String::from("--workspace"), shown(&home.path("."))])
        },
    },
    Kept {
        name: "the state",
        prepare: |home| {
            home.runs(&[], "true", 0);
            (home.path("state/stockade"), vec![String::from("--writable"), shown(&home.path("state"))])
        },
    },
    Kept {
        name: "a link leads into the workspace",
        prepare: |home| {
            home.write("ws/dots/config.toml", "");
            std::os::unix::fs::symlink(home.path("ws/dots"), home.path("config/stockade")).unwrap();
            (home.path("ws/dots"), Vec::new())
        },
    },
    Kept {
        name: "a file in it is a link",
        prepare: |home| {
            home.write("ws/dots/config.toml", "");
            home.write("config/stockade/x", "");
            let link = home.path("config/stockade/config.toml");
            std::os::unix::fs::symlink(home.path("ws/dots/config.toml"), link).unwrap();
            (home.path("ws/dots/config.toml"), Vec::new())
        },
    },
    Kept {
        name: "the link to it can be replaced",
        prepare: |home| {
            home.write("outside/config.toml", "");
            std::os::unix::fs::symlink(home.path("outside"), home.path("config/stockade")).unwrap();
            (home.path("config/stockade"), vec![String::from("--writable"), shown(&home.path("config"))])
        },
    },
    Kept {
        name: "the trail is in the workspace",
        prepare: |home| {
            home.write("config/stockade/config.toml", &format!("audit.path = \"{}\"", shown(&home.path("ws/trail"))));
            home.runs(&[], "true", 0);
            (home.path("ws/trail"), Vec::new())
        },
    },
];

/// A grant that is asked for, and one that is given to a command that asks for more, leave them alone, too.
#[test]
fn what_is_said_of_stockades_own_files_is_true() {
    let home = Home::new();
    home.write("config/stockade/config.toml", "");
    let config = home.path("config");
    let file = home.path("config/stockade/config.toml");
    let options = ["--writable", config.to_str().unwrap()];
    let said = home.says(&[&["explain", "--path", file.to_str().unwrap()], &options[..]].concat(), 0).stdout;
    assert!(said.contains("may be read: ") && said.contains("holds Stockade's own files"), "{said}");
    let told = home.runs(&options, &format!("echo x > {}", file.display()), 2);
    assert!(
        told.stderr.contains("holds Stockade's own files, which no sandboxed command may write\n"),
        "{}",
        told.stderr
    );
    // Without a sandbox nothing is kept from anything.
    let free = ["explain", "--sandbox", "danger-full-access", "--path", file.to_str().unwrap()];
    assert!(home.says(&free, 0).stdout.contains("may be read and written"));
    // What Landlock can't hold is refused, whatever is accepted.
    let landlock =
        ["--engine", "landlock", "--accept-loss", "protected_metadata", "--accept-loss", "private_directories"];
    let losses = ["--accept-loss", "credentials", "--accept-loss", "read_only_parts"];
    let told = home.runs(&[&options[..], &landlock, &losses].concat(), "true", 125);
    assert!(told.stderr.contains("Stockade's own files, whose protection can't be given up"), "{}", told.stderr);
}

/// The program that answers and the rules of a run decide as well.
#[test]
fn a_rules_file_in_the_workspace_is_not_the_commands() {
    let home = Home::new();
    home.write("ws/team.rules", "prefix_rule([\"true\"])\n");
    home.runs(&["--rules", "team.rules"], "echo 'prefix_rule([\"sh\"])' > team.rules; rm -f team.rules; exit 0", 0);
    assert_eq!(home.read("ws/team.rules"), "prefix_rule([\"true\"])\n");
}

/// Where `link/..` leads is decided by a link that a command may own: the next run would read settings of its making.
#[test]
fn directories_of_the_user_that_may_lead_elsewhere_are_refused() {
    let home = Home::of(User::Ordinary);
    for directory in ["ws/a/d", "ws/a/c/stockade", "ws/b"] {
        std::fs::create_dir_all(home.path(directory)).unwrap();
    }
    std::os::unix::fs::symlink("a/d", home.path("ws/l")).unwrap();
    home.write("home/.netrc", "hunter2\n");
    home.give_to_user();
    let through = home.path("ws/l/../c").display().to_string();
    for (name, value, why) in [
        ("XDG_CONFIG_HOME", through.as_str(), "has `..` in it"),
        ("XDG_STATE_HOME", &through, "has `..` in it"),
        ("XDG_DATA_HOME", &through, "has `..` in it"),
        ("XDG_CACHE_HOME", "cache", "is relative"),
        ("HOME", "../home", "is relative"),
    ] {
        for arguments in [&["run", "--", "cat", "../home/.netrc"][..], &["trust", "--list"], &["audit", "list"]] {
            let mut command = home.stockade(arguments);
            let told = said(command.env(name, value), 125);
            assert!(told.stderr.contains(&format!("`{name}` is `{value}`, which {why}: set it")), "{}", told.stderr);
            assert!(told.stdout.is_empty(), "{}", told.stdout);
        }
    }
    // One that is empty is not set.
    said(home.stockade(&["run", "--", "true"]).env("XDG_DATA_HOME", ""), 0);
}

fn shown(path: &Path) -> String {
    path.to_str().unwrap().to_owned()
}
