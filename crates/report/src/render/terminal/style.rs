//! Colours of terminal text.

use anstyle::{AnsiColor, Effects, Style as Ansi};
use comfy_table::{Attribute, Cell, Color};
use host::diagnose::Severity;

use crate::page::cost::Cost;
use crate::page::ink::Ink;

/// Plain text, or colours and weights for a terminal. The caller decides: it knows the terminal and
/// `NO_COLOR`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// No escape sequence at all.
    Plain,
    /// ANSI colours. What they say is also said in words.
    Colour,
}

impl Ink {
    /// Its colour; `None` for the terminal's own.
    fn colour(self) -> Option<AnsiColor> {
        match self {
            Self::Heading | Self::Strong | Self::Dim => None,
            Self::DmaPath(Cost::Free) => Some(AnsiColor::Blue),
            Self::DmaPath(Cost::UserSpace) | Self::Severity(Severity::Note) => Some(AnsiColor::Cyan),
            Self::DmaPath(Cost::Batched) | Self::Severity(Severity::Warning) => Some(AnsiColor::Yellow),
            Self::DmaPath(Cost::PerMapping | Cost::Copied) | Self::Severity(Severity::Critical) => {
                Some(AnsiColor::Red)
            }
            Self::DmaPath(Cost::Unknown) => Some(AnsiColor::Magenta),
            Self::DmaPath(Cost::Idle) => None,
        }
    }

    /// Bold, dim or neither.
    fn effects(self) -> Effects {
        match self {
            Self::Heading | Self::Strong | Self::Severity(Severity::Critical) => Effects::BOLD,
            Self::Dim => Effects::DIMMED,
            Self::DmaPath(_) | Self::Severity(_) => Effects::new(),
        }
    }
}

impl Style {
    /// The text with the escape sequences of its ink.
    pub(crate) fn paint(self, ink: Ink, text: &str) -> String {
        if self == Self::Plain || text.is_empty() {
            return text.to_owned();
        }
        let style = Ansi::new().effects(ink.effects()).fg_color(ink.colour().map(Into::into));
        format!("{style}{text}{style:#}")
    }

    /// A table's cell in this ink. The table adds escape sequences itself, so that they don't count as columns.
    pub(crate) fn cell(self, ink: Ink, text: &str) -> Cell {
        let mut cell = Cell::new(text);
        if self == Self::Plain {
            return cell;
        }
        if let Some(colour) = ink.colour() {
            cell = cell.fg(table_colour(colour));
        }
        if ink.effects().contains(Effects::BOLD) {
            cell = cell.add_attribute(Attribute::Bold);
        }
        if ink.effects().contains(Effects::DIMMED) {
            cell = cell.add_attribute(Attribute::Dim);
        }
        cell
    }
}

/// The table library's name for a colour.
fn table_colour(colour: AnsiColor) -> Color {
    match colour {
        AnsiColor::Blue => Color::DarkBlue,
        AnsiColor::Cyan => Color::DarkCyan,
        AnsiColor::Yellow => Color::DarkYellow,
        AnsiColor::Red => Color::DarkRed,
        AnsiColor::Magenta => Color::DarkMagenta,
        _ => Color::Reset,
    }
}
