//! `stockade man`: the manual, generated from `--help`.

use std::fs;
use std::io;
use std::path::PathBuf;

use clap::CommandFactory as _;
use clap_mangen::Man as Page;

use crate::args::{Args, Man};
use crate::exit::{Failure, print};

#[derive(Debug, thiserror::Error)]
#[error("could not write `{}`", .path.display())]
struct WriteError {
    path: PathBuf,
    source: io::Error,
}

pub(crate) fn run(args: &Man) -> Result<(), Failure> {
    let mut program = Args::command();
    // Gives every command its full name, such as `stockade audit list`.
    program.build();
    match &args.out {
        None => {
            let mut page = Vec::new();
            Page::new(program).render(&mut page)?;
            Ok(print(&String::from_utf8(page)?)?)
        }
        Some(directory) => {
            let failed = |path: &PathBuf, source| WriteError { path: path.clone(), source };
            fs::create_dir_all(directory).map_err(|source| failed(directory, source))?;
            for (name, page) in pages(program)? {
                let path = directory.join(name);
                fs::write(&path, page).map_err(|source| failed(&path, source))?;
            }
            Ok(())
        }
    }
}

/// The pages of a command and its subcommands, by file name. `help` is omitted.
fn pages(command: clap::Command) -> io::Result<Vec<(String, Vec<u8>)>> {
    let mut found = Vec::new();
    for below in command.get_subcommands().filter(|below| below.get_name() != "help") {
        found.extend(pages(below.clone())?);
    }
    let page = Page::new(command);
    let name = page.get_filename();
    let mut text = Vec::new();
    page.render(&mut text)?;
    found.push((name, text));
    Ok(found)
}
