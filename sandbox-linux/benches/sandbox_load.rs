//! The cost of a sandbox under load, and of work inside: many mounts on the host, a large caller, eight at once, the
//! memory of the supervising processes, and work inside compared with the same work outside.
//!
//! Everything is measured alternately with its reference, in one run; only ratios of medians are meaningful. `cargo
//! bench -p stockade-sandbox-linux --bench sandbox_load`, with `bwrap` and `cc` installed; under `chrt -f 50`, other
//! work on the machine disturbs less.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a benchmark starts the programs that it measures, and ends when it can't"
)]

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio as Streams};
use std::thread;
use std::time::{Duration, Instant};

use stockade_sandbox_linux::Native;
use stockade_sandboxing::{Backend as _, Running, Stdio};

use self::setting::{Setting, median, run, time};

/// Common parts of the benchmarks.
mod setting;
/// Work that is done inside and outside.
mod work;

fn main() {
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with("--")).collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        // This program again, in its own environment.
        ["starts"] => starts_here(),
        ["work", kind, directory] => work::main(kind, Path::new(directory)),
        [] => {
            memory();
            work::compare();
            large_caller();
            eight_at_once();
            many_mounts();
        }
        [one] => match *one {
            "memory" => memory(),
            "work" => work::compare(),
            "caller" => large_caller(),
            "crowd" => eight_at_once(),
            "mounts" => many_mounts(),
            _ => println!("there are: memory, work, caller, crowd, mounts"),
        },
        _ => println!("one at a time"),
    }
}

fn ratio(one: Duration, other: Duration) -> f64 {
    one.as_secs_f64() / other.as_secs_f64()
}

/// Medians of native, bubblewrap and a bare spawn.
fn starts(setting: &Setting, rounds: usize) -> [Duration; 3] {
    let native = Native::new();
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..rounds {
        let [cold, bubblewrap, bare] = &mut times;
        cold.push(time(|| setting.start(&native)));
        bubblewrap.push(setting.time_bwrap());
        bare.push(time(|| run(Command::new("/bin/true").env_clear())));
    }
    times.map(median)
}

fn starts_here() {
    let [native, bubblewrap, _] = starts(&Setting::new(), 40);
    println!("{} {}", native.as_nanos(), bubblewrap.as_nanos());
}

/// The same starts in a mount namespace as it is, and in one with 300 mounts more.
fn many_mounts() {
    let own = std::env::current_exe().unwrap();
    let measure = |mounts: usize| {
        let script = "d=$(mktemp -d) && mount -t tmpfs none \"$d\" && for i in $(seq \"$1\"); do mkdir \"$d/$i\" && \
            mount -t tmpfs none \"$d/$i\" || exit 1; done; shift; exec \"$@\"";
        let user = if rustix::process::getuid().is_root() { "-m" } else { "-Urm" };
        let mut command = Command::new("unshare");
        command.args([user, "sh", "-c", script, "sh", &mounts.to_string()]).arg(&own).arg("starts");
        let output = command.stderr(Streams::inherit()).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let mut numbers = text.split_whitespace().map(|word| Duration::from_nanos(word.parse().unwrap()));
        [numbers.next().unwrap(), numbers.next().unwrap()]
    };
    let (mut few, mut many) = ([Vec::new(), Vec::new()], [Vec::new(), Vec::new()]);
    for _ in 0..5 {
        for (times, mounts) in [(&mut few, 1), (&mut many, 300)] {
            times.iter_mut().zip(measure(mounts)).for_each(|(times, time)| times.push(time));
        }
    }
    let ([native, bubblewrap], [native_many, bubblewrap_many]) = (few.map(median), many.map(median));
    let host = fs::read_to_string("/proc/self/mountinfo").unwrap().lines().count();
    println!("{} mounts instead of {}:", host + 301, host + 2);
    println!("  native x {:.2} ({native:?} to {native_many:?})", ratio(native_many, native));
    println!("  bubblewrap x {:.2} ({bubblewrap:?} to {bubblewrap_many:?})", ratio(bubblewrap_many, bubblewrap));
}

/// The same starts from a small caller, and from one with two gigabytes in memory.
fn large_caller() {
    const BYTES: usize = 2 << 30;
    let setting = Setting::new();
    let (mut small, mut large) = (Vec::new(), Vec::new());
    for _ in 0..3 {
        small.push(starts(&setting, 40));
        let memory = vec![1_u8; BYTES];
        large.push(starts(&setting, 40));
        assert_eq!(std::hint::black_box(&memory).len(), BYTES);
    }
    let of = |list: &[[Duration; 3]], which: usize| {
        median(list.iter().map(|times| times.get(which).copied().unwrap()).collect())
    };
    for (which, name) in ["native", "bubblewrap", "a bare spawn"].into_iter().enumerate() {
        println!("a caller with 2 GB: {name} x {:.2}", ratio(of(&large, which), of(&small, which)));
    }
}

const AT_ONCE: usize = 8;
const EACH: usize = 25;

/// Starts a second, by eight threads. Each start has a workspace of its own, if there are that many.
fn rate(settings: &[Setting], start: impl Fn(&Setting) + Sync) -> f64 {
    // The kernel dismantles network namespaces asynchronously, which must not affect the next measurement.
    thread::sleep(Duration::from_millis(300));
    let begun = Instant::now();
    thread::scope(|scope| {
        for number in 0..AT_ONCE {
            let own = settings.iter().cycle().skip(number * EACH).take(EACH);
            let start = &start;
            scope.spawn(move || own.for_each(start));
        }
    });
    (AT_ONCE * EACH) as f64 / begun.elapsed().as_secs_f64()
}

fn eight_at_once() {
    let one = Setting::new();
    let full = [Setting::with_all_names()];
    let native = Native::new();
    let session = native.session(&one.permissions()).unwrap();
    let one = [one];
    let mut rates = [const { Vec::new() }; 6];
    for _ in 0..7 {
        let [cold, bubblewrap, full_cold, full_bubblewrap, warm, bare] = &mut rates;
        // Missing names have to be missing for all, and bubblewrap leaves files behind.
        let fresh: Vec<Setting> = (0..AT_ONCE * EACH).map(|_| Setting::new()).collect();
        cold.push(rate(&fresh, |setting| setting.start(&native)));
        bubblewrap.push(rate(&fresh, |setting| run(&mut setting.bwrap())));
        full_cold.push(rate(&full, |setting| setting.start(&native)));
        full_bubblewrap.push(rate(&full, |setting| run(&mut setting.bwrap())));
        warm.push(rate(&one, |setting| {
            setting::finish(session.spawn(&setting.command(&["/bin/true"]), Stdio::default()).unwrap())
        }));
        bare.push(rate(&one, |_| run(Command::new("/bin/true").env_clear())));
    }
    let [cold, bubblewrap, full_cold, full_bubblewrap, warm, bare] = rates.map(|mut rates| {
        rates.sort_by(f64::total_cmp);
        rates.get(rates.len() / 2).copied().unwrap()
    });
    println!("eight at once, starts a second / bubblewrap's ({full_bubblewrap:.0}/s):");
    println!(
        "  native cold, no name missing {:.2}, all but one missing {:.2}",
        full_cold / full_bubblewrap,
        cold / bubblewrap
    );
    println!("  native warm {:.2}, bare {:.2}", warm / full_bubblewrap, bare / full_bubblewrap);
}

/// The memory of the processes between this program and the command.
fn memory() {
    let setting = Setting::new();
    let native = Native::new();
    let command = setting.command(&["/bin/sleep", "60"]);
    let cold = native.compile(&command, &setting.permissions()).unwrap().spawn(Stdio::default()).unwrap();
    report_memory("native, cold", cold);
    let session = native.session(&setting.permissions()).unwrap();
    report_memory("native, warm", session.spawn(&command, Stdio::default()).unwrap());
}

fn report_memory(name: &str, mut running: Box<dyn Running>) {
    // The command has exec'd another program.
    thread::sleep(Duration::from_millis(200));
    let watching: Vec<u32> = below(std::process::id()).into_iter().filter(|pid| watches(*pid)).collect();
    let [resident, own] = ["Rss:", "Pss:"].map(|kind| watching.iter().map(|pid| kilobytes(*pid, kind)).sum::<u64>());
    println!(
        "{name}: {} processes watch over the command, {resident} kB resident, {own} kB of their own",
        watching.len()
    );
    running.kill().unwrap();
    running.wait(None).unwrap();
}

/// Whether it is a supervising process: not the command, and not a zombie.
fn watches(pid: u32) -> bool {
    let words = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    !words.is_empty() && !words.starts_with(b"/bin/sleep")
}

fn kilobytes(pid: u32, kind: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(kind)).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}

/// Every process below one, by what `/proc` says of their parents.
fn below(pid: u32) -> Vec<u32> {
    let all = fs::read_dir("/proc").unwrap().flatten();
    let parent = |pid: u32| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        stat.rsplit(") ").next()?.split(' ').nth(1)?.parse::<u32>().ok()
    };
    let pids = all.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let children: Vec<u32> = pids.filter(|child| parent(*child) == Some(pid)).collect();
    let further: Vec<u32> = children.iter().flat_map(|child| below(*child)).collect();
    [children, further].concat()
}
