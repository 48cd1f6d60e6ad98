//! `stockade unmark`: takes the marks of the sandbox off directories, on Windows.

use std::process::ExitCode;

use stockade::platform;
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
            print(&format!("{directory}: marks taken off {} of {} objects\n", unmarked.changed, unmarked.visited))?;
        }
        done.push(unmarked);
    }
    if args.json {
        print(&(serde_json::to_string_pretty(&done)? + "\n"))?;
    }
    Ok(ExitCode::SUCCESS)
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
