//! Commands that a user can paste into a shell.
//!
//! Quoting is that of POSIX (Shell Command Language, 2.2.2): between `'` and `'` no character is special, and a `'` itself is
//! written `'\''`. Bash's and zsh's history expansion (`!`) does not apply within single quotes either.

use crate::terminal::is_unsafe;
use serde::{Serialize, Serializer};
use std::fmt;

/// Printed in place of a command with a word that is unsafe to paste.
const NOT_SHOWN: &str = "(the command is not shown: a word of it contains control or invisible characters, or leads to another folder)";

/// A shell command, made of words. Each value is quoted and stays one word.
///
/// The program is a constant of iotoll. If a word contains control characters, line feeds or invisible characters, the
/// command is not printed: a terminal may execute a pasted line feed even within quotes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Command {
    words: Vec<Word>,
    file: Option<File>,
    then: Option<(Join, Box<Command>)>,
    /// A loop: the variable, and the command that prints the words to iterate over.
    each: Option<(&'static str, Box<Command>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum File {
    Named(String),
    /// A constant path with shell variables, which is not quoted.
    OfVariables(&'static str),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Word {
    /// A constant before the value within the same word, such as `--args=`.
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

    /// Writes a line to a file, as for sysfs and procfs.
    pub fn write(text: impl Into<String>, file: impl Into<String>) -> Self {
        let text = text.into();
        // Shells differ in how `echo` treats a leading hyphen and backslashes (POSIX, echo).
        let echo = match text.starts_with('-') || text.contains('\\') {
            false => Self::new("echo"),
            true => Self::new("printf").arg("%s\\n"),
        };
        echo.arg(text).into_file(file)
    }

    /// Adds an argument. Untrusted text that begins with a hyphen would be an option: pass it with
    /// [`option`](Self::option) or behind a path.
    pub fn arg(self, value: impl Into<String>) -> Self {
        self.option("", value)
    }

    /// Adds constant arguments.
    pub fn args(self, values: &[&'static str]) -> Self {
        values.iter().fold(self, |command, value| command.arg(*value))
    }

    /// Adds an option and its value as one word, such as `--args=` and the value.
    pub fn option(mut self, lead: &'static str, value: impl Into<String>) -> Self {
        self.words.push(Word { lead, value: value.into() });
        self
    }

    /// Redirects standard output to a file.
    pub fn into_file(mut self, file: impl Into<String>) -> Self {
        self.file = Some(File::Named(file.into()));
        self
    }

    /// Redirects standard output to a path with variables of [`for_each`](Self::for_each), such as
    /// `/proc/irq/$n/affinity_hint`.
    pub fn into_file_of_variables(mut self, file: &'static str) -> Self {
        self.file = Some(File::OfVariables(file));
        self
    }

    /// Repeats the command for each word that `list` prints.
    pub fn for_each(mut self, variable: &'static str, list: Self) -> Self {
        self.each = Some((variable, Box::new(list)));
        self
    }

    /// Pipes standard output into another command.
    pub fn pipe(self, into: Self) -> Self {
        self.joined(Join::Pipe, into)
    }

    /// Runs another command after it (`&&`), if it succeeds.
    pub fn and(self, next: Self) -> Self {
        self.joined(Join::After, next)
    }

    /// Appends a command at the end of the chain.
    fn joined(mut self, join: Join, next: Self) -> Self {
        self.then = Some(match self.then.take() {
            None => (join, Box::new(next)),
            Some((first, second)) => (first, Box::new(second.joined(join, next))),
        });
        self
    }

    /// The line to paste; `None` if a word is unsafe to paste.
    pub fn line(&self) -> Option<String> {
        let words: Option<Vec<String>> = self.words.iter().map(Word::quoted).collect();
        let mut line = words?.join(" ");
        if let Some(file) = &self.file {
            line.push_str(" > ");
            match file {
                // An untrusted name that is `..` would lead out of its folder.
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
    /// The word, quoted for a shell.
    fn quoted(&self) -> Option<String> {
        Some(format!("{}{}", self.lead, quote(&self.value)?))
    }
}

impl fmt::Display for Command {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.line().as_deref().unwrap_or(NOT_SHOWN))
    }
}

/// As the line to paste, or null if it is unsafe.
impl Serialize for Command {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.line().serialize(serializer)
    }
}

/// Quotes a value as one word of a POSIX shell; `None` if it is unsafe to paste. Prefer [`Command`], which quotes
/// its words.
pub fn quote(value: &str) -> Option<String> {
    if value.chars().any(|c| is_unsafe(c) || c == char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let is_bare = |c: char| c.is_ascii_alphanumeric() || "=,.:_-/@+".contains(c);
    // zsh expands `=ls` to the path of ls.
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
    fn words_without_special_characters_are_not_quoted() {
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
    fn a_quote_in_a_value_does_not_end_the_word() {
        let line = grubby("iommu=off,';touch${IFS}pwned;'").line().unwrap();
        assert_eq!(line, r"grubby --update-kernel=ALL --remove-args='iommu=off,'\'';touch${IFS}pwned;'\'''");
        assert_eq!(shlex::split(&line).unwrap()[2], "--remove-args=iommu=off,';touch${IFS}pwned;'");
    }

    #[test]
    fn commands_with_unsafe_characters_are_not_printed() {
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
    fn printf_replaces_echo_where_echo_would_interpret_the_text() {
        assert_eq!(Command::write("-n", "f").to_string(), "printf '%s\\n' -n > f");
        assert_eq!(Command::write("a\\c", "f").to_string(), "printf '%s\\n' 'a\\c' > f");
    }

    /// The words that a shell of this machine parses: a check independent of this file and of shlex.
    fn words_of_shell(shell: &str, line: &str) -> Option<Vec<String>> {
        let script = format!("f() {{ for w; do printf '%s\\0' \"$w\"; done; }}\nf {line}");
        let folder = tempfile::tempdir().unwrap();
        let said = process::Command::new(shell).args(["-c", &script]).current_dir(&folder).output().ok()?;
        assert!(said.status.success(), "{shell}: {line}: {said:?}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "{shell}: {line} made a file");
        let words = String::from_utf8(said.stdout).unwrap();
        Some(words.split_terminator('\0').map(str::to_owned).collect())
    }

    #[test]
    fn shells_parse_quoted_words_back() {
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
                match words_of_shell(shell, &quoted) {
                    Some(words) => assert_eq!(words, [value], "{shell}"),
                    None => assert_ne!(shell, "sh", "a POSIX shell is there"),
                }
            }
        }
    }

    proptest! {
        #[test]
        fn shlex_parses_quoted_words_back(values in prop::collection::vec("\\PC*", 1..5)) {
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
