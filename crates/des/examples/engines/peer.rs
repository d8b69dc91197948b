//! Engines of others, each behind a command.

use std::process::Command;

pub(crate) struct Peer {
    pub(crate) name: String,
    /// It is left out where more events are pending.
    pub(crate) pending_max: u32,
    command: Vec<String>,
}

impl Peer {
    /// `NAME=COMMAND`, split at spaces, or `NAME:PENDING_MAX=COMMAND`.
    pub(crate) fn parse(argument: &str) -> Option<Self> {
        let (name, command) = argument.split_once('=')?;
        let (name, pending_max) = match name.split_once(':') {
            Some((name, most)) => (name, most.parse().ok()?),
            None => (name, u32::MAX),
        };
        Some(Self {
            name: name.to_owned(),
            pending_max,
            command: command.split_whitespace().map(str::to_owned).collect(),
        })
    }

    /// The numbers that it prints when it is told to run this load.
    pub(crate) fn run<const NUMBERS: usize>(&self, load: &str, arguments: &[String]) -> [f64; NUMBERS] {
        let (program, first) = self.command.split_first().expect("a command has a program");
        let output = Command::new(program)
            .args(first)
            .arg(load)
            .args(arguments)
            .output()
            .unwrap_or_else(|error| panic!("{program}: {error}"));
        let text = String::from_utf8_lossy(&output.stdout);
        let numbers = text.split_whitespace().map_while(|word| word.parse().ok()).collect::<Vec<f64>>();
        numbers.try_into().unwrap_or_else(|_| {
            let errors = String::from_utf8_lossy(&output.stderr);
            panic!("{} printed {text:?} for {load}, not {NUMBERS} numbers: {errors}", self.name)
        })
    }
}
