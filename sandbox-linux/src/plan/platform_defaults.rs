//! The files that ordinary programs need to start.

/// Programs and libraries, and the files of `/etc` that the loader, the C library, TLS and terminals read. None of
/// them contains a secret.
pub const PLATFORM_DEFAULTS: &[&str] = &[
    // Programs and libraries.
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix/store",
    "/gnu/store",
    // The loader, and Debian's alternatives.
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/ld.so.preload",
    "/etc/alternatives",
    // Names of users, hosts and services.
    "/etc/passwd",
    "/etc/group",
    "/etc/nsswitch.conf",
    "/etc/host.conf",
    "/etc/hosts",
    "/etc/hostname",
    "/etc/resolv.conf",
    "/etc/gai.conf",
    "/etc/protocols",
    "/etc/services",
    "/etc/networks",
    // Certificates of authorities.
    "/etc/ssl/certs",
    "/etc/ssl/openssl.cnf",
    "/etc/ca-certificates",
    "/etc/ca-certificates.conf",
    "/etc/pki/tls/certs",
    "/etc/pki/ca-trust",
    // Time, language and terminals.
    "/etc/localtime",
    "/etc/timezone",
    "/etc/locale.alias",
    "/etc/locale.conf",
    "/etc/default/locale",
    "/etc/terminfo",
    "/etc/inputrc",
    "/etc/os-release",
    "/etc/lsb-release",
    "/etc/debian_version",
    "/etc/mime.types",
];
