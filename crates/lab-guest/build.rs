//! Where the program is linked: the plugin knows its marks by their addresses, and the lab its functions.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("CARGO_CFG_TARGET_OS").is_ok_and(|os| os == "linux") {
        // Functions are where the symbols say.
        println!("cargo::rustc-link-arg-bins=-no-pie");
        println!("cargo::rustc-link-arg-bins=-Wl,--section-start=.marks=0x70000000");
    }
}
