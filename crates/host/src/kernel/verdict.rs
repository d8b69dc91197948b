//! Whether each option on the command line has an effect on this kernel and machine.
//!
//! A kernel accepts unknown options without complaint, and most of its parsers skip unknown words. So
//! `amd_iommu=pt` boots and changes nothing, and administrators rely on it for years.

use super::effect::Effect;
use super::options::{self, Grammar, Match, OptionFacts, Span, Word};
use super::{Architecture, CommandLine, CpuVendor, Family, KernelVersion, Token};
use serde::Serialize;

/// Longer names are not compared with the table: none of its names is nearly as long.
const NAME_BYTES_MAX: usize = 64;
/// Shorter names of the table resemble too many others to be suggested.
const MISSPELLED_BYTES_MIN: usize = 5;

/// The kernel and machine that read the options. Checks that need an unknown fact are left out.
#[derive(Debug, Clone, Copy, Default)]
pub struct BootedKernel<'a> {
    /// The kernel.
    pub version: Option<&'a KernelVersion>,
    /// Its architecture.
    pub architecture: Option<&'a Architecture>,
    /// Who made the processor.
    pub vendor: Option<&'a CpuVendor>,
}

/// Why an option is invalid.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Fault {
    /// The option exists, but not this word of its value.
    UnknownWord,
    /// The option needs a value.
    MissingValue,
    /// The value cannot be read.
    UnreadableValue,
    /// No such option; one with nearly the same name exists.
    Misspelled,
    /// No such option, in a group whose options are all in the table.
    UnknownName,
    /// An option of another architecture.
    OtherArchitecture,
    /// This kernel does not have the option or the word yet, or no longer.
    NotInThisKernel,
}

/// Whether one part of an option has an effect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel reads it and acts on it.
    Understood {
        /// What it does.
        meaning: String,
        /// What it asks for; empty where nothing in this program depends on it.
        effects: Vec<Effect>,
        /// A better spelling, or a doubt whether this build knows the option.
        caveat: Option<String>,
    },
    /// It does not concern DMA.
    NotDma,
    /// The kernel accepts it, but it has no effect here.
    Ineffective {
        /// Why.
        reason: String,
        /// What would have the effect, if anything does.
        suggestion: Option<String>,
    },
    /// The kernel does not understand it.
    Invalid {
        /// What is wrong.
        fault: Fault,
        /// The fault in words.
        reason: String,
        /// The option that was probably meant.
        suggestion: Option<String>,
    },
}

/// A verdict on an option or, where its value is a list, on one word of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenVerdict {
    /// The option.
    pub token: Token,
    /// The part that the verdict is about, written as an option of its own: `intel_iommu=sm_on`.
    pub part: String,
    /// What it asks for by itself, even where another option overrides it or makes it pointless.
    pub asks: Vec<Effect>,
    /// The verdict.
    pub verdict: Verdict,
}

impl TokenVerdict {
    /// A verdict on a part of an option, before it is compared with other options.
    fn new(token: &Token, part: String, verdict: Verdict) -> Self {
        let asks = match &verdict {
            Verdict::Understood { effects, .. } => effects.clone(),
            _ => Vec::new(),
        };
        Self { token: token.clone(), part, asks, verdict }
    }
}

/// Checks every option of a command line: first each alone, then against the others.
pub fn check_command_line(line: &CommandLine, machine: &BootedKernel<'_>) -> Vec<TokenVerdict> {
    let mut verdicts: Vec<TokenVerdict> =
        line.tokens.iter().flat_map(|token| check_token(token, machine)).collect();
    drop_overridden(&mut verdicts);
    mark_pointless(&mut verdicts);
    verdicts
}

/// Checks one option, word by word if its value is a list.
fn check_token(token: &Token, machine: &BootedKernel<'_>) -> Vec<TokenVerdict> {
    if token.for_init {
        return vec![verdict_on_all(token, Verdict::NotDma)];
    }
    let fits = |option: &&OptionFacts| machine.architecture.is_none_or(|arch| option.platform.runs_on(arch));
    let Some(any) = options::named(&token.name).next() else {
        return vec![verdict_on_all(token, unknown_name(token))];
    };
    match options::named(&token.name).find(fits) {
        Some(option) => check_option(token, option, machine),
        None => vec![verdict_on_all(token, other_architecture(token, any, machine))],
    }
}

/// A verdict on an option as a whole.
fn verdict_on_all(token: &Token, verdict: Verdict) -> TokenVerdict {
    TokenVerdict::new(token, token.words(), verdict)
}

/// Checks an option whose name is known on this architecture.
fn check_option(token: &Token, option: &OptionFacts, machine: &BootedKernel<'_>) -> Vec<TokenVerdict> {
    let doubt = match presence(&option.kernels, machine.version) {
        Presence::Absent(reason) => {
            // What did the same before asks for it: to `=0` it is the opposite.
            let is_negated = matches!(option.value, Grammar::Boolean { .. })
                && token.value.as_deref().and_then(parse_bool) == Some(false);
            let older_form = option.older_form.as_deref().filter(|_| !is_negated);
            let older_form = older_form.and_then(|form| without_foreign_options(form, machine));
            let verdict = not_in_this_kernel(&option.name, reason, older_form.as_deref());
            return vec![verdict_on_all(token, verdict)];
        }
        Presence::Present => None,
        Presence::Doubtful(doubt) => Some(doubt),
    };
    let Grammar::Words { compare, list: words } = &option.value else {
        let verdict = check_value(token, option, doubt);
        return vec![verdict_on_all(token, without_foreign_iommu(verdict, option, machine))];
    };
    let Some(value) = token.value.as_deref().filter(|value| !value.is_empty()) else {
        return vec![verdict_on_all(token, missing_value(option, words))];
    };
    let list = value.split(',').filter(|part| !part.is_empty());
    list.map(|part| {
        let verdict = check_word(part, option, *compare, words, machine);
        let verdict = without_foreign_iommu(with_doubt(verdict, doubt.as_deref()), option, machine);
        TokenVerdict::new(token, format!("{}={part}", option.name), verdict)
    })
    .collect()
}

/// Alternatives, `intel_iommu=strict or amd_iommu=fullflush; lazy is the default`, without those of another maker's IOMMU.
fn without_foreign_options(alternatives: &str, machine: &BootedKernel<'_>) -> Option<String> {
    let (options, remark) = alternatives.split_at(alternatives.find(';').unwrap_or(alternatives.len()));
    let is_foreign = |option: &str| {
        let name = option.split_once('=').map_or(option, |(name, _)| name);
        machine
            .vendor
            .is_some_and(|vendor| options::named(name).any(|facts| facts.platform.is_foreign_to(vendor)))
    };
    let fitting: Vec<&str> = options.split(" or ").filter(|option| !is_foreign(option)).collect();
    (!fitting.is_empty()).then(|| format!("{}{remark}", fitting.join(" or ")))
}

/// Checks an option whose value is not a list of words.
fn check_value(token: &Token, option: &OptionFacts, doubt: Option<String>) -> Verdict {
    let understood = |effects: Vec<Effect>, caveat: Option<String>| Verdict::Understood {
        meaning: option.meaning.clone(),
        effects,
        caveat,
    };
    let value = token.value.as_deref();
    match (&option.value, value) {
        (Grammar::Ignored { reason }, _) => Verdict::Ineffective { reason: reason.clone(), suggestion: None },
        (Grammar::Flag { effect }, value) => {
            let ignored =
                value.map(|_| format!("its value is not read; `{}` alone does the same", option.name));
            understood(effect.iter().cloned().collect(), doubt.or(ignored))
        }
        // A module's boolean may stand without a value and is then true; the core's early options need one.
        (Grammar::Boolean { effect }, None) if is_of_module(&option.name) => {
            understood(effect.iter().map(|effect| effect.with(true)).collect(), doubt)
        }
        (Grammar::Boolean { effect }, Some(value)) => match parse_bool(value) {
            Some(on) => understood(effect.iter().map(|effect| effect.with(on)).collect(), doubt),
            None => unreadable(option, value, "0 or 1"),
        },
        (Grammar::Parsed { parser, expected }, Some(value)) => match parser.parse(value) {
            Some(effects) => understood(effects, doubt),
            None => unreadable(option, value, expected),
        },
        (Grammar::Parsed { expected, .. }, None) => missing(option, expected),
        (Grammar::Boolean { .. } | Grammar::Words { .. }, _) => missing(option, "0 or 1"),
    }
}

/// Whether the option is a module's parameter.
fn is_of_module(name: &str) -> bool {
    name.contains('.') && !name.starts_with("iommu.")
}

/// Parses a boolean as lib/kstrtox.c `kstrtobool` does: by the first letter, and the second after an `o`.
fn parse_bool(value: &str) -> Option<bool> {
    let mut bytes = value.bytes().map(|byte| byte.to_ascii_lowercase());
    match (bytes.next()?, bytes.next()) {
        (b'y' | b't' | b'1', _) | (b'o', Some(b'n')) => Some(true),
        (b'n' | b'f' | b'0', _) | (b'o', Some(b'f')) => Some(false),
        _ => None,
    }
}

/// Checks one word of an option whose value is a list.
fn check_word(
    part: &str,
    option: &OptionFacts,
    matching: Match,
    words: &[Word],
    machine: &BootedKernel<'_>,
) -> Verdict {
    let Some((word, rest)) = find_word(part, matching, words) else {
        return unknown_word(part, option, words, machine);
    };
    let doubt = match presence(&word.kernels, machine.version) {
        Presence::Absent(reason) => {
            let name = format!("{}={}", option.name, word.word);
            let instead = word.instead.as_ref().map(|newer| newer.option.as_str());
            return not_in_this_kernel(&name, reason, instead);
        }
        Presence::Present => None,
        Presence::Doubtful(doubt) => Some(doubt),
    };
    let replaced = word
        .instead
        .as_ref()
        .filter(|newer| machine.version.is_none_or(|version| version.at_least(newer.since.0, newer.since.1)));
    let deprecated = replaced.map(|newer| format!("deprecated; newer kernels want `{}`", newer.option));
    Verdict::Understood {
        meaning: word.meaning.clone(),
        effects: word.effect_of(rest).into_iter().collect(),
        caveat: doubt.or(deprecated),
    }
}

/// The word that the kernel finds in `part`, and the text after it. If several fit, the longest word counts.
fn find_word<'p, 'w>(part: &'p str, matching: Match, words: &'w [Word]) -> Option<(&'w Word, &'p str)> {
    let fits = |word: &'w Word| {
        let rest = part.strip_prefix(word.word.as_str())?;
        let whole = matching == Match::Whole && !word.word.ends_with('=') && !rest.is_empty();
        (!whole).then_some((word, rest))
    };
    words.iter().filter_map(fits).max_by_key(|(word, _)| word.word.len())
}

/// Whether a kernel has an option or a word.
enum Presence {
    Present,
    /// The version says no, but the distribution may have added it.
    Doubtful(String),
    Absent(String),
}

/// Whether a kernel of this version has what `span` describes.
fn presence(span: &Span, version: Option<&KernelVersion>) -> Presence {
    let Some(version) = version else { return Presence::Present };
    if let Some(major) = span.only_rhel {
        return match version.rhel() {
            Some(rhel) if rhel == major => Presence::Present,
            _ => Presence::Absent(format!("only RHEL {major} has it")),
        };
    }
    if let Some((major, minor)) = span.gone_in.filter(|gone| version.at_least(gone.0, gone.1)) {
        return Presence::Absent(format!("kernels from {major}.{minor} on no longer have it"));
    }
    let Some(absent) = span.absent_in.filter(|absent| !version.at_least(absent.0, absent.1 + 1)) else {
        return Presence::Present;
    };
    let what = format!("kernels up to {}.{} do not have it", absent.0, absent.1);
    match version.family {
        Family::Rhel(_) | Family::Suse => {
            Presence::Doubtful(format!("{what}, unless the distribution added it to its {}", version.release))
        }
        _ => Presence::Absent(what),
    }
}

/// Adds a doubt to a verdict that has no caveat yet.
fn with_doubt(verdict: Verdict, doubt: Option<&str>) -> Verdict {
    match verdict {
        Verdict::Understood { meaning, effects, caveat } => {
            Verdict::Understood { meaning, effects, caveat: caveat.or(doubt.map(str::to_owned)) }
        }
        other => other,
    }
}

/// Turns the verdict on an option of the other x86 vendor's IOMMU into "ineffective".
fn without_foreign_iommu(verdict: Verdict, option: &OptionFacts, machine: &BootedKernel<'_>) -> Verdict {
    let is_foreign = machine.vendor.is_some_and(|vendor| option.platform.is_foreign_to(vendor));
    if !is_foreign || !matches!(verdict, Verdict::Understood { .. }) {
        return verdict;
    }
    Verdict::Ineffective {
        reason: format!("for {}, which this processor does not have", option.platform.words()),
        suggestion: None,
    }
}

/// The verdict on an option or word that this kernel does not have.
fn not_in_this_kernel(name: &str, reason: String, suggestion: Option<&str>) -> Verdict {
    Verdict::Invalid {
        fault: Fault::NotInThisKernel,
        reason: format!("this kernel does not know `{name}`: {reason}"),
        suggestion: suggestion.map(str::to_owned),
    }
}

/// A word list without a value; the reason names its first words.
fn missing_value(option: &OptionFacts, words: &[Word]) -> Verdict {
    let list: Vec<&str> = words.iter().take(4).map(|word| word.word.as_str()).collect();
    missing(option, &list.join(", "))
}

/// The verdict on an option without its value.
fn missing(option: &OptionFacts, expected: &str) -> Verdict {
    Verdict::Invalid {
        fault: Fault::MissingValue,
        reason: format!("`{}` needs a value ({expected})", option.name),
        suggestion: None,
    }
}

/// The verdict on a value that the kernel cannot read.
fn unreadable(option: &OptionFacts, value: &str, expected: &str) -> Verdict {
    Verdict::Invalid {
        fault: Fault::UnreadableValue,
        reason: format!("`{}` cannot be `{value}`; expected {expected}", option.name),
        suggestion: None,
    }
}

/// The verdict on a word that the option does not have.
fn unknown_word(part: &str, option: &OptionFacts, words: &[Word], machine: &BootedKernel<'_>) -> Verdict {
    let nearest = || nearest(part, words.iter().map(|word| word.word.as_str()));
    let suggestion = familiar_mistake(&option.name, part, machine)
        .map(str::to_owned)
        .or_else(|| nearest().map(|word| format!("{}={word}", option.name)));
    Verdict::Invalid {
        fault: Fault::UnknownWord,
        reason: format!("`{}` has no `{part}`; the kernel skips it", option.name),
        suggestion,
    }
}

/// What to write instead of a word that forums and guides wrongly recommend.
fn familiar_mistake(name: &str, part: &str, machine: &BootedKernel<'_>) -> Option<&'static str> {
    let on_power = machine.architecture.is_some_and(Architecture::is_power);
    let on_amd = machine.vendor.is_some_and(CpuVendor::has_amd_vi);
    match (name, part) {
        ("iommu", "pt" | "passthrough") if on_power => {
            Some("nothing: on POWER a 64-bit window does this by itself, unless `disable_ddw` forbids it")
        }
        ("intel_iommu", "pt" | "passthrough") => Some("intel_iommu=on iommu=pt"),
        ("amd_iommu" | "iommu", "pt" | "passthrough") => Some("iommu=pt"),
        ("amd_iommu", "on" | "1" | "yes" | "enable") => Some("nothing: AMD-Vi is on unless it is turned off"),
        ("iommu", "on" | "1" | "yes" | "enable") if on_amd => {
            Some("nothing: AMD-Vi is on unless it is turned off")
        }
        ("iommu" | "intel_iommu", "1" | "yes" | "enable" | "on") => Some("intel_iommu=on"),
        ("intel_iommu", "0" | "no" | "disable") => Some("intel_iommu=off"),
        ("amd_iommu", "0" | "no" | "disable") => Some("amd_iommu=off"),
        ("iommu" | "amd_iommu", "strict") => Some("iommu.strict=1"),
        (_, "lazy" | "nostrict") => Some("iommu.strict=0"),
        _ => None,
    }
}

/// The verdict on an option of another architecture.
fn other_architecture(token: &Token, option: &OptionFacts, machine: &BootedKernel<'_>) -> Verdict {
    let here = machine.architecture.map(ToString::to_string).unwrap_or_default();
    let wants_identity = token.value.as_deref().is_some_and(|v| v.split(',').any(|word| word == "pt"));
    let on_arm = machine.architecture.is_some_and(Architecture::is_arm);
    Verdict::Invalid {
        fault: Fault::OtherArchitecture,
        reason: format!("`{}` is for {}; this is {here}", option.name, option.platform.words()),
        suggestion: (wants_identity && on_arm).then(|| "iommu.passthrough=1".to_owned()),
    }
}

/// The verdict on an option that is not in the table: misspelled if a name of the table is nearly the same.
fn unknown_name(token: &Token) -> Verdict {
    let name = token.name.as_str();
    if options::is_unrelated(name) {
        return Verdict::NotDma;
    }
    let folded = name.to_ascii_lowercase().replace('-', "_");
    let known = options::table().options.iter().map(|option| option.name.as_str());
    let near = nearest(&folded, known.filter(|name| name.len() >= MISSPELLED_BYTES_MIN));
    let value = token.value.as_deref().map(|value| format!("={value}")).unwrap_or_default();
    let suggestion = near.map(|right| format!("{right}{value}"));
    // Every option with this prefix is in the table.
    let in_core = folded.starts_with("iommu.");
    match near {
        Some(right) => Verdict::Invalid {
            fault: Fault::Misspelled,
            reason: format!("no option `{name}`; `{right}` is nearly the same"),
            suggestion,
        },
        None if in_core => Verdict::Invalid {
            fault: Fault::UnknownName,
            reason: format!("the IOMMU core has no option `{name}`"),
            suggestion: None,
        },
        None => Verdict::NotDma,
    }
}

/// The candidate that a typing error could have turned into `word`.
fn nearest<'c>(word: &str, candidates: impl Iterator<Item = &'c str>) -> Option<&'c str> {
    if word.len() > NAME_BYTES_MAX {
        return None;
    }
    let bytes_of_word = bytes_in(word);
    // Each error changes at most two kinds of bytes: one that goes and one that comes.
    let may_be_near = |candidate: &&str| {
        let errors = errors_allowed(candidate);
        candidate.len().abs_diff(word.len()) <= errors
            && (bytes_of_word ^ bytes_in(candidate)).count_ones() as usize <= 2 * errors
    };
    candidates
        .filter(may_be_near)
        .map(|candidate| (distance(word, candidate), candidate))
        .filter(|(distance, candidate)| *distance <= errors_allowed(candidate))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The kinds of bytes in a word, of which some share a bit.
fn bytes_in(word: &str) -> u64 {
    word.bytes().fold(0, |kinds, byte| kinds | 1 << (byte % 64))
}

/// Long names leave room for more errors (`iommu.passthru`); in short ones two make another name.
fn errors_allowed(candidate: &str) -> usize {
    match candidate.len() {
        0..=2 => 0,
        3..=6 => 1,
        7..=15 => 2,
        _ => 3,
    }
}

/// Edit distance in bytes: insertions, deletions and replacements (Levenshtein).
fn distance(one: &str, other: &str) -> usize {
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (at, left) in one.bytes().enumerate() {
        let mut diagonal = at;
        let mut before = at + 1;
        for (cell, right) in row.iter_mut().skip(1).zip(other.bytes()) {
            let replaced = diagonal + usize::from(left != right);
            diagonal = *cell;
            *cell = replaced.min(diagonal + 1).min(before + 1);
            before = *cell;
        }
        if let Some(first) = row.first_mut() {
            *first = at + 1;
        }
    }
    row.last().copied().unwrap_or(0)
}

/// Marks options that lose to another one that sets the same thing. Mostly the later one wins.
fn drop_overridden(verdicts: &mut [TokenVerdict]) {
    for loser in 0..verdicts.len() {
        if verdicts.get(loser).and_then(effects_acted_on).is_none_or(<[Effect]>::is_empty) {
            continue;
        }
        let winner = (0..verdicts.len()).rev().filter(|other| *other != loser).find(|other| {
            let pair = (verdicts.get(loser), verdicts.get(*other));
            matches!(pair, (Some(one), Some(two)) if is_overridden(one, two, loser < *other))
        });
        let Some(winner) = winner.and_then(|at| verdicts.get(at)).map(|winner| winner.part.clone()) else {
            continue;
        };
        if let Some(judged) = verdicts.get_mut(loser) {
            let reason = if judged.part == winner {
                "said again later".to_owned()
            } else {
                format!("`{winner}` overrides it")
            };
            judged.verdict = Verdict::Ineffective { reason, suggestion: None };
        }
    }
}

/// Whether all that `loser` sets is also set by `winner`, and the setting of `winner` counts.
fn is_overridden(loser: &TokenVerdict, winner: &TokenVerdict, winner_is_later: bool) -> bool {
    let (Some(lost), Some(won)) = (effects_acted_on(loser), effects_acted_on(winner)) else { return false };
    let all_set = !lost.is_empty() && lost.iter().all(|one| won.iter().any(|two| one.sets_same(two)));
    all_set
        && match (
            lost.iter().any(|e| cannot_be_undone(loser, e)),
            won.iter().any(|e| cannot_be_undone(winner, e)),
        ) {
            (true, false) => false,
            (false, true) => true,
            _ => winner_is_later,
        }
}

/// Whether no later option can undo this effect.
///
/// x86's `iommu=off` sets `no_iommu`, and `amd_iommu=off` sets `amd_iommu_disabled`, which no option clears. The strict words of `intel_iommu=` and `amd_iommu=`
/// are read after every early option, `iommu.strict=` among them.
fn cannot_be_undone(judged: &TokenVerdict, effect: &Effect) -> bool {
    match effect {
        Effect::Iommu(false) => judged.token.is("iommu") || judged.token.is("amd_iommu"),
        Effect::Strict(true) => judged.token.is("intel_iommu") || judged.token.is("amd_iommu"),
        _ => false,
    }
}

/// The effects of an option; `None` if the kernel does not act on it.
fn effects_acted_on(judged: &TokenVerdict) -> Option<&[Effect]> {
    match &judged.verdict {
        Verdict::Understood { effects, .. } => Some(effects),
        _ => None,
    }
}

/// Marks options as ineffective if another option removes what they act on.
fn mark_pointless(verdicts: &mut [TokenVerdict]) {
    let off = option_with_effect(verdicts, &Effect::Iommu(false));
    let identity = option_with_effect(verdicts, &Effect::Passthrough(true)).filter(|_| off.is_none());
    for judged in verdicts {
        let Some([effect]) = effects_acted_on(judged) else { continue };
        let reason = match (effect, &off, &identity) {
            (Effect::Passthrough(_) | Effect::Strict(_) | Effect::ForceDac(_), Some(off), _) => {
                format!("`{off}` leaves no IOMMU for it")
            }
            (Effect::Strict(_), None, Some(identity)) => format!(
                "`{identity}` makes default domains identity, where nothing is invalidated; it only reaches groups switched to DMA by hand"
            ),
            _ => continue,
        };
        judged.verdict = Verdict::Ineffective { reason, suggestion: None };
    }
}

/// The first option that has this effect.
fn option_with_effect(verdicts: &[TokenVerdict], effect: &Effect) -> Option<String> {
    let asks = |judged: &&TokenVerdict| effects_acted_on(judged).is_some_and(|all| all.contains(effect));
    verdicts.iter().find(asks).map(|judged| judged.part.clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Text;
    use crate::kernel::Requests;
    use proptest::prelude::*;

    const DEBIAN: &str = "6.1.0-53-amd64";

    fn diagnose(release: &str, vendor: Option<CpuVendor>, body: &str) -> Vec<TokenVerdict> {
        let version = KernelVersion::parse(release);
        let architecture = version.as_ref().and_then(|v| v.architecture.clone());
        let machine = BootedKernel {
            version: version.as_ref(),
            architecture: architecture.as_ref(),
            vendor: vendor.as_ref(),
        };
        check_command_line(&CommandLine::parse(&Text::new("proc/cmdline", body)), &machine)
    }

    fn brief(judged: &TokenVerdict) -> String {
        match &judged.verdict {
            Verdict::Understood { effects, caveat, .. } => {
                let caveat = caveat.as_ref().map(|c| format!(" ({c})")).unwrap_or_default();
                format!("{} -> {effects:?}{caveat}", judged.part)
            }
            Verdict::NotDma => format!("{} -> not DMA", judged.part),
            Verdict::Ineffective { reason, .. } => format!("{} -> ineffective: {reason}", judged.part),
            Verdict::Invalid { fault, suggestion, .. } => {
                format!("{} -> {fault:?}, try {}", judged.part, suggestion.as_deref().unwrap_or("-"))
            }
        }
    }

    fn check(release: &str, vendor: Option<CpuVendor>, body: &str, expect: &[&str]) {
        let got: Vec<String> = diagnose(release, vendor, body).iter().map(brief).collect();
        assert_eq!(got, expect, "{body} on {release}");
    }

    #[test]
    fn understood() {
        let intel = || Some(CpuVendor::Intel);
        check(
            DEBIAN,
            intel(),
            "intel_iommu=on,sm_on iommu=pt ro quiet",
            &[
                "intel_iommu=on -> [Iommu(true)]",
                "intel_iommu=sm_on -> []",
                "iommu=pt -> [Passthrough(true)]",
                "ro -> not DMA",
                "quiet -> not DMA",
            ],
        );
        check(
            DEBIAN,
            intel(),
            "intel-iommu=on iommu.strict=n",
            &["intel_iommu=on -> [Iommu(true)]", "iommu.strict=n -> [Strict(false)]"],
        );
        check(
            DEBIAN,
            None,
            "swiotlb=65536,4,force pci=noats,pcie_bus_perf mem=4G memmap=8G$4G",
            &[
                "swiotlb=65536,4,force -> [SwiotlbSlots(65536), SwiotlbAreas(4), SwiotlbForce(true)]",
                "pci=noats -> [NoAts]",
                "pci=pcie_bus_perf -> [BusTuning(\"perf\")]",
                "mem=4G -> [MemoryLimit(4294967296)]",
                "memmap=8G$4G -> [Memmap(\"8G$4G\")]",
            ],
        );
        check(
            "6.1.0-50-powerpc64le",
            None,
            "disable_ddw multitce=off iommu=novmerge",
            &[
                "disable_ddw -> [DirectWindow(false)]",
                "multitce=off -> [MultiTce(false)]",
                "iommu=novmerge -> []",
            ],
        );
        check(
            "6.1.0-50-powerpc64le",
            None,
            "disable_ddw=0",
            &[
                "disable_ddw=0 -> [DirectWindow(false)] (its value is not read; `disable_ddw` alone does the same)",
            ],
        );
        check(
            DEBIAN,
            None,
            "vfio.enable_unsafe_noiommu_mode vfio-pci.ids=10de:1,10de:2",
            &[
                "vfio.enable_unsafe_noiommu_mode -> [UnsafeNoIommu(true)]",
                "vfio-pci.ids=10de:1,10de:2 -> [UserOwned(\"10de:1\"), UserOwned(\"10de:2\")]",
            ],
        );
        check("6.1.0-50-arm64", None, "iommu.passthrough=1", &["iommu.passthrough=1 -> [Passthrough(true)]"]);
    }

    #[test]
    fn words_that_do_not_exist() {
        check(
            DEBIAN,
            Some(CpuVendor::Amd),
            "amd_iommu=pt amd_iommu=on iommu=on",
            &[
                "amd_iommu=pt -> UnknownWord, try iommu=pt",
                "amd_iommu=on -> UnknownWord, try nothing: AMD-Vi is on unless it is turned off",
                "iommu=on -> UnknownWord, try nothing: AMD-Vi is on unless it is turned off",
            ],
        );
        check(
            DEBIAN,
            Some(CpuVendor::Intel),
            "intel_iommu=pt iommu=1 intel_iommu=igfx_of intel_iommu",
            &[
                "intel_iommu=pt -> UnknownWord, try intel_iommu=on iommu=pt",
                "iommu=1 -> UnknownWord, try intel_iommu=on",
                "intel_iommu=igfx_of -> UnknownWord, try intel_iommu=igfx_off",
                "intel_iommu -> MissingValue, try -",
            ],
        );
        check(
            DEBIAN,
            None,
            "iommu.strict=maybe iommu.passthrough swiotlb=lots pci=pcie_bus_pref",
            &[
                "iommu.strict=maybe -> UnreadableValue, try -",
                "iommu.passthrough -> MissingValue, try -",
                "swiotlb=lots -> UnreadableValue, try -",
                "pci=pcie_bus_pref -> UnknownWord, try pci=pcie_bus_perf",
            ],
        );
    }

    #[test]
    fn names_that_do_not_exist() {
        check(
            DEBIAN,
            None,
            "intel_iomu=on iommu.passthru=1 iommu.stict=0 imommu=pt IOMMU=pt iommu.foo=1",
            &[
                "intel_iomu=on -> Misspelled, try intel_iommu=on",
                "iommu.passthru=1 -> Misspelled, try iommu.passthrough=1",
                "iommu.stict=0 -> Misspelled, try iommu.strict=0",
                "imommu=pt -> Misspelled, try iommu=pt",
                "IOMMU=pt -> Misspelled, try iommu=pt",
                "iommu.foo=1 -> UnknownName, try -",
            ],
        );
    }

    #[test]
    fn ordinary_options_are_left_alone() {
        let ordinary = "BOOT_IMAGE=/vmlinuz root=UUID=1 ro rhgb crashkernel=auto rd.lvm.lv=rhel/root console=ttyS0 \
            nopti nomodeset mitigations=off hugepagesz=1G default_hugepagesz=1G isolcpus=1-3 nohz_full=1-3 \
            rcu_nocbs=1-3 transparent_hugepage=never numa_balancing=disable nvme.poll_queues=4 \
            nvme_core.io_timeout=30 memtest=1 panic=5 nmi_watchdog=0 audit=0 selinux=0 net.ifnames=0 idle=poll \
            intel_pstate=disable intel_idle.max_cstate=0 amd_pstate=passive processor.max_cstate=1 \
            systemd.unit=x mce=off tsc=reliable skew_tick=1 nosoftlockup rdblacklist=x modprobe.blacklist=y \
            vfio_pci.disable_idle_d3=1 pcie_acs=x vga=1 edd=off nopcid noxsave kvm.ignore_msrs=1 mem_sleep_default=s2";
        for judged in diagnose(DEBIAN, Some(CpuVendor::Intel), ordinary) {
            assert_eq!(judged.verdict, Verdict::NotDma, "{}", judged.part);
        }
    }

    #[test]
    fn other_machines_options() {
        check(
            "6.1.0-50-powerpc64le",
            None,
            "intel_iommu=on iommu=pt iommu.passthrough=1",
            &[
                "intel_iommu=on -> OtherArchitecture, try -",
                "iommu=pt -> UnknownWord, try nothing: on POWER a 64-bit window does this by itself, unless `disable_ddw` forbids it",
                "iommu.passthrough=1 -> ineffective: POWER maps through its own windows, not through the IOMMU core's default domains",
            ],
        );
        check(
            "6.1.0-50-arm64",
            None,
            "iommu=pt amd_iommu=on",
            &[
                "iommu=pt -> OtherArchitecture, try iommu.passthrough=1",
                "amd_iommu=on -> OtherArchitecture, try -",
            ],
        );
        check(
            DEBIAN,
            Some(CpuVendor::Amd),
            "intel_iommu=on disable_ddw",
            &[
                "intel_iommu=on -> ineffective: for x86 with Intel VT-d, which this processor does not have",
                "disable_ddw -> OtherArchitecture, try -",
            ],
        );
    }

    #[test]
    fn versions() {
        check(
            "5.10.0-30-amd64",
            Some(CpuVendor::Amd),
            "iommu.strict=1",
            &["iommu.strict=1 -> NotInThisKernel, try amd_iommu=fullflush; lazy is the default"],
        );
        check("5.10.0-30-amd64", None, "iommu.strict=0", &["iommu.strict=0 -> NotInThisKernel, try -"]);
        check(
            "5.10.0-30-amd64",
            None,
            "iommu.strict=1",
            &[
                "iommu.strict=1 -> NotInThisKernel, try intel_iommu=strict or amd_iommu=fullflush; lazy is the default",
            ],
        );
        check("5.10.0-30-arm64", None, "iommu.strict=0", &["iommu.strict=0 -> [Strict(false)]"]);
        check(
            "4.9.0-1-amd64",
            None,
            "iommu.passthrough=1",
            &["iommu.passthrough=1 -> NotInThisKernel, try iommu=pt"],
        );
        check(
            "4.18.0-394.el8.x86_64",
            None,
            "iommu.passthrough=1",
            &[
                "iommu.passthrough=1 -> [Passthrough(true)] (kernels up to 4.19 do not have it, unless the distribution added it to its 4.18.0-394.el8.x86_64)",
            ],
        );
        check(
            DEBIAN,
            None,
            "amd_iommu=fullflush",
            &["amd_iommu=fullflush -> [Strict(true)] (deprecated; newer kernels want `iommu.strict=1`)"],
        );
        check("5.10.0-30-amd64", None, "amd_iommu=fullflush", &["amd_iommu=fullflush -> [Strict(true)]"]);
        check(
            "2.6.32-642.6.2.el6.x86_64",
            None,
            "intel_iommu=pt64",
            &["intel_iommu=pt64 -> [Passthrough(true)]"],
        );
        check(DEBIAN, None, "intel_iommu=pt64", &["intel_iommu=pt64 -> NotInThisKernel, try -"]);
    }

    #[test]
    fn options_against_each_other() {
        check(
            DEBIAN,
            None,
            "iommu=pt iommu.passthrough=0",
            &[
                "iommu=pt -> ineffective: `iommu.passthrough=0` overrides it",
                "iommu.passthrough=0 -> [Passthrough(false)]",
            ],
        );
        check(
            DEBIAN,
            None,
            "iommu=pt iommu.strict=1 iommu=pt",
            &[
                "iommu=pt -> ineffective: said again later",
                "iommu.strict=1 -> ineffective: `iommu=pt` makes default domains identity, where nothing is invalidated; it only reaches groups switched to DMA by hand",
                "iommu=pt -> [Passthrough(true)]",
            ],
        );
        check(
            DEBIAN,
            None,
            "iommu=off intel_iommu=on iommu=pt",
            &[
                "iommu=off -> [Iommu(false)]",
                "intel_iommu=on -> ineffective: `iommu=off` overrides it",
                "iommu=pt -> ineffective: `iommu=off` leaves no IOMMU for it",
            ],
        );
        check(
            DEBIAN,
            None,
            "intel_iommu=on,strict iommu.strict=0",
            &[
                "intel_iommu=on -> [Iommu(true)]",
                "intel_iommu=strict -> [Strict(true)] (deprecated; newer kernels want `iommu.strict=1`)",
                "iommu.strict=0 -> ineffective: `intel_iommu=strict` overrides it",
            ],
        );
        check(
            DEBIAN,
            None,
            "memmap=1G$4G memmap=1G$8G",
            &["memmap=1G$4G -> [Memmap(\"1G$4G\")]", "memmap=1G$8G -> [Memmap(\"1G$8G\")]"],
        );
    }

    #[test]
    fn requests_keep_the_last_effective_option() {
        let verdicts =
            diagnose(DEBIAN, Some(CpuVendor::Intel), "intel_iommu=off iommu=nopt intel_iommu=on iommu=pt");
        let requests = Requests::collect(&verdicts);
        assert_eq!(requests.iommu_enabled.as_ref().map(|c| c.value), Some(true));
        assert_eq!(requests.passthrough.as_ref().map(|c| c.at.text.as_str()), Some("iommu=pt"));
        assert_eq!(requests.strict, None);
    }

    #[test]
    fn distances() {
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("iommu", "iommu"), 0);
        assert_eq!(distance("intel_iomu", "intel_iommu"), 1);
        assert_eq!(distance("iommu.passthru", "iommu.passthrough"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
    }

    proptest! {
        #[test]
        fn the_nearest_name_is_that_of_the_least_distance(word in "[a-f_.]{0,9}", names in proptest::collection::vec("[a-f_.]{0,9}", 0..5)) {
            let near = |name: &&String| distance(&word, name) <= errors_allowed(name);
            let expect = names.iter().filter(near).min_by_key(|name| distance(&word, name));
            prop_assert_eq!(nearest(&word, names.iter().map(String::as_str)), expect.map(String::as_str));
        }

        #[test]
        fn no_command_line_panics(body in "(iommu|intel_iommu|swiotlb|mem|pci|memmap|[a-z.]{0,9})(=[a-z0-9,=x$@\u{e9}]{0,12})?( .{0,20})?") {
            for release in [DEBIAN, "2.6.32-642.el6.ppc64", "nonsense"] {
                let verdicts = diagnose(release, Some(CpuVendor::Amd), &body);
                Requests::collect(&verdicts);
            }
        }
    }
}
