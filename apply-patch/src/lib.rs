#![doc = include_str!("../README.md")]

mod diff;
mod error;
mod resolve;

#[cfg(unix)]
mod apply;
#[cfg(unix)]
mod directory;
#[cfg(unix)]
mod journal;
#[cfg(unix)]
mod place;
#[cfg(unix)]
mod prepare;
#[cfg(unix)]
mod roots;
#[cfg(unix)]
mod seen;
#[cfg(not(unix))]
mod unsupported;

mod report;
mod text;

pub use diff::{DiffError, UnifiedDiff};
pub use error::{ApplyError, PatchError};
pub use report::{Applied, PreparedFile};
pub use resolve::resolved_paths;
pub use text::{PatchText, TextError};

#[cfg(unix)]
use prepare::look;
#[cfg(not(unix))]
use unsupported::look;

#[cfg(unix)]
pub use {
    prepare::{Prepared, prepare},
    roots::Roots,
};

#[cfg(not(unix))]
pub use unsupported::{Prepared, Roots, prepare};
