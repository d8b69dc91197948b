//! What a controller's health log says is wrong.

use nvme::spec::health::{CriticalWarning, Health};
use nvme::spec::identify;

/// Kelvins at zero degrees Celsius, as the specification's vendors round it.
const ZERO_CELSIUS_K: i32 = 273;

/// A problem of a disk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Problem {
    /// Its stable name.
    pub(super) id: &'static str,
    /// Whether the controller sets a bit of Critical Warning for it.
    pub(super) is_critical_warning: bool,
    /// What is wrong, then what to do.
    pub(super) text: String,
}

/// A temperature of the controller in degrees Celsius; `None` if it does not report it.
pub(super) fn celsius(kelvins: u16) -> Option<i32> {
    (kelvins != 0).then(|| i32::from(kelvins) - ZERO_CELSIUS_K)
}

/// All problems: the critical warnings first, then what the numbers say.
pub(super) fn problems(health: &Health, identity: &identify::Controller) -> Vec<Problem> {
    let critical = health.warnings().map(|warning| of_warning(warning, health, identity));
    critical.chain(of_numbers(health, identity)).collect()
}

/// A bit of Critical Warning in words.
fn of_warning(warning: CriticalWarning, health: &Health, identity: &identify::Controller) -> Problem {
    let (id, text) = match warning {
        CriticalWarning::Spare => ("spare-below-threshold", spare_text(health)),
        CriticalWarning::Temperature => (
            "temperature",
            format!(
                "a temperature is beyond a threshold: {}. Check fans, air flow and heat sinks",
                temperature_text(health, identity)
            ),
        ),
        CriticalWarning::Reliability => (
            "reliability-degraded",
            "reliability is degraded by media errors or an internal error. Copy the data, and replace the disk".to_owned(),
        ),
        CriticalWarning::ReadOnly => {
            ("read-only", "the disk is read-only: writes fail. Copy the data, and replace the disk".to_owned())
        }
        CriticalWarning::Backup => (
            "backup-failed",
            "the backup of volatile memory failed: a loss of power may lose data that was written. Replace the disk".to_owned(),
        ),
        CriticalWarning::PersistentMemory => (
            "persistent-memory",
            "the persistent memory region is read-only or unreliable. Do not rely on what is written to it".to_owned(),
        ),
        CriticalWarning::Reserved(bit) => (
            "reserved",
            format!("the controller sets bit {bit} of Critical Warning, which the specification reserves. Ask the vendor"),
        ),
        _ => ("unknown", "the controller sets a critical warning that this program does not know".to_owned()),
    };
    Problem { id, is_critical_warning: true, text }
}

/// What is wrong by the numbers, without what a critical warning already said.
fn of_numbers(health: &Health, identity: &identify::Controller) -> Vec<Problem> {
    let is_warned = |warning: CriticalWarning| health.warnings().any(|set| set == warning);
    let mut problems = Vec::new();
    let mut add = |id, text| problems.push(Problem { id, is_critical_warning: false, text });
    if health.spare_percent < health.spare_threshold_percent && !is_warned(CriticalWarning::Spare) {
        add("spare-below-threshold", spare_text(health));
    }
    if health.media_errors > 0 {
        let times = if health.media_errors == 1 { "time" } else { "times" };
        add(
            "media-errors",
            format!(
                "media errors: {} {times} the disk found data that it could not correct. `iotoll blk log` shows the newest; replace the disk if the number grows",
                grouped(health.media_errors)
            ),
        );
    }
    if health.used_percent >= 100 {
        add(
            "endurance-used",
            format!("{} % of the life that the vendor rates is used. Plan to replace the disk", used(health)),
        );
    }
    if is_hot(health, identity) && !is_warned(CriticalWarning::Temperature) {
        let now = temperature_text(health, identity);
        add("temperature", format!("the disk is hot: {now}. Check fans, air flow and heat sinks"));
    }
    problems
}

/// Whether the temperature has reached a limit of Identify Controller.
fn is_hot(health: &Health, identity: &identify::Controller) -> bool {
    let limits = [identity.warning_temperature_k, identity.critical_temperature_k];
    limits.into_iter().any(|limit| limit != 0 && health.temperature_k >= limit)
}

/// The spare capacity against its threshold.
fn spare_text(health: &Health) -> String {
    format!(
        "{} % of the spare capacity is left, and the threshold is {} %. Copy the data, and replace the disk",
        health.spare_percent, health.spare_threshold_percent
    )
}

/// The percentage used; the highest value stands for all above it.
pub(super) fn used(health: &Health) -> String {
    match health.used_percent {
        255 => "255 or more".to_owned(),
        percent => percent.to_string(),
    }
}

/// The temperature with the controller's limits.
pub(super) fn temperature_text(health: &Health, identity: &identify::Controller) -> String {
    let now = celsius(health.temperature_k).map_or("not reported".to_owned(), |now| format!("{now} °C"));
    let warning = celsius(identity.warning_temperature_k).map(|limit| format!("warns from {limit} °C"));
    let critical = celsius(identity.critical_temperature_k).map(|limit| format!("critical from {limit} °C"));
    let limits: Vec<String> = warning.into_iter().chain(critical).collect();
    if limits.is_empty() { now } else { format!("{now} ({})", limits.join(", ")) }
}

/// All digits of a number, in groups of three.
pub(super) fn grouped(number: u128) -> String {
    let digits = number.to_string();
    let lead = digits.len() % 3;
    let mut shown = String::new();
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && index % 3 == lead {
            shown.push(',');
        }
        shown.push(digit);
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::super::emulated_disk::EmulatedDisk;
    use super::*;

    /// The problems of a healthy controller after a change: identifiers, and whether each is a critical warning.
    fn found(change: impl FnOnce(&mut Health)) -> Vec<(&'static str, bool)> {
        let mut disk = EmulatedDisk::new(|_| {});
        disk.emulated.change_health(change);
        let health = disk.controller.health().unwrap();
        let problems = problems(&health, disk.controller.identity());
        problems.iter().map(|one| (one.id, one.is_critical_warning)).collect()
    }

    #[test]
    fn a_healthy_disk_has_no_problems() {
        assert_eq!(found(|_| {}), []);
        // At the threshold, and a degree below the limit.
        let at_the_limits = |health: &mut Health| (health.spare_percent, health.temperature_k) = (10, 342);
        assert_eq!(found(at_the_limits), []);
    }

    #[test]
    fn each_critical_warning_is_said_once_and_first() {
        let all = found(|health| {
            health.critical_warnings = 0xff;
            (health.spare_percent, health.temperature_k) = (1, 400);
            (health.media_errors, health.used_percent) = (3, 255);
        });
        let critical = [
            "spare-below-threshold",
            "temperature",
            "reliability-degraded",
            "read-only",
            "backup-failed",
            "persistent-memory",
            "reserved",
            "reserved",
        ];
        let expected: Vec<_> = critical.map(|id| (id, true)).to_vec();
        assert_eq!(all[..8], expected[..]);
        assert_eq!(all[8..], [("media-errors", false), ("endurance-used", false)]);
    }

    #[test]
    fn numbers_count_without_a_critical_warning() {
        assert_eq!(found(|health| health.spare_percent = 9), [("spare-below-threshold", false)]);
        assert_eq!(found(|health| health.temperature_k = 343), [("temperature", false)]);
        assert_eq!(found(|health| health.used_percent = 100), [("endurance-used", false)]);
        assert_eq!(found(|health| health.used_percent = 99), []);
    }

    #[test]
    fn numbers_have_all_their_digits() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(1_000), "1,000");
        assert_eq!(grouped(u128::MAX), "340,282,366,920,938,463,463,374,607,431,768,211,455");
    }
}
