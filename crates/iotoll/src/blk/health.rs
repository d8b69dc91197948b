//! `iotoll blk health`: what is wrong with a disk by its SMART / Health Information log, and the numbers of that log.

use super::driven_adapter::DrivenAdapter;
use super::problem::{Problem, celsius, grouped, problems, temperature_text, used};
use super::target::MEMORY_BYTES;
use crate::cli::{BlkHealth, NvmeController};
use crate::inspect::program_version;
use crate::output::{self, Outcome};
use nvme::Controller;
use nvme::spec::health::Health;
use nvme::spec::identify;
use report::{ControllerUpkeep, UpkeepSection};
use serde::Serialize;

/// The version of the document's layout.
pub(crate) const SCHEMA: &str = "iotoll.blk-health/1";
/// Bytes of a unit of data read and written.
const UNIT_BYTES: u128 = 512_000;

/// What `iotoll blk health --json` prints. Counters of 128 bits are strings of decimal digits, because JSON's readers round such numbers.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Document<'a> {
    /// `iotoll.blk-health/1`
    schema: &'static str,
    /// Name and version of the program.
    made_by: &'static str,
    /// The controller's model.
    model: &'a str,
    /// Its serial number.
    serial: &'a str,
    /// Revision of its firmware.
    firmware: &'a str,
    /// What is wrong, the critical warnings first; empty if nothing is.
    problems: Vec<ProblemRow<'a>>,
    /// Critical Warning, as the controller reports it.
    critical_warning_bits: u8,
    /// Composite temperature; null if it is not reported.
    temperature_celsius: Option<i32>,
    /// Temperature from which the controller warns (WCTEMP); null if it does not say.
    warning_temperature_celsius: Option<i32>,
    /// Temperature from which it may shut down (CCTEMP); null if it does not say.
    critical_temperature_celsius: Option<i32>,
    /// Temperature sensors that the controller has.
    sensors: Vec<SensorRow>,
    /// Spare capacity that is left.
    spare_percent: u8,
    /// Spare capacity below which the controller warns.
    spare_threshold_percent: u8,
    /// Life used, by the vendor's estimate; 255 stands for 255 or more.
    used_percent: u8,
    /// Data read by the host, in units of 512,000 bytes.
    units_read: String,
    /// Data written by the host, in units of 512,000 bytes.
    units_written: String,
    /// Read commands of the host.
    read_commands: String,
    /// Write commands of the host.
    write_commands: String,
    /// Minutes in which the controller had I/O commands.
    busy_minutes: String,
    /// Power cycles.
    power_cycles: String,
    /// Hours with power.
    power_on_hours: String,
    /// Losses of power without a shutdown before.
    unsafe_shutdowns: String,
    /// Times that the controller found data which it could not correct.
    media_errors: String,
    /// Entries of the error log over the controller's life.
    error_log_entries: String,
    /// Minutes at or above the warning temperature.
    warning_temperature_minutes: u32,
    /// Minutes at or above the critical temperature.
    critical_temperature_minutes: u32,
    /// Times that the controller slowed down for light thermal management.
    light_thermal_transitions: u32,
    /// Times that it slowed down for heavy thermal management.
    heavy_thermal_transitions: u32,
    /// Seconds in light thermal management.
    light_thermal_seconds: u32,
    /// Seconds in heavy thermal management.
    heavy_thermal_seconds: u32,
}

/// A problem.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ProblemRow<'a> {
    /// Its stable name.
    id: &'static str,
    /// Whether the controller sets a bit of Critical Warning for it.
    is_critical_warning: bool,
    /// What is wrong, then what to do.
    text: &'a str,
}

/// A temperature sensor.
#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SensorRow {
    /// Its number, from 1.
    number: usize,
    /// Its temperature.
    temperature_celsius: i32,
}

/// A controller's health with what is wrong.
struct Checked {
    identity: identify::Controller,
    health: Health,
    problems: Vec<Problem>,
}

/// Prints a controller's health. A critical warning counts as a finding.
pub(super) fn run(args: &BlkHealth) -> anyhow::Result<Outcome> {
    let NvmeController { address, consent } = &args.controller;
    let adapter = DrivenAdapter::open(address, consent.accepted(), MEMORY_BYTES)?;
    let checked = adapter.use_and_close(Checked::read)?;
    match args.json {
        true => output::print_json(&Document::new(&checked))?,
        false => output::print_page(&report::controller_upkeep(&checked.upkeep()))?,
    }
    Ok(checked.outcome())
}

impl Checked {
    /// Reads a controller's health.
    fn read(controller: &mut Controller) -> anyhow::Result<Self> {
        let health = controller.health()?;
        let identity = controller.identity().clone();
        Ok(Self { problems: problems(&health, &identity), identity, health })
    }

    /// Whether the controller sets a critical warning.
    fn outcome(&self) -> Outcome {
        Outcome::of_findings(self.problems.iter().filter(|problem| problem.is_critical_warning).count())
    }

    /// The problems, then the numbers.
    fn upkeep(&self) -> ControllerUpkeep {
        let identity = &self.identity;
        let wrong =
            UpkeepSection { heading: "Problems".to_owned(), sentences: self.sentences(), facts: vec![] };
        let numbers =
            UpkeepSection { heading: "Health log".to_owned(), sentences: vec![], facts: self.facts() };
        ControllerUpkeep {
            model: identity.model.clone(),
            serial: identity.serial.clone(),
            firmware: identity.firmware.clone(),
            sections: vec![wrong, numbers],
        }
    }

    /// A sentence for each problem; one that says so if there is none.
    fn sentences(&self) -> Vec<String> {
        let sentence = |problem: &Problem| match problem.is_critical_warning {
            true => format!("critical: {}", problem.text),
            false => problem.text.clone(),
        };
        match self.problems.is_empty() {
            true => vec!["none: no critical warning is set, and no number is beyond its limit".to_owned()],
            false => self.problems.iter().map(sentence).collect(),
        }
    }

    /// The numbers of the log with their units.
    fn facts(&self) -> Vec<(String, String)> {
        let health = &self.health;
        let named = [
            ("temperature", temperature_text(health, &self.identity)),
            (
                "spare capacity",
                format!("{} %, threshold {} %", health.spare_percent, health.spare_threshold_percent),
            ),
            ("life used", format!("{} %", used(health))),
            ("media errors", grouped(health.media_errors)),
            ("error log entries", grouped(health.error_log_entries)),
            ("data read", data(health.units_read)),
            ("data written", data(health.units_written)),
            ("read commands", grouped(health.reads)),
            ("write commands", grouped(health.writes)),
            ("time with I/O", format!("{} min", grouped(health.busy_minutes))),
            ("time with power", format!("{} h", grouped(health.power_on_hours))),
            ("power cycles", grouped(health.power_cycles)),
            ("unsafe shutdowns", grouped(health.unsafe_shutdowns)),
            ("time too warm", format!("{} min", health.warning_temperature_minutes)),
            ("time critically warm", format!("{} min", health.critical_temperature_minutes)),
            ("light throttling", throttling(health.thermal_transitions[0], health.thermal_seconds[0])),
            ("heavy throttling", throttling(health.thermal_transitions[1], health.thermal_seconds[1])),
        ];
        let mut facts: Vec<(String, String)> =
            named.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        facts.extend(sensors(health).map(|(number, at)| (format!("sensor {number}"), format!("{at} °C"))));
        facts
    }
}

/// Numbers of the sensors that the controller has, from 1, and their temperatures in degrees Celsius.
fn sensors(health: &Health) -> impl Iterator<Item = (usize, i32)> {
    let sensors = health.sensors_k.into_iter().zip(1..);
    sensors.filter_map(|(kelvins, number)| celsius(kelvins).map(|at| (number, at)))
}

/// How often and how long the controller slowed down.
fn throttling(times: u32, seconds: u32) -> String {
    format!("{} times, {} s", grouped(times.into()), grouped(seconds.into()))
}

/// An amount of data: its units with all digits, and in bytes where 128 bits hold them.
fn data(units: u128) -> String {
    let bytes = units.checked_mul(UNIT_BYTES).map_or(String::new(), |bytes| format!(" = {}", decimal(bytes)));
    format!("{} units of 512,000 bytes{bytes}", grouped(units))
}

/// Bytes with a decimal prefix, as disks are sold; cut, not rounded, after one digit.
fn decimal(bytes: u128) -> String {
    let prefixes = [("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    match prefixes.into_iter().find(|(_, unit)| bytes >= *unit) {
        Some((name, unit)) => format!("{}.{} {name}", grouped(bytes / unit), bytes % unit * 10 / unit),
        None => format!("{} bytes", grouped(bytes)),
    }
}

impl<'a> Document<'a> {
    fn new(checked: &'a Checked) -> Self {
        let Checked { identity, health, problems } = checked;
        let problem = |one: &'a Problem| ProblemRow {
            id: one.id,
            is_critical_warning: one.is_critical_warning,
            text: &one.text,
        };
        let sensor = |(number, temperature_celsius)| SensorRow { number, temperature_celsius };
        Self {
            schema: SCHEMA,
            made_by: program_version(),
            model: &identity.model,
            serial: &identity.serial,
            firmware: &identity.firmware,
            problems: problems.iter().map(problem).collect(),
            critical_warning_bits: health.critical_warnings,
            temperature_celsius: celsius(health.temperature_k),
            warning_temperature_celsius: celsius(identity.warning_temperature_k),
            critical_temperature_celsius: celsius(identity.critical_temperature_k),
            sensors: sensors(health).map(sensor).collect(),
            spare_percent: health.spare_percent,
            spare_threshold_percent: health.spare_threshold_percent,
            used_percent: health.used_percent,
            units_read: health.units_read.to_string(),
            units_written: health.units_written.to_string(),
            read_commands: health.reads.to_string(),
            write_commands: health.writes.to_string(),
            busy_minutes: health.busy_minutes.to_string(),
            power_cycles: health.power_cycles.to_string(),
            power_on_hours: health.power_on_hours.to_string(),
            unsafe_shutdowns: health.unsafe_shutdowns.to_string(),
            media_errors: health.media_errors.to_string(),
            error_log_entries: health.error_log_entries.to_string(),
            warning_temperature_minutes: health.warning_temperature_minutes,
            critical_temperature_minutes: health.critical_temperature_minutes,
            light_thermal_transitions: health.thermal_transitions[0],
            heavy_thermal_transitions: health.thermal_transitions[1],
            light_thermal_seconds: health.thermal_seconds[0],
            heavy_thermal_seconds: health.thermal_seconds[1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::emulated_disk::EmulatedDisk;
    use super::*;
    use report::{Length, Style};

    fn checked(change: impl FnOnce(&mut Health)) -> Checked {
        let mut disk = EmulatedDisk::new(|_| {});
        disk.emulated.change_health(change);
        Checked::read(&mut disk.controller).unwrap()
    }

    fn text(checked: &Checked) -> String {
        report::text(&report::controller_upkeep(&checked.upkeep()), 200, Style::Plain, Length::Full)
    }

    #[test]
    fn a_healthy_disk_is_said_to_be_so() {
        let checked = checked(|_| {});
        assert_eq!(checked.outcome(), Outcome::Fine);
        let text = text(&checked);
        for words in [
            "iotoll emulated controller, serial number emulated, firmware 1",
            "none: no critical warning is set",
            "27 °C (warns from 70 °C, critical from 80 °C)",
            "100 %, threshold 10 %",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        assert!(Document::new(&checked).problems.is_empty());
    }

    #[test]
    fn problems_come_before_the_numbers() {
        let checked = checked(|health| {
            (health.critical_warnings, health.media_errors, health.sensors_k[2]) = (1 << 3, 2, 300);
            (health.units_read, health.units_written) = (u128::MAX, 12_345_678);
        });
        assert_eq!(checked.outcome(), Outcome::Findings);
        let text = text(&checked);
        let at = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words:?} is not in\n{text}"));
        assert!(at("critical: the disk is read-only") < at("media errors: 2 times the disk"));
        assert!(at("media errors: 2 times") < at("spare capacity"));
        at("340,282,366,920,938,463,463,374,607,431,768,211,455 units of 512,000 bytes");
        at("12,345,678 units of 512,000 bytes = 6.3 TB");
        at("sensor 3");
        let json = serde_json::to_value(Document::new(&checked)).unwrap();
        assert_eq!(json["units_read"], u128::MAX.to_string());
        assert_eq!(
            (&json["problems"][0]["id"], &json["sensors"][0]["number"]),
            (&"read-only".into(), &3.into())
        );
    }

    /// Media errors of the past are shown, but only a critical warning changes the exit status.
    #[test]
    fn only_a_critical_warning_is_a_finding() {
        let checked = checked(|health| health.media_errors = 1);
        assert_eq!((checked.outcome(), checked.problems.len()), (Outcome::Fine, 1));
    }

    #[test]
    fn a_controller_that_says_nothing_is_shown_all_the_same() {
        let mut disk = EmulatedDisk::new(|identity| {
            (identity.warning_temperature_k, identity.critical_temperature_k) = (0, 0);
        });
        for bytes in [vec![], vec![0xff; 512], vec![0xff; 3]] {
            disk.emulated.make_up_log_page(2, bytes);
            let checked = Checked::read(&mut disk.controller).unwrap();
            assert!(text(&checked).contains("life used"));
        }
        disk.emulated.make_up_log_page(2, vec![0; 512]);
        let checked = Checked::read(&mut disk.controller).unwrap();
        assert!(text(&checked).contains("not reported") && checked.problems.is_empty());
    }
}
