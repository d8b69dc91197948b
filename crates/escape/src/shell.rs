//! Commands that a person may paste into a shell.
//!
//! Quoting is that of POSIX (Shell Command Language, 2.2.2): between `'` and `'` nothing is special, and a `'` itself is
//! written `'\''`. Bash's and zsh's history expansion (`!`) leaves single quotes alone, too.

use crate::terminal::is_unsafe;
use serde::{Serialize, Serializer};
use std::fmt;

/// What is printed in place of a command that has a word which must not be pasted.
const NOT_SHOWN: &str = "(the command is not shown: a word of it contains control or invisible characters, or leads to another folder)";

/// A command, made of words: what a value holds stays within its word.
///
/// The program is part of iotoll's own text. A word with control characters, line feeds or characters that are not seen
/// makes the whole command one that is not shown: a terminal may carry out a line feed within quotes when it is pasted.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Command {
    words: Vec<Word>,
    file: Option<File>,
    then: Option<(Join, Box<Command>)>,
    /// The variable that takes each word that another command prints.
    each: Option<(&'static str, Box<Command>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    Named(String),
    /// As iotoll's own text has it, with variables.
    OfVariables(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Word {
    /// What stands before the value within its word, as iotoll's own text: `--args=`.
    lead: &'static str,
    value: String,
}

/// How a command follows another.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Join {
    Pipe,
    After,
}

impl Command {
    /// A program without arguments.
    pub fn new(program: &'static str) -> Self {
        Self { words: vec![Word { lead: "", value: program.to_owned() }], file: None, then: None, each: None }
    }

    /// Writes a line to a file: what sysfs and procfs take.
    pub fn write(text: impl Into<String>, file: impl Into<String>) -> Self {
        let text = text.into();
        // What `echo` makes of a hyphen in front or a backslash differs from shell to shell (POSIX, echo).
        let echo = match text.starts_with('-') || text.contains('\\') {
            false => Self::new("echo"),
            true => Self::new("printf").arg("%s\\n"),
        };
        echo.arg(text).into_file(file)
    }

    /// With an argument. One from outside that begins with a hyphen would be taken for an option: give it to
    /// [`option`](Self::option), or behind a path.
    pub fn arg(self, value: impl Into<String>) -> Self {
        self.option("", value)
    }

    /// With arguments of iotoll's own.
    pub fn args(self, values: &[&'static str]) -> Self {
        values.iter().fold(self, |command, value| command.arg(*value))
    }

    /// With an option and its value in one word: `--args=` and the value.
    pub fn option(mut self, lead: &'static str, value: impl Into<String>) -> Self {
        self.words.push(Word { lead, value: value.into() });
        self
    }

    /// With its standard output going to a file.
    pub fn into_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(File::Named(file.into()));
        self
    }

    /// The same for a file whose path has variables of [`for_each`](Self::for_each): `/proc/irq/$n/affinity_hint`.
    pub fn into_file_of_variables(mut self, file: &'static str) -> Self {
        self.file = Some(File::OfVariables(file));
        self
    }

    /// Once for each word that another command prints.
    pub fn for_each(mut self, variable: &'static str, list: Self) -> Self {
        self.each = Some((variable, Box::new(list)));
        self
    }

    /// With its standard output going to another command.
    pub fn pipe(self, into: Self) -> Self {
        self.joined(Join::Pipe, into)
    }

    /// With another command after it, if it succeeds.
    pub fn and(self, next: Self) -> Self {
        self.joined(Join::After, next)
    }

    fn joined(mut self, join: Join, next: Self) -> Self {
        self.then = Some(match self.then.take() {
            None => (join, Box::new(next)),
            Some((first, second)) => (first, Box::new(second.joined(join, next))),
        });
        self
    }

    /// The line to paste; `None` if a word must not be pasted.
    pub fn line(&self) -> Option<String> {
        let words: Option<Vec<String>> = self.words.iter().map(Word::quoted).collect();
        let mut line = words?.join(" ");
        if let Some(file) = &self.file {
            line.push_str(" > ");
            match file {
                // A name from outside that holds `..` would lead out of the folder before it.
                File::Named(file) if file.split('/').any(|name| name == "..") => return None,
                File::Named(file) => line.push_str(&quote(file)?),
                File::OfVariables(file) => line.push_str(file),
            }
        }
        if let Some((join, next)) = &self.then {
            line.push_str(match join {
                Join::Pipe => " | ",
                Join::After => " && ",
            });
            line.push_str(&next.line()?);
        }
        if let Some((variable, list)) = &self.each {
            line = format!("for {variable} in $({}); do {line}; done", list.line()?);
        }
        Some(line)
    }
}

impl Word {
    fn quoted(&self) -> Option<String> {
        Some(format!("{}{}", self.lead, quote(&self.value)?))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line().as_deref().unwrap_or(NOT_SHOWN))
    }
}

/// As the line to paste, or null if it must not be.
impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line().serialize(serializer)
    }
}

/// A value as one word of a POSIX shell; `None` if it must not be pasted. Prefer [`Command`], which quotes by itself.
pub fn quote(value: &str) -> Option<String> {
    if value.chars().any(|c| is_unsafe(c) || c == char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "=,.:_-/@+".contains(c);
    // zsh takes `=ls` for the path of ls.
    let stays_bare = !value.is_empty() && !value.starts_with('=') && value.chars().all(is_bare);
    Some(match stays_bare {
        true => value.to_owned(),
        false => format!("'{}'", value.replace('\'', r"'\''")),
    })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use proptest::prelude::*;
    use std::process;

    fn grubby(argument: &str) -> Command {
        Command::new("grubby").arg("--update-kernel=ALL").option("--remove-args=", argument)
    }

    #[test]
    fn plain_words_stay_readable() {
        assert_eq!(grubby("iommu=pt").to_string(), "grubby --update-kernel=ALL --remove-args=iommu=pt");
        assert_eq!(
            Command::write("DMA-FQ", "/sys/kernel/iommu_groups/4/type").to_string(),
            "echo DMA-FQ > /sys/kernel/iommu_groups/4/type"
        );
        let piped = Command::new("lspci")
            .args(&["-vvs"])
            .arg("0000:3b:00.0")
            .pipe(Command::new("grep").arg("LnkSta"));
        assert_eq!(piped.to_string(), "lspci -vvs 0000:3b:00.0 | grep LnkSta");
        let each = Command::new("echo").arg("0-3").into_file_of_variables("/proc/irq/$n/smp_affinity_list");
        let each = each.for_each("n", Command::new("ls").arg("/a b"));
        assert_eq!(
            each.to_string(),
            "for n in $(ls '/a b'); do echo 0-3 > /proc/irq/$n/smp_affinity_list; done"
        );
        let chain = Command::new("a").and(Command::new("b")).and(Command::new("c"));
        assert_eq!(chain.to_string(), "a && b && c");
    }

    #[test]
    fn a_quote_does_not_end_the_word() {
        let line = grubby("iommu=off,';touch${IFS}pwned;'").line().unwrap();
        assert_eq!(line, r"grubby --update-kernel=ALL --remove-args='iommu=off,'\'';touch${IFS}pwned;'\'''");
        assert_eq!(shlex::split(&line).unwrap()[2], "--remove-args=iommu=off,';touch${IFS}pwned;'");
    }

    #[test]
    fn what_must_not_be_pasted_is_not_shown() {
        for hostile in [
            "a\nreboot",
            "a\rreboot",
            "\x1b[201~reboot",
            "a\u{202e}b",
            "a\u{200b}b",
            "\0",
            "\u{9b}",
            "\u{fffd}",
        ] {
            let command = Command::write("x", format!("/sys/{hostile}"));
            assert_eq!((command.line(), command.to_string()), (None, NOT_SHOWN.to_owned()), "{hostile:?}");
            assert_eq!(Command::new("a").and(command).line(), None);
        }
    }

    #[test]
    fn no_name_leads_out_of_its_folder() {
        for (driver, is_shown) in
            [("nvme", true), ("a..b", true), ("../../../../etc/cron.d", false), ("..", false)]
        {
            let command = Command::write("x", format!("/sys/bus/pci/drivers/{driver}/unbind"));
            assert_eq!(command.line().is_some(), is_shown, "{driver}");
        }
    }

    #[test]
    fn echo_is_given_nothing_that_it_would_interpret() {
        assert_eq!(Command::write("-n", "f").to_string(), "printf '%s\\n' -n > f");
        assert_eq!(Command::write("a\\c", "f").to_string(), "printf '%s\\n' 'a\\c' > f");
    }

    /// A shell of this machine says what the words are: independent of this file and of shlex.
    fn words_by(shell: &str, line: &str) -> Option<Vec<String>> {
        let script = format!("f() {{ for w; do printf '%s\\0' \"$w\"; done; }}\nf {line}");
        let folder = tempfile::tempdir().unwrap();
        let said = process::Command::new(shell).args(["-c", &script]).current_dir(&folder).output().ok()?;
        assert!(said.status.success(), "{shell}: {line}: {said:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{shell}: {line} made a file");
        let words = String::from_utf8(said.stdout).unwrap();
        Some(words.split_terminator('\0').map(str::to_owned).collect())
    }

    #[test]
    fn shells_read_back_what_was_quoted() {
        let hostile = [
            "it's",
            "$(touch pwned)",
            "`touch pwned`",
            "a;touch pwned",
            "a&touch pwned",
            "a|touch pwned",
            ">pwned",
            "a b",
            "",
            "~",
            "~root",
            "*",
            "{a,b}",
            "!!",
            "!touch",
            "\"",
            "\\",
            "'\\''",
            "${IFS}",
            "#x",
            "=ls",
            "-rf",
            "[a-z]",
            "a=b",
            "%1",
            "^a^b",
        ];
        for shell in ["sh", "dash", "bash", "zsh", "ksh"] {
            for value in hostile {
                let quoted = quote(value).unwrap();
                match words_by(shell, &quoted) {
                    Some(words) => assert_eq!(words, [value], "{shell}"),
                    None => assert_ne!(shell, "sh", "a POSIX shell is there"),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn shlex_reads_back_what_was_quoted(values in prop::collection::vec("\\PC*", 1..5)) {
            let command = values.iter().fold(Command::new("x"), |command, value| command.arg(value.clone()));
            if let Some(line) = command.line() {
                let words = shlex::split(&line).unwrap();
                prop_assert_eq!(&words[1..], &values[..]);
            } else {
                prop_assert!(values.iter().any(|value| quote(value).is_none()));
            }
        }
    }
}
