//! The frame of all pages: one file, no script, and nothing loaded.

use escape::terminal::lines;
use maud::{DOCTYPE, Markup, PreEscaped, html};

const STYLE: &str = include_str!("style.css");

/// A document of this title; `style` is added to the style of all pages.
pub(super) fn document(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                // Nothing may be loaded, whatever a text from outside might smuggle in.
                meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { "iotoll: " (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { (body) }
        }
    };
    // Maud escapes markup; a browser shows and copies what turns the direction of writing as it is.
    lines(&page.into_string())
}
