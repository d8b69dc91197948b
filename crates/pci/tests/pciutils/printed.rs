//! A second reading of what `lspci -vvv` prints, which shares nothing with the library's: by words and where they stand.

/// A function as lspci prints it.
#[derive(Debug, Clone)]
pub(crate) struct Printed {
    /// The address with its domain.
    pub(crate) address: String,
    /// Its capabilities in the order of the text.
    pub(crate) capabilities: Vec<Capability>,
}

/// A capability as lspci prints it.
#[derive(Debug, Clone)]
pub(crate) struct Capability {
    /// Its offset.
    pub(crate) offset: u16,
    /// What stands after the offset.
    pub(crate) title: String,
    /// The lines below the title, without the two tabs before the name of a register.
    lines: Vec<String>,
}

/// The functions of a text.
pub(crate) fn read(text: &str) -> Vec<Printed> {
    let mut functions: Vec<Printed> = Vec::new();
    for line in text.lines() {
        let first = line.chars().next().unwrap_or(' ');
        let address = line.split(' ').next().unwrap_or_default();
        if first.is_ascii_hexdigit() && address.contains('.') {
            let domain = if address.matches(':').count() == 1 { "0000:" } else { "" };
            functions.push(Printed { address: format!("{domain}{address}"), capabilities: Vec::new() });
        }
        let Some(function) = functions.last_mut() else { continue };
        if let Some((offset, title)) =
            line.strip_prefix("\tCapabilities: [").and_then(|at| at.split_once("] "))
        {
            let offset = offset.split(' ').next().unwrap_or_default();
            let offset = u16::from_str_radix(offset, 16).expect("an offset");
            function.capabilities.push(Capability { offset, title: title.to_owned(), lines: Vec::new() });
        } else if let (Some(line), Some(capability)) =
            (line.strip_prefix("\t\t"), function.capabilities.last_mut())
        {
            capability.lines.push(line.trim_end().to_owned());
        }
    }
    functions
}

impl Printed {
    /// The first capability with a title that begins so.
    pub(crate) fn find(&self, title: &str) -> Option<&Capability> {
        self.capabilities.iter().find(|capability| capability.title.starts_with(title))
    }
}

impl Capability {
    /// The word after `label` in a register: in the line that begins with its name, or in those below that are further in.
    pub(crate) fn word(&self, register: &str, label: &str) -> Option<&str> {
        let start = format!("{register}:");
        let at = self.lines.iter().position(|line| line.trim_start().starts_with(&start))?;
        let own = self.lines.get(at)?.trim_start().strip_prefix(&start)?.trim();
        let below = self.lines.iter().skip(at + 1).take_while(|line| line.starts_with('\t'));
        std::iter::once(own).chain(below.map(String::as_str)).find_map(|line| after(line, label))
    }

    /// Whether a register is printed.
    pub(crate) fn has(&self, register: &str) -> bool {
        self.lines.iter().any(|line| line.starts_with(&format!("{register}:")))
    }

    /// The word after `label` in the title.
    pub(crate) fn word_of_title(&self, label: &str) -> Option<&str> {
        after(&self.title, label)
    }
}

/// The word after `label`, which begins a word itself.
fn after<'a>(line: &'a str, label: &str) -> Option<&'a str> {
    let at = line.match_indices(label).map(|(at, _)| at);
    let at = at.into_iter().find(|at| *at == 0 || line[..*at].ends_with([' ', ',', '(', '\t']))?;
    let word = line[at + label.len()..].trim_start().split([' ', ',', ';', ')']).next();
    word.filter(|word| !word.is_empty())
}
