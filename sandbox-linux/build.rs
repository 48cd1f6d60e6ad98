//! Compiles the launcher, a program without a C library, and leaves it where the library includes
//! it. It is not a Cargo target of its own: a library cannot depend on a program, and whoever uses
//! this crate should not have to install one.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=launcher");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("launcher");
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() != Ok("x86_64") {
        // The library finds it empty and says that this machine is not supported.
        let written = std::fs::write(&out, b"");
        assert!(written.is_ok(), "could not write {}: {written:?}", out.display());
        return;
    }
    let target = env::var("TARGET").unwrap_or_default();
    let flags = [
        "--edition=2024",
        "--crate-name=stockade_launcher",
        "--crate-type=bin",
        "-Cpanic=abort",
        "-Copt-level=2",
        "-Cstrip=symbols",
        "-Crelocation-model=static",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        // One page of headers less to map; the file is small enough to be read in one go.
        "-Clink-arg=-Wl,-z,noseparate-code",
    ];
    #[expect(clippy::disallowed_methods, reason = "a build script starts the compiler")]
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    let status = compiler.args(flags).arg("--target").arg(target).arg("-o").arg(&out).arg("launcher/main.rs").status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "the launcher does not compile: {status:?}");
}
