//! The schemas in the repository are those of the types.

use std::fs;

use crate::support::{repository, run, stockade, text};

#[test]
fn the_files_in_the_repository_are_up_to_date() {
    run(stockade().args(["schema", "--check", "--out"]).arg(repository().join("schemas")), 0);
}

#[test]
fn a_changed_missing_or_surplus_file_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let check = |exit_code| run(stockade().args(["schema", "--check", "--out"]).arg(directory.path()), exit_code);
    run(stockade().args(["schema", "--out"]).arg(directory.path()), 0);
    check(0);
    fs::write(directory.path().join("Outcome.json"), "{}").unwrap();
    fs::remove_file(directory.path().join("Violation.json")).unwrap();
    fs::write(directory.path().join("Old.json"), "{}").unwrap();
    let stderr = text(&check(125).stderr);
    assert!(stderr.contains("Old.json, Outcome.json, Violation.json in"), "{stderr}");
}

#[test]
fn every_run_writes_the_same_bytes() {
    let print = || run(stockade().arg("schema"), 0).stdout;
    assert_eq!(print(), print());
    let bundle = fs::read(repository().join("schemas/StockadeProtocol.json")).unwrap();
    assert_eq!(print(), bundle);
}

#[test]
fn one_message_can_be_printed_alone() {
    let schema = run(stockade().args(["schema", "--message", "ExecRequest"]), 0).stdout;
    let schema: serde_json::Value = serde_json::from_slice(&schema).unwrap();
    assert_eq!(schema.get("title").and_then(|title| title.as_str()), Some("ExecRequest"));
    let stderr = text(&run(stockade().args(["schema", "--message", "Exec"]), 125).stderr);
    assert!(stderr.contains("no message is called `Exec`: there are ApprovalReply, "), "{stderr}");
}
