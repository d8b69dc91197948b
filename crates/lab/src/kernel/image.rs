//! Checks that a file is a kernel image that QEMU can boot, so that a mistake is an error and not a guest that prints nothing.

use super::KernelError;
use crate::Arch;
use flate2::read::GzDecoder;
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// More than the offset of any mark.
const HEAD_BYTES: u64 = 4096;
/// The lowest address of a POWER kernel.
const PPC_KERNEL_BASE: u64 = 0xc000_0000_0000_0000;
/// The beginning of a gzip file (RFC 1952, 2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// Checks an image by the marks in its first bytes.
///
/// # Errors
/// [`KernelError::Image`] if it can't be read, or [`KernelError::NotAKernel`].
pub(super) fn check(arch: Arch, path: &Path) -> Result<(), KernelError> {
    let mut head = Vec::new();
    let read = File::open(path).and_then(|file| file.take(HEAD_BYTES).read_to_end(&mut head));
    read.map_err(|source| KernelError::Image { path: path.to_owned(), source })?;
    match is_kernel(arch, &head) {
        true => Ok(()),
        false => Err(KernelError::NotAKernel { path: path.to_owned(), arch, expected: expected(arch) }),
    }
}

/// The images that QEMU boots on an architecture, and their marks, in words.
fn expected(arch: Arch) -> &'static str {
    match arch {
        Arch::X86 => "a bzImage, with `HdrS` at byte 0x202",
        Arch::Arm => "an Image, with `ARM\\x64` at byte 0x38, also packed by gzip or as vmlinuz.efi",
        Arch::Ppc => "a vmlinux, an ELF file of 64-bit PowerPC that begins at 0xc000000000000000 or above",
    }
}

/// Whether these are the first bytes of a kernel image.
fn is_kernel(arch: Arch, head: &[u8]) -> bool {
    let has = |at: usize, mark: &[u8]| head.get(at..at + mark.len()) == Some(mark);
    match arch {
        // Documentation/x86/boot.rst, "The Real-Mode Kernel Header".
        Arch::X86 => has(0x1fe, &[0x55, 0xaa]) && has(0x202, b"HdrS"),
        Arch::Arm if head.starts_with(&GZIP) => {
            let mut unpacked = Vec::new();
            // The file is cut, so the end is an error; what came before it is there.
            let _ = GzDecoder::new(head).take(HEAD_BYTES).read_to_end(&mut unpacked);
            !unpacked.starts_with(&GZIP) && is_kernel(arch, &unpacked)
        }
        // Documentation/arm64/booting.rst; drivers/firmware/efi/libstub/zboot-header.S.
        Arch::Arm => has(0x38, b"ARM\x64") || (has(0, b"MZ") && has(4, b"zimg")),
        // ELF-64 object file format: class 2, machine 21, in either byte order. The entry is in the kernel's linear map
        // (arch/powerpc/include/asm/page.h, KERNELBASE), where no program is.
        Arch::Ppc => {
            let entry = head.get(24..32).and_then(|bytes| bytes.try_into().ok()).unwrap_or_default();
            has(0, b"\x7fELF\x02")
                && ((has(18, &[21, 0]) && u64::from_le_bytes(entry) >= PPC_KERNEL_BASE)
                    || (has(18, &[0, 21]) && u64::from_be_bytes(entry) >= PPC_KERNEL_BASE))
        }
    }
}

/// The marks of a bzImage, and nothing else.
#[cfg(test)]
pub(super) fn bz_image() -> Vec<u8> {
    let mut image = vec![0; 1024];
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use flate2::{Compression, write::GzEncoder};
    use std::io::Write;

    fn with(at: usize, mark: &[u8]) -> Vec<u8> {
        let mut image = vec![0; 2048];
        image[at..at + mark.len()].copy_from_slice(mark);
        image
    }

    /// The head of a little-endian ELF file of 64-bit PowerPC.
    fn elf_of_ppc(entry: u64) -> Vec<u8> {
        [&b"\x7fELF\x02\x01\x01"[..], &[0; 11], &[21, 0, 0, 0, 0, 0], &entry.to_le_bytes()].concat()
    }

    #[test]
    fn images_are_known_by_their_marks() {
        let arm = with(0x38, b"ARM\x64");
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&arm).unwrap();
        let ppc = elf_of_ppc(PPC_KERNEL_BASE);
        let images = [
            (Arch::X86, bz_image()),
            (Arch::Arm, arm),
            (Arch::Arm, packed.finish().unwrap()),
            (Arch::Ppc, ppc),
        ];
        for (own, image) in &images {
            for arch in Arch::ALL {
                assert_eq!(is_kernel(arch, image), arch == *own, "{own} as {arch}");
            }
        }
        let program = elf_of_ppc(0x1000_0000);
        for image in [&b""[..], b"MZ", b"\x7fELF\x02", &GZIP, &program] {
            assert!(Arch::ALL.into_iter().all(|arch| !is_kernel(arch, image)));
        }
    }

    #[test]
    fn a_file_that_is_no_kernel_is_refused_with_what_was_expected() {
        let this = std::env::current_exe().unwrap();
        let error = check(Arch::X86, &this).unwrap_err().to_string();
        assert!(
            error.ends_with("is not a kernel for x86; expected a bzImage, with `HdrS` at byte 0x202"),
            "{error}"
        );
    }
}
