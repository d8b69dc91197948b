//! Links the program at fixed addresses: the plugin recognises marks by their addresses, and the lab looks up functions
//! in the symbol table.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // Without ASLR, so that functions are at the addresses in the symbol table.
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-Wl,--section-start=.marks=0x70000000");
    }
}
