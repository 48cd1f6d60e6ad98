//! What it costs to judge starts of programs: the same commands with and without, in turn, so that whatever else the machine
//! does hits both alike. The rules restrict programs that are not started, as they mostly do. `just bench exec`; workspaces
//! are made in `TMPDIR`.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::expect_used,
    dead_code,
    reason = "a benchmark ends when it can't go on"
)]

use std::fs;
use std::sync::Arc;
use std::time::Duration;

use stockade_sandbox_linux::Native;
use stockade_sandboxing::{
    Backend as _, CommandSpec, Concern, Deciders, ProcessSettings, ProgramStart, StartAnswer, StartCaller, StartKeeper,
    StartVerdict, Starts, Stdio,
};

use self::setting::{Setting, finish, median, time};

/// What the benchmarks have in common.
mod setting;

const ROUNDS: usize = 20;
const FILES: u32 = 100;

/// Starts a program a thousand times.
const STARTS: &str = "i=0; while [ $i -lt 1000 ]; do /bin/true; i=$((i+1)); done";

struct Keeper;

impl StartKeeper for Keeper {
    fn concerns(&self, name: &[u8]) -> bool {
        [&b"rm"[..], b"git", b"curl", b"busybox"].contains(&name)
    }

    fn judge(&self, _: &ProgramStart) -> Concern {
        Concern::None
    }

    fn decide(&self, _: ProgramStart, _: StartCaller, answer: StartAnswer) {
        answer.give(StartVerdict::GoOn);
    }

    fn unreadable(&self, _: StartCaller) {}
}

fn main() {
    let setting = Setting::with_all_names();
    let workspace = setting.path().to_host_path().unwrap();
    for number in 0..FILES {
        let text = format!("#include <stdio.h>\nint f{number}(void) {{ return printf(\"%d\", {number}); }}\n");
        fs::write(workspace.join(format!("f{number}.c")), text).unwrap();
    }
    let objects: Vec<String> = (0..FILES).map(|number| format!("f{number}.o")).collect();
    fs::write(workspace.join("Makefile"), format!("all: {}\n%.o: %.c\n\tcc -c -o $@ $<\n", objects.join(" "))).unwrap();
    let native = Native::new();
    let measure = |words: &[&str], rounds: usize| {
        let mut times = [const { Vec::new() }; 2];
        for _ in 0..rounds {
            for (starts, times) in [Starts::Unseen, Starts::Judged].into_iter().zip(&mut times) {
                let process = ProcessSettings { starts, ..ProcessSettings::default() };
                let command = CommandSpec { process, ..setting.command(words) };
                let plan = native.compile(&command, &setting.permissions()).unwrap();
                let keeper = || Deciders { starts: Some(Arc::new(Keeper)), ..Deciders::default() };
                times.push(time(|| finish(plan.spawn_guarded(Stdio::default(), keeper()).unwrap())));
            }
        }
        times.map(median)
    };
    let told = |what: &str, [without, with]: [Duration; 2]| {
        println!("{what}: {without:?} without, {with:?} with: {:.3}", with.as_secs_f64() / without.as_secs_f64());
    };
    told("a start of `/bin/true` by a shell, a thousand times", measure(&["sh", "-c", STARTS], ROUNDS));
    told("make -j2 of a hundred small C files", measure(&["make", "-s", "-B", "-j2"], ROUNDS / 4));
}
