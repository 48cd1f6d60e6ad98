//! The calls that need `unsafe`: the list of interface addresses, and the `pre_exec` hook of the look-up process.
#![expect(unsafe_code, reason = "`getifaddrs` gives pointers, and `pre_exec` runs in a process that may do little")]

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::ptr;
use std::slice;

/// One address of an interface, as getifaddrs(3) gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InterfaceAddress {
    pub(crate) address: IpAddr,
    pub(crate) netmask: Option<IpAddr>,
    /// The other end of a point-to-point link, or the broadcast address of a network.
    pub(crate) peer: Option<IpAddr>,
}

/// The list of getifaddrs(3), freed on drop.
struct List(*mut libc::ifaddrs);

impl Drop for List {
    fn drop(&mut self) {
        // SAFETY: the list came from `getifaddrs` and is freed once; nothing read from it borrows from it.
        unsafe { libc::freeifaddrs(self.0) };
    }
}

/// Every address of every interface.
pub(crate) fn interface_addresses() -> io::Result<Vec<InterfaceAddress>> {
    let mut first = ptr::null_mut();
    // SAFETY: the pointer is a valid place for the list's first entry.
    if unsafe { libc::getifaddrs(&raw mut first) } != 0 {
        return Err(io::Error::last_os_error());
    }
    let list = List(first);
    let (mut found, mut next) = (Vec::new(), list.0);
    // SAFETY: null, or an entry of the list, which lives until the end of this function.
    while let Some(entry) = unsafe { next.as_ref() } {
        next = entry.ifa_next;
        // SAFETY: null, or an address that lives as long as the list.
        let Some(family) = (unsafe { entry.ifa_addr.as_ref() }).map(|address| i32::from(address.sa_family)) else {
            continue;
        };
        // SAFETY: null, or addresses of that family that live as long as the list.
        let read = |address| unsafe { read(address, family) };
        if let Some(address) = read(entry.ifa_addr) {
            found.push(InterfaceAddress { address, netmask: read(entry.ifa_netmask), peer: read(other_end(entry)) });
        }
    }
    Ok(found)
}

#[cfg(any(target_os = "linux", target_os = "android"))]
fn other_end(entry: &libc::ifaddrs) -> *mut libc::sockaddr {
    entry.ifa_ifu
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
fn other_end(entry: &libc::ifaddrs) -> *mut libc::sockaddr {
    entry.ifa_dstaddr
}

/// The address in a socket address of this family; none in another family's.
///
/// # Safety
///
/// The pointer is null or leads to a socket address of this family, as long as the system says that it is.
unsafe fn read(address: *const libc::sockaddr, family: i32) -> Option<IpAddr> {
    let whole = match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        _ => return None,
    };
    // SAFETY: as the caller promises.
    let length = length(unsafe { address.as_ref() }?, whole);
    // SAFETY: the socket address has that many bytes, as the caller promises.
    let given = unsafe { slice::from_raw_parts(address.cast::<u8>(), length) };
    // A netmask may be truncated after its last non-zero byte.
    let mut bytes = [0; size_of::<libc::sockaddr_in6>()];
    bytes.iter_mut().zip(given).for_each(|(byte, given)| *byte = *given);
    if family == libc::AF_INET {
        bytes.get(4..8)?.try_into().ok().map(|octets: [u8; 4]| Ipv4Addr::from(octets).into())
    } else {
        bytes.get(8..24)?.try_into().ok().map(|octets: [u8; 16]| Ipv6Addr::from(octets).into())
    }
}

#[cfg(target_vendor = "apple")]
fn length(address: &libc::sockaddr, whole: usize) -> usize {
    usize::from(address.sa_len).min(whole)
}

#[cfg(not(target_vendor = "apple"))]
fn length(_: &libc::sockaddr, whole: usize) -> usize {
    whole
}

/// Sets the parent-death signal, so that the process ends with the thread that starts it.
#[cfg(target_os = "linux")]
pub(crate) fn end_with_this_thread(command: &mut tokio::process::Command) {
    let parent = rustix::process::getpid();
    let before_program = move || {
        rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
        // If the parent has ended already, no signal comes.
        if rustix::process::getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::BrokenPipe.into()) }
    };
    // SAFETY: the closure makes two system calls and touches no memory that another thread of the parent could
    // have left half changed.
    unsafe { command.pre_exec(before_program) };
}
