//! What ordinary programs read on a Mac, each with its reason.

use stockade_protocol::AbsPath;

/// Directories and files that a program needs to start, with why.
const DEFAULTS: &[(&str, &str)] = &[
    ("/bin", "shells and the basic commands"),
    ("/sbin", "mounting and networking commands that scripts ask for facts"),
    ("/usr/bin", "commands"),
    ("/usr/sbin", "commands"),
    ("/usr/lib", "the loader, libraries, and what is left of them outside of the shared cache"),
    ("/usr/libexec", "helpers of commands: `path_helper`, `xcrun`'s shims, `java_home`"),
    ("/usr/share", "locales, terminal descriptions, time zones, certificates for `curl`"),
    ("/usr/local", "programs of Homebrew on Intel, and of installers"),
    ("/opt/homebrew", "programs of Homebrew on Apple silicon"),
    ("/System/Library", "frameworks, and the version of the system"),
    ("/System/iOSSupport", "frameworks shared with iOS"),
    ("/System/Cryptexes", "a link to the next"),
    ("/System/Volumes/Preboot/Cryptexes", "the loader's shared cache of all libraries of the system"),
    ("/Library/Apple", "parts of the system that are updated apart, such as Rosetta"),
    ("/Library/Developer", "compilers and headers of the command line tools"),
    ("/Library/Frameworks", "frameworks of installers, such as Python's"),
    ("/Library/Java", "Java's virtual machines"),
    ("/Library/Perl", "modules of the system's Perl"),
    ("/Library/Ruby", "modules of the system's Ruby"),
    ("/Applications/Xcode.app", "compilers and headers of Xcode"),
    ("/private/etc", "shells' start files, hosts, certificates, time zone"),
    ("/private/var/db/dyld", "the loader's cache before macOS 11"),
    ("/private/var/db/oah", "programs that Rosetta has translated"),
    ("/private/var/db/timezone", "time zones"),
    ("/private/var/db/xcode_select_link", "which compilers are in use"),
    ("/private/var/run/resolv.conf", "name servers: where `/etc/resolv.conf` leads"),
    ("/private/var/select", "which shell is `/bin/sh`, and which compilers are in use"),
    ("/etc", "a link to `/private/etc`"),
];

/// The paths that a policy with restricted reads and `include_platform_defaults` lets a command read on
/// a Mac, for [`HostPaths`](stockade_protocol::HostPaths).
pub fn platform_defaults() -> Vec<AbsPath> {
    DEFAULTS.iter().filter_map(|(path, _)| path.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_a_path_with_a_reason() {
        assert_eq!(platform_defaults().len(), DEFAULTS.len());
        assert!(DEFAULTS.iter().all(|(_, reason)| !reason.is_empty()));
    }

    #[test]
    fn no_default_holds_a_persons_own_files() {
        for path in platform_defaults() {
            for private in ["/Users/me/x", "/private/var/folders/x", "/private/tmp/x", "/private/var/db/sudo"] {
                assert!(!private.parse::<AbsPath>().unwrap().starts_with(&path), "{path}");
            }
        }
    }
}
