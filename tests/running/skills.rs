//! Scripts below a directory that a profile declares as skills are asked about as such.

use super::home::{Home, User};
use super::sessions::Sessions;
use super::terminal::start;

const PROFILE: &str =
    "about = \"skills\"\n\n[[skill]]\npath = \"~/.stockade-skills\"\nreason = \"what agents bring\"\n";

fn home() -> Home {
    let home = Home::of(User::Ordinary);
    fill(&home);
    home
}

fn fill(home: &Home) {
    home.write("config/stockade/profiles/skills.toml", PROFILE);
    home.write("home/.stockade-skills/deploy/run.sh", "#!/bin/sh\ntouch made\n");
    home.write("ws/go.sh", &format!("{} now\n", script(home)));
    executable(home, "home/.stockade-skills/deploy/run.sh");
    home.give_to_user();
}

fn executable(home: &Home, path: &str) {
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(home.path(path), executable).unwrap();
}

fn script(home: &Home) -> String {
    home.path("home/.stockade-skills/deploy/run.sh").display().to_string()
}

#[test]
fn a_skill_is_refused_where_the_policy_rejects_skills_or_asks_nobody() {
    let home = home();
    let script = script(&home);
    let named = format!("skill script `{script}`");
    let no_person = String::from("there is no terminal to ask at");
    for (ask, said) in [
        ("reject=skill_approval", format!("approval policy rejected skill approval prompt: {named}")),
        ("never", format!("the approval policy `never` asks no questions: {named}")),
        ("reject=rules", no_person.clone()),
        ("on-request", no_person),
    ] {
        for words in [&[script.as_str(), "now"][..], &["bash", "-c", &format!("true; {script}")]] {
            let told = home.says(&[&["run", "--with", "skills", "--ask", ask, "--"], words].concat(), 126).stderr;
            assert!(told.contains(&said) && !home.exists("ws/made"), "{ask}: {told}");
        }
        for words in [&["sh", "./go.sh"][..], &["/usr/bin/python3", "-c", &format!("import os; os.system('{script}')")]]
        {
            let run = home.stockade(&[&["run", "--with", "skills", "--ask", ask, "--"], words].concat()).output();
            let told = String::from_utf8(run.unwrap().stderr).unwrap();
            let is_told = told.contains(&said) && told.contains(&named);
            assert!(is_told && !home.exists("ws/made"), "{ask} {words:?}: {told}");
        }
    }
    home.says(&["run", "--ask", "never", "--", &script], 0);
    assert!(home.exists("ws/made"), "without the profile it is a program like others");
}

#[test]
fn a_person_is_asked_about_the_skill_once() {
    let home = home();
    let script = script(&home);
    for words in [&[script.as_str(), "now"][..], &["sh", "./go.sh"]] {
        for (keys, is_made) in [("n", false), ("y", true)] {
            let mut screen = start(&home, &[&["run", "--with", "skills", "--"], words].concat());
            let asked = screen.sees("]? ");
            let flat: String = asked.split_whitespace().collect();
            assert!(flat.contains(&format!("skillscript`{script}`")), "{asked}");
            screen.types(keys);
            if keys == "n" {
                screen.sees("Why not? (Enter alone gives no reason) ");
                screen.types("\r");
            }
            let (_, rest) = screen.ends();
            assert!(!rest.contains("stockade asks") && home.exists("ws/made") == is_made, "{words:?} {keys}: {rest}");
        }
        std::fs::remove_file(home.path("ws/made")).unwrap();
    }
}

/// A yes for the session counts for the same command later, by itself and below another.
#[test]
fn a_yes_for_the_session_is_remembered() {
    let sessions = Sessions::of(User::Ordinary);
    let home = &sessions.home;
    fill(home);
    let script = script(home);
    for (session, words) in [("a", &[script.as_str()][..]), ("b", &["sh", "./go.sh"])] {
        for is_asked in [true, false, false] {
            let options = if is_asked { &["--with", "skills", "--ask", "on-failure"][..] } else { &[] };
            let mut screen = sessions.screen(&[&["run", "--session", session], options, &["--"], words].concat());
            if is_asked {
                screen.sees("]? ");
                screen.types("s");
            }
            let (exit_code, rest) = screen.ends();
            assert!(exit_code == 0 && home.exists("ws/made") && !rest.contains("stockade asks"), "{words:?}: {rest}");
            std::fs::remove_file(home.path("ws/made")).unwrap();
        }
    }
}

#[test]
fn a_rule_that_allows_it_answers_and_what_commands_can_write_is_no_skill() {
    let home = home();
    let script = script(&home);
    home.write("config/stockade/rules/mine.rules", &format!("prefix_rule(pattern=[\"{script}\"])\n"));
    home.give_to_user();
    for words in [&[script.as_str()][..], &["sh", "./go.sh"]] {
        home.says(&[&["run", "--with", "skills", "--ask", "never", "--"], words].concat(), 0);
        assert!(home.exists("ws/made"), "{words:?}");
        std::fs::remove_file(home.path("ws/made")).unwrap();
    }
    home.write("config/stockade/rules/mine.rules", "");
    let own = format!("about = \"skills\"\n\n[[skill]]\npath = {:?}\nreason = \"own\"\n", home.path("ws/skills"));
    home.write("config/stockade/profiles/own.toml", &own);
    home.write("ws/skills/run.sh", "#!/bin/sh\ntouch made\n");
    executable(&home, "ws/skills/run.sh");
    home.give_to_user();
    home.says(&["run", "--with", "own", "--ask", "never", "--", "./skills/run.sh"], 0);
    assert!(home.exists("ws/made"));
    std::fs::remove_file(home.path("ws/made")).unwrap();
    // A link that a command made does not hide a skill.
    std::os::unix::fs::symlink(&script, home.path("ws/linked.sh")).unwrap();
    let told = home.says(&["run", "--with", "skills", "--ask", "never", "--", "./linked.sh"], 126).stderr;
    assert!(told.contains(&format!("skill script `{script}`")), "{told}");
    // Nor does a directory that the line goes to first.
    let line = "cd ~/.stockade-skills/deploy && ./run.sh";
    let run = home.stockade(&["run", "--with", "skills", "--ask", "never", "--", "bash", "-c", line]).output().unwrap();
    let told = String::from_utf8(run.stderr).unwrap();
    assert!(told.contains(&format!("skill script `{script}`")), "{told}");
}

#[test]
fn a_skill_is_known_by_its_file_and_not_by_what_it_is_called() {
    let home = home();
    let script = script(&home);
    // What is allowed by name says nothing about a script that is told that name.
    home.write(
        "config/stockade/rules/mine.rules",
        "prefix_rule(pattern=[\"ls\"])\nprefix_rule(pattern=[\"/bin/sh\"])\n",
    );
    home.give_to_user();
    for line in [
        format!("/proc/self/root{script}"),
        format!("/proc/self/../self/root{script}"),
        format!("/proc/$$/root{script}"),
        format!("cd {}; /proc/self/cwd/run.sh", home.path("home/.stockade-skills/deploy").display()),
        format!("exec 9<{script}; /proc/self/../self/fd/9"),
        format!("ln -sf /proc/self/root{script} own; ./own"),
        format!("exec -a ls {script}"),
    ] {
        home.write("ws/spelled.sh", &format!("{line}\n"));
        let run = home.stockade(&["run", "--with", "skills", "--ask", "never", "--", "bash", "./spelled.sh"]).output();
        let told = String::from_utf8(run.unwrap().stderr).unwrap();
        assert!(told.contains(&format!("skill script `{script}`")) && !home.exists("ws/made"), "{line}: {told}");
    }
}

#[test]
fn explain_and_the_profile_say_what_skills_are() {
    let home = home();
    let script = script(&home);
    let said = home.says(&["explain", "--with", "skills", "--ask", "reject=skill_approval", "--", &script], 126).stdout;
    assert!(said.contains("is refused: approval policy rejected skill approval prompt: skill script `"), "{said}");
    let said = home.says(&["explain", "--with", "skills", "--", "make"], 0).stdout;
    assert!(said.contains("are asked about as scripts of a skill"), "{said}");
    let said = home.says(&["profile", "show", "skills"], 0).stdout;
    assert!(said.contains("skills ~/.stockade-skills"), "{said}");
}
