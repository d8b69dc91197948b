//! Memory that a host encrypts for itself (AMD SME), and what its devices do with it.
//!
//! The encryption bit is part of each bus address: bit 47, since family 19h bit 51 (CPUID 8000_001F, EBX). A device whose mask
//! does not reach it can't be given the address of any buffer, wherever memory ends (arch/x86/include/asm/dma-direct.h,
//! `phys_to_dma`; kernel/dma/direct.h, `dma_direct_map_page`). Where an IOMMU translates, the bit is in its tables instead.

use super::log::LogFacts;
use super::platform::Platform;
use crate::Citation;
use crate::kernel::verdict::TokenVerdict;

/// The lowest bit that any processor marks encrypted memory with.
const LOWEST_BIT: u32 = 47;
/// x86 gives the bounce buffers no more than this by itself, except in guests with encrypted memory (`mem_encrypt_setup_arch`).
const POOL_BYTES_MAX: u64 = 64 << 20;

/// A host's memory is encrypted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostEncryption {
    /// Whether the kernel says so, and not only its command line.
    pub is_in_effect: bool,
    /// The line or the option.
    pub at: Citation,
}

impl HostEncryption {
    /// Whether a mask of so many bits reaches no encrypted buffer, on any processor.
    pub fn is_beyond(&self, mask_bits: u32) -> bool {
        mask_bits <= LOWEST_BIT
    }
}

/// Whether the host encrypts its memory: by the kernel's word, or where that may be missing by the command line.
pub(super) fn read(log: &LogFacts, platform: &Platform, options: &[TokenVerdict]) -> Option<HostEncryption> {
    if let Some(at) = &log.host_encryption {
        return Some(HostEncryption { is_in_effect: true, at: at.clone() });
    }
    let is_amd = platform.cpu_vendor.as_ref().is_none_or(|vendor| vendor.value.has_amd_vi());
    if log.covers_boot || log.memory_encryption.is_some() || platform.is_guest() || !is_amd {
        return None;
    }
    let asked = options.iter().rfind(|judged| judged.token.is(OPTION))?;
    (asked.part == "mem_encrypt=on")
        .then(|| HostEncryption { is_in_effect: false, at: asked.token.at.clone() })
}

/// The option that turns it on and off.
pub const OPTION: &str = "mem_encrypt";

/// Whether the kernel's word that encrypted memory is bounced comes from a confidential guest: then all DMA is. A host with SME
/// says the same of single devices.
pub(super) fn is_of_guest(log: &LogFacts, platform: &Platform, slots_asked: bool) -> bool {
    let is_x86 = platform.architecture.as_ref().is_none_or(crate::kernel::Architecture::is_x86);
    let pool = log.swiotlb_bytes.as_ref();
    let is_enlarged = !slots_asked && pool.is_some_and(|pool| pool.value > POOL_BYTES_MAX);
    log.host_encryption.is_none() && (platform.is_guest() || !is_x86 || is_enlarged)
}
