//! What a kernel makes of its command line and of a write to a group's `type`, told a second time: from the kernel's sources
//! alone, without the tables and rules that are under test.
//!
//! Read for it: drivers/iommu/iommu.c, drivers/iommu/intel/iommu.c, drivers/iommu/amd/init.c, drivers/iommu/amd/iommu.c,
//! arch/x86/kernel/pci-dma.c, arch/x86/kernel/pci-swiotlb.c, kernel/dma/swiotlb.c and drivers/pci/pci.c of Linux 5.10, 6.1,
//! 6.12 and 7.2, and grubby's `update_args`. Where a release lies between two that were read, or its builder takes newer code,
//! the answer is "not known".

use host::facts::Host;
use host::facts::iommu::DomainType;
use host::kernel::Family;
use std::collections::BTreeSet;

/// Whose IOMMU a machine has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Maker {
    Intel,
    Amd,
    Arm,
    Other,
    /// Of x86, but whose is not told.
    Unknown,
}

/// What of a machine decides what its kernel makes of options.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Machine {
    pub release: (u32, u32),
    /// Whether the builder puts newer code under an old number.
    pub takes_newer_code: bool,
    pub maker: Maker,
    /// MiB that the GART remaps with.
    pub gart_mebibytes: Option<u64>,
    /// A virtual IOMMU that caches what is not there: the kernel then invalidates at each unmap, whatever it is told.
    pub is_virtual_iommu: bool,
}

impl Machine {
    /// The machine that a host is.
    pub(crate) fn of(host: &Host, log: &str) -> Self {
        let kernel = host.kernel();
        let named = |start: &str| host.iommus.instances.iter().any(|one| one.name.starts_with(start));
        let vendor = host.platform.cpu_vendor.as_ref().map(|vendor| &vendor.value);
        let architecture = host.platform.architecture.as_ref();
        let is_x86 = architecture.is_none_or(|architecture| architecture.is_x86());
        let maker = match () {
            () if architecture.is_some_and(|architecture| architecture.is_arm()) => Maker::Arm,
            () if !is_x86 => Maker::Other,
            () if named("smmu") => Maker::Arm,
            () if named("dmar") || log.contains("DMAR") => Maker::Intel,
            () if log.contains("GART IOMMU") || log.contains("PCI-DMA: Out of IOMMU space") => Maker::Amd,
            () if named("ivhd") || log.contains("IVRS") || log.contains("AMD-Vi") => Maker::Amd,
            () if vendor.is_some_and(|vendor| vendor.has_vt_d()) => Maker::Intel,
            () if vendor.is_some_and(|vendor| vendor.has_amd_vi()) => Maker::Amd,
            () => Maker::Unknown,
        };
        Self {
            release: kernel.map_or((6, 1), |kernel| (kernel.numbers().0, kernel.numbers().1)),
            takes_newer_code: kernel
                .is_none_or(|kernel| matches!(kernel.family, Family::Rhel(_) | Family::Suse)),
            maker,
            gart_mebibytes: log
                .split("Reserving ")
                .nth(1)
                .and_then(|rest| rest.split_once("MB of IOMMU area")?.0.parse().ok()),
            is_virtual_iommu: log.contains("batching disallowed due to virtualization")
                || log.contains("Using strict mode due to virtualization"),
        }
    }

    /// Whether this kernel has what came after `absent` and by `present`.
    fn has(&self, absent: (u32, u32), present: (u32, u32)) -> Option<bool> {
        match () {
            () if self.release >= present => Some(true),
            () if self.release <= absent && !self.takes_newer_code => Some(false),
            () => None,
        }
    }

    fn is_x86(&self) -> bool {
        matches!(self.maker, Maker::Intel | Maker::Amd | Maker::Unknown)
    }
}

/// What one word of an option does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Does {
    /// Default domains pass addresses through, or not: the last such word counts.
    Identity(bool),
    /// Invalidation at each unmap, or not: the last such word counts.
    Strict(bool),
    /// Invalidation at each unmap: no other word undoes it.
    StrictForGood,
    /// The IOMMU is on or off: the last such word counts.
    Iommu(bool),
    /// The IOMMU is off: no other word undoes it.
    DriverOff,
    /// No IOMMU of any kind, which no other word undoes, and no pool.
    NoIommu,
    /// A pool, whatever else.
    Pool,
    /// Everything is bounced.
    BounceAll,
    /// Nothing is bounced.
    BounceNone,
    /// No ATS.
    NoAts,
}

/// A word of an option, in which releases it works, and where that was read.
struct Row {
    option: &'static str,
    /// What the word begins with: the kernel compares as many bytes (`strncmp`); a boolean's value has `=`.
    word: &'static str,
    makers: &'static [Maker],
    /// The newest release that was read without it, and the oldest with it.
    since: ((u32, u32), (u32, u32)),
    does: Does,
}

const X86: &[Maker] = &[Maker::Intel, Maker::Amd];
const ARM: &[Maker] = &[Maker::Arm];
const INTEL: &[Maker] = &[Maker::Intel];
const AMD: &[Maker] = &[Maker::Amd];
const ALL: &[Maker] = &[Maker::Intel, Maker::Amd, Maker::Arm, Maker::Other];
const ALWAYS: ((u32, u32), (u32, u32)) = ((0, 0), (2, 6));

#[rustfmt::skip]
const ROWS: &[Row] = &[
    // arch/x86/kernel/pci-dma.c, iommu_setup: an early parameter, word by word. `no_iommu` is never reset.
    Row { option: "iommu", word: "off", makers: X86, since: ALWAYS, does: Does::NoIommu },
    Row { option: "iommu", word: "pt", makers: X86, since: ((2, 6), (3, 0)), does: Does::Identity(true) },
    Row { option: "iommu", word: "nopt", makers: X86, since: ((4, 19), (5, 4)), does: Does::Identity(false) },
    Row { option: "iommu", word: "soft", makers: X86, since: ALWAYS, does: Does::Pool },
    // drivers/iommu/iommu.c, iommu_set_def_domain_type; VT-d and AMD-Vi ask the core since 5.4.
    Row { option: "iommu.passthrough", word: "1", makers: X86, since: ((4, 19), (5, 4)), does: Does::Identity(true) },
    Row { option: "iommu.passthrough", word: "0", makers: X86, since: ((4, 19), (5, 4)), does: Does::Identity(false) },
    Row { option: "iommu.passthrough", word: "1", makers: ARM, since: ((4, 9), (4, 14)), does: Does::Identity(true) },
    Row { option: "iommu.passthrough", word: "0", makers: ARM, since: ((4, 9), (4, 14)), does: Does::Identity(false) },
    // drivers/iommu/iommu.c, iommu_dma_setup; x86 asks the core after 5.10.
    Row { option: "iommu.strict", word: "1", makers: X86, since: ((5, 10), (6, 1)), does: Does::Strict(true) },
    Row { option: "iommu.strict", word: "0", makers: X86, since: ((5, 10), (6, 1)), does: Does::Strict(false) },
    Row { option: "iommu.strict", word: "1", makers: ARM, since: ((4, 19), (5, 0)), does: Does::Strict(true) },
    Row { option: "iommu.strict", word: "0", makers: ARM, since: ((4, 19), (5, 0)), does: Does::Strict(false) },
    // drivers/iommu/intel/iommu.c, intel_iommu_setup.
    Row { option: "intel_iommu", word: "on", makers: INTEL, since: ALWAYS, does: Does::Iommu(true) },
    Row { option: "intel_iommu", word: "off", makers: INTEL, since: ALWAYS, does: Does::Iommu(false) },
    Row { option: "intel_iommu", word: "strict", makers: INTEL, since: ALWAYS, does: Does::StrictForGood },
    // drivers/iommu/amd/init.c, parse_amd_iommu_options.
    // `amd_iommu_disabled` is never reset, and `force_enable` is only asked for one chipset.
    Row { option: "amd_iommu", word: "off", makers: AMD, since: ALWAYS, does: Does::DriverOff },
    Row { option: "amd_iommu", word: "fullflush", makers: AMD, since: ALWAYS, does: Does::StrictForGood },
    // kernel/dma/swiotlb.c, setup_io_tlb_npages.
    Row { option: "swiotlb", word: "force", makers: ALL, since: ALWAYS, does: Does::BounceAll },
    Row { option: "swiotlb", word: "noforce", makers: ALL, since: ((4, 9), (4, 14)), does: Does::BounceNone },
    // drivers/pci/pci.c, pci_setup.
    Row { option: "pci", word: "noats", makers: ALL, since: ((2, 6), (4, 19)), does: Does::NoAts },
];

/// What a kernel sets up. `None`: not known, or left to how the kernel was built.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Settings {
    pub iommu: Option<bool>,
    pub identity: Option<bool>,
    pub strict: Option<bool>,
    pub bounces_all: bool,
    pub bounces_none: bool,
    /// A pool is asked for, whether or not memory reaches beyond 4 GiB.
    has_pool: bool,
    /// Slots of the bounce pool that the line asks for.
    pub slots: Option<u64>,
    pub no_ats: bool,
    /// The last policy of payload sizes.
    pub payload: Option<String>,
    /// The last list of ports that don't redirect.
    pub direct_ports: Option<String>,
    /// The default windows of POWER alone.
    pub no_direct_window: bool,
    /// MiB of the aperture over memory that the line asks for.
    pub aperture_mebibytes: Option<u64>,
    /// Devices are taken for isolated that are not: by the patch for ACS, or by VFIO's parameter.
    pub pretends_isolation: bool,
    /// A host encrypts its memory, or not, by the line's last word (arch/x86/mm/mem_encrypt_identity.c, sme_enable).
    pub encrypts: Option<bool>,
    /// Some word's effect is not known in this kernel.
    pub is_open: bool,
}

/// Name and words of each option on a line.
pub(crate) fn options(line: &str) -> Vec<(String, Vec<String>)> {
    let arguments = line.split_whitespace().take_while(|argument| *argument != "--");
    let split = |argument: &str| {
        let (name, value) = argument.split_once('=').unwrap_or((argument, ""));
        let words = value.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect();
        (name.replace('-', "_"), words)
    };
    arguments.map(split).collect()
}

/// What the kernel of `machine` sets up with this command line.
pub(crate) fn settings(machine: &Machine, line: &str) -> Settings {
    // Up to 5.10 no option of the build decides.
    let is_built_in = machine.release <= (5, 10) && !machine.takes_newer_code;
    let mut now = Settings {
        strict: match machine.maker {
            Maker::Intel | Maker::Amd if is_built_in => Some(false),
            Maker::Arm if is_built_in => Some(true),
            _ => None,
        },
        ..Settings::default()
    };
    let mut driver_off = false;
    let (mut no_iommu, mut for_good) = (false, machine.is_virtual_iommu);
    for (name, words) in options(line) {
        for word in &words {
            let fitting = ROWS.iter().filter(|row| row.option == name && word.starts_with(row.word));
            for row in
                fitting.filter(|row| machine.maker == Maker::Unknown || row.makers.contains(&machine.maker))
            {
                let is_sure = machine.maker != Maker::Unknown || row.makers == ALL || row.makers == X86;
                match machine.has(row.since.0, row.since.1).filter(|_| is_sure) {
                    Some(true) => {}
                    Some(false) => continue,
                    None => {
                        now.is_open = true;
                        continue;
                    }
                }
                match row.does {
                    Does::Identity(on) => now.identity = Some(on),
                    Does::Strict(on) => now.strict = Some(on),
                    Does::StrictForGood => for_good = true,
                    Does::Iommu(on) => now.iommu = Some(on),
                    Does::DriverOff => driver_off = true,
                    Does::NoIommu => no_iommu = true,
                    Does::Pool => now.has_pool = true,
                    Does::BounceAll => {
                        now.bounces_all = true;
                        now.has_pool = true;
                    }
                    Does::BounceNone => now.bounces_none = true,
                    Does::NoAts => now.no_ats = true,
                }
            }
            match name.as_str() {
                "mem_encrypt" => now.encrypts = Some(word == "on"),
                "swiotlb" if word == &words[0] => now.slots = word.parse().ok().or(now.slots),
                // arch/x86/kernel/pci-dma.c, iommu_setup, and aperture_64.c: 32 MiB << order.
                "iommu" if word.starts_with("memaper=") && machine.maker == Maker::Amd => {
                    let order = word.trim_start_matches("memaper=").parse::<u32>().unwrap_or(1);
                    now.aperture_mebibytes = 32_u64.checked_shl(order);
                }
                "pci" if word.starts_with("pcie_bus_") => now.payload = Some(word.clone()),
                "pci" if word.starts_with("disable_acs_redir=") => now.direct_ports = Some(word.clone()),
                _ => {}
            }
        }
        now.no_direct_window |= name == "disable_ddw";
        now.pretends_isolation |=
            ["pcie_acs_override", "vfio_iommu_type1.allow_unsafe_interrupts"].contains(&name.as_str());
    }
    if driver_off {
        now.iommu = Some(false);
    }
    if no_iommu {
        now.iommu = Some(false);
        now.bounces_none |= !now.has_pool;
    }
    if for_good {
        now.strict = Some(true);
    }
    if !machine.is_x86() {
        now.iommu = None;
    }
    now
}

/// Why a kernel does not take an argument, as far as the rows tell.
pub(crate) fn refuses(machine: &Machine, argument: &str) -> Option<String> {
    options(argument).into_iter().find_map(|(name, words)| {
        let of_option: Vec<&Row> = ROWS.iter().filter(|row| row.option == name).collect();
        let of_maker: Vec<&&Row> = of_option
            .iter()
            .filter(|row| machine.maker == Maker::Unknown || row.makers.contains(&machine.maker))
            .collect();
        if !of_option.is_empty() && of_maker.is_empty() {
            return Some(format!("{name} is of another maker's machines"));
        }
        words.iter().find_map(|word| {
            let known = of_maker.iter().filter(|row| word.starts_with(row.word));
            let mut has = known.map(|row| machine.has(row.since.0, row.since.1)).peekable();
            has.peek()?;
            has.all(|has| has == Some(false)).then(|| format!("this kernel does not know {name}={word} yet"))
        })
    })
}

/// How an edit reaches the boot loader.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tool {
    /// By hand, at the end of the line.
    Hand,
    /// grubby replaces every argument of the same name by the new one.
    Grubby,
}

/// The command line after an edit.
pub(crate) fn edited(line: &str, without: &[String], with: &[String], tool: Tool) -> String {
    let key = |argument: &str| argument.rsplit_once('=').map_or(argument, |(key, _)| key).to_owned();
    let replaced: BTreeSet<String> = match tool {
        Tool::Hand => BTreeSet::new(),
        Tool::Grubby => with.iter().map(|argument| key(argument)).collect(),
    };
    let name = |argument: &str| argument.split_once('=').map_or(argument, |(name, _)| name).to_owned();
    let kept = line.split_whitespace().filter(|argument| {
        let is_removed = without.iter().any(|gone| gone == argument);
        // `s/(^|[[:space:]])KEY(=[^[:space:]]*)?/`: a key of `pci` takes every `pci=`.
        let is_replaced = replaced.contains(&name(argument))
            || replaced.iter().any(|key| key.contains('=') && argument.starts_with(&format!("{key}=")));
        !is_removed && !is_replaced
    });
    kept.map(str::to_owned).chain(with.iter().cloned()).collect::<Vec<_>>().join(" ")
}

/// A group as sysfs shows it.
#[derive(Debug, Clone)]
pub(crate) struct GroupState {
    pub members: usize,
    pub now: Option<DomainType>,
    /// A member is on a port for strangers.
    pub is_untrusted: bool,
}

/// Why the kernel refuses a write to a group's `type`, or why it changes nothing (drivers/iommu/iommu.c, `iommu_group_store_type`
/// and what it calls). `None` if it takes it.
pub(crate) fn refusal(machine: &Machine, group: &GroupState, to: &str, unbound: bool) -> Option<String> {
    let now = match group.now? {
        DomainType::Identity => "identity",
        DomainType::Dma => "DMA",
        DomainType::DmaFq => "DMA-FQ",
        DomainType::Blocked | DomainType::Unmanaged | DomainType::Unknown => {
            return Some("no type to change".to_owned());
        }
    };
    if now == to {
        return Some(format!("it is {to} already"));
    }
    if machine.has((5, 10), (5, 11)) == Some(false) {
        return Some("the file is read-only before 5.11".to_owned());
    }
    if to == "DMA-FQ" && machine.has((5, 14), (5, 15)) != Some(true) {
        return Some("DMA-FQ is not a known word before 5.15".to_owned());
    }
    // Groups of several devices are refused in 6.1 and taken in 6.12.
    if group.members != 1 && machine.has((6, 1), (6, 12)) != Some(true) {
        return Some(format!("the group has {} members: refused up to 6.1 at least", group.members));
    }
    if group.is_untrusted && to != "DMA" {
        return Some("a device of an untrusted port takes no type but DMA".to_owned());
    }
    let in_place = now == "DMA" && to == "DMA-FQ";
    (!in_place && !unbound).then(|| "a driver is bound".to_owned())
}
