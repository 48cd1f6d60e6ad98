//! What is published: every crate says what it is, and carries what it is built from.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::{program, repository, run};

/// The workspace's crates that are published, as Cargo reads their manifests.
fn published() -> Vec<Value> {
    let mut cargo = program(env!("CARGO"));
    cargo.args(["metadata", "--no-deps", "--offline", "--format-version", "1"]).current_dir(repository());
    let metadata: Value = serde_json::from_slice(&run(&mut cargo, 0).stdout).unwrap();
    let crates = metadata.get("packages").and_then(Value::as_array).unwrap();
    crates.iter().filter(|package| package.get("publish") != Some(&serde_json::json!([]))).cloned().collect()
}

#[test]
fn every_crate_says_what_it_is() {
    let crates = published();
    assert!(crates.len() >= 15, "{}", crates.len());
    for package in &crates {
        let name = package["name"].as_str().unwrap();
        let count = |field: &str| package[field].as_array().unwrap().len();
        for field in ["description", "license", "readme", "rust_version"] {
            assert!(package[field].as_str().is_some_and(|text| !text.is_empty()), "{name} has no `{field}`");
        }
        assert!((1..=5).contains(&count("keywords")), "{name} has {} keywords", count("keywords"));
        assert!((1..=5).contains(&count("categories")), "{name} has {} categories", count("categories"));
        let folder = std::path::Path::new(package["manifest_path"].as_str().unwrap()).parent().unwrap();
        assert!(folder.join(package["readme"].as_str().unwrap()).is_file(), "{name}: its readme is missing");
    }
}

/// A dependency without a version can't be published, and one on a crate that is not published can't be had.
#[test]
fn crates_depend_on_what_is_published_too() {
    let crates = published();
    let names: BTreeSet<&str> = crates.iter().map(|package| package["name"].as_str().unwrap()).collect();
    for package in &crates {
        for dependency in package["dependencies"].as_array().unwrap() {
            let own = dependency["path"].is_string() && dependency["kind"] != "dev";
            let name = dependency["name"].as_str().unwrap();
            let (from, version) = (&package["name"], dependency["req"].as_str().unwrap());
            assert!(!own || (names.contains(name) && version != "*"), "{from} depends on {name} {version}");
        }
    }
}
