//! A program that says how risky a request looks.

use std::os::unix::fs::PermissionsExt as _;

use super::home::Home;

fn program(home: &Home, path: &str, script: &str) -> String {
    home.write(path, &format!("#!/bin/sh\n{script}\n"));
    std::fs::set_permissions(home.path(path), std::fs::Permissions::from_mode(0o755)).unwrap();
    home.path(path).to_str().unwrap().to_owned()
}

/// The question as the program that answers gets it, and what the run says.
fn asked(home: &Home, risk: &str) -> serde_json::Value {
    let answers = program(home, "outside/hook", &format!("cat > {}", home.path("outside/question").display()));
    let settings = format!("[approver]\nhook = [{answers:?}]\n[risk]\nhook = [{risk:?}]\n");
    home.write("config/stockade/config.toml", &settings);
    home.runs(&["--ask", "untrusted"], "touch made", 126);
    serde_json::from_str(&home.read("outside/question")).unwrap()
}

#[test]
fn the_answer_of_the_program_is_part_of_the_question() {
    let home = Home::new();
    let answer = r#"{"level": "high", "category": "data_loss", "summary": "it writes"}"#;
    let told = home.path("outside/told");
    let risk = program(&home, "outside/risk", &format!("cat > {}; echo '{answer}'", told.display()));
    let question = asked(&home, &risk);
    assert_eq!(question["risk"], serde_json::from_str::<serde_json::Value>(answer).unwrap());
    let told: serde_json::Value = serde_json::from_str(&home.read("outside/told")).unwrap();
    assert_eq!(told["subject"], question["subject"]);
}

#[test]
fn a_program_that_fails_or_prints_something_else_leaves_no_trace() {
    let list = r#"echo '["high", "data_loss", "it writes"]'"#;
    for script in ["exit 1", "echo yes", r#"echo '{"level": "none"}'"#, list] {
        let home = Home::new();
        let risk = program(&home, "outside/risk", script);
        assert_eq!(asked(&home, &risk)["risk"], serde_json::Value::Null, "{script}");
    }
}

#[test]
fn neither_a_command_nor_a_project_has_a_say_in_it() {
    let home = Home::new();
    let risk = program(&home, "ws/risk", "echo");
    home.write("config/stockade/config.toml", &format!("[risk]\nhook = [{risk:?}]\n"));
    let refused = home.runs(&[], "true", 125);
    assert!(refused.stderr.contains("risk") && refused.stderr.contains("write"), "{}", refused.stderr);
    home.write("config/stockade/config.toml", "");
    home.write("ws/.stockade/config.toml", &format!("[risk]\nhook = [{risk:?}]\n"));
    let refused = home.says(&["trust"], 125);
    assert!(refused.stderr.contains("`risk` belongs in your own file"), "{}", refused.stderr);
}
