//! Decides in one place whether the target has restartable sequences: sets `sequences` if there is assembly for it.

use std::env;
use std::process::Command;

/// The first release of Rust whose `asm!` is stable on PowerPC.
const POWERPC_MINOR: u32 = 95;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=RUSTC_BOOTSTRAP");
    println!("cargo::rustc-check-cfg=cfg(sequences)");
    let target = |name: &str| env::var(format!("CARGO_CFG_TARGET_{name}")).unwrap_or_default();
    let is_linux64 =
        target("OS") == "linux" && target("POINTER_WIDTH") == "64" && target("ENDIAN") == "little";
    let has_sequences = match target("ARCH").as_str() {
        "x86_64" | "aarch64" => true,
        "powerpc64" => asm_is_stable_on_powerpc(),
        _ => false,
    };
    if is_linux64 && has_sequences {
        println!("cargo::rustc-cfg=sequences");
    }
}

/// Whether the compiler takes `asm!` for PowerPC: by its release, or because unstable features are allowed.
fn asm_is_stable_on_powerpc() -> bool {
    if env::var("RUSTC_BOOTSTRAP").is_ok_and(|value| value == "1") {
        return true;
    }
    let compiler = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(compiler).arg("--version").output();
    let text = output.map(|output| String::from_utf8_lossy(&output.stdout).into_owned()).unwrap_or_default();
    // As in `rustc 1.95.0 (59807616e 2026-04-14)`.
    let minor = text.split_once(" 1.").and_then(|(_, rest)| rest.split('.').next()?.parse().ok());
    minor.is_some_and(|minor: u32| minor >= POWERPC_MINOR)
}
