//! Changes of a host's kernel command line.

use super::boot_loader::{Tool, grubby};
use crate::diagnose::Advice;
use crate::diagnose::advice::{is_inert_argument, shown_argument};
use crate::facts::Host;
use crate::kernel::Effect;
use crate::kernel::command_line::same_name;

const BY_HAND: &str = " by hand, in the boot loader's configuration, and reboot: it has characters that a shell or a boot \
                       loader interprets";

/// How `arguments`, which are iotoll's own, are added for good.
pub(super) fn add_kernel_argument(host: &Host, arguments: &str) -> Advice {
    LineEdit::of(host).add(arguments).advice()
}

/// How `argument` of the host's command line is removed for good.
pub(super) fn remove_kernel_argument(host: &Host, argument: &str) -> Advice {
    LineEdit::of(host).remove(argument).advice()
}

/// A change of the host's command line.
///
/// All words of an option end up in one argument: grubby takes every argument of a name away when it adds one of that name
/// (grubby(8), `--args`), so that an added `pci=` alone would lose the others.
pub(super) struct LineEdit<'h> {
    host: &'h Host,
    arguments: Vec<Argument>,
    added: Vec<String>,
}

/// An argument of the host's command line.
struct Argument {
    /// As it stands there.
    was: String,
    /// Without quotes.
    plain: String,
    /// What becomes of it; `None` if it goes.
    becomes: Option<String>,
}

impl Argument {
    /// Name and value of what becomes of it.
    fn parts(&self) -> Option<(&str, &str)> {
        self.becomes.as_deref()?.split_once('=')
    }

    /// Whether it stays under this name.
    fn is_named(&self, name: &str) -> bool {
        self.parts().is_some_and(|(own, _)| same_name(own, name))
    }

    /// Whether it becomes another.
    fn is_rewritten(&self) -> bool {
        self.becomes.as_ref().is_some_and(|now| *now != self.plain)
    }

    /// The only word that its list loses; `None` if more changes.
    fn lost_word(&self) -> Option<&str> {
        let (_, now) = self.parts()?;
        let (_, before) = self.plain.split_once('=')?;
        let mut kept = now.split(',').peekable();
        let mut lost = before.split(',').filter(|word| kept.next_if_eq(word).is_none());
        let word = lost.next()?;
        (lost.next().is_none() && kept.next().is_none()).then_some(word)
    }
}

impl<'h> LineEdit<'h> {
    /// No change yet.
    pub(super) fn of(host: &'h Host) -> Self {
        let mut arguments: Vec<Argument> = Vec::new();
        let mut offset = None;
        for judged in host.options.iter().filter(|judged| !judged.token.for_init) {
            // An option with a list of words is judged word by word.
            if offset.replace(judged.token.offset) != Some(judged.token.offset) {
                let plain = judged.token.words();
                let was = judged.token.at.text.clone();
                arguments.push(Argument { becomes: Some(plain.clone()), plain, was });
            }
        }
        Self { host, arguments, added: Vec::new() }
    }

    /// The host.
    pub(super) fn host(&self) -> &'h Host {
        self.host
    }

    /// Whether anything on the host's command line asks for one of these, even where something else overrides it.
    pub(super) fn asks(host: &Host, effects: &[Effect]) -> bool {
        host.options.iter().any(|judged| judged.asks.iter().any(|asked| effects.contains(asked)))
    }

    /// Without an argument.
    pub(super) fn remove(mut self, argument: &str) -> Self {
        let named = |own: &&mut Argument| own.was == argument;
        self.arguments.iter_mut().filter(named).for_each(|own| own.becomes = None);
        self
    }

    /// Without all arguments, and words of them, that ask for one of these: what another overrides today counts once that one is gone.
    pub(super) fn stop_asking(mut self, effects: &[Effect]) -> Self {
        for judged in &self.host.options {
            let Some(effect) = judged.asks.iter().find(|asked| effects.contains(asked)) else { continue };
            let word = match effect {
                // `swiotlb=SLOTS,force` is judged as a whole.
                Effect::SwiotlbForce(true) => "force",
                Effect::SwiotlbForce(false) => "noforce",
                _ => judged.part.split_once('=').map_or("", |(_, word)| word),
            };
            let named = |own: &&mut Argument| own.was == judged.token.at.text;
            for own in self.arguments.iter_mut().filter(named) {
                let Some((name, value)) = own.parts() else {
                    own.becomes = None;
                    continue;
                };
                let kept: Vec<&str> = value.split(',').filter(|other| *other != word).collect();
                let goes = kept.is_empty() || kept.len() == value.split(',').count();
                own.becomes = (!goes).then(|| format!("{name}={}", kept.join(",")));
            }
        }
        self
    }

    /// With arguments of iotoll's own. What the line has of the same option stays beside them, but for words that set the same.
    pub(super) fn add(mut self, arguments: &str) -> Self {
        for argument in arguments.split_whitespace() {
            match argument.split_once('=') {
                Some((name, value)) => {
                    let present = self.take_words(name);
                    let all = merged(name, value, &present);
                    self.put(name, &all);
                }
                None => self.added.push(argument.to_owned()),
            }
        }
        self
    }

    /// The words of an option on the line, whose arguments all go.
    fn take_words(&mut self, name: &str) -> Vec<String> {
        let mut words = Vec::new();
        for own in self.arguments.iter_mut().filter(|own| own.is_named(name)) {
            words.extend(own.parts().map_or("", |(_, value)| value).split(',').map(str::to_owned));
            own.becomes = None;
        }
        words
    }

    /// Puts the words of an option where its last argument was, or at the end.
    fn put(&mut self, name: &str, words: &[String]) {
        let argument = format!("{name}={}", words.join(","));
        let was_named =
            |own: &&mut Argument| own.was.split_once('=').is_some_and(|(own, _)| same_name(own, name));
        match self.arguments.iter_mut().rfind(was_named) {
            Some(own) => own.becomes = Some(argument),
            None => self.added.push(argument),
        }
    }

    /// The change in words, with the host's tool.
    pub(super) fn advice(mut self) -> Advice {
        let names: Vec<String> = self
            .arguments
            .iter()
            .filter(|own| own.is_rewritten())
            .filter_map(|own| Some(own.parts()?.0.to_owned()))
            .collect();
        for name in names {
            let mut words = self.take_words(&name);
            let mut known = std::collections::BTreeSet::new();
            words.retain(|word| known.insert(word.clone()));
            if name == "swiotlb" {
                words.sort_by_key(|word| !is_number(word));
            }
            self.put(&name, &words);
        }
        self.in_words()
    }

    fn in_words(&self) -> Advice {
        let mut changed: Vec<&Argument> =
            self.arguments.iter().filter(|own| own.becomes.as_ref() != Some(&own.plain)).collect();
        changed.dedup_by(|one, other| one.was == other.was && one.becomes == other.becomes);
        let without: Vec<&str> = changed.iter().map(|own| own.was.as_str()).collect();
        let with: Vec<&str> = changed
            .iter()
            .filter_map(|own| own.becomes.as_deref())
            .chain(self.added.iter().map(String::as_str))
            .collect();
        let shown = |arguments: &[&str]| {
            arguments.iter().map(|argument| shown_argument(argument)).collect::<Vec<_>>().join(" and ")
        };
        // What is written anew stands in prose too, where a `;` of the host's might be copied out of it.
        let is_rewritten_inert = with.is_empty() || !without.iter().any(|argument| argument.contains(';'));
        let is_inert =
            is_rewritten_inert && without.iter().chain(&with).all(|argument| is_inert_argument(argument));
        let new = if is_inert { format!("`{}`", with.join(" ")) } else { shown(&with) };
        let lost = match changed.as_slice() {
            [own] if self.added.is_empty() => own.lost_word(),
            _ => None,
        };
        if without.is_empty() && with.is_empty() {
            return "reboot: the kernel command line has it already".into();
        }
        let prose = match (lost, without.is_empty(), with.is_empty()) {
            (Some(word), ..) => format!("remove {} from {} on", shown_argument(word), shown(&without)),
            (None, true, _) => format!("add {new} to"),
            (None, false, true) => format!("remove {} from", shown(&without)),
            (None, false, false) => format!("replace {} by {new} on", shown(&without)),
        };
        let said = Advice::say(format!("{prose} the kernel command line"));
        if !is_inert {
            return said.and_say(BY_HAND);
        }
        // grubby adds at the end, behind `--` too.
        if self.host.options.iter().any(|judged| judged.token.for_init) && !with.is_empty() {
            return said.and_say(" by hand, before `--`, behind which the kernel reads nothing, and reboot");
        }
        let mut change = grubby();
        if !without.is_empty() {
            change = change.option("--remove-args=", without.join(" "));
        }
        if !with.is_empty() {
            change = change.option("--args=", with.join(" "));
        }
        said.and(Tool::of(self.host).how(change))
    }
}

/// The words of an option with a new one, without those that set the same. The new one stands first: a pool's size must, and nothing
/// is read behind `usedac`.
fn merged(name: &str, value: &str, present: &[String]) -> Vec<String> {
    let goes = |word: &&String| match name {
        "iommu.strict" | "iommu.passthrough" => true,
        "iommu" => matches!(word.as_str(), "pt" | "nopt"),
        "intel_iommu" => matches!(word.as_str(), "on" | "off"),
        "pci" => key(word) == key(value),
        _ => word.as_str() == value,
    };
    // `swiotlb=SLOTS,AREAS,force`: the first number alone is the size.
    let present = match (name, present) {
        ("swiotlb", [first, others @ ..]) if is_number(first) => others,
        _ => present,
    };
    let kept = present.iter().filter(|word| !goes(word));
    std::iter::once(value.to_owned()).chain(kept.cloned()).collect()
}

/// Whether a word of `swiotlb=` is a number, which must stand before the others.
fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
}

/// What of `pci=` sets the same: `pcie_bus_` of all policies of payload sizes, `disable_acs_redir` of a list of ports.
fn key(word: &str) -> &str {
    match word.split_once('=') {
        Some((key, _)) => key,
        None if word.starts_with("pcie_bus_") => "pcie_bus_",
        None => word,
    }
}
