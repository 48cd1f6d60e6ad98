//! The standard streams a second time, for a second try.

use std::io;

use stockade_sandboxing::{Stdio, Streams};

pub(crate) fn duplicate(stdio: &Stdio) -> io::Result<Stdio> {
    let stream = |stream: &Streams| {
        Ok::<_, io::Error>(match stream {
            Streams::Null => Streams::Null,
            Streams::Inherit => Streams::Inherit,
            Streams::To(file) => Streams::To(file.try_clone()?),
        })
    };
    Ok(Stdio {
        stdin: stream(&stdio.stdin)?,
        stdout: stream(&stdio.stdout)?,
        stderr: stream(&stdio.stderr)?,
        controlling_terminal: stdio.controlling_terminal,
    })
}
