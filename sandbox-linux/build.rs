//! Compiles the launcher and the stub, programs without a C library, for inclusion in the library. They are no Cargo
//! targets: a library cannot depend on a program, and users of this crate should not have to install one.

use std::env;
use std::path::PathBuf;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-changed=launcher");
    println!("cargo:rerun-if-changed=stub");
    println!("cargo:rerun-if-changed=build.rs");
    if env::var("CARGO_CFG_TARGET_OS").as_deref() != Ok("linux") {
        return;
    }
    // The launcher's way into the kernel and the filter's lists are specific to a processor. For others the crate is empty.
    let processor = env::var("CARGO_CFG_TARGET_ARCH").unwrap_or_default();
    if !["x86_64", "aarch64"].contains(&processor.as_str()) {
        return;
    }
    compile("launcher", &processor);
    compile("stub", &processor);
}

/// Compiles the program in a directory of this name.
fn compile(name: &str, processor: &str) {
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join(name);
    let target = env::var("TARGET").unwrap_or_default();
    let flags = [
        "--edition=2024",
        "--crate-type=bin",
        "-Cpanic=abort",
        "-Copt-level=2",
        // The division into source files must not affect the result.
        "-Ccodegen-units=1",
        "-Cstrip=symbols",
        "-Crelocation-model=static",
        "-Clink-arg=-nostartfiles",
        "-Clink-arg=-nostdlib",
        "-Clink-arg=-static",
        // Saves a page of headers; the file is small enough to be read at once.
        "-Clink-arg=-Wl,-z,noseparate-code",
    ];
    #[expect(clippy::disallowed_methods, reason = "a build script starts the compiler")]
    let mut compiler = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    compiler.args(flags).arg(format!("--crate-name=stockade_{name}")).arg("--target").arg(target);
    if let Some(linker) = linker(processor) {
        compiler.arg(format!("-Clinker={linker}"));
    }
    let status = compiler.arg("-o").arg(&out).arg(format!("{name}/main.rs")).status();
    assert!(status.as_ref().is_ok_and(|status| status.success()), "the {name} does not compile: {status:?}");
}

/// The linker that Cargo was told to use for the target, or the usual name of the one for another processor.
fn linker(processor: &str) -> Option<String> {
    println!("cargo:rerun-if-env-changed=RUSTC_LINKER");
    let host = env::var("HOST").unwrap_or_default();
    let told = env::var("RUSTC_LINKER").ok();
    told.or_else(|| (!host.starts_with(processor)).then(|| format!("{processor}-linux-gnu-gcc")))
}
