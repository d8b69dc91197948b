//! The kernel options that decide how DMA is mapped, one table.
//!
//! Read from Documentation/admin-guide/kernel-parameters.txt and from the parsers themselves:
//! arch/x86/kernel/pci-dma.c, drivers/iommu/{iommu,intel/iommu,amd/init}.c, drivers/pci/pci.c,
//! kernel/dma/swiotlb.c, arch/powerpc/platforms/pseries/iommu.c, arch/x86/kernel/e820.c. Trees between
//! 2.6.18 and 7.2 were compared; an option dated "absent in 5.10" may have come in any later tree up to
//! the next one read.

use super::{Architecture, CpuVendor, Effect};

/// Where an option means something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Platform {
    /// Everywhere.
    Every,
    /// x86 of any vendor.
    X86,
    /// x86 with VT-d.
    VtD,
    /// x86 with AMD-Vi.
    AmdVi,
    /// POWER.
    Power,
    /// Arm.
    Arm,
    /// IBM Z.
    S390,
}

impl Platform {
    /// Whether kernels for `architecture` know options of this platform.
    pub fn runs_on(self, architecture: &Architecture) -> bool {
        match self {
            Self::Every => true,
            Self::X86 | Self::VtD | Self::AmdVi => architecture.is_x86(),
            Self::Power => architecture.is_power(),
            Self::Arm => architecture.is_arm(),
            Self::S390 => *architecture == Architecture::S390x,
        }
    }

    /// Whether options of this platform do nothing on this vendor's processors.
    pub fn is_foreign_to(self, vendor: &CpuVendor) -> bool {
        match self {
            Self::VtD => vendor.has_amd_vi(),
            Self::AmdVi => vendor.has_vt_d(),
            _ => false,
        }
    }

    /// The platform in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Every => "every architecture",
            Self::X86 => "x86",
            Self::VtD => "x86 with Intel VT-d",
            Self::AmdVi => "x86 with AMD-Vi",
            Self::Power => "POWER",
            Self::Arm => "Arm",
            Self::S390 => "IBM Z",
        }
    }
}

/// Which vanilla kernels know an option or a word, as far as the trees read tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// The newest tree read that does not know it yet.
    pub absent: Option<(u16, u16)>,
    /// The oldest tree read that no longer knows it.
    pub gone: Option<(u16, u16)>,
    /// The only release of RHEL that knows it, where Red Hat added it on its own.
    pub only_rhel: Option<u16>,
}

/// Known in every tree read.
pub const ALWAYS: Span = Span { absent: None, gone: None, only_rhel: None };

/// How the words of a list are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Match {
    /// The word must be the same.
    Whole,
    /// The word must begin so: the parser uses `strncmp` with the length of its own word.
    Start,
}

/// What may stand after the `=`.
#[derive(Debug, Clone, Copy)]
pub enum Grammar {
    /// Nothing; the name alone is the option.
    Flag(Option<fn() -> Effect>),
    /// A truth value as `kstrtobool` reads it.
    Bool(Option<fn(bool) -> Effect>),
    /// Words from a list, separated by commas.
    Words(Match, &'static [Word]),
    /// Anything at all: the kernel reads it and nothing comes of it, for the reason given.
    Inert(&'static str),
    /// Anything that the function accepts; the text says what it expects.
    Value(&'static str, fn(&str) -> Option<Vec<Effect>>),
}

/// One word of a word list.
#[derive(Debug, Clone, Copy)]
pub struct Word {
    /// The word; one that ends in `=` takes a value of its own.
    pub word: &'static str,
    /// What it does, in one line.
    pub meaning: &'static str,
    /// What it asks for, given what follows the word.
    pub effect: Option<fn(&str) -> Effect>,
    /// Which kernels know it.
    pub span: Span,
    /// What newer kernels want instead, since the version they say so.
    pub instead: Option<(&'static str, (u16, u16))>,
}

/// One option.
#[derive(Debug, Clone, Copy)]
pub struct OptionFacts {
    /// Name with underscores; modules' options carry the module's name and a dot.
    pub name: &'static str,
    /// Where it means something.
    pub platform: Platform,
    /// Which kernels know it.
    pub span: Span,
    /// Its value.
    pub grammar: Grammar,
    /// What it does, in one line.
    pub meaning: &'static str,
}

const fn option(
    name: &'static str,
    platform: Platform,
    grammar: Grammar,
    meaning: &'static str,
) -> OptionFacts {
    OptionFacts { name, platform, span: ALWAYS, grammar, meaning }
}

impl OptionFacts {
    const fn absent_in(mut self, major: u16, minor: u16) -> Self {
        self.span.absent = Some((major, minor));
        self
    }

    const fn gone_in(mut self, major: u16, minor: u16) -> Self {
        self.span.gone = Some((major, minor));
        self
    }
}

const fn word(word: &'static str, meaning: &'static str) -> Word {
    Word { word, meaning, effect: None, span: ALWAYS, instead: None }
}

const fn asks(word: &'static str, effect: fn(&str) -> Effect, meaning: &'static str) -> Word {
    Word { word, meaning, effect: Some(effect), span: ALWAYS, instead: None }
}

impl Word {
    const fn absent_in(mut self, major: u16, minor: u16) -> Self {
        self.span.absent = Some((major, minor));
        self
    }

    const fn gone_in(mut self, major: u16, minor: u16) -> Self {
        self.span.gone = Some((major, minor));
        self
    }

    const fn only_rhel(mut self, major: u16) -> Self {
        self.span.only_rhel = Some(major);
        self
    }

    const fn instead(mut self, other: &'static str, since: (u16, u16)) -> Self {
        self.instead = Some((other, since));
        self
    }
}

/// Every option of the table with this name, on whatever platform: x86 and POWER both have an `iommu=`.
pub fn named(name: &str) -> impl Iterator<Item = &'static OptionFacts> {
    OPTIONS.iter().filter(move |option| super::command_line::same_name(option.name, name))
}

/// The options that concern DMA.
pub const OPTIONS: &[OptionFacts] = &[
    // The IOMMU core. Of options that stand here twice the first whose platform fits counts.
    option(
        "iommu.passthrough",
        Platform::X86,
        Grammar::Bool(Some(Effect::Passthrough)),
        "default domains are identity (1) or translated (0)",
    )
    .absent_in(4, 19),
    option(
        "iommu.passthrough",
        Platform::Power,
        Grammar::Inert(POWER_NO_CORE),
        "a setting of the IOMMU core",
    ),
    option(
        "iommu.passthrough",
        Platform::Every,
        Grammar::Bool(Some(Effect::Passthrough)),
        "default domains are identity (1) or translated (0)",
    )
    .absent_in(4, 9),
    option(
        "iommu.strict",
        Platform::X86,
        Grammar::Bool(Some(Effect::Strict)),
        "invalidate the IOTLB at each unmap (1) or in batches (0)",
    )
    .absent_in(5, 10),
    option("iommu.strict", Platform::Power, Grammar::Inert(POWER_NO_CORE), "a setting of the IOMMU core"),
    option(
        "iommu.strict",
        Platform::S390,
        Grammar::Bool(Some(Effect::Strict)),
        "invalidate the IOTLB at each unmap (1) or in batches (0)",
    )
    .absent_in(6, 1),
    option(
        "iommu.strict",
        Platform::Every,
        Grammar::Bool(Some(Effect::Strict)),
        "invalidate the IOTLB at each unmap (1) or in batches (0)",
    )
    .absent_in(4, 19),
    option("iommu.forcedac", Platform::Power, Grammar::Inert(POWER_NO_CORE), "a setting of the IOMMU core"),
    option(
        "iommu.forcedac",
        Platform::Every,
        Grammar::Bool(Some(Effect::ForceDac)),
        "do not try I/O addresses below 4 GiB first",
    )
    .absent_in(5, 10),
    // x86
    option(
        "iommu",
        Platform::X86,
        Grammar::Words(Match::Start, X86_IOMMU),
        "x86's IOMMU and bounce buffer settings",
    ),
    option("intel_iommu", Platform::VtD, Grammar::Words(Match::Start, INTEL_IOMMU), "VT-d's settings"),
    option("amd_iommu", Platform::AmdVi, Grammar::Words(Match::Start, AMD_IOMMU), "AMD-Vi's settings"),
    option(
        "amd_iommu_intr",
        Platform::AmdVi,
        Grammar::Words(Match::Start, &[word("legacy", "no virtual APIC"), word("vapic", "virtual APIC")]),
        "how AMD-Vi remaps interrupts",
    ),
    option("amd_iommu_dump", Platform::AmdVi, Grammar::Value("1", any), "print AMD-Vi's ACPI tables"),
    option(
        "ivrs_ioapic",
        Platform::AmdVi,
        Grammar::Value("[id]=bus:dev.fn", any),
        "overrides ACPI's IVRS table",
    ),
    option(
        "ivrs_hpet",
        Platform::AmdVi,
        Grammar::Value("[id]=bus:dev.fn", any),
        "overrides ACPI's IVRS table",
    ),
    option(
        "intremap",
        Platform::X86,
        Grammar::Words(
            Match::Start,
            &[
                word("on", "remap interrupts"),
                word("off", "do not remap interrupts"),
                word("nosid", "do not check interrupt sources"),
                word("no_x2apic_optout", "ignore the firmware's wish for xAPIC"),
                word("nopost", "do not post interrupts to guests"),
                word("posted_msi", "deliver MSIs posted"),
            ],
        ),
        "interrupt remapping, which uses the IOMMU but translates no DMA",
    ),
    option(
        "calgary",
        Platform::X86,
        Grammar::Words(
            Match::Start,
            &[
                word("64k", "table size"),
                word("128k", "table size"),
                word("256k", "table size"),
                word("512k", "table size"),
                word("1M", "table size"),
                word("2M", "table size"),
                word("4M", "table size"),
                word("8M", "table size"),
                word("translate_empty_slots", "translate empty slots"),
                word("disable=", "do not translate this bus"),
            ],
        ),
        "IBM's Calgary IOMMU",
    )
    .gone_in(5, 10),
    option(
        "mem_encrypt",
        Platform::X86,
        Grammar::Words(
            Match::Whole,
            &[
                word("on", "encrypt memory: devices that cannot set the encryption bit bounce"),
                word("off", "do not encrypt memory"),
            ],
        ),
        "AMD's memory encryption",
    )
    .absent_in(4, 9),
    // POWER
    option("iommu", Platform::Power, Grammar::Words(Match::Whole, POWER_IOMMU), "POWER's IOMMU settings"),
    option(
        "disable_ddw",
        Platform::Power,
        Grammar::Flag(Some(|| Effect::DirectWindow(false))),
        "no 64-bit DMA windows: every adapter maps through its 32-bit window",
    ),
    option(
        "multitce",
        Platform::Power,
        Grammar::Words(
            Match::Whole,
            &[asks("off", |_| Effect::MultiTce(false), "one hypercall for each translation entry")],
        ),
        "hypercalls that write many translation entries at once",
    ),
    option(
        "eeh",
        Platform::Power,
        Grammar::Words(
            Match::Whole,
            &[
                asks("off", |_| Effect::Eeh(false), "no recovery of frozen adapters"),
                word("early_log", "log errors before recovery starts"),
            ],
        ),
        "recovery from PCI errors",
    ),
    option(
        "svm",
        Platform::Power,
        Grammar::Bool(None),
        "run as a secure guest, whose DMA goes through bounce buffers",
    )
    .absent_in(4, 19),
    // Arm and Z
    option(
        "arm_smmu.disable_bypass",
        Platform::Arm,
        Grammar::Bool(None),
        "block (1) or pass (0) DMA of devices without a domain",
    ),
    option("arm_smmu.force_stage", Platform::Arm, Grammar::Value("1 or 2", any), "use one stage only"),
    option(
        "arm_smmu_v3.disable_bypass",
        Platform::Arm,
        Grammar::Bool(None),
        "block (1) or pass (0) DMA of devices without a domain",
    ),
    option(
        "arm_smmu_v3.disable_msipolling",
        Platform::Arm,
        Grammar::Bool(None),
        "wait for invalidations by reading a register, not memory",
    ),
    option(
        "s390_iommu",
        Platform::S390,
        Grammar::Words(
            Match::Whole,
            &[asks("strict", |_| Effect::Strict(true), "invalidate at each unmap")
                .instead("iommu.strict=1", (6, 12))],
        ),
        "Z's IOMMU settings",
    ),
    // Bounce buffers and other DMA memory
    option(
        "swiotlb",
        Platform::Every,
        Grammar::Value("slots[,areas][,force|noforce]", swiotlb),
        "size and use of the bounce buffer",
    ),
    option("coherent_pool", Platform::Every, Grammar::Value("a size", size), "atomic coherent allocations"),
    option("cma", Platform::Every, Grammar::Value("a size", any), "memory kept for contiguous DMA buffers"),
    option("cma_pernuma", Platform::Every, Grammar::Value("a size", any), "the same on each NUMA node"),
    option("numa_cma", Platform::Every, Grammar::Value("node:size", any), "the same on chosen NUMA nodes"),
    option(
        "dma_debug",
        Platform::Every,
        Grammar::Words(Match::Start, &[word("off", "do not check drivers' use of the DMA API")]),
        "checks of drivers' use of the DMA API; they cost time at each mapping",
    ),
    option(
        "dma_debug_entries",
        Platform::Every,
        Grammar::Value("a number", any),
        "mappings that can be checked",
    ),
    option("dma_debug_driver", Platform::Every, Grammar::Value("a driver", any), "check this driver only"),
    // PCI
    option("pci", Platform::Every, Grammar::Words(Match::Whole, PCI), "PCI settings"),
    option(
        "pcie_aspm",
        Platform::Every,
        Grammar::Words(
            Match::Whole,
            &[
                asks(
                    "off",
                    |_| Effect::Aspm("off".to_owned()),
                    "leave link power states as firmware set them",
                ),
                asks(
                    "force",
                    |_| Effect::Aspm("force".to_owned()),
                    "use link power states in spite of firmware",
                ),
            ],
        ),
        "link power states",
    ),
    option(
        "pcie_aspm.policy",
        Platform::Every,
        Grammar::Words(
            Match::Whole,
            &[
                asks("default", |_| Effect::Aspm("default".to_owned()), "as firmware set them"),
                asks("performance", |_| Effect::Aspm("performance".to_owned()), "links stay awake"),
                asks("powersave", |_| Effect::Aspm("powersave".to_owned()), "links sleep"),
                asks("powersupersave", |_| Effect::Aspm("powersupersave".to_owned()), "links sleep deeply"),
            ],
        ),
        "link power states",
    ),
    option(
        "pcie_ports",
        Platform::Every,
        Grammar::Words(
            Match::Start,
            &[
                word("compat", "no port services: no AER, no hotplug"),
                word("native", "port services in spite of firmware"),
                word("dpc-native", "containment in spite of firmware"),
                word("auto", "as firmware allows"),
            ],
        ),
        "who handles PCIe ports",
    ),
    option(
        "pcie_port_pm",
        Platform::Every,
        Grammar::Words(Match::Whole, &[word("off", "ports stay awake"), word("force", "ports sleep")]),
        "port power states",
    ),
    option(
        "pcie_acs_override",
        Platform::Every,
        Grammar::Value("downstream, multifunction or id:vvvv:dddd", |value| {
            Some(vec![Effect::AcsOverride(value.to_owned())])
        }),
        "pretends isolation between functions; a patch outside the kernel, ignored without it",
    ),
    // VFIO
    option(
        "vfio.enable_unsafe_noiommu_mode",
        Platform::Every,
        Grammar::Bool(Some(Effect::UnsafeNoIommu)),
        "lets user space drive devices without an IOMMU: their DMA can reach all memory",
    )
    .absent_in(4, 4),
    option(
        "vfio_iommu_type1.allow_unsafe_interrupts",
        Platform::Every,
        Grammar::Bool(Some(Effect::UnsafeInterrupts)),
        "lets user space drive devices without interrupt remapping",
    ),
    option(
        "vfio_iommu_type1.dma_entry_limit",
        Platform::Every,
        Grammar::Value("a number", any),
        "mappings that one container may hold",
    ),
    option(
        "vfio_pci.ids",
        Platform::Every,
        Grammar::Value("vvvv:dddd[,...]", |value| {
            Some(value.split(',').map(|id| Effect::UserOwned(id.to_owned())).collect())
        }),
        "gives devices of these IDs to vfio-pci",
    ),
    // Memory and its types
    option(
        "mem",
        Platform::Every,
        Grammar::Value("a size", |value| parse_size(value).map(|bytes| vec![Effect::MemoryLimit(bytes)])),
        "use this much memory only",
    ),
    option(
        "memmap",
        Platform::Every,
        Grammar::Value("size@start, size$start, size#start, size!start or exactmap", |value| {
            (!value.is_empty()).then(|| vec![Effect::Memmap(value.to_owned())])
        }),
        "changes the firmware's memory map",
    ),
    option(
        "nopat",
        Platform::X86,
        Grammar::Flag(Some(|| Effect::NoPat)),
        "no page attribute table: write-combining mappings become uncached",
    ),
    option("debugpat", Platform::X86, Grammar::Flag(None), "print memory type changes"),
    option(
        "disable_mtrr_trim",
        Platform::X86,
        Grammar::Flag(None),
        "keep memory that no MTRR makes cacheable",
    ),
    option("enable_mtrr_cleanup", Platform::X86, Grammar::Flag(None), "rewrite the firmware's MTRRs"),
    option("disable_mtrr_cleanup", Platform::X86, Grammar::Flag(None), "keep the firmware's MTRRs"),
    option("mtrr_cleanup_debug", Platform::X86, Grammar::Flag(None), "print the MTRR rewriting"),
    option(
        "mtrr_chunk_size",
        Platform::X86,
        Grammar::Value("a size", size),
        "largest gap the MTRR rewriting leaves",
    ),
    option(
        "mtrr_gran_size",
        Platform::X86,
        Grammar::Value("a size", size),
        "smallest range the MTRR rewriting uses",
    ),
    option(
        "mtrr_spare_reg_nr",
        Platform::X86,
        Grammar::Value("a number", any),
        "MTRRs the rewriting keeps free",
    ),
];

const POWER_NO_CORE: &str =
    "POWER maps through its own windows, not through the IOMMU core's default domains";

const X86_IOMMU: &[Word] = &[
    asks("off", |_| Effect::Iommu(false), "no IOMMU at all; also stops bounce buffering on old kernels"),
    word("force", "use the IOMMU even where it is not needed"),
    word("noforce", "use the IOMMU only where it is needed"),
    word("biomerge", "merge at the block layer"),
    word("panic", "panic when a mapping fails"),
    word("nopanic", "do not panic when a mapping fails"),
    word("merge", "merge scatter lists"),
    word("nomerge", "do not merge scatter lists"),
    word("forcesac", "address below 4 GiB only").gone_in(6, 1),
    word("allowdac", "allow addresses above 4 GiB").gone_in(6, 1),
    word("nodac", "forbid addresses above 4 GiB").gone_in(6, 1),
    word("usedac", "allow addresses above 4 GiB behind bridges; what follows is not read"),
    asks("soft", |_| Effect::SwiotlbActive, "use bounce buffers, no GART"),
    asks("pt", |_| Effect::Passthrough(true), "default domains are identity, if an IOMMU is on"),
    asks("nopt", |_| Effect::Passthrough(false), "default domains are translated").absent_in(4, 19),
    word("noagp", "GART: leave the AGP aperture alone"),
    word("noaperture", "GART: do not touch the aperture"),
    word("memaper", "GART: allocate an aperture in memory"),
    word("leak", "GART: print leaks"),
    word("fullflush", "GART: flush at each mapping"),
    word("nofullflush", "GART: flush in batches"),
    word("calgary", "use Calgary").gone_in(5, 10),
];

const INTEL_IOMMU: &[Word] = &[
    asks("on", |_| Effect::Iommu(true), "turn VT-d on"),
    asks("off", |_| Effect::Iommu(false), "turn VT-d off"),
    word("igfx_off", "leave the integrated graphics untranslated"),
    word("intgpu_off", "leave the integrated graphics untranslated"),
    asks("forcedac", |_| Effect::ForceDac(true), "do not try I/O addresses below 4 GiB first")
        .instead("iommu.forcedac=1", (6, 1)),
    asks("strict", |_| Effect::Strict(true), "invalidate the IOTLB at each unmap")
        .instead("iommu.strict=1", (6, 1)),
    word("sp_off", "no large pages in the page tables: more IOTLB misses"),
    word("ecs_off", "no extended contexts").gone_in(5, 10),
    word("sm_on", "scalable mode if the hardware has it").absent_in(4, 19),
    word("sm_off", "no scalable mode").absent_in(5, 10),
    word("tboot_noforce", "do not force VT-d on after a measured launch"),
    // Red Hat's own, in the 2.6.32 of RHEL 6 only.
    asks("pt64", |_| Effect::Passthrough(true), "identity for adapters with 64-bit masks").only_rhel(6),
];

const AMD_IOMMU: &[Word] = &[
    asks("off", |_| Effect::Iommu(false), "turn AMD-Vi off"),
    asks("fullflush", |_| Effect::Strict(true), "invalidate the IOTLB at each unmap")
        .instead("iommu.strict=1", (6, 1)),
    asks("force_enable", |_| Effect::Iommu(true), "turn AMD-Vi on in spite of known bugs"),
    word("force_isolation", "translate every device, even where identity is the default"),
    word("pgtbl_v1", "host page tables").absent_in(5, 10),
    word("pgtbl_v2", "guest page tables").absent_in(5, 10),
    word("irtcachedis", "no interrupt remapping cache").absent_in(5, 10),
    word("nohugepages", "4 KiB pages only: more IOTLB misses").absent_in(6, 12),
    word("v2_pgsizes_only", "page sizes of v2 tables only").absent_in(6, 12),
    word("isolate", "one domain for each device").gone_in(3, 6),
    word("share", "one domain for all devices").gone_in(3, 6),
];

const POWER_IOMMU: &[Word] = &[
    asks("off", |_| Effect::Iommu(false), "no translation tables (bare machines)"),
    word("force", "translation tables even where they are not needed"),
    word("vmerge", "merge scatter lists into one range"),
    word("novmerge", "do not merge scatter lists"),
    asks("nobypass", |_| Effect::Passthrough(false), "no 64-bit bypass (bare-metal POWER)"),
];

const PCI: &[Word] = &[
    asks("noats", |_| Effect::NoAts, "adapters may not cache translations"),
    asks(
        "pcie_bus_tune_off",
        |_| Effect::BusTuning("tune-off".to_owned()),
        "payload sizes as firmware set them",
    ),
    asks(
        "pcie_bus_safe",
        |_| Effect::BusTuning("safe".to_owned()),
        "the largest payload that all of a tree take",
    ),
    asks("pcie_bus_perf", |_| Effect::BusTuning("perf".to_owned()), "the largest payload each path takes"),
    asks("pcie_bus_peer2peer", |_| Effect::BusTuning("peer2peer".to_owned()), "128-byte payloads everywhere"),
    asks(
        "disable_acs_redir=",
        |ports| Effect::AcsRedirectOff(ports.to_owned()),
        "peers talk without the IOMMU",
    ),
    asks("config_acs=", |ports| Effect::AcsRedirectOff(ports.to_owned()), "sets ports' isolation bits")
        .absent_in(6, 1),
    word("resource_alignment=", "alignment of BARs"),
    word("pcie_scan_all", "look behind all device numbers"),
    word("nommconf", "no memory-mapped configuration: extended capabilities cannot be reached"),
    word("check_enable_amd_mmconf", "memory-mapped configuration on old AMD"),
    word("noaer", "no error reporting"),
    word("nomsi", "no message interrupts"),
    word("noari", "at most 8 functions for each device"),
    word("realloc", "move BARs if needed"),
    word("realloc=", "move BARs if needed"),
    word("earlydump", "print configuration spaces"),
    word("nodomains", "one domain only"),
    word("cbiosize=", "CardBus space"),
    word("cbmemsize=", "CardBus space"),
    word("ecrc=", "end-to-end checksums"),
    word("hpiosize=", "hotplug space"),
    word("hpmmiosize=", "hotplug space"),
    word("hpmmioprefsize=", "hotplug space"),
    word("hpmemsize=", "hotplug space"),
    word("hpbussize=", "hotplug buses"),
    word("big_root_window", "a large window on AMD"),
    word("skip_isa_align", "no ISA alignment"),
    word("off", "no PCI"),
    word("bios", "configuration by the BIOS"),
    word("nobios", "configuration by hardware"),
    word("conf1", "configuration by mechanism 1"),
    word("conf2", "configuration by mechanism 2"),
    word("noacpi", "no ACPI for PCI"),
    word("noearly", "no early configuration"),
    word("use_crs", "windows from ACPI"),
    word("nocrs", "no windows from ACPI"),
    word("use_e820", "respect reservations"),
    word("no_e820", "ignore reservations"),
    word("usepirqmask", "interrupt routing"),
    word("irqmask=", "interrupt routing"),
    word("biosirq", "interrupt routing"),
    word("routeirq", "interrupt routing"),
    word("noioapicquirk", "interrupt routing"),
    word("ioapicreroute", "interrupt routing"),
    word("noioapicreroute", "interrupt routing"),
    word("rom", "assign ROMs"),
    word("norom", "do not assign ROMs"),
    word("nobar", "do not assign BARs"),
    word("assign-busses", "number buses anew"),
    word("lastbus=", "number of buses"),
    word("bfsort", "order of devices"),
    word("nobfsort", "order of devices"),
    word("nosort", "order of devices"),
    word("firmware", "as firmware set it"),
    word("compat", "PCIe as PCI"),
];

/// Options that do not concern DMA and whose names are near enough to one that does to be taken for a
/// misspelling of it, and a few that are simply common.
pub const UNRELATED: &[&str] = &[
    "BOOT_IMAGE",
    "acpi",
    "apic",
    "apparmor",
    "audit",
    "biosdevname",
    "cgroup_disable",
    "clocksource",
    "console",
    "crashkernel",
    "debug",
    "default_hugepagesz",
    "edd",
    "efi",
    "elevator",
    "fips",
    "hpet",
    "hugepages",
    "hugepagesz",
    "idle",
    "init",
    "initrd",
    "isolcpus",
    "iomem",
    "kaslr",
    "kvm",
    "lockdown",
    "loglevel",
    "maxcpus",
    "mce",
    "mds",
    "memblock",
    "memtest",
    "meminit",
    "mitigations",
    "nmi_watchdog",
    "noapic",
    "nokaslr",
    "nolapic",
    "nomodeset",
    "nopti",
    "nosmap",
    "nosmep",
    "nosmt",
    "nox2apic",
    "nohpet",
    "nompx",
    "norandmaps",
    "noapictimer",
    "nr_cpus",
    "numa",
    "numa_balancing",
    "page_poison",
    "panic",
    "pcie_hp",
    "pcie_pme",
    "pti",
    "quiet",
    "rcu_nocbs",
    "rd",
    "resume",
    "rhgb",
    "ro",
    "root",
    "rootflags",
    "rw",
    "security",
    "selinux",
    "slub_debug",
    "smt",
    "splash",
    "spectre_v2",
    "systemd",
    "tsc",
    "vga",
    "zswap",
    "noibrs",
    "nopku",
    "eep",
    "mtrr",
    "dmasound",
];

fn any(value: &str) -> Option<Vec<Effect>> {
    (!value.is_empty()).then(Vec::new)
}

fn size(value: &str) -> Option<Vec<Effect>> {
    parse_size(value).map(|_| Vec::new())
}

/// `swiotlb=slots[,areas][,force|noforce]`, every part optional (kernel/dma/swiotlb.c).
fn swiotlb(value: &str) -> Option<Vec<Effect>> {
    let mut effects = Vec::new();
    for (position, part) in value.split(',').enumerate() {
        match part {
            "force" => effects.push(Effect::SwiotlbForce(true)),
            "noforce" => effects.push(Effect::SwiotlbForce(false)),
            _ if position < 2 => {
                let number = parse_number(part)?;
                effects.push(if position == 0 {
                    Effect::SwiotlbSlots(number)
                } else {
                    Effect::SwiotlbAreas(number)
                });
            }
            _ => return None,
        }
    }
    Some(effects)
}

/// A number in the base that its prefix tells, like `simple_strtoul` with base 0.
pub fn parse_number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        return (!digits.starts_with('+')).then(|| u64::from_str_radix(digits, 16).ok()).flatten();
    }
    if !text.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    match text.strip_prefix('0') {
        Some(digits) if !digits.is_empty() => u64::from_str_radix(digits, 8).ok(),
        _ => text.parse().ok(),
    }
}

/// A size with an optional suffix K, M, G, T, P or E, like lib/cmdline.c `memparse`.
pub fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.char_indices().next_back() {
        // In hexadecimal E is a digit.
        Some((_, 'e' | 'E')) if text.starts_with("0x") => (text, 0),
        Some((at, suffix)) => match suffix.to_ascii_uppercase() {
            'K' => (text.get(..at)?, 10),
            'M' => (text.get(..at)?, 20),
            'G' => (text.get(..at)?, 30),
            'T' => (text.get(..at)?, 40),
            'P' => (text.get(..at)?, 50),
            'E' => (text.get(..at)?, 60),
            _ => (text, 0),
        },
        None => return None,
    };
    parse_number(digits)?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_canonical_and_once_per_platform() {
        for (at, option) in OPTIONS.iter().enumerate() {
            assert!(!option.name.contains('-'), "{}", option.name);
            assert!(!option.meaning.is_empty());
            let twin =
                OPTIONS[at + 1..].iter().find(|o| o.name == option.name && o.platform == option.platform);
            assert!(twin.is_none(), "{}", option.name);
        }
    }

    #[test]
    fn sizes() {
        let check = |text: &str, expect: Option<u64>| assert_eq!(parse_size(text), expect, "{text}");
        check("4G", Some(4 << 30));
        check("0x10M", Some(16 << 20));
        check("0x1E", Some(0x1e));
        check("010k", Some(8 << 10));
        check("99999E", None);
        check("G", None);
        check("", None);
        check("+4G", None);
    }
}
