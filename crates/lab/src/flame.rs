//! Flame graphs: the instructions of one I/O by call stack.

use crate::stack::Folded;
use crate::stage::Stages;
use crate::symbols::{Code, Symbols};
use inferno::flamegraph::color::{BackgroundColor, Color, PaletteMap};
use inferno::flamegraph::{self, Options, TextTruncateDirection};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use toll::Stage;

/// Narrower frames than this, in percent of the width, are left out: they are too thin to see.
const WIDTH_MIN_PERCENT: f64 = 0.02;
/// The colour of functions that belong to no stage of their own, such as locks.
const SHARED_FUNCTION: Color = rgb(0xe4e0da);
/// Stages in a line of the legend.
const LEGEND_LINE: usize = 9;
/// Placeholder for the legend: inferno draws a text in one colour, so the legend is inserted into the finished SVG.
const LEGEND_PLACE: &str = "the legend goes here";

/// The workload, machine and kernel that a flame graph shows.
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
    /// The workload and machine that were measured.
    pub heading: Heading,
    /// Instructions of the last function by call stack, outermost function first. Sorted by names and not by text
    /// lines: as a line, `f.cold` would sort between `f` and `f;callee`.
    stacks: BTreeMap<Vec<String>, u64>,
    /// Each function's own stage; `None` for a helper, which counts for the stage that ran before it.
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
    /// Resolves the functions of a window's stacks to names and stages.
    pub fn new(heading: Heading, folded: &Folded, symbols: &Symbols, stages: &Stages) -> Self {
        let mut flame = Self { heading, stacks: BTreeMap::new(), stages: BTreeMap::new() };
        for (stack, instructions) in folded {
            let names: Vec<String> = stack.iter().map(|code| frame_name(*code, symbols)).collect();
            let own = stack.iter().map(|code| stages.own(*code));
            flame.stages.extend(names.iter().cloned().zip(own));
            *flame.stacks.entry(names).or_default() += instructions;
        }
        flame
    }

    /// The sum of the instructions of all stacks.
    pub fn instructions(&self) -> u64 {
        self.stacks.values().sum()
    }

    /// The folded text format: one line per stack, names from the outermost function joined by `;`, then its instructions.
    pub fn folded(&self) -> String {
        self.stacks
            .iter()
            .map(|(names, instructions)| format!("{} {instructions}\n", names.join(";")))
            .collect()
    }

    /// Draws a self-contained SVG, including the script for zooming and searching.
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
        options.min_width = WIDTH_MIN_PERCENT;
        // For a flame graph, inferno requires lines in its own order (`.` before `;`). A flame chart keeps the order of
        // its input, last line first.
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

    /// The graph's title: workload, preset, kernel and number of instructions.
    fn title(&self) -> String {
        let Heading { preset, workload, kernel, ios } = &self.heading;
        let instructions = grouped(self.instructions());
        let of = if *ios == 1 { String::new() } else { format!(" of {ios} I/Os") };
        format!("{workload} on {preset}, Linux {kernel}: {instructions} instructions{of}")
    }

    /// The colour of each function, by its stage.
    fn colours(&self) -> PaletteMap {
        let mut colours = PaletteMap::default();
        // inferno's bottom row; without an entry here it gets a random colour.
        for all in ["", "all"] {
            colours.insert(all, SHARED_FUNCTION);
        }
        for (name, stage) in &self.stages {
            colours.insert(name, stage.map_or(SHARED_FUNCTION, colour));
        }
        colours
    }

    /// SVG text that names the stages in the graph, each in its colour.
    fn legend(&self) -> String {
        let stages: BTreeSet<Stage> = self.stages.values().filter_map(|stage| *stage).collect();
        let mut entries: Vec<(&str, Color)> =
            stages.into_iter().map(|stage| (stage.word(), colour(stage))).collect();
        entries.push(("serves its caller", SHARED_FUNCTION));
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

/// A function's name without `;` and blanks, which separate the fields of the folded text format.
fn frame_name(code: Code, symbols: &Symbols) -> String {
    // Names of Rust functions have them, and a user's list of symbols may.
    symbols.name(code).replace([';', ' '], "_")
}

/// A stage's colour: saturated for the stages of DMA mapping and translation, pale for all others.
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

/// A colour from `0xRRGGBB`.
const fn rgb(value: u32) -> Color {
    let [_, r, g, b] = value.to_be_bytes();
    Color { r, g, b }
}

/// A number with commas between groups of three digits.
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
        let symbols = Symbols::parse(TEXT).unwrap();
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

    fn example() -> Flame {
        flame(&[(&[9], 5), (&[0], 1000), (&[1], 10), (&[0, 2], 300), (&[0, 2, 3], 20)])
    }

    #[test]
    fn the_text_has_a_line_for_each_stack() {
        let expected = "(user) 5\nvfs_read 1000\nvfs_read;__domain_mapping 300\n\
                        vfs_read;__domain_mapping;_raw_spin_lock 20\nvfs_read.cold 10\n";
        assert_eq!(example().folded(), expected);
        assert_eq!(example().instructions(), 1335);
    }

    #[test]
    fn the_svg_is_complete_reproducible_and_loads_nothing() {
        let svg = example().svg().unwrap();
        assert_eq!(svg, example().svg().unwrap(), "the same bytes each time");
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
    fn frames_have_the_colours_of_their_stages_and_the_legend_names_them() {
        let svg = example().svg().unwrap();
        let Color { r, g, b } = colour(Stage::TableWrite);
        let fill = format!("rgb({r},{g},{b})");
        assert_eq!(svg.matches(&fill).count(), 2, "a frame and the legend");
        assert!(svg.contains("table-write") && !svg.contains("invalidation") && !svg.contains(LEGEND_PLACE));
    }

    #[test]
    fn every_stage_has_a_colour_of_its_own() {
        let colours: BTreeSet<[u8; 3]> = Stage::ALL.into_iter().map(|stage| colour(stage).into()).collect();
        assert_eq!(colours.len(), Stage::ALL.len());
    }

    #[test]
    fn a_graph_without_stacks_is_an_error() {
        assert!(flame(&[]).svg().unwrap_err().to_string().contains("x86-<strict>"));
    }

    #[test]
    fn numbers_have_commas_between_thousands() {
        for (number, expected) in [(0, "0"), (999, "999"), (1000, "1,000"), (12_345_678, "12,345,678")] {
            assert_eq!(grouped(number), expected);
        }
    }
}
