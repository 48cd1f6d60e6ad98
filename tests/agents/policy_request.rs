//! `network/policyRequest` to the real codex: what its client does with it, which is why Stockade does not send it.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::codex::{DONE, Person, line};
use super::openai::Step;
use crate::support::repository;

/// codex says no for each process that it started without its own network proxy, and asks its person nothing.
#[test]
fn codex_says_no_to_every_host_of_a_process_without_its_proxy() {
    for sandbox in ["workspace-write", "danger-full-access"] {
        let person = Person::new([line("sleep 1; echo done"), DONE]);
        let answers = person.home.path("home/answers");
        let between = repository().join("tests/agents/between.mjs");
        let words = [between, answers.clone(), person.home.path("stockade"), PathBuf::from("exec-server")];
        person.served_by(Path::new("node"), &words);
        person.exec(sandbox);
        let said = std::fs::read_to_string(&answers).unwrap_or_default();
        let mut said: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        said.sort_by_key(|answer| answer["id"].to_string());
        // Of the process, of one that is not there, without a process, and by another method.
        let ids: Vec<u64> = said.iter().map(|answer| answer["id"].as_u64().unwrap()).collect();
        assert_eq!(ids, [1, 2, 3, 4], "{said:#?}");
        for answer in &said[..2] {
            assert_eq!(answer["result"]["decision"]["type"], "deny", "{answer}");
        }
        assert_eq!(said[2]["error"]["code"], -32602, "{said:#?}");
        assert_eq!(said[3]["error"]["code"], -32601, "{said:#?}");
    }
}

/// What would make it answer otherwise, its own network proxy, codex starts with no server that does not run that proxy.
#[test]
fn codex_itself_refuses_a_command_behind_its_own_proxy() {
    let person = Person::new([Step::Run("echo ran > ran", json!({"login": false})), DONE]);
    let settings = person.home.read("home/.codex/config.toml");
    let proxied = "[sandbox_workspace_write]\nnetwork_access = true\n\n[features]\nnetwork_proxy = true\n";
    person.home.write("home/.codex/config.toml", &format!("{settings}\n{proxied}"));
    let printed = person.exec("workspace-write");
    let said = person.said();
    assert!(said.contains("does not support executor-local network proxy launches"), "{said}\n{printed}");
    assert!(!person.home.exists("ws/ran"));
}
