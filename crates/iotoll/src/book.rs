//! Tests of the documentation against the command line's definitions: `docs/reference/commands.md` is generated from them, and
//! every command that a page shows must parse.

use crate::cli::Cli;
use crate::console;
use clap::{Arg, Command, CommandFactory, Parser};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs};

const HEAD: &str = "\
# Commands

Made from the definitions that `--help`, the manual pages (`iotoll man DIR`) and shell completions come from:
`IOTOLL_UPDATE=1 cargo test -p iotoll --bin iotoll book`.

## Exit status

| status | meaning |
|---|---|
| 0 | nothing found, and everything that the answer rests on was read |
| 1 | findings; or something needed was there and could not be read; or the difference or miss that the command checks for |
| 2 | an error: wrong arguments, an unreadable file, a failed run |

If status 1 of a command means something else, its help below says so. Documents of `--json`: [JSON documents](json.md).
";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Help text with the characters escaped that Markdown would interpret.
fn escape_markdown(text: &str) -> String {
    let text = text
        .trim()
        .replace('<', "&lt;")
        .replace("\n\n", "\u{0}")
        .replace('\n', " ")
        .replace('\u{0}', "\n\n  ");
    let mut quoted = false;
    let star = |c: char| {
        quoted ^= c == '`';
        if c == '*' && !quoted { "\\*".to_owned() } else { c.to_string() }
    };
    text.chars().map(star).collect()
}

/// Appends the line of an option or argument to the page.
fn write_argument(page: &mut String, one: &Arg) {
    let values = one.get_value_names().unwrap_or_default().iter().map(|name| name.to_string());
    let values = values.collect::<Vec<_>>().join(" ");
    let takes_value = one.get_action().takes_values();
    let name = match (one.get_short(), one.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}"),
        (None, Some(long)) => format!("--{long}"),
        (Some(short), None) => format!("-{short}"),
        (None, None) => String::new(),
    };
    let shown = match (name.is_empty(), takes_value) {
        (true, _) => values,
        (false, true) => format!("{name} {values}"),
        (false, false) => name,
    };
    let help = one.get_long_help().or(one.get_help()).map(ToString::to_string).unwrap_or_default();
    write!(page, "- `{shown}`: {}", escape_markdown(&help)).unwrap();
    let possible = one.get_possible_values();
    if takes_value && !possible.is_empty() {
        let names = possible.iter().map(|value| format!("`{}`", value.get_name())).collect::<Vec<_>>();
        write!(page, "; one of {}", names.join(", ")).unwrap();
    }
    let defaults = one.get_default_values().iter().map(|value| value.to_string_lossy()).collect::<Vec<_>>();
    if takes_value && !defaults.is_empty() {
        write!(page, " [default: {}]", defaults.join(" ")).unwrap();
    }
    page.push('\n');
}

/// Appends the section of a command and those of its subcommands to the page.
fn write_command(page: &mut String, one: &mut Command, path: &str) {
    writeln!(page, "\n## {path}\n").unwrap();
    if let Some(about) = one.get_long_about().or(one.get_about()) {
        writeln!(page, "{}.\n", escape_markdown(&about.to_string()).trim_end_matches('.')).unwrap();
    }
    let usage = one.clone().bin_name(path).render_usage().to_string();
    writeln!(page, "```text\n{}\n```", usage.trim_start_matches("Usage: ").trim_end()).unwrap();
    let arguments = one.get_arguments().filter(|one| !one.is_hide_set() && !one.is_global_set());
    let arguments: Vec<&Arg> =
        arguments.filter(|one| !matches!(one.get_id().as_str(), "help" | "version")).collect();
    if !arguments.is_empty() {
        page.push('\n');
    }
    arguments.iter().for_each(|one| write_argument(page, one));
    if let Some(after) = one.get_after_long_help().or(one.get_after_help()) {
        writeln!(page, "\n```text\n{}\n```", after.to_string().trim_end()).unwrap();
    }
    for below in one.get_subcommands_mut().filter(|below| !below.is_hide_set() && below.get_name() != "help")
    {
        let path = format!("{path} {}", below.get_name());
        write_command(page, below, &path);
    }
}

#[test]
fn the_page_of_commands_is_up_to_date() {
    let mut all = Cli::command();
    let mut page = format!("{HEAD}\n## Options of every command\n\n");
    all.get_arguments().filter(|one| one.is_global_set()).for_each(|one| write_argument(&mut page, one));
    page.push_str(
        "- `-h, --help`: a short help, or with `--help` all of it\n- `-V, --version`: the version\n",
    );
    write_command(&mut page, &mut all, "iotoll");
    let path = repository().join("docs/reference/commands.md");
    if env::var_os("IOTOLL_UPDATE").is_some() {
        fs::write(&path, &page).unwrap();
    }
    assert!(
        fs::read_to_string(&path).unwrap_or_default() == page,
        "docs/reference/commands.md is out of date: IOTOLL_UPDATE=1 cargo test -p iotoll --bin iotoll book"
    );
}

/// The `iotoll` commands in a shell line, each as its words.
fn iotoll_commands(line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(line).unwrap_or_else(|| panic!("no line of a shell: {line}"));
    let ends = |word: &String| matches!(word.as_str(), "|" | "&&" | "||" | ";" | "&" | ">" | "2>" | "<");
    let commands = words.split(ends).map(|command| match command.first().map(String::as_str) {
        Some("sudo") => &command[1..],
        _ => command,
    });
    commands
        .filter(|command| command.first().is_some_and(|name| name == "iotoll"))
        .map(<[_]>::to_vec)
        .collect()
}

#[test]
fn commands_in_pages_parse() {
    let root = repository();
    let (mut wrong, mut parsed) = (Vec::new(), 0);
    for shown in console::pages(&root).iter().flat_map(|page| console::shown(&root, page)) {
        for words in iotoll_commands(&shown.command) {
            parsed += 1;
            // `--help` and `--version` are errors for clap, but not for this test.
            if let Err(error) =
                Cli::try_parse_from(&words).map_err(|error| error.use_stderr().then_some(error))
                && let Some(error) = error
            {
                wrong.push(format!("{}:{}: {}\n{error}", shown.page, shown.line, shown.command));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(parsed > 0);
}
