//! Facts and sections of facts, as several pages show them.

use crate::page::fact::{Fact, Section, Value};
use crate::page::length::MORE_IN_JSON;
use crate::page::quantity;
use escape::terminal::plain;
use maud::{Markup, html};

/// Facts of one list.
const FACTS_MAX: usize = 1_000;

/// Facts as a list of terms.
pub(super) fn definitions(facts: &[Fact]) -> Markup {
    html! {
        dl {
            @for fact in facts.iter().take(FACTS_MAX) {
                div {
                    dt { (fact.label) }
                    dd title=[fact.at.as_ref().map(|at| plain(&at.to_string()))] { (value(&fact.value)) }
                }
            }
        }
    }
}

/// How many more there are than the page shows, and what lists them.
pub(super) fn more(count: usize, shown_max: usize, of_what: &str) -> Markup {
    html! {
        @if count > shown_max {
            p.remark { "And " (quantity::count(count - shown_max, of_what)) ": " (MORE_IN_JSON) "." }
        }
    }
}

/// A fact's value; absent and unknown ones are marked as such.
pub(super) fn value(value: &Value) -> Markup {
    match value {
        Value::Known(text) => html! { (text) },
        Value::Absent(text) => html! { span.absent { (text) } },
        Value::Command(command) => html! { code { (command) } },
        Value::Unknown(why) => html! { span.unknown { "unknown" } " " span.absent { "(" (why) ")" } },
    }
}

/// Sections of facts side by side.
pub(super) fn sections(sections: &[Section]) -> Markup {
    html! {
        div.sheet {
            @for section in sections {
                div { h4 { (section.title) } (definitions(&section.facts)) }
            }
        }
    }
}
