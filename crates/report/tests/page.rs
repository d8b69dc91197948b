//! What the page holds, and what it must not.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/made_up.rs"]
mod made_up;
#[path = "support/markup.rs"]
mod markup;
mod support;

use made_up::made_up;
use markup::values;
use support::{CAPTURES, capture, crowd};

const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>";

#[test]
fn nothing_is_loaded_from_anywhere() {
    let hosts = CAPTURES.iter().map(|name| capture(name)).chain([crowd(40, HOSTILE)]);
    for host in hosts {
        let page = report::inspection_page(&host, "test");
        markup::assert_loads_nothing(&page);
    }
}

#[test]
fn text_of_the_host_is_only_text() {
    let page = report::inspection_page(&crowd(3, HOSTILE), HOSTILE);
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains("<script>") && !page.contains("onerror=alert(1)>"));
    // Outside quotes, a `>` of the host would end a tag.
    assert!(values(&page, "aria-label").iter().all(|label| !label.contains('<')));
}

#[test]
fn tags_are_balanced() {
    markup::assert_balanced(&report::inspection_page(&crowd(40, "nvme"), "test"));
}

#[test]
fn links_inside_the_page_lead_somewhere() {
    for name in CAPTURES {
        markup::assert_links_lead_somewhere(&report::inspection_page(&capture(name), "test"));
    }
}

#[test]
fn a_thousand_adapters_are_a_handful_of_shapes() {
    let page = report::inspection_page(&crowd(1000, "nvme"), "test");
    let tree = page.split("class=\"tree\"").nth(1).unwrap().split("</svg>").next().unwrap();
    // One has a worse finding than the others, and so is drawn by itself.
    assert!(tree.contains("999 × "));
    assert!(tree.matches("<rect").count() < 20, "{}", tree.matches("<rect").count());
}

#[test]
fn the_verdict_comes_first() {
    let page = report::inspection_page(&capture("ppc-noddw"), "iotoll 0.1.0");
    assert!(page.contains(
        "<h1>Default 32-bit DMA window on all 5 adapters: every mapping is a hypercall; 2 findings.</h1>"
    ));
    assert!(page.contains("Made by iotoll 0.1.0 from a capture"));
}

#[test]
fn predictions_name_their_sheets_and_are_explained_once() {
    let page = report::inspection_page(&capture("ppc-noddw"), "test");
    assert!(page.contains(
        "900 instructions of DMA mapping (5.4 % of the I/O's 16,800), 2 hypercalls and 2 table entries less"
    ));
    assert!(page.contains("toll sheets ppc-tce-window and ppc-direct-window (Linux 6.1.0-50-powerpc64le"));
    assert_eq!(page.matches("Tolls are per I/O").count(), 1);
    let nothing = report::inspection_page(&capture("x86-no-iommu"), "test");
    assert!(!nothing.contains("Tolls are per I/O"), "where nothing is predicted, nothing is explained");
}

#[test]
fn measurements_are_on_the_page() {
    let page = report::page_with_benchmark(&capture("x86-no-iommu"), &made_up(), "test");
    markup::assert_balanced(&page);
    markup::assert_links_lead_somewhere(&page);
    markup::assert_loads_nothing(&page);
    assert!(page.contains("href=\"#allocators\"") && page.contains("ms for a million pairs in all"));
    assert!(!report::inspection_page(&capture("x86-no-iommu"), "test").contains("#allocators"));
}

#[test]
fn changed_dma_paths_show_today_and_after_the_fixes() {
    let shown = |name: &str| report::inspection_page(&capture(name), "test");
    let changes = shown("ppc-noddw");
    assert!(
        changes.contains("<a href=\"#outlook\">") && changes.contains("<td class=\"number\">-8.75 µs</td>")
    );
    assert!(changes.contains("<dt>Time</dt>") && changes.contains("prices of a POWER made up"));
    assert!(!shown("x86-no-iommu").contains("outlook"));
}
