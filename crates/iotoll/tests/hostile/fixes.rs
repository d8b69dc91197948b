//! Every host that rules are tested by, with a shell's words in what fixes are made from.

use super::case::Case;
use super::host::{Host, Thing};

/// Ends any quotes and any command, as a word of a kernel's command line and as a name.
const WORDS: [(&str, &str); 3] = [
    ("a word", ";touch${IFS}HOSTILE;$(touch${IFS}HOSTILE)`touch${IFS}HOSTILE`"),
    ("a word with quotes", "'\";touch${IFS}HOSTILE;'\""),
    ("a word with line ends", "\n;touch HOSTILE;\n$(touch HOSTILE)\n"),
];

pub(crate) fn cases() -> Vec<Case> {
    let mut all = Vec::new();
    for (number, (name, path)) in Host::known().into_iter().enumerate() {
        for (place, (words, word)) in WORDS.into_iter().enumerate() {
            let path = path.clone();
            let make = move || hostile(Host::read(&path), word).archive();
            let case = Case::archive("fixes", format!("{name}, {words}"), make);
            // Each host with one of them is what every test has time for.
            all.push(if number % WORDS.len() == place { case } else { case.heavy() });
        }
    }
    all
}

/// The host with the word behind each option, driver, name and version.
fn hostile(mut host: Host, word: &str) -> Host {
    for (path, thing) in &mut host.0 {
        match thing {
            Thing::File(content) if path == "proc/cmdline" => {
                let text = String::from_utf8_lossy(content).trim_end().to_owned();
                // Each option once as it is and once with the word, in the kernel's quotes where it has blanks.
                let with = |option: &str| match word.contains(char::is_whitespace) {
                    true => format!("{option} {option}=\"{word}\""),
                    false => format!("{option} {option}{word}"),
                };
                *content = text.split(' ').map(with).collect::<Vec<_>>().join(" ").into_bytes();
            }
            Thing::File(content) if is_text_of_names(path) => {
                let mut text = String::from_utf8_lossy(content).trim_end().to_owned();
                text.push_str(word);
                *content = text.into_bytes();
            }
            Thing::Link(target) if path.ends_with("/driver") => target.push_str(word),
            _ => {}
        }
    }
    let driver = |(path, thing): &(String, Thing)| match thing {
        Thing::Link(target) if path.ends_with("/driver") => {
            target.rsplit_once('/').map(|(_, name)| name.to_owned())
        }
        _ => None,
    };
    let drivers: Vec<String> = host.0.iter().filter_map(driver).collect();
    for driver in drivers {
        host = host.file(&format!("sys/bus/pci/drivers/{driver}/bind"), "");
    }
    host
}

fn is_text_of_names(path: &str) -> bool {
    path == "proc/version"
        || path.ends_with("release")
        || path.contains("/dmi/id/")
        || path.ends_with("/name")
        || path.ends_with("/model")
}
