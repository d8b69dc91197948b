//! How this program was compiled: a section of the file, never loaded, which the lab copies into toll sheets.

#![allow(unsafe_code, reason = "only assembly can write a section that is not loaded")]

std::arch::global_asm!(
    ".pushsection .compiler_flags, \"\", %progbits",
    concat!(".byte ", env!("COMPILER_FLAGS")),
    ".popsection",
);
