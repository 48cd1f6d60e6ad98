//! Runs inside, in the tests under wine, and says what it sees. What it is told to do is its first
//! argument.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        // Each argument and its length, so that nothing is lost at its ends.
        Some("arguments") => arguments.for_each(|argument| println!("{}:{argument}", argument.len())),
        Some("environment") => std::env::vars().for_each(|(name, value)| println!("{name}={value}")),
        // What comes in goes out, and a word goes to the other stream.
        Some("streams") => {
            let mut text = String::new();
            let read = std::io::stdin().read_to_string(&mut text);
            println!("{read:?} {text}");
            eprintln!("and an error");
            return ExitCode::from(7);
        }
        Some("handles") => arguments.for_each(|number| println!("{}", handles::says(&number))),
        Some("tree") => tree(arguments.next().unwrap_or_default(), arguments.next()),
        _ => return ExitCode::from(2),
    }
    ExitCode::SUCCESS
}

/// Starts a process that starts a process, and so on, each of which writes to a file for ever.
#[expect(clippy::disallowed_methods, reason = "the tree has to be there for the test to see it end")]
fn tree(depth: String, file: Option<String>) {
    let Some(file) = file else { return };
    let next = depth.parse::<u32>().ok().and_then(|depth| depth.checked_sub(1));
    if let (Some(next), Ok(own)) = (next, std::env::current_exe()) {
        drop(std::process::Command::new(own).args(["tree", &next.to_string(), &file]).spawn());
    }
    println!("ready {depth}");
    loop {
        if let Ok(mut open) = std::fs::OpenOptions::new().create(true).append(true).open(format!("{file}-{depth}")) {
            open.write_all(b".").ok();
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    }
}

#[cfg(windows)]
mod handles {
    use std::fs::File;
    use std::mem::ManuallyDrop;
    use std::os::windows::io::FromRawHandle as _;

    /// What stands behind the number of a handle.
    #[expect(unsafe_code, reason = "the number may be of a handle that is not there: that is what is asked")]
    pub(crate) fn says(number: &str) -> String {
        let number: usize = number.parse().unwrap_or_default();
        // SAFETY: the file is never closed, and a handle that is not there makes the query fail.
        let file = ManuallyDrop::new(unsafe { File::from_raw_handle(number as *mut _) });
        file.metadata().map_or_else(|_| String::from("closed"), |found| format!("open {}", found.len()))
    }
}

#[cfg(not(windows))]
mod handles {
    pub(crate) fn says(_: &str) -> String {
        String::from("closed")
    }
}
