//! Looking names up, outside the sandbox and only after the name was allowed.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use stockade_protocol::HostName;

use crate::approvals::BoxFuture;

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// The addresses of a name, the preferred first. An error, or none, is a denial.
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;
}

/// The host's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

/// Longer than a resolver tries by itself before it asks the next server.
const LONGEST_LOOK_UP: Duration = Duration::from_secs(15);

impl Resolver for SystemResolver {
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            // The port is not used; the function wants one.
            let found = tokio::time::timeout(LONGEST_LOOK_UP, tokio::net::lookup_host((name.as_str(), 0_u16)));
            let found = found.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            Ok(found.map(|address| address.ip()).collect())
        })
    }
}
