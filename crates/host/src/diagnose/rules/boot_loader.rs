//! The tool by which a host's kernel command line is changed for good.

use crate::diagnose::Advice;
use crate::facts::Host;
use crate::kernel::{Architecture, Family};
use escape::shell::Command;

/// The tool that changes the kernel command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    /// Red Hat Enterprise Linux, Fedora and their relatives.
    Grubby,
    /// Debian, Ubuntu and their relatives.
    UpdateGrub,
    /// SUSE.
    Yast,
    /// A boot loader that starts the kernel as an EFI program and reads no file of GRUB's.
    Stub,
    /// Systems whose boot entries belong to rpm-ostree.
    Ostree,
    /// NixOS, which makes its boot entries out of its configuration.
    Nix,
    /// IBM Z with Debian's or Ubuntu's tools.
    Zipl,
    /// Systems with GRUB and without Debian's wrapper.
    GrubMkconfig,
    /// Systems of the SUSE family whose root is changed by snapshots.
    Transactional,
    /// Another boot loader than GRUB, such as that of a Raspberry Pi.
    Other,
    /// Distributions with several boot loaders, or with tools of their own.
    ByHand,
    /// Not known: the first two are named.
    Unknown,
}

impl Tool {
    /// The tool of the host: by its distribution or, if that is not known, by its kernel.
    pub(super) fn of(host: &Host) -> Self {
        let line = host.command_line.as_ref().map_or("", |line| line.value.as_str());
        if line.split_whitespace().any(|word| word.starts_with("ostree=")) {
            return Self::Ostree;
        }
        if line.contains("/nix/store/") {
            return Self::Nix;
        }
        let name = host.platform.distribution.as_ref();
        let is_debian = name.is_some_and(|name| name.at.file.ends_with("debian_version"));
        let tool = name
            .map_or(Self::Unknown, |name| Self::by_distribution(&name.value, is_debian))
            .or_else(|| host.kernel().map_or(Self::Unknown, |kernel| Self::by_kernel(&kernel.family)));
        tool.of_line(line, host.platform.architecture == Some(Architecture::S390x))
    }

    /// The tool of a host with this kernel command line whose distribution has this tool.
    fn of_line(self, line: &str, is_z: bool) -> Self {
        let has = |start: &str| line.split_whitespace().any(|word| word.starts_with(start));
        match self {
            Self::Nix | Self::ByHand => self,
            // The EFI stub is given the initial file system's path with backslashes.
            _ if has("initrd=\\") => Self::Stub,
            Self::UpdateGrub if is_z => Self::Zipl,
            // GRUB puts this first; a line without it, but with a root, is another boot loader's.
            Self::UpdateGrub if has("root=") && !has("BOOT_IMAGE=") => Self::Other,
            tool => tool,
        }
    }

    /// This tool or, if it is [`Tool::Unknown`], the result of `other`.
    fn or_else(self, other: impl FnOnce() -> Self) -> Self {
        if self == Self::Unknown { other() } else { self }
    }

    /// By the name that the distribution gives itself.
    fn by_distribution(name: &str, is_debian: bool) -> Self {
        const RED_HAT: [&str; 7] =
            ["Red Hat", "CentOS", "Fedora", "Rocky Linux", "AlmaLinux", "Oracle Linux", "Amazon Linux"];
        const DEBIAN: [&str; 4] = ["Debian", "Ubuntu", "Linux Mint", "Raspbian"];
        let is_any = |names: &[&str]| names.iter().any(|start| name.starts_with(start));
        match () {
            () if is_debian || is_any(&DEBIAN) => Self::UpdateGrub,
            () if is_any(&RED_HAT) => Self::Grubby,
            () if name.contains("MicroOS") => Self::Transactional,
            () if is_any(&["SUSE", "openSUSE"]) => Self::Yast,
            () if is_any(&[
                "Arch Linux",
                "CachyOS",
                "EndeavourOS",
                "Garuda",
                "Manjaro",
                "Gentoo",
                "Void",
            ]) =>
            {
                Self::GrubMkconfig
            }
            () if is_any(&["NixOS"]) => Self::Nix,
            () if is_any(&[
                "Alpine",
                "Pop!_OS",
                "Clear Linux",
                "Slackware",
                "Guix",
                "Talos",
                "Flatcar",
                "Bottlerocket",
            ]) =>
            {
                Self::ByHand
            }
            () => Self::Unknown,
        }
    }

    /// By the builder of the running kernel, where no file names the distribution.
    fn by_kernel(family: &Family) -> Self {
        match family {
            Family::Rhel(_) => Self::Grubby,
            Family::Debian | Family::Ubuntu => Self::UpdateGrub,
            Family::Suse => Self::Yast,
            Family::Other => Self::Unknown,
        }
    }

    /// Where and by which command the change is made, for the end of a sentence; `grubby` has the change.
    pub(super) fn how(self, grubby: Command) -> Advice {
        const FILE: &str = "GRUB_CMDLINE_LINUX in /etc/default/grub";
        match self {
            Self::Grubby => Advice::say(" (").and_run(grubby).and_say(") and reboot"),
            Self::UpdateGrub => Advice::say(format!(" ({FILE}, then "))
                .and_complete_by(Command::new("update-grub"))
                .and_say(") and reboot"),
            Self::Stub => {
                " (in /etc/kernel/cmdline or the entry of systemd-boot; on Proxmox then `proxmox-boot-tool refresh`) and reboot"
                    .into()
            }
            Self::Ostree => " (`rpm-ostree kargs`, with `--delete=` and `--append=`; on OpenShift by a MachineConfig) and reboot".into(),
            Self::Nix => " (`boot.kernelParams` of the system's configuration, then `nixos-rebuild boot`) and reboot".into(),
            Self::Zipl => " (`parameters` in /etc/zipl.conf, then `zipl`) and reboot".into(),
            Self::GrubMkconfig => format!(
                " ({FILE}, then `grub-mkconfig -o /boot/grub/grub.cfg`; with systemd-boot in the boot entry's `options`) and reboot"
            )
            .into(),
            Self::Transactional => format!(" ({FILE}, then `transactional-update grub.cfg`) and reboot").into(),
            Self::Other => {
                " (in the configuration of its boot loader, which is not GRUB; on a Raspberry Pi /boot/firmware/cmdline.txt) and reboot"
                    .into()
            }
            Self::ByHand => " (in the configuration of its boot loader, by the distribution's own tool) and reboot".into(),
            Self::Yast => {
                Advice::say(" (").and_complete_by(Command::new("yast").arg("bootloader")).and_say(") and reboot")
            }
            Self::Unknown => {
                // Not every host has it: the change in words comes first.
                Advice::say(" (").and_complete_by(grubby).and_say(format!(", or {FILE} and update-grub) and reboot"))
            }
        }
    }
}

/// The command that changes all boot entries; the change is to be added.
pub(super) fn grubby() -> Command {
    Command::new("grubby").arg("--update-kernel=ALL")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_distribution_decides_which_tool_is_named() {
        let check =
            |name: &str, expect: Tool| assert_eq!(Tool::by_distribution(name, false), expect, "{name}");
        check("Debian GNU/Linux 12 (bookworm)", Tool::UpdateGrub);
        check("Ubuntu 24.04.1 LTS", Tool::UpdateGrub);
        check("Red Hat Enterprise Linux 9.4 (Plow)", Tool::Grubby);
        check("CentOS release 6.10 (Final)", Tool::Grubby);
        check("SUSE Linux Enterprise Server 15 SP5", Tool::Yast);
        check("openSUSE Leap 15.6", Tool::Yast);
        check("Arch Linux", Tool::GrubMkconfig);
        check("openSUSE MicroOS", Tool::Transactional);
        check("Void", Tool::GrubMkconfig);
        check("CachyOS Linux", Tool::GrubMkconfig);
        check("NixOS 23.11 (Tapir)", Tool::Nix);
        check("Alpine Linux v3.20", Tool::ByHand);
        check("Hannah Montana Linux", Tool::Unknown);
        assert_eq!(Tool::by_distribution("trixie/sid", true), Tool::UpdateGrub);
    }

    /// A distribution's own tool is named even where its line is that of an EFI stub.
    #[test]
    fn the_command_line_decides_among_a_distribution_s_boot_loaders() {
        let check =
            |tool: Tool, line: &str, expect: Tool| assert_eq!(tool.of_line(line, false), expect, "{line}");
        let stub = "initrd=\\EFI\\Linux\\initrd.img root=UUID=1 ro";
        check(Tool::ByHand, stub, Tool::ByHand);
        check(Tool::Nix, stub, Tool::Nix);
        check(Tool::UpdateGrub, stub, Tool::Stub);
        check(Tool::GrubMkconfig, stub, Tool::Stub);
        check(Tool::UpdateGrub, "BOOT_IMAGE=/vmlinuz root=UUID=1", Tool::UpdateGrub);
        check(Tool::UpdateGrub, "root=UUID=1", Tool::Other);
        assert_eq!(Tool::UpdateGrub.of_line("root=UUID=1", true), Tool::Zipl);
    }

    #[test]
    fn each_tool_has_its_own_command() {
        let check = |tool: Tool, expect: &str| {
            assert_eq!(tool.how(grubby().option("--args=", "iommu=pt")).to_string(), expect);
        };
        check(Tool::Grubby, " (grubby --update-kernel=ALL --args=iommu=pt) and reboot");
        check(Tool::UpdateGrub, " (GRUB_CMDLINE_LINUX in /etc/default/grub, then update-grub) and reboot");
        check(Tool::Yast, " (yast bootloader) and reboot");
        check(
            Tool::Nix,
            " (`boot.kernelParams` of the system's configuration, then `nixos-rebuild boot`) and reboot",
        );
        check(
            Tool::ByHand,
            " (in the configuration of its boot loader, by the distribution's own tool) and reboot",
        );
        check(
            Tool::Unknown,
            " (grubby --update-kernel=ALL --args=iommu=pt, or GRUB_CMDLINE_LINUX in /etc/default/grub and \
             update-grub) and reboot",
        );
    }
}
