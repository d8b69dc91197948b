//! What to do about something, in words with commands in them.

use escape::shell::Command;
use escape::terminal::plain;
use std::borrow::Cow;
use std::fmt;

/// How an alternative begins.
pub const OTHERWISE: &str = "; else ";

/// Prose and the commands that it names, kept apart so that what a host says of itself can't become part of a command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Advice(Vec<Part>);

/// A part of advice.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Part {
    /// Words; what stands in backticks there is typed or printed literally.
    Prose(Cow<'static, str>),
    /// A command to paste.
    Command(Command),
    /// A command that only completes what stands before it: `update-grub` after an edit.
    Completing(Command),
    /// What follows is for those who can't do what stands before it.
    Otherwise,
}

impl Advice {
    /// Prose, to which more is added.
    pub fn say(prose: impl Into<Cow<'static, str>>) -> Self {
        Self::default().and_say(prose)
    }

    /// A command, to which more is added.
    pub fn run(command: Command) -> Self {
        Self::default().and_run(command)
    }

    /// With prose after it.
    pub fn and_say(mut self, prose: impl Into<Cow<'static, str>>) -> Self {
        self.0.push(Part::Prose(prose.into()));
        self
    }

    /// With a command after it.
    pub fn and_run(mut self, command: Command) -> Self {
        self.0.push(Part::Command(command));
        self
    }

    /// With other advice after it.
    pub fn and(mut self, other: impl Into<Self>) -> Self {
        self.0.extend(other.into().0);
        self
    }

    /// With a command after it that does nothing unless what stands before it was done.
    pub fn and_complete_by(mut self, command: Command) -> Self {
        self.0.push(Part::Completing(command));
        self
    }

    /// With advice after it for those who can't follow this one.
    pub fn or_else(mut self, other: impl Into<Self>) -> Self {
        self.0.push(Part::Otherwise);
        self.and(other)
    }

    /// With a kernel argument of the host's after it, as it stands there.
    pub fn and_argument(self, argument: &str) -> Self {
        self.and_say(shown_argument(argument))
    }

    /// With text of the host's after it, such as a line of its log: no backtick in it makes a part of it look like
    /// something to type.
    pub fn and_text(self, text: &str) -> Self {
        self.and_say(plain(text).replace('`', "'"))
    }

    /// Its parts, in their order.
    pub fn parts(&self) -> impl Iterator<Item = &Part> {
        self.0.iter()
    }

    /// The command that does by itself what is advised first; `None` if that takes more than a command.
    pub fn first_command(&self) -> Option<&Command> {
        match self.parts().find(|part| !matches!(part, Part::Prose(_)))? {
            Part::Command(command) => Some(command),
            Part::Prose(_) | Part::Completing(_) | Part::Otherwise => None,
        }
    }

    /// The commands in it, in their order.
    pub fn commands(&self) -> Vec<&Command> {
        let mut commands = Vec::new();
        for part in self.parts() {
            if let Part::Command(command) | Part::Completing(command) = part {
                commands.push(command);
            }
        }
        commands
    }
}

/// A kernel argument in backticks. One with characters that a shell or a boot loader interprets is shown up to the first
/// of them: whoever copies it out of the sentence copies nothing that is carried out.
pub(super) fn shown_argument(argument: &str) -> String {
    match argument.find(|c| c == ';' || !is_inert(c)) {
        None => format!("`{argument}`"),
        Some(end) => format!("`{}…`", plain(&argument[..end])),
    }
}

/// Whether a kernel argument can, quoted, be given to grubby, and be written into `/etc/default/grub`, which a shell reads.
pub(super) fn is_inert_argument(argument: &str) -> bool {
    !argument.is_empty() && argument.chars().all(|c| is_inert(c) || c == ';')
}

pub(super) fn is_inert(c: char) -> bool {
    c.is_ascii_alphanumeric() || "=,.:_-/@+".contains(c)
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|part| match part {
            Part::Prose(prose) => f.write_str(prose),
            Part::Command(command) | Part::Completing(command) => write!(f, "{command}"),
            Part::Otherwise => f.write_str(OTHERWISE),
        })
    }
}

impl From<&'static str> for Advice {
    fn from(prose: &'static str) -> Self {
        Self::say(prose)
    }
}

impl From<String> for Advice {
    fn from(prose: String) -> Self {
        Self::say(prose)
    }
}

impl From<Command> for Advice {
    fn from(command: Command) -> Self {
        Self::run(command)
    }
}
