//! A page as a self-contained HTML document.

use super::document::document;
use super::facts::value;
use crate::page::fact::Fact;
use crate::page::ink::Ink;
use crate::page::table::{Row, Table};
use crate::page::{Block, Details, Item, Lead, Page};
use crate::render::svg;
use escape::terminal::plain;
use maud::{Markup, html};

const STYLE: &str = include_str!("page.css");

/// Warnings as a list, each with that word before it.
pub(super) fn warnings<'w>(warnings: impl Iterator<Item = &'w String>) -> Markup {
    html! { ul.warnings { @for one in warnings { li { strong { "Warning: " } (plain(one)) } } } }
}

/// A page as a self-contained HTML document. `kicker` stands above its title; `made_by` names the program and its version.
pub fn html(page: &Page, kicker: &str, made_by: &str) -> String {
    let title = page.title.as_deref().unwrap_or_default();
    let stories: Vec<&Details> = page
        .blocks
        .iter()
        .filter_map(|block| match block {
            Block::Details(details) => Some(details),
            _ => None,
        })
        .collect();
    let body = html! {
        header {
            p.kicker { (kicker) }
            h1 { (plain(title)) "." }
            @if stories.len() > 1 {
                nav aria-label="Contents" {
                    @for details in stories { a href=(format!("#{}", details.anchor)) { (details.anchor) } }
                }
            }
        }
        main { (blocks(&page.blocks, false)) }
        footer { p { "Made by " (made_by) "." } }
    };
    document(title, &[svg::STYLE, svg::ERRORS_STYLE, svg::FLAME_STYLE, STYLE].concat(), &body)
}

/// Blocks in order; facts, items and warnings that follow each other make one list.
fn blocks(blocks: &[Block], is_inner: bool) -> Markup {
    let same_list = |a: &Block, b: &Block| {
        matches!(
            (a, b),
            (Block::Fact(..), Block::Fact(..))
                | (Block::Item(_), Block::Item(_))
                | (Block::Warning(_), Block::Warning(_))
        )
    };
    html! { @for list in blocks.chunk_by(same_list) { (block(list, is_inner)) } }
}

/// A list of blocks of one kind, or a single block. Headings inside details are one level lower.
fn block(list: &[Block], is_inner: bool) -> Markup {
    let facts = list.iter().filter_map(|block| match block {
        Block::Fact(fact, _) => Some(fact),
        _ => None,
    });
    let items = list.iter().filter_map(|block| match block {
        Block::Item(item) => Some(item),
        _ => None,
    });
    let warnings = list.iter().filter_map(|block| match block {
        Block::Warning(warning) => Some(warning),
        _ => None,
    });
    match &list[0] {
        Block::Fact(..) => html! { dl { @for one in facts { (fact(one)) } } },
        Block::Item(_) => html! { ul { @for one in items { (item(one)) } } },
        Block::Warning(_) => self::warnings(warnings),
        Block::Heading(title) if is_inner => html! { h3 { (plain(title)) } },
        Block::Heading(title) => html! { h2 { (plain(title)) } },
        Block::Prose(text, _) => html! { p { (plain(text)) } },
        Block::Remark(text) => html! { p.remark { (plain(text)) } },
        Block::Table(one) => table(one),
        Block::Drawing(drawing) => html! { div.scroll { (svg::diagram(drawing)) } },
        Block::Line(line) => html! { p { code { (plain(line)) } } },
        Block::Blank => html! {},
        Block::Details(one) => details(one),
    }
}

/// A fact as a term and its definition.
fn fact(fact: &Fact) -> Markup {
    html! { div { dt { (fact.label) } dd { (value(&fact.value)) } } }
}

/// An entry of a list; the bullet is the browser's.
fn item(item: &Item) -> Markup {
    html! {
        li {
            @match &item.lead {
                Lead::Mark(mark) if mark.trim() == "-" => {},
                Lead::Mark(mark) | Lead::Painted(_, mark) => { (plain(mark.trim())) " " },
                Lead::Name(name) => { b { (plain(name)) } ": " },
            }
            (plain(&item.text))
        }
    }
}

/// A table in a box that scrolls.
fn table(table: &Table) -> Markup {
    html! {
        div.scroll { table.figures {
            thead { tr {
                th scope="col" { (table.names) }
                @for title in &table.titles { th.number scope="col" { (title) } }
            } }
            tbody { @for (index, one) in table.rows.iter().enumerate() { (row(table, index, one)) } }
        } }
    }
}

/// A row. A name that repeats below is one cell over all these rows.
fn row(table: &Table, index: usize, row: &Row) -> Markup {
    if row.is_title() {
        return html! { tr.title { th scope="rowgroup" colspan=(table.titles.len() + 1) { (plain(&row.name)) } } };
    }
    let is_first = index == 0 || !row.name.is_empty();
    let repeats = table.rows[index + 1..].iter().take_while(|below| below.name.is_empty()).count();
    html! {
        tr {
            @if is_first {
                th.missed[matches!(row.ink, Some(Ink::Severity(_)))] scope="row" rowspan=[(repeats > 0).then_some(repeats + 1)] { (plain(&row.name)) }
            }
            @for (title, cell) in table.titles.iter().zip(&row.cells) {
                td.number.missed[cell.contains("MISSED") || cell.contains("OUTSIDE")] data-label=(title) { (if cell.is_empty() { "–" } else { cell }) }
            }
        }
    }
}

/// Blocks that fold.
fn details(details: &Details) -> Markup {
    html! {
        details.story #(details.anchor) open[details.is_open] {
            summary { (plain(&details.summary)) }
            (blocks(&details.blocks, true))
        }
    }
}
