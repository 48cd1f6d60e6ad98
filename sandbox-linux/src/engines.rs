//! The engines: each makes a plan of permissions and starts commands by it.

pub(crate) mod auto;
pub(crate) mod bwrap;
pub(crate) mod enforcement;
pub(crate) mod landlock_only;
pub(crate) mod losses;
pub(crate) mod native;
pub(crate) mod probe;
pub(crate) mod warm;
