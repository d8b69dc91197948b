//! SMART / Health Information (Base, 5.16.1.3).

use super::field::{number, write_number};

/// Bytes of the log page.
pub const HEALTH_BYTES: usize = 512;

/// A bit of Critical Warning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CriticalWarning {
    /// Bit 0: the spare capacity is below its threshold.
    Spare,
    /// Bit 1: a temperature is beyond a threshold.
    Temperature,
    /// Bit 2: reliability is degraded by media errors or an internal error.
    Reliability,
    /// Bit 3: all media are read-only.
    ReadOnly,
    /// Bit 4: the backup of volatile memory failed.
    Backup,
    /// Bit 5: the Persistent Memory Region is read-only or unreliable.
    PersistentMemory,
    /// Another bit, which the specification reserves.
    Reserved(u8),
}

impl CriticalWarning {
    /// The meaning of a bit.
    fn of_bit(bit: u8) -> Self {
        match bit {
            0 => Self::Spare,
            1 => Self::Temperature,
            2 => Self::Reliability,
            3 => Self::ReadOnly,
            4 => Self::Backup,
            5 => Self::PersistentMemory,
            other => Self::Reserved(other),
        }
    }
}

/// The health of a controller and its media.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Health {
    /// Critical Warning, a bit for each [`CriticalWarning`].
    pub critical_warnings: u8,
    /// Composite temperature in kelvins.
    pub temperature_k: u16,
    /// Spare capacity that is left, in percent.
    pub spare_percent: u8,
    /// Spare capacity below which the controller warns, in percent.
    pub spare_threshold_percent: u8,
    /// Life used by the vendor's estimate, in percent; 255 stands for more than 254.
    pub used_percent: u8,
    /// Data read by the host, in units of 512,000 bytes.
    pub units_read: u128,
    /// Data written by the host, in units of 512,000 bytes.
    pub units_written: u128,
    /// Read commands of the host.
    pub reads: u128,
    /// Write commands of the host.
    pub writes: u128,
    /// Minutes in which the controller had I/O commands.
    pub busy_minutes: u128,
    /// Power cycles.
    pub power_cycles: u128,
    /// Hours with power.
    pub power_on_hours: u128,
    /// Losses of power without a shutdown before.
    pub unsafe_shutdowns: u128,
    /// Times that the controller found data which it could not correct.
    pub media_errors: u128,
    /// Entries of the error log over the controller's life.
    pub error_log_entries: u128,
    /// Minutes above the warning temperature.
    pub warning_temperature_minutes: u32,
    /// Minutes above the critical temperature.
    pub critical_temperature_minutes: u32,
    /// Temperature sensors 1 to 8 in kelvins; 0 where there is none.
    pub sensors_k: [u16; 8],
    /// Times that the controller slowed down for light, then for heavy thermal management.
    pub thermal_transitions: [u32; 2],
    /// Seconds in light, then in heavy thermal management.
    pub thermal_seconds: [u32; 2],
}

impl Health {
    /// Decodes the page. Bytes that are missing count as zero.
    pub fn read(bytes: &[u8]) -> Self {
        let counter = |index: usize| number::<16>(bytes, 32 + 16 * index);
        let word = |at: usize| number::<4>(bytes, at) as u32;
        let byte = |at: usize| number::<1>(bytes, at) as u8;
        Self {
            critical_warnings: byte(0),
            temperature_k: number::<2>(bytes, 1) as u16,
            spare_percent: byte(3),
            spare_threshold_percent: byte(4),
            used_percent: byte(5),
            units_read: counter(0),
            units_written: counter(1),
            reads: counter(2),
            writes: counter(3),
            busy_minutes: counter(4),
            power_cycles: counter(5),
            power_on_hours: counter(6),
            unsafe_shutdowns: counter(7),
            media_errors: counter(8),
            error_log_entries: counter(9),
            warning_temperature_minutes: word(192),
            critical_temperature_minutes: word(196),
            sensors_k: std::array::from_fn(|index| number::<2>(bytes, 200 + 2 * index) as u16),
            thermal_transitions: [word(216), word(220)],
            thermal_seconds: [word(224), word(228)],
        }
    }

    /// Encodes the page, for emulated controllers.
    pub fn write(&self) -> [u8; HEALTH_BYTES] {
        let mut bytes = [0; HEALTH_BYTES];
        bytes[0] = self.critical_warnings;
        bytes[1..3].copy_from_slice(&self.temperature_k.to_le_bytes());
        (bytes[3], bytes[4], bytes[5]) =
            (self.spare_percent, self.spare_threshold_percent, self.used_percent);
        let counters = [
            self.units_read,
            self.units_written,
            self.reads,
            self.writes,
            self.busy_minutes,
            self.power_cycles,
            self.power_on_hours,
            self.unsafe_shutdowns,
            self.media_errors,
            self.error_log_entries,
        ];
        for (index, counter) in counters.into_iter().enumerate() {
            write_number(&mut bytes, 32 + 16 * index, 16, counter);
        }
        let [light, heavy] = self.thermal_transitions;
        let [light_seconds, heavy_seconds] = self.thermal_seconds;
        let minutes = [self.warning_temperature_minutes, self.critical_temperature_minutes];
        for (at, word) in [192, 196].into_iter().zip(minutes) {
            write_number(&mut bytes, at, 4, word.into());
        }
        for (at, word) in [216, 220, 224, 228].into_iter().zip([light, heavy, light_seconds, heavy_seconds]) {
            write_number(&mut bytes, at, 4, word.into());
        }
        for (index, sensor) in self.sensors_k.into_iter().enumerate() {
            write_number(&mut bytes, 200 + 2 * index, 2, sensor.into());
        }
        bytes
    }

    /// The critical warnings that are set, the lowest bit first.
    pub fn warnings(&self) -> impl Iterator<Item = CriticalWarning> {
        let bits = self.critical_warnings;
        (0..8).filter(move |bit| bits >> bit & 1 == 1).map(CriticalWarning::of_bit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// A page that is read and written again has every byte that has a meaning.
        #[test]
        fn any_page_is_read_and_written_back(
            mut bytes in prop::collection::vec(any::<u8>(), HEALTH_BYTES), length in 0_usize..HEALTH_BYTES,
        ) {
            bytes[6..32].fill(0);
            bytes[232..].fill(0);
            prop_assert_eq!(&Health::read(&bytes).write()[..], &bytes[..]);
            Health::read(&bytes[..length]);
        }
    }

    #[test]
    fn fields_are_where_the_specification_has_them() {
        let mut bytes = [0; HEALTH_BYTES];
        bytes[..6].copy_from_slice(&[0x85, 0x2c, 1, 97, 10, 3]);
        // Data Units Written, Power On Hours, Media and Data Integrity Errors.
        (bytes[48], bytes[63], bytes[128], bytes[160]) = (5, 0xff, 7, 9);
        // Warning Composite Temperature Time, sensor 2, time in heavy thermal management.
        (bytes[192], bytes[202], bytes[228]) = (11, 0x30, 13);
        let health = Health::read(&bytes);
        assert_eq!((health.temperature_k, health.spare_percent, health.used_percent), (300, 97, 3));
        assert_eq!(health.units_written, 0xff << 120 | 5);
        assert_eq!((health.power_on_hours, health.media_errors), (7, 9));
        assert_eq!((health.warning_temperature_minutes, health.sensors_k[1]), (11, 0x30));
        assert_eq!(health.thermal_seconds, [0, 13]);
        let warnings: Vec<CriticalWarning> = health.warnings().collect();
        let expected = [CriticalWarning::Spare, CriticalWarning::Reliability, CriticalWarning::Reserved(7)];
        assert_eq!(warnings, expected);
    }
}
