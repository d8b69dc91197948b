//! Options of a flowop.

use super::flowop::{Flowop, Protocol, Setting};
use super::quantity::{self, NUMBER, NUMBER_OR_NONE, SIZE, SPAN};
use super::{Problem, Variables};

const PORT: &str = "a port from 0 to 65535";
const NAME_AND_VALUE: &str = "name=value";

/// Options with a value that say nothing of what is transferred.
const SETTINGS: [&str; 23] = [
    "bblog",
    "cc",
    "cipher",
    "dir",
    "encaps",
    "engine",
    "method",
    "nfiles",
    "sctp_hb_interval",
    "sctp_in_streams",
    "sctp_max_burst_size",
    "sctp_max_fragment_size",
    "sctp_out_streams",
    "sctp_path_mtu",
    "sctp_pr_policy",
    "sctp_pr_value",
    "sctp_rto_initial",
    "sctp_rto_max",
    "sctp_rto_min",
    "sctp_sack_delay",
    "sctp_sack_frequency",
    "sctp_stream_id",
    "stack",
];
/// The same of those without one.
const FLAGS: [&str; 2] = ["sctp_nodelay", "sctp_unordered"];

impl Flowop {
    /// Takes over options as they stand in the profile, divided by white space; the last of a name holds.
    pub(super) fn take(&mut self, options: &str, variables: &Variables) -> Result<(), Problem> {
        options.split_ascii_whitespace().try_for_each(|option| self.read_option(option, variables))
    }

    /// Reads one option.
    fn read_option(&mut self, option: &str, variables: &Variables) -> Result<(), Problem> {
        match option.split_once('=') {
            None => self.read_flag(option),
            Some((name, value)) => self.read_value(&name.to_ascii_lowercase(), variables.resolve(value)?),
        }
    }

    /// Reads an option without a value.
    fn read_flag(&mut self, option: &str) -> Result<(), Problem> {
        let name = option.to_ascii_lowercase();
        match name.as_str() {
            "tcp_nodelay" => self.is_nodelay = true,
            "non_blocking" => self.is_nonblocking = true,
            "busy" => self.is_busy = true,
            "idle" => self.is_busy = false,
            "canfail" => self.may_fail = true,
            flag if FLAGS.contains(&flag) => self.settings.push(Setting { name, value: None }),
            _ => return Err(Problem::Option(option.to_owned())),
        }
        Ok(())
    }

    /// Reads an option with a value.
    fn read_value(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        if value.is_empty() {
            return Err(Problem::value(name, "empty", NAME_AND_VALUE));
        }
        let wrong = |expected| Problem::value(name, value, expected);
        let number = || quantity::number(value).ok_or_else(|| wrong(NUMBER));
        let span = || quantity::span(value).ok_or_else(|| wrong(SPAN));
        match name {
            "size" => self.size = Some(quantity::size(value).ok_or_else(|| wrong(SIZE))?),
            "rsize" => self.other_size_bytes = Some(number()?),
            "count" => self.count = number()?,
            "repeat" => self.repeat = number()?,
            "batch_size" => self.batch_size = number()?,
            "conn" => self.connection = Some(number()?),
            "port" => self.port = Some(value.parse().map_err(|_| wrong(PORT))?),
            "protocol" => {
                self.protocol = Some(Protocol::from_name(value).ok_or_else(|| wrong(Protocol::NAMES))?);
            }
            "remotehost" => self.remote_host = Some(value.to_owned()),
            "localhost" => self.local_host = Some(value.to_owned()),
            "wndsz" => {
                self.window_bytes =
                    Some(quantity::number_or_none(value).ok_or_else(|| wrong(NUMBER_OR_NONE))?);
            }
            "timeout" => self.timeout = Some(span()?),
            "duration" => self.duration = Some(span()?),
            name if SETTINGS.contains(&name) => {
                self.settings.push(Setting { name: name.to_owned(), value: Some(value.to_owned()) });
            }
            _ => return Err(Problem::Option(name.to_owned())),
        }
        Ok(())
    }
}
