//! Flame graphs: where the instructions of one I/O go, by call stack.

use crate::stack::Folded;
use crate::stage::Stages;
use crate::symbols::{Code, Symbols};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use toll::Stage;

/// Narrower frames than this, in percent, are left out: nobody could point at them.
const WIDTH_MIN: f64 = 0.02;
/// Of functions that serve everybody.
const SERVANT: Color = rgb(0xe4e0da);
/// Stages in a line of the legend.
const LEGEND_LINE: usize = 9;
/// Stands for the legend until the graph is drawn: the crate knows only one colour per text.
const LEGEND_PLACE: &str = "the legend goes here";

/// What a flame graph is of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heading {
    /// The preset.
    pub preset: String,
    /// The workload.
    pub workload: String,
    /// The kernel's release.
    pub kernel: String,
    /// I/Os whose instructions these are.
    pub ios: u64,
}

/// The instructions of one workload's typical window, by call stack.
#[derive(Debug, Clone)]
pub struct Flame {
    /// What it is of.
    pub heading: Heading,
    /// Names from the root up, with the instructions of the last. Ordered by name and not by line, so that
    /// `f.cold` does not part `f` from what it calls.
    stacks: BTreeMap<Vec<String>, u64>,
    /// The stage of each name; none of those that serve everybody.
    stages: BTreeMap<String, Option<Stage>>,
}

/// The graph can't be drawn.
#[derive(Debug, thiserror::Error)]
#[error("can't draw the flame graph of {workload} on {preset}")]
pub struct FlameError {
    preset: String,
    workload: String,
    source: std::io::Error,
}

impl Flame {
    /// Names the stacks of a window.
    pub fn new(heading: Heading, folded: &Folded, symbols: &Symbols, stages: &Stages) -> Self {
        let mut flame = Self { heading, stacks: BTreeMap::new(), stages: BTreeMap::new() };
        for (stack, instructions) in folded {
            let names: Vec<String> = stack.iter().map(|code| name(*code, symbols)).collect();
            let own = stack.iter().map(|code| stages.own(*code));
            flame.stages.extend(names.iter().cloned().zip(own));
            *flame.stacks.entry(names).or_default() += instructions;
        }
        flame
    }

    /// All instructions.
    pub fn instructions(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// One line for each stack: names from the root up, joined by `;`, then the instructions of the last.
    pub fn folded(&self) -> String {
        self.stacks
            .iter()
            .map(|(names, instructions)| format!("{} {instructions}\n", names.join(";")))
            .collect()
    }

    /// A self-contained SVG: its script, with which frames are zoomed into and searched for, is in it.
    ///
    /// # Errors
    /// [`FlameError`] if there is nothing to draw.
    pub fn svg(&self) -> Result<String, FlameError> {
        let mut colours = self.colours();
        let mut options = Options::default();
        options.title = self.title();
        options.subtitle = Some(LEGEND_PLACE.to_owned());
        options.count_name = "instructions".to_owned();
        options.palette_map = Some(&mut colours);
        options.bgcolors = Some(BackgroundColor::Flat(rgb(0xffffff)));
        options.min_width = WIDTH_MIN;
        // The crate would sort lines, `.` before `;`, and refuses ours. What it calls a chart it takes as it comes,
        // the last line first.
        options.flame_chart = true;
        options.text_truncate_direction = TextTruncateDirection::Right;
        let folded = self.folded();
        let mut svg = Vec::new();
        let drawn = flamegraph::from_lines(&mut options, folded.lines().rev(), &mut svg);
        drawn.map_err(|source| FlameError {
            preset: self.heading.preset.clone(),
            workload: self.heading.workload.clone(),
            source,
        })?;
        Ok(String::from_utf8_lossy(&svg).replacen(LEGEND_PLACE, &self.legend(), 1))
    }

    fn title(&self) -> String {
        let Heading { preset, workload, kernel, ios } = &self.heading;
        let instructions = grouped(self.instructions());
        let of = if *ios == 1 { String::new() } else { format!(" of {ios} I/Os") };
        format!("{workload} on {preset}, Linux {kernel}: {instructions} instructions{of}")
    }

    fn colours(&self) -> PaletteMap {
        let mut colours = PaletteMap::default();
        // The row on which all stand; without a colour of its own it gets one by chance.
        for all in ["", "all"] {
            colours.insert(all, SERVANT);
        }
        for (name, stage) in &self.stages {
            colours.insert(name, stage.map_or(SERVANT, colour));
        }
        colours
    }

    /// The stages that are in the graph, each in its colour.
    fn legend(&self) -> String {
        let stages: BTreeSet<Stage> = self.stages.values().filter_map(|stage| *stage).collect();
        let mut entries: Vec<(&str, Color)> =
            stages.into_iter().map(|stage| (stage.word(), colour(stage))).collect();
        entries.push(("serves its caller", SERVANT));
        let mut legend = String::new();
        for (at, (word, Color { r, g, b })) in entries.into_iter().enumerate() {
            let place = match at {
                0 => " dy=\"-7\"",
                _ if at % LEGEND_LINE == 0 => " x=\"50%\" dy=\"14\"",
                _ => "",
            };
            // Writing to a string does not fail.
            let _ = write!(
                legend,
                "<tspan{place} fill=\"rgb({r},{g},{b})\">\u{25a0}</tspan><tspan> {word}  </tspan>"
            );
        }
        legend
    }
}

fn name(code: Code, symbols: &Symbols) -> String {
    // What parts the text form is in names of Rust's functions, and a list of symbols could have it too.
    symbols.name(code).replace([';', ' '], "_")
}

/// The price of translation stands out: its stages are strong, the rest of the way pale.
fn colour(stage: Stage) -> Color {
    rgb(match stage {
        Stage::User => 0xb8d8b0,
        Stage::SystemCall => 0xcfdcec,
        Stage::BlockLayer => 0xb9cce4,
        Stage::NetworkLayer => 0xa9c6dc,
        Stage::Driver => 0x8fb0d6,
        Stage::DmaMap => 0xf2a03d,
        Stage::Iova => 0xf2cf3a,
        Stage::TableWrite => 0xe2592e,
        Stage::Invalidation => 0xc2185b,
        Stage::DmaUnmap => 0xf08a78,
        Stage::Bounce => 0x8e44ad,
        Stage::Copy => 0xb79fd4,
        Stage::Interrupt => 0xa9d6cf,
        Stage::Schedule => 0xd5e3c2,
        Stage::Memory => 0xe0cfe6,
        Stage::Other => 0xd2d2d2,
        Stage::Unattributed => 0xa8a8a8,
    })
}

const fn rgb(value: u32) -> Color {
    let [_, r, g, b] = value.to_be_bytes();
    Color { r, g, b }
}

/// A number with its digits in threes.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::stage::StageTable;

    const TEXT: &str = "\
ffffffff81000000 vfs_read
ffffffff81000100 vfs_read.cold
ffffffff81000200 __domain_mapping
ffffffff81000300 _raw_spin_lock
";

    fn flame(folded: &[(&[u64], u64)]) -> Flame {
        let symbols = Symbols::read(TEXT).unwrap();
        let stages = StageTable::built_in().stages(&symbols);
        let code = |function: &u64| match function {
            9 => Code::User,
            at => symbols.code(0xffff_ffff_8100_0000 + at * 0x100),
        };
        let stacks = folded.iter().map(|(stack, n)| (stack.iter().map(code).collect(), *n)).collect();
        let heading = Heading {
            preset: "x86-<strict>".to_owned(),
            workload: "nvme-read-4k".to_owned(),
            kernel: "6.1.0".to_owned(),
            ios: 1,
        };
        Flame::new(heading, &stacks, &symbols, &stages)
    }

    fn some() -> Flame {
        flame(&[(&[9], 5), (&[0], 1000), (&[1], 10), (&[0, 2], 300), (&[0, 2, 3], 20)])
    }

    #[test]
    fn the_text_has_a_line_for_each_stack() {
        let expected = "(user) 5\nvfs_read 1000\nvfs_read;__domain_mapping 300\n\
                        vfs_read;__domain_mapping;_raw_spin_lock 20\nvfs_read.cold 10\n";
        assert_eq!(some().folded(), expected);
        assert_eq!(some().instructions(), 1335);
    }

    #[test]
    fn the_drawing_is_whole_and_asks_for_nothing() {
        let svg = some().svg().unwrap();
        assert_eq!(svg, some().svg().unwrap(), "nothing is left to chance");
        assert!(svg.trim_end().ends_with("</svg>"));
        assert!(
            svg.contains("nvme-read-4k on x86-&lt;strict&gt;, Linux 6.1.0: 1,335 instructions<"),
            "{svg}"
        );
        for remote in ["src=", "href=\"", "url(http", "@import"] {
            assert!(!svg.contains(remote), "{remote}");
        }
        assert_eq!(svg.matches("<title>vfs_read (1,320 instructions").count(), 1, "one frame: {svg}");
    }

    #[test]
    fn frames_have_their_stages_colours_and_the_legend_says_which() {
        let svg = some().svg().unwrap();
        let Color { r, g, b } = colour(Stage::TableWrite);
        let fill = format!("rgb({r},{g},{b})");
        assert_eq!(svg.matches(&fill).count(), 2, "a frame and the legend");
        assert!(svg.contains("table-write") && !svg.contains("invalidation") && !svg.contains(LEGEND_PLACE));
    }

    #[test]
    fn no_two_stages_look_the_same() {
        let colours: BTreeSet<[u8; 3]> = Stage::ALL.into_iter().map(|stage| colour(stage).into()).collect();
        assert_eq!(colours.len(), Stage::ALL.len());
    }

    #[test]
    fn nothing_can_t_be_drawn() {
        assert!(flame(&[]).svg().unwrap_err().to_string().contains("x86-<strict>"));
    }

    #[test]
    fn digits_come_in_threes() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
