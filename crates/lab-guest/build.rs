//! Links the program at fixed addresses: the plugin recognises marks by their addresses, and the lab looks up functions
//! in the symbol table. Tells the program how it is compiled.

use std::env::{VarError, var};

/// At fixed addresses, so that functions are where the symbol table says; and the marks at theirs.
const LINK_ARGUMENTS: [&str; 2] = ["-no-pie", "-Wl,--section-start=.marks=0x70000000"];

fn main() -> Result<(), VarError> {
    println!("cargo::rerun-if-changed=build.rs");
    let is_linux = var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux");
    let link_arguments = if is_linux { &LINK_ARGUMENTS[..] } else { &[] };
    for argument in link_arguments {
        println!("cargo::rustc-link-arg-bins={argument}");
    }
    println!("cargo::rustc-env=COMPILER_FLAGS={}", as_byte_list(&compiler_flags(link_arguments)?));
    Ok(())
}

/// The compiler's flags that change the program, as far as cargo tells them to a build script.
fn compiler_flags(link_arguments: &[&str]) -> Result<Vec<String>, VarError> {
    let mut flags =
        vec![format!("--target={}", var("TARGET")?), format!("-Copt-level={}", var("OPT_LEVEL")?)];
    flags.extend(link_arguments.iter().map(|argument| format!("-Clink-arg={argument}")));
    let given = var("CARGO_ENCODED_RUSTFLAGS")?;
    // What the program calls the folders of its sources changes no instruction, and would name a folder of this host.
    let changes_it = |flag: &&str| !flag.is_empty() && !flag.starts_with("--remap-path-prefix");
    flags.extend(given.split('\x1f').filter(changes_it).map(str::to_owned));
    Ok(flags)
}

/// Flags, each with a zero behind it, as operands of an assembler's `.byte`.
fn as_byte_list(flags: &[String]) -> String {
    let bytes = flags.iter().flat_map(|flag| flag.bytes().chain([0]));
    bytes.map(|byte| byte.to_string()).collect::<Vec<_>>().join(",")
}
