//! The cost of observing: the same commands with and without, alternating, so that other load affects both alike.
//! `just bench observer`; workspaces are created in `TMPDIR`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    dead_code,
    reason = "a benchmark ends when it can't go on"
)]

use std::fs;
use std::time::Duration;

use stockade_sandbox_linux::{Native, Observe};
use stockade_sandboxing::{Backend as _, CommandSpec, Stdio};

use self::setting::{Setting, finish, median, time};

/// Common parts of the benchmarks.
mod setting;

const ROUNDS: usize = 60;
/// Notified calls of one command.
const CALLS: u32 = 20_000;
const FILES: usize = 1_000;
const COMMITTED: usize = 20_000;
const PACKAGES: usize = 60;
const CRATES: usize = 10;

/// A repository with many files, whose index is fresh.
const REPOSITORY: &str = r#"set -e; rm -rf repository; mkdir repository; cd repository
python3 -c 'import os
for n in range(20000):
    os.makedirs(f"d{n % 200}", exist_ok=True); open(f"d{n % 200}/{n}", "w").write(str(n))'
git init -q .; git add .; git -c user.name=a -c user.email=a@example.org commit -qm all; sleep 1.1; git status > /dev/null"#;

/// A package that depends on others, which are packed files: no registry has to be reached from inside.
const NODE_PACKAGE: &str = r#"set -e; mkdir -p node/packed; cd node
python3 -c 'import io, json, tarfile
for n in range(60):
    with tarfile.open(f"packed/p{n}.tgz", "w:gz") as packed:
        def add(name, text):
            entry = tarfile.TarInfo(f"package/{name}"); entry.size = len(text); packed.addfile(entry, io.BytesIO(text.encode()))
        add("package.json", json.dumps({"name": f"p{n}", "version": "1.0.0"}))
        for m in range(30): add(f"lib/{m}.js", "module.exports = 1;\n" * 20)
json.dump({"name": "a", "version": "1.0.0", "dependencies": {f"p{n}": f"file:packed/p{n}.tgz" for n in range(60)}}, open("package.json", "w"))'
npm install --offline --no-audit --no-fund --silent --cache "$PWD/cache""#;

/// A crate that depends on ten others, each with some code.
const CRATE: &str = r#"set -e; mkdir -p crate/src; cd crate
python3 -c 'import os
dependencies = ""
for n in range(10):
    os.makedirs(f"d{n}/src", exist_ok=True)
    open(f"d{n}/Cargo.toml", "w").write(f"[package]\nname = \"d{n}\"\nversion = \"1.0.0\"\nedition = \"2021\"\n")
    open(f"d{n}/src/lib.rs", "w").write("".join(f"pub fn f{m}(a: &[u64]) -> u64 {{ a.iter().map(|b| b + {m}).sum() }}\n" for m in range(200)))
    dependencies += f"d{n} = {{ path = \"d{n}\" }}\n"
open("Cargo.toml", "w").write("[package]\nname = \"a\"\nversion = \"1.0.0\"\nedition = \"2021\"\n[workspace]\n[dependencies]\n" + dependencies)
open("src/main.rs", "w").write("fn main() { println!(\"{}\", " + " + ".join(f"d{n}::f1(&[1])" for n in range(10)) + "); }\n")'"#;

/// Opens a file for writing again and again.
const OPENS: &str = "import os\nfor _ in range(20000): os.close(os.open('file', os.O_WRONLY))";

fn main() {
    let setting = Setting::with_all_names();
    let workspace = setting.path().to_host_path().unwrap();
    fs::create_dir(workspace.join("files")).unwrap();
    for number in 0..FILES {
        fs::write(workspace.join(format!("files/{number}")), "a small file\n".repeat(40)).unwrap();
    }
    fs::write(workspace.join("file"), "").unwrap();
    let engines = [Observe::Nothing, Observe::Denials].map(|observe| Native::new().observing(observe));
    let measure = |words: &[&str], rounds: usize| {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for (engine, times) in engines.iter().zip(&mut times) {
                let plan = engine.compile(&with_toolchain(setting.command(words)), &setting.permissions()).unwrap();
                times.push(time(|| finish(plan.spawn(Stdio::default()).unwrap())));
            }
        }
        times.map(median)
    };
    let more = |[without, with]: [Duration; 2]| with.saturating_sub(without);
    let ratio = |[without, with]: [Duration; 2]| with.as_secs_f64() / without.as_secs_f64();
    let start = measure(&["/bin/true"], 4 * ROUNDS);
    println!("start: {:?} without, {:?} with: +{:?}", start[0], start[1], more(start));
    let opens = measure(&["python3", "-c", OPENS], ROUNDS / 6);
    println!("notified call: +{:?}", more(opens) / CALLS);
    let create = measure(&["tar", "-cf", "files.tar", "files"], ROUNDS);
    println!("tar of {FILES} small files: {:?} without, {:?} with: {:.3}", create[0], create[1], ratio(create));
    let extract = measure(&["tar", "-xf", "files.tar", "-C", "files"], ROUNDS / 2);
    println!("unpacking them: {:?} without, {:?} with: {:.3}", extract[0], extract[1], ratio(extract));
    let work = [
        (format!("git status of {COMMITTED} files"), REPOSITORY, "cd repository && git status", ROUNDS / 3),
        (
            format!("npm ci of {PACKAGES} packages"),
            NODE_PACKAGE,
            "cd node && npm ci --offline --no-audit --no-fund --silent --cache \"$PWD/cache\"",
            ROUNDS / 6,
        ),
        (
            format!("cargo build with {CRATES} dependencies"),
            CRATE,
            "cd crate && rm -rf target && \"$CARGO\" build --offline --quiet",
            ROUNDS / 6,
        ),
    ];
    for (name, set_up, line, rounds) in work {
        let mut prepare = std::process::Command::new("bash");
        prepare.args(["-c", set_up]).current_dir(&workspace);
        assert!(prepare.status().unwrap().success(), "{name}");
        let times = measure(&["bash", "-c", line], rounds);
        println!("{name}: {:?} without, {:?} with: {:.3}", times[0], times[1], ratio(times));
    }
}

/// The toolchain that this was built with, and a home in the workspace.
fn with_toolchain(mut command: CommandSpec) -> CommandSpec {
    let home = command.cwd.to_string();
    // Also where it is not cargo that starts this.
    let cargo = String::from(env!("CARGO"));
    let beside = std::path::Path::new(&cargo).parent().map(|path| path.display().to_string()).unwrap_or_default();
    let path = format!("{beside}:/usr/local/bin:/usr/bin:/bin");
    let more = [("PATH", path), ("HOME", home.clone()), ("CARGO_HOME", format!("{home}/cargo")), ("CARGO", cargo)];
    command.environment.extend(more.map(|(name, value)| (name.into(), value.into())));
    command
}
