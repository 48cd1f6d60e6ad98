//! Clients that are generated from the bundle take every golden message and give it back unchanged.
//!
//! The generators are real ones from npm and PyPI. `scripts/test` installs them below `.tools`;
//! where they are missing these tests fail, since a test that passes over itself proves nothing.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{golden_messages, program, repository, run, text};

fn tool(path: &str) -> PathBuf {
    let tool = repository().join(".tools").join(path);
    assert!(tool.exists(), "{} is missing: run `scripts/test tools` once", tool.display());
    tool
}

fn bundle() -> PathBuf {
    repository().join("schemas/StockadeProtocol.json")
}

fn same_json(printed: &[u8], golden: &str, file: &Path) {
    let printed: serde_json::Value = serde_json::from_slice(printed).unwrap();
    let golden: serde_json::Value = serde_json::from_str(golden).unwrap();
    assert_eq!(printed, golden, "{}", file.display());
}

/// Each golden message becomes a typed literal, so that the compiler holds it against the types.
#[test]
fn typescript_accepts_and_returns_every_golden_message() {
    let directory = tempfile::tempdir().unwrap();
    let types = directory.path().join("stockade.ts");
    run(program(tool("clients/node_modules/.bin/json2ts")).arg("-i").arg(bundle()).arg("-o").arg(&types), 0);
    let mut source = String::from("import type * as stockade from \"./stockade\";\n");
    for (index, (name, _, json)) in golden_messages().iter().enumerate() {
        writeln!(
            source,
            "const message{index}: stockade.{name} = {json};\nconsole.log(JSON.stringify(message{index}));"
        )
        .unwrap();
    }
    fs::write(directory.path().join("golden.ts"), source).unwrap();
    let options =
        ["--strict", "--exactOptionalPropertyTypes", "--target", "es2022", "--module", "commonjs", "--types", ""];
    run(program(tool("clients/node_modules/.bin/tsc")).args(options).arg("golden.ts").current_dir(&directory), 0);
    let printed = text(&run(program("node").arg("golden.js").current_dir(&directory), 0).stdout);
    let golden = golden_messages();
    assert_eq!(printed.lines().count(), golden.len());
    for (line, (_, file, json)) in printed.lines().zip(&golden) {
        same_json(line.as_bytes(), json, file);
    }
}

#[test]
fn typescript_refuses_a_message_with_a_typo() {
    let directory = tempfile::tempdir().unwrap();
    run(
        program(tool("clients/node_modules/.bin/json2ts"))
            .arg("-i")
            .arg(bundle())
            .arg("-o")
            .arg(directory.path().join("stockade.ts")),
        0,
    );
    let source = "import type { SandboxPolicy } from \"./stockade\";\n\
        export const policy: SandboxPolicy = { type: \"workspace-write\", writeable_roots: [\"/a\"] };\n";
    fs::write(directory.path().join("typo.ts"), source).unwrap();
    let mut compiler = program(tool("clients/node_modules/.bin/tsc"));
    let output =
        compiler.args(["--strict", "--noEmit", "--types", "", "typo.ts"]).current_dir(&directory).output().unwrap();
    assert!(!output.status.success());
    assert!(text(&output.stdout).contains("'writeable_roots' does not exist"), "{}", text(&output.stdout));
}

const PYTHON_ROUND_TRIP: &str = r#"
import json, sys
import pydantic, stockade
for line in sys.stdin:
    name, message = json.loads(line)
    model = getattr(stockade, name)
    value = model.model_validate_json(message, strict=False)
    print(value.model_dump_json(by_alias=True, exclude_unset=True))
try:
    stockade.SandboxPolicy.model_validate({"type": "workspace-write", "writeable_roots": ["/a"]})
except pydantic.ValidationError as error:
    assert "writeable_roots" in str(error), error
else:
    raise SystemExit("a typo was accepted")
"#;

#[test]
fn python_accepts_and_returns_every_golden_message() {
    use std::io::Write as _;
    let directory = tempfile::tempdir().unwrap();
    let mut generator = program(tool("venv/bin/datamodel-codegen"));
    generator.args([
        "--input-file-type",
        "jsonschema",
        "--output-model-type",
        "pydantic_v2.BaseModel",
        "--use-title-as-name",
    ]);
    generator.args(["--target-python-version", "3.11", "--formatters", "builtin", "--disable-timestamp"]);
    run(generator.arg("--input").arg(bundle()).arg("--output").arg(directory.path().join("stockade.py")), 0);
    let golden = golden_messages();
    let input = directory.path().join("golden.jsonl");
    let mut lines = fs::File::create(&input).unwrap();
    for (name, _, json) in &golden {
        writeln!(lines, "{}", serde_json::json!([name, json])).unwrap();
    }
    let mut python = program(tool("venv/bin/python"));
    python
        .args(["-W", "error", "-c", PYTHON_ROUND_TRIP])
        .current_dir(&directory)
        .stdin(fs::File::open(&input).unwrap());
    let printed = text(&run(&mut python, 0).stdout);
    assert_eq!(printed.lines().count(), golden.len());
    for (line, (_, file, json)) in printed.lines().zip(&golden) {
        same_json(line.as_bytes(), json, file);
    }
}
