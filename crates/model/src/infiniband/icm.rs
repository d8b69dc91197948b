//! InfiniHost context memory: the tables that contexts and translations lie in, and the host memory that they take.
//!
//! As Linux's mthca driver has them (`drivers/infiniband/hw/mthca`: `mthca_profile.c`, `mthca_memfree.c`): every table has a power
//! of two of objects and of bytes, the largest lies first, and where the tables are in host memory, 256 KiB of a table are allocated
//! and mapped when the first object in them is.

/// Memory of a table is allocated in chunks of this (`MTHCA_TABLE_CHUNK_SIZE`).
pub const CHUNK_BYTES: u64 = 256 << 10;
/// A table takes a page at least, and pages are what buffers are translated by.
pub const PAGE_BYTES: u64 = 4096;
/// Pages that a segment of the MTT translates, 8 bytes each.
pub(super) const PAGES_PER_SEGMENT: u64 = 8;
const TRANSLATION_BYTES: u64 = 8;
/// A doorbell record (`MTHCA_DB_REC_PER_PAGE` of them in a page).
const DOORBELL_BYTES: u64 = 8;

/// A table that verbs touch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Table {
    /// Contexts of queue pairs.
    Qp,
    /// Their extensions.
    ExtendedQp,
    /// What a queue pair keeps of RDMA reads that it answers (RDB).
    ReadBuffer,
    /// Contexts of completion queues.
    Cq,
    /// Contexts of event queues.
    Eq,
    /// Memory regions: protection (MPT).
    Region,
    /// Memory regions: translation (MTT), in segments of 8 pages.
    Segment,
}

impl Table {
    /// All of them, in the order in which the driver lists its resources: of tables of a size the earlier lies first.
    pub const ALL: [Self; 7] =
        [Self::Qp, Self::Cq, Self::ExtendedQp, Self::Eq, Self::ReadBuffer, Self::Region, Self::Segment];
}

/// How many objects there are, and how long each is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Profile {
    /// Queue pairs, a power of two.
    pub qps: u64,
    /// Completion queues, a power of two.
    pub cqs: u64,
    /// Memory regions, a power of two.
    pub regions: u64,
    /// Segments of translations, a power of two.
    pub segments: u64,
    /// Bytes of a queue pair's context, a power of two. The driver asks the device.
    pub qp_bytes: u64,
    /// Bytes of its extension, a power of two. The driver asks the device.
    pub extended_qp_bytes: u64,
}

impl Default for Profile {
    /// The driver's defaults (`MTHCA_DEFAULT_NUM_QP` and so on); contexts of queue pairs as Solaris's driver of the same family of
    /// adapters has them (`tavor_qp.h`: `TAVOR_QPC_SIZE`, `TAVOR_EQPC_SIZE`).
    fn default() -> Self {
        Self {
            qps: 1 << 16,
            cqs: 1 << 16,
            regions: 1 << 17,
            segments: 1 << 20,
            qp_bytes: 256,
            extended_qp_bytes: 32,
        }
    }
}

/// `MTHCA_NUM_EQS`.
const EQS: u64 = 32;
/// `MTHCA_DEFAULT_RDB_PER_QP` and `MTHCA_RDB_ENTRY_SIZE`: all of a queue pair's.
const READ_BUFFERS_BYTES: u64 = 4 * 32;
const CQ_BYTES: u64 = 64;
const EQ_BYTES: u64 = 64;
const REGION_BYTES: u64 = 64;
const SEGMENT_BYTES: u64 = TRANSLATION_BYTES * PAGES_PER_SEGMENT;

impl Profile {
    /// Bytes of one object.
    pub fn object_bytes(&self, table: Table) -> u64 {
        match table {
            Table::Qp => self.qp_bytes,
            Table::ExtendedQp => self.extended_qp_bytes,
            Table::ReadBuffer => READ_BUFFERS_BYTES,
            Table::Cq => CQ_BYTES,
            Table::Eq => EQ_BYTES,
            Table::Region => REGION_BYTES,
            Table::Segment => SEGMENT_BYTES,
        }
    }

    /// Number of objects in a table.
    fn objects(&self, table: Table) -> u64 {
        match table {
            Table::Qp | Table::ExtendedQp | Table::ReadBuffer => self.qps,
            Table::Cq => self.cqs,
            Table::Eq => EQS,
            Table::Region => self.regions,
            Table::Segment => self.segments,
        }
    }

    /// Bytes of a table.
    pub fn table_bytes(&self, table: Table) -> u64 {
        (self.objects(table) * self.object_bytes(table)).max(PAGE_BYTES)
    }
}

/// Where each table begins.
#[derive(Debug, Clone)]
pub struct Layout {
    profile: Profile,
    starts: [u64; Table::ALL.len()],
    bytes: u64,
}

impl Layout {
    /// Packs the tables, the largest first.
    pub fn new(profile: Profile) -> Self {
        let mut order = Table::ALL;
        order.sort_by_key(|table| std::cmp::Reverse(profile.table_bytes(*table)));
        let (mut starts, mut bytes) = ([0; Table::ALL.len()], 0);
        for table in order {
            starts[table as usize] = bytes;
            bytes += profile.table_bytes(table);
        }
        Self { profile, starts, bytes }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Where a table begins.
    pub fn start(&self, table: Table) -> u64 {
        self.starts[table as usize]
    }

    /// Where an object is; beyond the last they begin anew, as the driver masks their numbers.
    pub fn object(&self, table: Table, number: u64) -> u64 {
        let number = number & (self.profile.objects(table) - 1);
        self.start(table) + number * self.profile.object_bytes(table)
    }

    /// Where the translation of a page is, of a region whose segments begin at `segment`.
    pub fn translation(&self, segment: u64, page: u64) -> u64 {
        let number = segment + page / PAGES_PER_SEGMENT;
        self.object(Table::Segment, number) + page % PAGES_PER_SEGMENT * TRANSLATION_BYTES
    }

    /// Bytes of a translation.
    pub fn translation_bytes(&self) -> u64 {
        TRANSLATION_BYTES
    }

    /// Segments that a region of so many bytes takes.
    pub fn segments_of(bytes: u64) -> u64 {
        bytes.div_ceil(PAGE_BYTES * PAGES_PER_SEGMENT).max(1).next_power_of_two()
    }
}

/// Host memory that tables take: chunks by table, each with how many objects in it are in use.
#[derive(Debug, Clone)]
pub struct Chunks {
    profile: Profile,
    users: [Vec<u32>; Table::ALL.len()],
}

impl Chunks {
    /// Tables with nothing but what the firmware has reserved, which is within the first chunk of each.
    pub fn new(profile: Profile) -> Self {
        let chunks = |table: Table| profile.table_bytes(table).div_ceil(CHUNK_BYTES) as usize;
        let users = Table::ALL.map(|table| {
            let mut users = vec![0; chunks(table)];
            users[0] = 1;
            users
        });
        let mut ordered: [Vec<u32>; Table::ALL.len()] = Default::default();
        for (table, users) in Table::ALL.into_iter().zip(users) {
            ordered[table as usize] = users;
        }
        Self { profile, users: ordered }
    }

    /// An object comes into use.
    pub fn get(&mut self, table: Table, number: u64) {
        let at = self.chunk_of(table, number);
        self.users[table as usize][at] += 1;
    }

    /// An object is no longer used; a chunk without any is given back.
    pub fn put(&mut self, table: Table, number: u64) {
        let at = self.chunk_of(table, number);
        let users = &mut self.users[table as usize][at];
        *users = users.saturating_sub(1);
    }

    /// What a connection takes: a queue pair, a completion queue, and the regions of their buffers, each of one segment.
    pub fn connect(&mut self, number: u64) {
        for table in [Table::Qp, Table::ExtendedQp, Table::ReadBuffer, Table::Cq] {
            self.get(table, number);
        }
        for buffer in [2 * number, 2 * number + 1] {
            self.get(Table::Region, buffer);
            self.get(Table::Segment, buffer);
        }
    }

    /// Bytes of host memory.
    pub fn bytes(&self) -> u64 {
        let used = |table: &Table| {
            let chunks = self.users[*table as usize].iter().filter(|users| **users > 0).count() as u64;
            chunks * CHUNK_BYTES.min(self.profile.table_bytes(*table))
        };
        Table::ALL.iter().map(used).sum()
    }

    /// The chunk of host memory that holds an object.
    fn chunk_of(&self, table: Table, number: u64) -> usize {
        let number = number & (self.profile.objects(table) - 1);
        (number * self.profile.object_bytes(table) / CHUNK_BYTES) as usize
    }
}

/// Host memory of doorbell records, which only adapters without memory have: a send and a receive queue have one each, a completion
/// queue two, and the first of each kind fill pages from one end of the list, the second from the other (`mthca_alloc_db`).
pub fn doorbell_bytes(connections: u64) -> u64 {
    let pages = (2 * connections * DOORBELL_BYTES).div_ceil(PAGE_BYTES);
    2 * pages * PAGE_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn tables_are_as_large_as_the_driver_s_defaults_make_them() {
        let profile = Profile::default();
        let mib = [Table::Segment, Table::Region, Table::ReadBuffer, Table::Cq, Table::Qp, Table::ExtendedQp]
            .map(|table| profile.table_bytes(table) / MIB);
        assert_eq!(mib, [64, 8, 8, 4, 16, 2]);
        assert_eq!(profile.table_bytes(Table::Eq), PAGE_BYTES);
        // 8 Mi pages of 4 KiB.
        assert_eq!(profile.segments * PAGES_PER_SEGMENT * PAGE_BYTES, 32 << 30);
    }

    #[test]
    fn the_largest_table_comes_first_without_gaps() {
        let layout = Layout::new(Profile::default());
        let starts = [
            Table::Segment,
            Table::Qp,
            Table::ReadBuffer,
            Table::Region,
            Table::Cq,
            Table::ExtendedQp,
            Table::Eq,
        ]
        .map(|table| layout.start(table) / MIB);
        assert_eq!(starts, [0, 64, 80, 88, 96, 100, 102]);
        assert_eq!(layout.bytes(), 102 * MIB + PAGE_BYTES);
        assert_eq!(layout.object(Table::Qp, 3), 64 * MIB + 3 * 256);
        assert_eq!(layout.object(Table::Qp, 65_536 + 3), layout.object(Table::Qp, 3));
        // The ninth page of a region whose segments begin at the fifth: the second translation of the sixth segment.
        assert_eq!(layout.translation(5, 9), 6 * 64 + 8);
        assert_eq!([1, 32 << 10, (32 << 10) + 1, 1 << 20].map(Layout::segments_of), [1, 1, 2, 32]);
    }

    #[test]
    fn host_memory_grows_by_chunks() {
        let mut chunks = Chunks::new(Profile::default());
        // A chunk of each table but that of event queues, which is a page.
        let first = 6 * CHUNK_BYTES + PAGE_BYTES;
        assert_eq!(chunks.bytes(), first);
        (0..1024).for_each(|number| chunks.connect(number));
        assert_eq!(chunks.bytes(), first);
        chunks.connect(1024);
        assert_eq!(chunks.bytes(), first + CHUNK_BYTES);
        assert_eq!([1, 256, 257].map(doorbell_bytes), [8192, 8192, 16_384]);
    }

    proptest! {
        /// What is put back takes nothing; what is in use always takes whole chunks, and at least its own bytes.
        #[test]
        fn chunks_follow_the_entries_in_use(numbers in prop::collection::vec((0_usize..7, 0_u64..1 << 21), 1..200)) {
            let profile = Profile::default();
            let mut chunks = Chunks::new(profile);
            let empty = chunks.bytes();
            for (table, number) in &numbers {
                let before = chunks.bytes();
                chunks.get(Table::ALL[*table], *number);
                let grown = chunks.bytes() - before;
                prop_assert!(grown == 0 || grown == CHUNK_BYTES);
            }
            for (table, number) in &numbers {
                chunks.put(Table::ALL[*table], *number);
            }
            prop_assert_eq!(chunks.bytes(), empty);
        }

        /// No two objects overlap, whatever the tables' sizes.
        #[test]
        fn objects_lie_apart(
            qps in 4_u32..18,
            qp_bytes in 5_u32..11,
            segments in 4_u32..21,
            first in (0_usize..7, 0_u64..1 << 20),
            second in (0_usize..7, 0_u64..1 << 20),
        ) {
            let profile = Profile {
                qps: 1 << qps,
                qp_bytes: 1 << qp_bytes,
                segments: 1 << segments,
                ..Profile::default()
            };
            let layout = Layout::new(profile);
            let range = |(table, number): (usize, u64)| {
                let table = Table::ALL[table];
                let at = layout.object(table, number);
                (at, at + profile.object_bytes(table))
            };
            let (one, other) = (range(first), range(second));
            prop_assert!(one == other || one.1 <= other.0 || other.1 <= one.0);
            prop_assert!(one.1 <= layout.bytes() && one.0 % (one.1 - one.0) == 0);
        }
    }
}
