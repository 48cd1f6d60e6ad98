//! Work inside a sandbox and outside, by this program started again. It measures itself, so that the start of the
//! sandbox is not counted.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;
use std::process::{Command, Stdio as Streams};
use std::time::Duration;

use rustix::pipe::{PipeFlags, pipe_with};
use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend as _, Stdio, Streams as Stream};

use crate::setting::{Setting, finish, median, run, time};

const KINDS: &[&str] = &["stat", "open", "create", "read", "exec", "tar", "compile"];
const ROUNDS: usize = 15;
const WORKER: &str = "worker";

/// Does one kind of work in a directory and prints how long it took, in nanoseconds.
pub(crate) fn main(kind: &str, directory: &Path) {
    let many = |times: usize, act: &dyn Fn()| time(|| (0..times).for_each(|_| act()));
    let file = directory.join("src/0/0.c");
    let took = match kind {
        "stat" => many(100_000, &|| assert!(fs::metadata(&file).unwrap().is_file())),
        "open" => many(50_000, &|| drop(File::open(&file).unwrap())),
        "create" => many(5_000, &|| {
            File::create(directory.join("made")).unwrap();
            fs::remove_file(directory.join("made")).unwrap();
        }),
        "read" => many(300, &|| assert!(fs::read("/proc/self/exe").unwrap().len() > 1000)),
        "exec" => many(150, &|| run(&mut Command::new("/bin/true"))),
        "tar" => many(3, &|| {
            run(Command::new("tar").arg("-cf").arg(directory.join("all.tar")).arg("-C").arg(directory).arg("src"))
        }),
        "compile" => many(6, &|| {
            let object = directory.join("0.o");
            run(Command::new("cc").args(["-O1", "-c", "-o"]).arg(object).arg(&file));
        }),
        _ => Duration::ZERO,
    };
    println!("{}", took.as_nanos());
}

/// Each kind inside and outside in turn.
pub(crate) fn compare() {
    let setting = Setting::new();
    let directory = setting.path().to_host_path().unwrap();
    plant(&directory);
    for kind in KINDS {
        let (mut inside, mut outside) = (Vec::new(), Vec::new());
        for _ in 0..ROUNDS {
            outside.push(outside_once(kind, &directory));
            inside.push(inside_once(&setting, kind, &directory));
        }
        let (inside, outside) = (median(inside), median(outside));
        println!(
            "{kind}: inside / outside {:.3} ({inside:?}, {outside:?})",
            inside.as_secs_f64() / outside.as_secs_f64()
        );
    }
}

/// A thousand C files, and this program, which may be in a directory that is private inside.
fn plant(directory: &Path) {
    fs::copy(std::env::current_exe().unwrap(), directory.join(WORKER)).unwrap();
    for number in 0..20 {
        let part = directory.join(format!("src/{number}"));
        fs::create_dir_all(&part).unwrap();
        for file in 0..50 {
            let text = format!(
                "#include <stdio.h>\n#include <stdlib.h>\nint f{file}(int x) {{ printf(\"%d\", x); return rand() + x * {file}; }}\n"
            );
            fs::write(part.join(format!("{file}.c")), text).unwrap();
        }
    }
}

fn nanoseconds(text: &str) -> Duration {
    Duration::from_nanos(text.trim().parse().unwrap())
}

fn outside_once(kind: &str, directory: &Path) -> Duration {
    let mut command = Command::new(directory.join(WORKER));
    command.args(["work", kind]).arg(directory).env_clear().env("PATH", "/usr/local/bin:/usr/bin:/bin");
    let output = command.stdin(Streams::null()).stderr(Streams::inherit()).output().unwrap();
    nanoseconds(&String::from_utf8(output.stdout).unwrap())
}

fn inside_once(setting: &Setting, kind: &str, directory: &Path) -> Duration {
    let worker = directory.join(WORKER);
    let argv = [worker.to_str().unwrap(), "work", kind, directory.to_str().unwrap()];
    let (ours, theirs) = pipe_with(PipeFlags::CLOEXEC).unwrap();
    let plan = Native::new().compile(&setting.command(&argv), &setting.permissions()).unwrap();
    let stdio = Stdio { stdout: Stream::To(theirs), stderr: Stream::Inherit, ..Stdio::default() };
    finish(plan.spawn(stdio).unwrap());
    let mut text = String::new();
    File::from(ours).read_to_string(&mut text).unwrap();
    nanoseconds(&text)
}
