//! Reproductions of published figures: one table of all figures, their errors drawn, and the story of each study.

mod drawings;
mod figures;
mod study;
mod words;

pub use drawings::drawings;
pub use study::Stories;

use crate::page::Page;
use model::Reproduction;
use words::verdict;

/// The page of reproductions: a table of all figures with their errors, then the story of each study.
pub fn reproductions(all: &[Reproduction], stories: Stories) -> Page {
    let mut page = Page::titled(title(all));
    page.push(drawings::errors(all));
    page.remark(figures::LEGEND);
    page.table(figures::table(all));
    if stories == Stories::Folded {
        page.remark(
            "How each study came to its figures: unfold it in the HTML page (--html FILE), or iotoll reproduce STUDY, or --full.",
        );
    }
    for one in all {
        page.push(study::story(one, stories));
    }
    page
}

/// The verdict of the only study, or of all.
fn title(all: &[Reproduction]) -> String {
    if let [one] = all {
        return format!("{}: {}", one.study, verdict(one));
    }
    words::title(all)
}
