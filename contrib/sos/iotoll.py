# Copyright (c) 2026 The iotoll authors
#
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Plugin of sos: what `iotoll inspect` reads of a host and sos's own plugins leave out.

Copy it beside sos's own plugins, then name it with them:

    cp iotoll.py "$(python3 -c 'import sos.report.plugins as plugins; print(plugins.__path__[0])')"
    sos report -o iotoll        # or without -o, with all others

On any other host: iotoll inspect --from sosreport-....tar.xz

It starts no program of iotoll's and changes nothing. Of a PCI function it reads single attributes: never a base address register
(resource0 and others), whose reading may change a device, nor its VPD, whose reading takes seconds.
"""

from sos.report.plugins import DebianPlugin, Plugin, RedHatPlugin, UbuntuPlugin

# Attributes of a PCI function. Only those of an adapter's place in the host are taken: what its driver adds stays.
FUNCTION = (
    "class", "config", "consistent_dma_mask_bits", "current_link_speed", "current_link_width", "device", "devspec",
    "dma_mask_bits", "driver", "iommu_group", "irq", "local_cpulist", "max_link_speed", "max_link_width", "msi_irqs/*",
    "numa_node", "of_node", "physfn", "removable", "resource", "revision", "sriov_numvfs", "subsystem_device",
    "subsystem_vendor", "vendor", "virtfn*", "virtio*/features",
)

# Classes in which an adapter's interfaces are found, by links to its folder.
CLASSES = ("block", "drm", "fc_host", "infiniband", "iommu", "net", "nvme", "scsi_host")

FILES = (
    # The host: kernel, memory, partition, hypervisor.
    "/etc/default/grub",
    "/etc/kernel/cmdline",
    "/etc/os-release",
    "/proc/cmdline",
    "/proc/cpuinfo",
    "/proc/iomem",
    "/proc/meminfo",
    "/proc/mtrr",
    "/proc/powerpc/lparcfg",
    "/proc/version",
    "/proc/xen/capabilities",
    "/sys/class/dmi/id/product_name",
    "/sys/class/dmi/id/sys_vendor",
    "/sys/devices/system/memory/block_size_bytes",
    "/sys/hypervisor/type",
    # CPUs and nodes of interrupts.
    "/proc/interrupts",
    "/proc/irq/*/effective_affinity_list",
    "/proc/irq/*/smp_affinity_list",
    "/sys/devices/system/node/node*/cpulist",
    "/sys/devices/system/node/node*/distance",
    "/sys/devices/system/node/node*/meminfo",
    # Translation: groups, reserved regions, bounce buffers, memory types.
    "/sys/kernel/iommu_groups",
    "/sys/kernel/debug/swiotlb/io_tlb_*",
    "/sys/kernel/debug/x86/pat_memtype_list",
    # RDMA devices.
    "/sys/class/infiniband/*/ports/*/link_layer",
    "/sys/class/infiniband/*/ports/*/rate",
    "/sys/class/infiniband/*/ports/*/state",
    # Slots, and POWER's windows.
    "/sys/bus/pci/slots/*/address",
    "/proc/device-tree",
    "/sys/firmware/devicetree/base/compatible",
    "/sys/firmware/devicetree/base/model",
    "/sys/firmware/devicetree/base/pci*",
)


class Iotoll(Plugin, RedHatPlugin, DebianPlugin, UbuntuPlugin):
    """The DMA paths of PCIe devices."""

    short_desc = "DMA paths of PCIe devices, for iotoll"
    plugin_name = "iotoll"
    profiles = ("hardware", "performance", "storage", "network")

    def setup(self):
        self.add_copy_spec(list(FILES))
        # Folders and not what is in them: an empty one says that there is no IOMMU.
        for name in CLASSES:
            self.add_copy_spec("/sys/class/%s" % name)
        # By their folders below /sys/devices: sos copies a link, but nothing below a folder that a link leads to.
        self.add_copy_spec("/sys/bus/pci/devices/*")
        for name in FUNCTION:
            self.add_copy_spec("/sys/bus/pci/devices/*/%s" % name)
        # iotoll finds them by these links.
        self.add_cmd_output("dmesg", root_symlink="dmesg")
        self.add_cmd_output("lspci -nnvv", root_symlink="lspci")
