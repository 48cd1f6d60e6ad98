//! Tries things from inside a sandbox and says how the kernel answered, one line for each:
//! `name ok …` or `name error ERRNO`. It judges nothing; the suites do, from the host's side.

#![cfg_attr(target_os = "linux", expect(unsafe_code, reason = "attacks are raw system calls"))]

/// Raw system calls that a sandbox has to refuse.
#[cfg(target_os = "linux")]
mod attacks;
/// Operations on files, many in one run.
#[cfg(target_os = "linux")]
mod files;
/// Sockets, keys and shared memory.
#[cfg(target_os = "linux")]
mod talk;
/// Starting a program with something that it should not pass on.
#[cfg(target_os = "linux")]
mod wrap;

#[cfg(target_os = "linux")]
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.split_first() {
        Some((&"batch", [])) => files::batch(),
        Some((&"with-key", [name, command @ ..])) => wrap::with_key(name, command),
        Some((&"with-file", [path, command @ ..])) => wrap::with_file(path, command),
        Some((&"with-terminal", command)) => wrap::with_terminal(command),
        Some((&"adopting", command)) => wrap::adopting(command),
        Some((&"make-shared-memory", [key])) => wrap::shared_memory(key, true),
        Some((&"remove-shared-memory", [key])) => wrap::shared_memory(key, false),
        Some((name, arguments)) => {
            for (name, result) in
                attacks::run(name, arguments).or_else(|| talk::run(name, arguments)).unwrap_or_else(|| {
                    println!("{name} unknown");
                    std::process::exit(2)
                })
            {
                match result {
                    Ok(text) => println!("{name} ok {text}"),
                    Err(error) => println!("{name} error {}", error.raw_os_error().unwrap_or(-1)),
                }
            }
        }
        None => println!("usage: probe NAME ARGUMENTS…"),
    }
}

#[cfg(not(target_os = "linux"))]
fn main() {}

/// What came of one attempt.
#[cfg(target_os = "linux")]
type Attempt = (String, std::io::Result<String>);

/// One attempt under its own name.
#[cfg(target_os = "linux")]
fn one(name: &str, result: std::io::Result<String>) -> Option<Vec<Attempt>> {
    Some(vec![(name.to_owned(), result)])
}

/// A system call's answer, as the C library gives it.
#[cfg(target_os = "linux")]
fn answer(result: impl Into<i64>) -> std::io::Result<String> {
    let result = result.into();
    if result < 0 { Err(std::io::Error::last_os_error()) } else { Ok(result.to_string()) }
}

/// A text as the kernel takes it.
#[cfg(target_os = "linux")]
fn c_text(text: &[u8]) -> std::io::Result<std::ffi::CString> {
    std::ffi::CString::new(text).map_err(|_| std::io::Error::from_raw_os_error(libc::EINVAL))
}
