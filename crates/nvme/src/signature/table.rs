//! The table of signatures: each type's magic bytes and their offsets. Source, where no other is named: util-linux's
//! libblkid (`libblkid/src/superblocks`, one file per type). Disk images: "QEMU Copy-On-Write v2/v3 file format",
//! "Virtual Disk Format 1.1" (VMDK), "MS-VHDX", "Virtual Hard Disk Image Format Specification". Copies of btrfs's
//! superblock: "On-disk Format" in its documentation.

use super::Kind::{self, DiskImage, Encryption, FileSystem, PartitionTable, Raid, Swap, Volume};
use super::pages::View;

/// Position of a structure on a disk.
#[derive(Debug, Clone, Copy)]
pub(super) enum Position {
    /// Offset from the beginning.
    Start(u64),
    /// Offset from the end, rounded down to a multiple of `align`.
    End {
        /// Bytes before the end.
        before: u64,
        /// Alignment of the position.
        align: u64,
    },
}

use Position::{End, Start};

impl Position {
    /// The offset on a disk of `bytes` bytes; `None` if the disk is too small.
    pub(super) fn offset(self, bytes: u64) -> Option<u64> {
        match self {
            Start(at) => (at < bytes).then_some(at),
            End { before, align } => bytes.checked_sub(before).map(|at| at / align * align),
        }
    }
}

/// A label or identifier in a structure; `at` is its offset within.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field {
    /// Text that ends at the first zero byte.
    Text {
        /// Offset.
        at: u64,
        /// Longest length.
        bytes: usize,
    },
    /// Text in UTF-16, little-endian.
    Utf16 {
        /// Offset.
        at: u64,
        /// Longest length in bytes.
        bytes: usize,
    },
    /// Sixteen bytes.
    Uuid {
        /// Offset.
        at: u64,
    },
    /// A little-endian number.
    Serial {
        /// Offset.
        at: u64,
        /// Length.
        bytes: usize,
    },
}

type Check = fn(&mut View<'_, '_>, u64) -> bool;

/// A row of the table.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    pub(super) kind: Kind,
    pub(super) name: &'static str,
    /// Possible positions of the structure.
    pub(super) at: &'static [Position],
    /// Possible offsets of the magic bytes in the structure.
    pub(super) magic_at: &'static [u64],
    pub(super) magic: &'static [u8],
    /// A further condition on the structure at that offset.
    pub(super) check: Option<Check>,
    pub(super) label: Option<Field>,
    pub(super) uuid: Option<Field>,
}

impl Row {
    /// A row for the signature `name`: `magic` at one of the offsets `magic_at` in a structure at one of the positions `at`.
    const fn new(
        kind: Kind,
        name: &'static str,
        at: &'static [Position],
        magic_at: &'static [u64],
        magic: &'static [u8],
    ) -> Self {
        Self { kind, name, at, magic_at, magic, check: None, label: None, uuid: None }
    }

    /// Requires a further check of the structure.
    const fn only_if(self, check: Check) -> Self {
        Self { check: Some(check), ..self }
    }

    /// The label is text of `bytes` bytes at an offset.
    const fn label(self, at: u64, bytes: usize) -> Self {
        Self { label: Some(Field::Text { at, bytes }), ..self }
    }

    /// The UUID is at an offset.
    const fn uuid(self, at: u64) -> Self {
        Self { uuid: Some(Field::Uuid { at }), ..self }
    }

    /// The label is in a field of another kind.
    const fn label_of(self, field: Field) -> Self {
        Self { label: Some(field), ..self }
    }

    /// The UUID or serial number is in a field of another kind.
    const fn uuid_of(self, field: Field) -> Self {
        Self { uuid: Some(field), ..self }
    }
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;
const BEGIN: &[Position] = &[Start(0)];
const AT_1K: &[Position] = &[Start(KIB)];
const LAST_SECTOR: &[Position] = &[End { before: 512, align: 512 }];
/// Swap: the magic bytes are the last ten of the first page, for each page size.
const SWAP_ENDS: &[u64] = &[4 * KIB - 10, 8 * KIB - 10, 16 * KIB - 10, 32 * KIB - 10, 64 * KIB - 10];
/// ZFS has two labels at either end.
const ZFS_LABELS: &[Position] = &[
    Start(0),
    Start(256 * KIB),
    End { before: 512 * KIB, align: 256 * KIB },
    End { before: 256 * KIB, align: 256 * KIB },
];
const UBERBLOCKS: &[u64] = &offsets::<128>(128 * KIB, KIB);
const DRBD_MAGICS: &[u64] = &offsets::<64>(0, 4);
const DRBD: &[Position] = &[End { before: 4 * KIB, align: 1 }];
/// Possible offsets of LUKS2's second header, which depend on the first one's size.
const LUKS2_SECOND: &[Position] = &[
    Start(16 * KIB),
    Start(32 * KIB),
    Start(64 * KIB),
    Start(128 * KIB),
    Start(256 * KIB),
    Start(512 * KIB),
    Start(MIB),
    Start(2 * MIB),
    Start(4 * MIB),
];
const BTRFS: &[Position] = &[Start(64 * KIB), Start(64 * MIB), Start(256 * GIB)];
const MD_0: &[Position] = &[End { before: 64 * KIB, align: 64 * KIB }];
const MD_1: &[Position] = &[Start(0), Start(4 * KIB), End { before: 8 * KIB, align: 4 * KIB }];
const UFS: &[Position] = &[Start(0), Start(8 * KIB), Start(64 * KIB), Start(256 * KIB)];
/// Volume descriptors of ISO 9660 and UDF, 2 KiB each from 32 KiB.
const DESCRIPTORS: &[u64] = &offsets::<32>(32 * KIB + 1, 2 * KIB);
const PROMISE: &[Position] = &[
    End { before: 16 * 512, align: 512 },
    End { before: 63 * 512, align: 512 },
    End { before: 255 * 512, align: 512 },
    End { before: 256 * 512, align: 512 },
    End { before: 399 * 512, align: 512 },
    End { before: 591 * 512, align: 512 },
    End { before: 675 * 512, align: 512 },
    End { before: 735 * 512, align: 512 },
    End { before: 911 * 512, align: 512 },
    End { before: 951 * 512, align: 512 },
    End { before: 974 * 512, align: 512 },
    End { before: 991 * 512, align: 512 },
    End { before: 3087 * 512, align: 512 },
];
const GPT: &[Position] =
    &[Start(512), Start(4 * KIB), End { before: 512, align: 512 }, End { before: 4 * KIB, align: 4 * KIB }];

/// `COUNT` offsets from `first` on, `step` apart.
const fn offsets<const COUNT: usize>(first: u64, step: u64) -> [u64; COUNT] {
    let mut all = [first; COUNT];
    let mut position = 1;
    while position < COUNT {
        all[position] = all[position - 1] + step;
        position += 1;
    }
    all
}

const EXT_MAGIC: &[u8] = &[0x53, 0xef];

/// A row for a version of ext2, ext3 or ext4.
const fn ext(name: &'static str, check: Check) -> Row {
    Row::new(FileSystem, name, AT_1K, &[56], EXT_MAGIC).only_if(check).label(120, 16).uuid(104)
}

/// A row for a FAT file system.
const fn fat(magic_at: &'static [u64], magic: &'static [u8], label_at: u64, serial_at: u64) -> Row {
    Row::new(FileSystem, "vfat", BEGIN, magic_at, magic)
        .label(label_at, 11)
        .uuid_of(Field::Serial { at: serial_at, bytes: 4 })
}

/// A row for a swap area.
const fn swap(name: &'static str, magic: &'static [u8]) -> Row {
    Row::new(Swap, name, BEGIN, SWAP_ENDS, magic)
}

/// A row for a DRBD device.
const fn drbd(magic: &'static [u8]) -> Row {
    Row::new(Raid, "drbd", DRBD, DRBD_MAGICS, magic)
}

pub(super) const ROWS: &[Row] = &[
    // Partition tables; MBR is not in this list, since boot sectors of file systems look like one.
    Row::new(PartitionTable, "gpt", GPT, &[0], b"EFI PART").uuid(56),
    Row::new(PartitionTable, "mac", BEGIN, &[512], b"PM\0\0"),
    Row::new(PartitionTable, "sun", BEGIN, &[508], &[0xda, 0xbe]).only_if(is_sun),
    Row::new(PartitionTable, "sgi", BEGIN, &[0], &[0x0b, 0xe5, 0xa9, 0x41]),
    Row::new(PartitionTable, "bsd", BEGIN, &[64, 512], &[0x57, 0x45, 0x56, 0x82]),
    Row::new(PartitionTable, "aix", BEGIN, &[0], &[0xc9, 0xc2, 0xd4, 0xc1]),
    // Logical Disk Manager of Windows.
    Row::new(PartitionTable, "ldm", &[Start(3 * KIB), End { before: 512, align: 512 }], &[0], b"PRIVHEAD"),
    // RAID and pools.
    Row::new(Raid, "linux_raid_member", MD_1, &[0], &[0xfc, 0x4e, 0x2b, 0xa9])
        .only_if(is_md_1)
        .label(32, 32)
        .uuid(16),
    Row::new(Raid, "linux_raid_member", MD_0, &[0], &[0xfc, 0x4e, 0x2b, 0xa9]),
    Row::new(Raid, "linux_raid_member", MD_0, &[0], &[0xa9, 0x2b, 0x4e, 0xfc]),
    Row::new(Raid, "zfs_member", ZFS_LABELS, UBERBLOCKS, &[0x0c, 0xb1, 0xba, 0, 0, 0, 0, 0]),
    Row::new(Raid, "zfs_member", ZFS_LABELS, UBERBLOCKS, &[0, 0, 0, 0, 0, 0xba, 0xb1, 0x0c]),
    Row::new(
        Raid,
        "ddf_raid_member",
        &[End { before: 512, align: 512 }, End { before: 257 * 512, align: 512 }],
        &[0],
        &[0xde, 0x11, 0xde, 0x11],
    ),
    Row::new(
        Raid,
        "isw_raid_member",
        &[End { before: KIB, align: 512 }, End { before: 8 * KIB, align: 4 * KIB }],
        &[0],
        b"Intel Raid ISM Cfg Sig. ",
    ),
    Row::new(Raid, "lsi_mega_raid_member", LAST_SECTOR, &[0], b"$XIDE$"),
    Row::new(Raid, "nvidia_raid_member", &[End { before: KIB, align: 512 }], &[0], b"NVIDIA"),
    Row::new(Raid, "promise_fasttrack_raid_member", PROMISE, &[0], b"Promise Technology, Inc."),
    Row::new(Raid, "hpt37x_raid_member", BEGIN, &[0x1220], &[0xf0, 0x16, 0x78, 0x5a]),
    Row::new(Raid, "hpt37x_raid_member", BEGIN, &[0x1220], &[0xfd, 0x16, 0x78, 0x5a]),
    Row::new(
        Raid,
        "hpt45x_raid_member",
        &[End { before: 11 * 512, align: 512 }],
        &[0],
        &[0xf3, 0x16, 0x78, 0x5a],
    ),
    Row::new(Raid, "adaptec_raid_member", LAST_SECTOR, &[0], &[0x37, 0xfc, 0x4d, 0x1e]),
    drbd(&[0x83, 0x74, 0x02, 0x67]),
    drbd(&[0x83, 0x74, 0x02, 0x6b]),
    drbd(&[0x83, 0x74, 0x02, 0x6d]),
    Row::new(Raid, "drbdproxy_datalog", BEGIN, &[16], b"DRBDdlh*"),
    Row::new(Raid, "drbdmanage_control_volume", &[Start(4 * KIB)], &[0], b"$DRBDmgr=q"),
    Row::new(Raid, "ceph_bluestore", BEGIN, &[0], b"bluestore block device"),
    // Volumes, caches and what lies under file systems.
    Row::new(Volume, "LVM2_member", &[Start(0), Start(512), Start(KIB), Start(1536)], &[0], b"LABELONE")
        .only_if(is_lvm2)
        .uuid_of(Field::Text { at: 32, bytes: 32 }),
    Row::new(Volume, "LVM1_member", BEGIN, &[0], b"HM").only_if(is_lvm1),
    Row::new(Volume, "DM_snapshot_cow", BEGIN, &[0], b"SnAp"),
    Row::new(Volume, "DM_verity_hash", BEGIN, &[0], b"verity\0\0").uuid(16),
    Row::new(Volume, "DM_integrity", BEGIN, &[0], b"integrt\0"),
    Row::new(Volume, "stratis", &[Start(0)], &[516, 4612], b"!Stra0tis\x86\xff\x02\x5e\x41rh"),
    Row::new(Volume, "vdo", BEGIN, &[0], b"dmvdo001"),
    Row::new(
        Volume,
        "bcache",
        &[Start(4 * KIB)],
        &[24],
        b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
    )
    .label(72, 32)
    .uuid(40),
    Row::new(
        FileSystem,
        "bcachefs",
        &[Start(4 * KIB)],
        &[24],
        b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef",
    )
    .label(72, 32)
    .uuid(56),
    Row::new(Volume, "oracleasm", BEGIN, &[32], b"ORCLDISK"),
    Row::new(Volume, "VMFS", &[Start(2 * MIB)], &[0], &[0x5e, 0xf1, 0xab, 0x2f]),
    Row::new(Volume, "VMFS_volume_member", &[Start(MIB)], &[0], &[0x0d, 0xd0, 0x01, 0xc0]),
    Row::new(Volume, "ubi", BEGIN, &[0], b"UBI#"),
    Row::new(Volume, "mpool", BEGIN, &[8], b"mpoolDev"),
    // Encryption.
    Row::new(Encryption, "crypto_LUKS", BEGIN, &[0], b"LUKS\xba\xbe").label_of(LUKS_LABEL).uuid_of(LUKS_UUID),
    Row::new(Encryption, "crypto_LUKS", LUKS2_SECOND, &[0], b"SKUL\xba\xbe")
        .label_of(LUKS_LABEL)
        .uuid_of(LUKS_UUID),
    Row::new(Encryption, "BitLocker", BEGIN, &[3], b"-FVE-FS-"),
    Row::new(
        Encryption,
        "BitLocker",
        BEGIN,
        &[0x1a8],
        b"\x3b\xd6\x67\x49\x29\x2e\xd8\x4a\x83\x99\xf6\xa3\x39\xe3\xd0\x01",
    ),
    Row::new(Encryption, "cs_fvault2", BEGIN, &[88], b"CS").only_if(is_core_storage),
    // Swap.
    swap("swap", b"SWAPSPACE2").label(1052, 16).uuid(1036),
    swap("swap", b"SWAP-SPACE"),
    swap("swsuspend", b"S1SUSPEND"),
    swap("swsuspend", b"S2SUSPEND"),
    swap("swsuspend", b"ULSUSPEND"),
    swap("swsuspend", b"LINHIB0001"),
    swap("swsuspend", b"\xed\xc3\x02\xe9\x98\x56\xe5\x0c"),
    // File systems.
    ext("jbd", is_journal),
    ext("ext4", is_ext4),
    ext("ext3", is_ext3),
    ext("ext2", is_ext2),
    Row::new(FileSystem, "xfs", BEGIN, &[0], b"XFSB").label(108, 12).uuid(32),
    Row::new(FileSystem, "xfs_log", BEGIN, &[0], &[0xfe, 0xed, 0xba, 0xbe]),
    Row::new(FileSystem, "exfs", BEGIN, &[0], b"EXFS"),
    Row::new(FileSystem, "btrfs", BTRFS, &[64], b"_BHRfS_M").label(299, 256).uuid(32),
    Row::new(FileSystem, "exfat", BEGIN, &[3], b"EXFAT   ").uuid_of(Field::Serial { at: 100, bytes: 4 }),
    Row::new(FileSystem, "ntfs", BEGIN, &[3], b"NTFS    ").uuid_of(Field::Serial { at: 72, bytes: 8 }),
    Row::new(FileSystem, "ReFS", BEGIN, &[0], b"\0\0\0ReFS\0"),
    fat(&[82], b"FAT32   ", 71, 67),
    fat(&[82], b"MSWIN", 71, 67),
    fat(&[54], b"FAT16   ", 43, 39),
    fat(&[54], b"FAT12   ", 43, 39),
    fat(&[54], b"FAT     ", 43, 39),
    fat(&[54], b"MSDOS", 43, 39),
    // An old one without its name, by its boot sector.
    Row::new(FileSystem, "vfat", BEGIN, &[510], &[0x55, 0xaa]).only_if(is_fat),
    Row::new(FileSystem, "apfs", BEGIN, &[32], b"NXSB").uuid(72),
    Row::new(FileSystem, "hfsplus", AT_1K, &[0], b"H+\0\x04"),
    Row::new(FileSystem, "hfsplus", AT_1K, &[0], b"HX\0\x05"),
    Row::new(FileSystem, "hfs", AT_1K, &[0], b"BD"),
    Row::new(FileSystem, "f2fs", &[Start(KIB), Start(5 * KIB)], &[0], &[0x10, 0x20, 0xf5, 0xf2])
        .label_of(Field::Utf16 { at: 124, bytes: 1024 })
        .uuid(108),
    Row::new(FileSystem, "iso9660", BEGIN, &[32 * KIB + 1], b"CD001").label(32 * KIB + 40, 32),
    Row::new(FileSystem, "iso9660", BEGIN, &[32 * KIB + 9], b"CDROM"),
    Row::new(FileSystem, "udf", BEGIN, DESCRIPTORS, b"NSR02"),
    Row::new(FileSystem, "udf", BEGIN, DESCRIPTORS, b"NSR03"),
    Row::new(FileSystem, "squashfs", BEGIN, &[0], b"hsqs"),
    Row::new(FileSystem, "squashfs", BEGIN, &[0], b"sqsh"),
    Row::new(FileSystem, "erofs", AT_1K, &[0], &[0xe2, 0xe1, 0xf5, 0xe0]).label(64, 16).uuid(48),
    Row::new(FileSystem, "cramfs", BEGIN, &[0], &[0x45, 0x3d, 0xcd, 0x28]).label(48, 16),
    Row::new(FileSystem, "cramfs", BEGIN, &[0], &[0x28, 0xcd, 0x3d, 0x45]).label(48, 16),
    Row::new(FileSystem, "romfs", BEGIN, &[0], b"-rom1fs-").label(16, 16),
    Row::new(FileSystem, "jfs", &[Start(32 * KIB)], &[0], b"JFS1").label(152, 16).uuid(136),
    Row::new(FileSystem, "reiserfs", &[Start(8 * KIB), Start(64 * KIB)], &[52], b"ReIsEr")
        .label(100, 16)
        .uuid(84),
    Row::new(FileSystem, "reiser4", &[Start(64 * KIB)], &[0], b"ReIsEr4").label(36, 16).uuid(20),
    Row::new(
        FileSystem,
        "nilfs2",
        &[Start(KIB), End { before: 4 * KIB, align: 4 * KIB }, End { before: 4 * KIB, align: 512 }],
        &[6],
        &[0x34, 0x34],
    )
    .only_if(is_nilfs2)
    .label(168, 80)
    .uuid(152),
    Row::new(FileSystem, "gfs2", &[Start(64 * KIB)], &[0], &[0x01, 0x16, 0x19, 0x70]).label(96, 64),
    Row::new(
        FileSystem,
        "ocfs2",
        &[Start(KIB), Start(2 * KIB), Start(4 * KIB), Start(8 * KIB)],
        &[0],
        b"OCFSV2",
    ),
    Row::new(FileSystem, "ocfs", BEGIN, &[8], b"OracleCFS"),
    Row::new(FileSystem, "minix", AT_1K, &[16], &[0x7f, 0x13]).only_if(is_minix),
    Row::new(FileSystem, "minix", AT_1K, &[16], &[0x8f, 0x13]).only_if(is_minix),
    Row::new(FileSystem, "minix", AT_1K, &[16], &[0x68, 0x24]).only_if(is_minix),
    Row::new(FileSystem, "minix", AT_1K, &[16], &[0x78, 0x24]).only_if(is_minix),
    Row::new(FileSystem, "minix", AT_1K, &[24], &[0x5a, 0x4d]).only_if(is_minix_3),
    Row::new(FileSystem, "ufs", UFS, &[1372], &[0x54, 0x19, 0x01, 0x00]),
    Row::new(FileSystem, "ufs", UFS, &[1372], &[0x00, 0x01, 0x19, 0x54]),
    Row::new(FileSystem, "ufs", UFS, &[1372], &[0x19, 0x01, 0x54, 0x19]),
    Row::new(FileSystem, "ufs", UFS, &[1372], &[0x19, 0x54, 0x01, 0x19]),
    Row::new(FileSystem, "hpfs", &[Start(8 * KIB)], &[0], &[0x49, 0xe8, 0x95, 0xf9]),
    Row::new(FileSystem, "befs", BEGIN, &[32, 544], b"BFS1"),
    Row::new(FileSystem, "befs", BEGIN, &[32, 544], b"1SFB"),
    Row::new(FileSystem, "zonefs", BEGIN, &[0], b"SFOZ"),
    Row::new(FileSystem, "ubifs", BEGIN, &[0], &[0x31, 0x18, 0x10, 0x06]),
    Row::new(FileSystem, "nss", &[Start(4 * KIB)], &[0], b"SPB5"),
    // Images of disks: their bytes are not blocks of the disk.
    Row::new(DiskImage, "qcow2", BEGIN, &[0], b"QFI\xfb"),
    Row::new(DiskImage, "vmdk", BEGIN, &[0], b"KDMV"),
    Row::new(DiskImage, "vhdx", BEGIN, &[0], b"vhdxfile"),
    Row::new(DiskImage, "vhd", &[Start(0), End { before: 512, align: 1 }], &[0], b"conectix"),
    Row::new(DiskImage, "vdi", BEGIN, &[64], &[0x7f, 0x10, 0xda, 0xbe]),
];

const LUKS_LABEL: Field = Field::Text { at: 24, bytes: 48 };
const LUKS_UUID: Field = Field::Text { at: 168, bytes: 40 };

/// ext feature flags, by which libblkid tells the versions apart (kernel: `fs/ext4/ext4.h`, `EXT3_FEATURE_*_SUPP`).
const EXT_HAS_JOURNAL: u32 = 0x4;
const EXT_IS_JOURNAL: u32 = 0x8;
const EXT3_INCOMPATIBLE: u32 = 0x2 | 0x4 | 0x10;
const EXT3_READ_ONLY: u32 = 0x1 | 0x2 | 0x4;

/// The compatible, incompatible and read-only features of an ext superblock.
fn ext_features(view: &mut View<'_, '_>, at: u64) -> [u32; 3] {
    [92, 96, 100].map(|place| view.u32(at + place).unwrap_or(0))
}

/// Whether it is an external journal.
fn is_journal(view: &mut View<'_, '_>, at: u64) -> bool {
    ext_features(view, at)[1] & EXT_IS_JOURNAL != 0
}

/// Whether it has features beyond those of ext3.
fn is_ext4(view: &mut View<'_, '_>, at: u64) -> bool {
    let [_, incompatible, read_only] = ext_features(view, at);
    let is_beyond_3 = incompatible & !EXT3_INCOMPATIBLE != 0 || read_only & !EXT3_READ_ONLY != 0;
    incompatible & EXT_IS_JOURNAL == 0 && is_beyond_3
}

/// Whether it has a journal, and no ext4 features.
fn is_ext3(view: &mut View<'_, '_>, at: u64) -> bool {
    let [compatible, ..] = ext_features(view, at);
    compatible & EXT_HAS_JOURNAL != 0 && !is_ext4(view, at) && !is_journal(view, at)
}

/// Whether it has neither a journal nor ext4 features.
fn is_ext2(view: &mut View<'_, '_>, at: u64) -> bool {
    let [compatible, ..] = ext_features(view, at);
    compatible & EXT_HAS_JOURNAL == 0 && !is_ext4(view, at) && !is_journal(view, at)
}

/// The version field after the magic bytes is 1.
fn is_md_1(view: &mut View<'_, '_>, at: u64) -> bool {
    view.u32(at + 4) == Some(1)
}

/// Whether it is an LVM2 physical volume.
fn is_lvm2(view: &mut View<'_, '_>, at: u64) -> bool {
    view.is_at(at + 24, b"LVM2 001")
}

/// Whether it is an LVM1 physical volume, version 1 or 2.
fn is_lvm1(view: &mut View<'_, '_>, at: u64) -> bool {
    matches!(view.u16(at + 2), Some(1 | 2))
}

/// Whether it is an Apple Core Storage volume header.
fn is_core_storage(view: &mut View<'_, '_>, at: u64) -> bool {
    view.u16(at + 8) == Some(1) && view.u16(at + 10) == Some(0x10)
}

/// The label's checksum: the XOR of its words is 0.
fn is_sun(view: &mut View<'_, '_>, at: u64) -> bool {
    let words = view.read(at, 512).unwrap_or_default();
    let sum = words.chunks_exact(2).fold(0, |sum, word| sum ^ u16::from_be_bytes([word[0], word[1]]));
    sum == 0
}

/// A boot sector: a jump instruction, power-of-two sector and cluster sizes, at least one FAT.
fn is_fat(view: &mut View<'_, '_>, at: u64) -> bool {
    let jumps = matches!(view.byte(at), Some(0xeb | 0xe9));
    let sector = view.u16(at + 11).unwrap_or(0);
    let cluster = view.byte(at + 13).unwrap_or(0);
    let reserved = view.u16(at + 14).unwrap_or(0);
    let tables = view.byte(at + 16).unwrap_or(0);
    let media = view.byte(at + 21).unwrap_or(0);
    let sizes = sector.is_power_of_two() && (512..=4096).contains(&sector) && cluster.is_power_of_two();
    jumps && sizes && reserved > 0 && (1..=4).contains(&tables) && (media == 0xf0 || media >= 0xf8)
}

/// Checks the revision of the superblock's format.
fn is_nilfs2(view: &mut View<'_, '_>, at: u64) -> bool {
    view.u32(at) == Some(2)
}

/// Checks the inode and zone maps, and that the first data zone is behind them.
fn is_minix(view: &mut View<'_, '_>, at: u64) -> bool {
    let [inodes, inode_maps, zone_maps, first_zone] =
        [0, 4, 6, 8].map(|place| view.u16(at + place).unwrap_or(0));
    inodes > 0 && inode_maps > 0 && zone_maps > 0 && first_zone > inode_maps.saturating_add(zone_maps)
}

/// Whether the sizes in a Minix 3 superblock are plausible.
fn is_minix_3(view: &mut View<'_, '_>, at: u64) -> bool {
    let [inode_maps, zone_maps, first_zone] = [6, 8, 10].map(|place| view.u16(at + place).unwrap_or(0));
    inode_maps > 0 && zone_maps > 0 && first_zone > inode_maps.saturating_add(zone_maps)
}
