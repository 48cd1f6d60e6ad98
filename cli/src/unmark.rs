//! `stockade unmark`: takes the marks of the sandbox off directories, on Windows.

use std::process::ExitCode;

use stockade::platform::{self, StillMarked, Unmarked};
use stockade_protocol::AbsPath;

use crate::args::Unmark;
use crate::exit::{Failure, print};

pub(crate) fn run(args: &Unmark) -> Result<ExitCode, Failure> {
    let marks = platform::Marks::new();
    let directories = if args.all || args.directories.is_empty() {
        marks.directories()?
    } else {
        args.directories.iter().map(|path| absolute(path)).collect::<Result<_, _>>()?
    };
    if !args.all && args.directories.is_empty() {
        print(&list(&directories, args.json)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut done = Vec::new();
    for directory in &directories {
        let unmarked = marks.take_off(directory)?;
        if !args.json {
            print(&told(&unmarked))?;
        }
        done.push(unmarked);
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&done)? + "\n"))?;
    }
    let is_complete = done.iter().all(|unmarked| unmarked.left.is_empty());
    Ok(if is_complete { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn told(unmarked: &Unmarked) -> String {
    let Unmarked { path, moved, visited, changed, left } = unmarked;
    let mut text = format!("{path}: marks taken off {changed} of {visited} objects\n");
    text.extend(moved.iter().map(|moved| format!("  among them {moved}, which was moved there\n")));
    text.extend(left.iter().map(|StillMarked { path, why }| format!("  {path} may still bear marks: {why}\n")));
    if let Some(first) = left.first() {
        let first = &first.path;
        text.push_str(&format!(
            "  to take them off, get the right to change its access control list (`takeown /f \"{first}\"`) and run \
             `stockade unmark` again\n"
        ));
    }
    text
}

fn absolute(path: &std::path::Path) -> Result<AbsPath, Failure> {
    Ok(AbsPath::from_path(&std::path::absolute(path)?)?)
}

fn list(directories: &[AbsPath], json: bool) -> Result<String, Failure> {
    if json {
        return Ok(serde_json::to_string_pretty(directories)? + "\n");
    }
    if directories.is_empty() {
        return Ok(String::from("No directory bears marks.\n"));
    }
    let lines: String = directories.iter().map(|directory| format!("  {directory}\n")).collect();
    Ok(format!("Directories with marks; `stockade unmark DIR` or `--all` takes them off:\n{lines}"))
}
