//! Name resolution, outside the sandbox and only for allowed names.
//!
//! On Linux the host's `getent` resolves names: a separate process, so that the C library parses the name server's
//! response outside the supervising process, and with the host's name services (NSS), which a statically linked
//! program can't load.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use stockade_protocol::HostName;

use crate::approvals::BoxFuture;

/// Looks names up.
pub trait Resolver: Send + Sync {
    /// The addresses of a name in order of preference. An error or an empty list is a denial.
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>>;
}

/// The host's own resolver.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

/// Longer than a resolver's timeout for one server.
const LONGEST_LOOK_UP: Duration = Duration::from_secs(15);

impl Resolver for SystemResolver {
    fn resolve(&self, name: HostName) -> BoxFuture<'_, io::Result<Vec<IpAddr>>> {
        Box::pin(async move {
            let found = tokio::time::timeout(LONGEST_LOOK_UP, look_up(&name));
            found.await.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
        })
    }
}

async fn look_up(name: &HostName) -> io::Result<Vec<IpAddr>> {
    #[cfg(target_os = "linux")]
    if let Some(program) = getent::find() {
        return getent::look_up(program, name).await;
    }
    // The port is unused but required.
    let found = tokio::net::lookup_host((name.as_str(), 0_u16)).await?;
    Ok(found.map(|address| address.ip()).collect())
}

#[cfg(target_os = "linux")]
mod getent {
    use std::path::Path;
    use std::process::Stdio;

    use super::{HostName, IpAddr, io};

    /// Paths on common systems and on NixOS. `PATH` is never searched.
    const PLACES: [&str; 3] = ["/usr/bin/getent", "/bin/getent", "/run/current-system/sw/bin/getent"];

    pub(super) fn find() -> Option<&'static Path> {
        PLACES.iter().map(Path::new).find(|path| path.is_file())
    }

    pub(super) async fn look_up(program: &Path, name: &HostName) -> io::Result<Vec<IpAddr>> {
        let mut command = tokio::process::Command::new(program);
        command.args(["ahosts", "--", name.as_str()]).env_clear().current_dir("/").kill_on_drop(true);
        // Rules name fully qualified hosts, so a missing one is not searched for below the host's search domains.
        // Those are for single labels.
        if name.as_str().contains('.') {
            command.env("LOCALDOMAIN", ".");
        }
        // `kill_on_drop` does nothing if this process exits without running destructors.
        crate::sys::end_with_this_thread(&mut command);
        let answer = command.stdin(Stdio::null()).stderr(Stdio::null()).output().await?;
        if !answer.status.success() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the host's resolver does not know the name"));
        }
        Ok(addresses(&String::from_utf8_lossy(&answer.stdout)))
    }

    /// The first word of each line, without the repetitions for other socket types.
    pub(super) fn addresses(text: &str) -> Vec<IpAddr> {
        let mut found = Vec::new();
        for address in text.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()) {
            if !found.contains(&address) {
                found.push(address);
            }
        }
        found
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests {
    use stockade_protocol::Host;

    use super::*;

    fn name(text: &str) -> HostName {
        let Host::Name(name) = text.parse().unwrap() else { panic!("`{text}` is an address") };
        name
    }

    #[tokio::test]
    async fn search_domains_are_for_single_labels() {
        let directory = tempfile::tempdir().unwrap();
        let stand_in = directory.path().join("getent");
        std::fs::write(&stand_in, "#!/bin/sh\n[ \"$LOCALDOMAIN\" = . ] && echo 192.0.2.1 || echo 192.0.2.2\n").unwrap();
        std::fs::set_permissions(&stand_in, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        for (host, answer) in [("ghost.test", "192.0.2.1"), ("db", "192.0.2.2")] {
            let found = getent::look_up(&stand_in, &name(host)).await.unwrap();
            assert_eq!(found, [answer.parse::<IpAddr>().unwrap()], "{host}");
        }
    }

    #[tokio::test]
    async fn the_hosts_own_names_are_found() {
        assert!(getent::find().is_some(), "this host has no `getent`");
        let found = SystemResolver.resolve(name("localhost")).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
    }

    #[tokio::test]
    async fn what_nobody_knows_is_an_error() {
        // Stands for a `getent` without a result: tests send no DNS query.
        let error = getent::look_up(std::path::Path::new("/bin/false"), &name("evil.test")).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{error}");
    }

    #[test]
    fn addresses_are_listed_once_and_in_order() {
        let text = "2001:db8::1     STREAM good.test\n2001:db8::1     DGRAM\n192.0.2.7       STREAM\nnonsense here\n\n";
        let expected: [IpAddr; 2] = ["2001:db8::1".parse().unwrap(), "192.0.2.7".parse().unwrap()];
        assert_eq!(getent::addresses(text), expected);
    }
}
