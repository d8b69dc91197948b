//! What `vfio/order` compiles to on each architecture that it knows, held against the encodings of Linux's accessors.
//!
//! The bytes are GNU as's (binutils 2.40) for the instructions beside them. Running the code would show nothing: emulators keep more
//! order than the architectures promise.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

use object::{Object, ObjectSection};
use std::path::Path;
use std::process::Command;

/// The bytes of a function, which has a section of its own. (Its symbol is another thing on powerpc64: a descriptor.)
fn code(object: &object::File<'_>, function: &str) -> Vec<u8> {
    object.section_by_name(&format!(".text.{function}")).unwrap().data().unwrap().to_vec()
}

/// Compiles the accessors, and says what bytes reading and writing come to.
fn compile(target: &str) -> (Vec<u8>, Vec<u8>) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/register_order/accessors.rs");
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("accessors.o");
    let compiler = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let mut compile = Command::new(compiler);
    compile.args(["--edition=2024", "--crate-type=lib", "--emit=obj", "-Copt-level=3", "-Cpanic=abort"]);
    compile.arg(format!("--target={target}")).arg("-o").arg(&file).arg(source);
    // The items of a core library are for the compiler's own library only; a stable compiler takes them when told so.
    let output = compile.env("RUSTC_BOOTSTRAP", "1").output().unwrap();
    assert!(output.status.success(), "{target}: {}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(file).unwrap();
    let object = object::File::parse(&*bytes).unwrap();
    (code(&object, "read"), code(&object, "write"))
}

fn expect(target: &str, what: &str, code: &[u8], expected: &[u8]) {
    let is_there = code.windows(expected.len()).any(|window| window == expected);
    assert!(is_there, "{target} {what}: {code:02x?}; expected {expected:02x?} in it");
}

fn words(words: &[u32], bytes: fn(u32) -> [u8; 4]) -> Vec<u8> {
    words.iter().flat_map(|word| bytes(*word)).collect()
}

#[test]
fn riscv64_orders_device_accesses_with_memory() {
    let target = "riscv64gc-unknown-linux-gnu";
    let (read, write) = compile(target);
    // ld a0,0(a0), compressed; fence i,irw
    expect(target, "read", &read, &[0x08, 0x61, 0x0f, 0x00, 0xb0, 0x08]);
    // fence rw,o; sw a1,0(a0), compressed
    expect(target, "write", &write, &[0x0f, 0x00, 0x40, 0x03, 0x0c, 0xc1]);
}

#[test]
fn arm64_orders_accesses_for_the_outer_domain() {
    let target = "aarch64-unknown-linux-gnu";
    let (read, write) = compile(target);
    // ldr x0,[x0]; dmb oshld; cbnz x0,.+4
    let expected = [0xf940_0000, 0xd503_31bf, 0xb500_0020];
    expect(target, "read", &read, &words(&expected, u32::to_le_bytes));
    // dmb oshld; dmb oshst; str w1,[x0]
    let expected = [0xd503_31bf, 0xd503_32bf, 0xb900_0001];
    expect(target, "write", &write, &words(&expected, u32::to_le_bytes));
}

#[test]
fn power_waits_before_and_behind() {
    let check = |target: &str, bytes: fn(u32) -> [u8; 4]| {
        let (read, write) = compile(target);
        // hwsync; ld r3,0(r3); twi 0,r3,0; isync
        let expected = [0x7c00_04ac, 0xe863_0000, 0x0c03_0000, 0x4c00_012c];
        expect(target, "read", &read, &words(&expected, bytes));
        // hwsync; stw r4,0(r3)
        expect(target, "write", &write, &words(&[0x7c00_04ac, 0x9083_0000], bytes));
    };
    check("powerpc64le-unknown-linux-gnu", u32::to_le_bytes);
    check("powerpc64-unknown-linux-gnu", u32::to_be_bytes);
}

/// A doorbell costs one instruction there, as without any barrier.
#[test]
fn x86_needs_no_instruction() {
    let target = "x86_64-unknown-linux-gnu";
    let (read, write) = compile(target);
    // mov rax,[rdi]; ret
    assert_eq!(read, [0x48, 0x8b, 0x07, 0xc3]);
    // mov [rdi],esi; ret
    assert_eq!(write, [0x89, 0x37, 0xc3]);
}
