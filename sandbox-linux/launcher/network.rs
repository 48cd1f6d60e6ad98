//! A network with nothing but loopback, made beside everything else.
//!
//! The kernel takes longer for a network namespace than for all others together, and nothing of the
//! sandbox depends on it until the command starts. A launcher that has begun ahead of its plan makes it while it has nothing
//! else to do. With a plan to follow, a process of its own makes it while the launcher goes on, and leaves it as a descriptor
//! for the launcher to enter.

use core::sync::atomic::{AtomicI32, Ordering};

use crate::sys::{self, AT_FDCWD, CText, EPROTO, Errno, Result};

const NEW_NETWORK: u64 = 0x4000_0000;
const NEW_USERS: u64 = 0x1000_0000;

/// What the two processes have in common.
struct Network {
    /// The process that makes it.
    maker: AtomicI32,
    /// The namespace's descriptor, or an error number below zero, once that process has ended.
    made: AtomicI32,
}

static NETWORK: Network = Network { maker: AtomicI32::new(0), made: AtomicI32::new(0) };

/// The launcher is in it already: not a number that a descriptor has.
const ENTERED: i32 = i32::MAX;

/// Makes it here, and stays in it. What fails is told to who wants to enter it.
pub(crate) fn make_here() {
    let made = sys::unshare(NEW_NETWORK).and_then(|_| sys::loopback_up()).map(sys::close);
    NETWORK.made.store(made.map_or_else(|errno| -errno.0, |()| ENTERED), Ordering::Release);
}

/// Begins to make it.
pub(crate) fn begin() -> Result<()> {
    let maker = sys::start_with_files(make, &NETWORK)?;
    NETWORK.maker.store(maker, Ordering::Relaxed);
    // The kernel starts it behind this one more often than not, even while another processor is idle.
    drop(sys::run_elsewhere(maker));
    Ok(())
}

extern "C" fn make(network: &Network) -> ! {
    let made = sys::unshare(NEW_NETWORK).and_then(|_| sys::loopback_up());
    network.made.store(made.unwrap_or_else(|errno| -errno.0), Ordering::Release);
    sys::exit(0)
}

/// Enters it, as soon as it is there.
pub(crate) fn join() -> Result<()> {
    match NETWORK.maker.load(Ordering::Relaxed) {
        0 => {}
        maker => sys::wait_for(maker)?,
    }
    match NETWORK.made.load(Ordering::Acquire) {
        ENTERED => Ok(()),
        namespace @ 1.. => {
            let joined = sys::join_namespace(namespace, NEW_NETWORK);
            sys::close(namespace);
            joined.map(drop)
        }
        0 => Err(EPROTO),
        errno => Err(Errno(-errno)),
    }
}

/// Enters a network that somebody else has made, with the rights of who made it. Whoever made the users'
/// namespace that it belongs to may do so.
pub(crate) fn enter(path: CText<'_>) -> Result<()> {
    let network = sys::open(AT_FDCWD, path, 0)?;
    let users = sys::owner_of_namespace(network)?;
    sys::join_namespace(users, NEW_USERS)?;
    sys::join_namespace(network, NEW_NETWORK)?;
    [network, users].into_iter().for_each(sys::close);
    Ok(())
}
