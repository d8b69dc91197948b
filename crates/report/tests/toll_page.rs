//! Toll sheets as a page: the bars are the sheets' numbers, and nothing is made up.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

#[path = "support/markup.rs"]
mod markup;

use markup::values;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;
use toll::{PriceList, Stage, TollSheet};

fn read(file: &Path) -> TollSheet {
    TollSheet::read(&fs::read_to_string(file).unwrap(), &file.display().to_string()).unwrap()
}

fn sheet(name: &str) -> TollSheet {
    read(&Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../toll/tests/sheets/{name}.json")))
}

fn three() -> Vec<TollSheet> {
    ["x86-vtd-strict", "x86-no-iommu", "x86-vtd-lazy"].map(sheet).to_vec()
}

/// The committed sheets, as `data/tolls/*.json` names them.
static COMMITTED: LazyLock<Vec<TollSheet>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../data/tolls");
    let files = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_sheet =
        |path: &_| Path::extension(path).is_some_and(|end| end == "json") && !path.ends_with("schema.json");
    let mut files: Vec<_> = files.filter(|path| is_sheet(path)).collect();
    files.sort();
    files.iter().map(|file| read(file)).collect()
});

static COMMITTED_PAGE: LazyLock<String> = LazyLock::new(|| page(&COMMITTED));

const HOSTILE: &str = "<script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}";

fn hostile() -> TollSheet {
    let mut sheet = sheet("x86-vtd-strict");
    let machine = &mut sheet.machine;
    for text in [&mut sheet.preset, &mut machine.arch, &mut machine.qemu_version, &mut sheet.measured_on] {
        *text = HOSTILE.to_owned();
    }
    machine.command_line.push(HOSTILE.to_owned());
    sheet.kernel.command_line = HOSTILE.to_owned();
    let toll = &mut sheet.tolls[0];
    for text in [&mut toll.workload, &mut toll.what, &mut toll.driver] {
        *text = HOSTILE.to_owned();
    }
    // More than a bar has room for, and sums that don't hold.
    toll.stages.insert(Stage::Other, u64::MAX);
    toll.instructions.p99 = u64::MAX;
    sheet
}

fn page(sheets: &[TollSheet]) -> String {
    report::toll_page(sheets, PriceList::builtin(), "test")
}

/// The parts of a page that begin with this mark, each up to its end.
fn parts<'p>(page: &'p str, begin: &str, end: &str) -> Vec<&'p str> {
    page.split(begin).skip(1).map(|rest| rest.split(end).next().unwrap()).collect()
}

/// Hundredths of a percent.
fn places(part: &str, attribute: &str) -> Vec<u32> {
    let hundredths = |value: &str| value.strip_suffix('%')?.replace('.', "").parse().ok();
    values(part, attribute).into_iter().filter_map(hundredths).collect()
}

/// Where the rectangles of a bar end, which must follow each other without a gap.
fn end(bar: &str) -> u32 {
    let rectangles: String = parts(bar, "<rect", ">").join("\n");
    let (from, width) = (places(&rectangles, "x"), places(&rectangles, "width"));
    assert_eq!(from.len(), width.len());
    from.iter().zip(width).fold(0, |reached, (from, width)| {
        assert_eq!(*from, reached, "{bar}");
        reached + width
    })
}

#[test]
fn a_page_is_whole_and_loads_nothing() {
    let mut with_hostile = three();
    with_hostile.push(hostile());
    let some = [Vec::new(), vec![sheet("x86-vtd-lazy")], three(), with_hostile].map(|sheets| page(&sheets));
    for page in some.iter().chain([&*COMMITTED_PAGE]) {
        markup::assert_loads_nothing(page);
        markup::assert_balanced(page);
        markup::assert_links_lead_somewhere(page);
    }
    assert_eq!(some[2], page(&three()), "the same sheets, the same page");
}

#[test]
fn text_of_a_sheet_is_only_text() {
    let page = page(&[hostile()]);
    assert!(page.contains("&lt;script&gt;alert(1)"));
    assert!(!page.contains("<script>") && !page.contains("onerror=alert(1)>") && !page.contains('\u{202e}'));
}

#[test]
fn bars_are_as_long_as_their_instructions() {
    let page = page(&three());
    let chart = parts(&page, "class=\"chart\"", "</table>");
    let chart = chart.iter().find(|chart| chart.contains("<b>nvme-read-4k</b>")).unwrap();
    let bars = parts(chart, "<svg class=\"bar\"", "</svg>");
    // 18,904, 20,894 and 21,613 instructions.
    assert_eq!(bars.iter().map(|bar| end(bar)).collect::<Vec<_>>(), [8747, 9667, 10_000]);
    // All are measured against the first.
    assert!(bars.iter().all(|bar| places(bar, "x1") == [8747]));
}

#[test]
fn every_workload_of_every_sheet_has_its_bar() {
    let page = &*COMMITTED_PAGE;
    let tolls: Vec<_> = COMMITTED.iter().flat_map(|sheet| &sheet.tolls).collect();
    assert_eq!(page.matches("<svg class=\"bar\"").count(), tolls.len());
    for toll in &tolls {
        assert!(page.contains(&format!("<b>{}</b>", toll.workload)), "{}", toll.workload);
    }
    for chart in parts(page, "class=\"chart\"", "</table>") {
        let bars = parts(chart, "<svg class=\"bar\"", "</svg>");
        assert_eq!(
            bars.iter().map(|bar| end(bar)).max(),
            Some(10_000),
            "the longest bar is as long as it gets"
        );
    }
}

#[test]
fn stages_have_their_numbers_and_those_that_did_not_run_are_left_out() {
    let lazy = sheet("x86-vtd-lazy");
    let page = page(std::slice::from_ref(&lazy));
    let toll = lazy.toll("nvme-read-4k").unwrap();
    for stage in Stage::ALL {
        let instructions = toll.stages.get(&stage).copied().unwrap_or(0);
        let told = format!("<title>{stage}: {} of 20,894 ", toll::grouped(instructions));
        assert_eq!(page.contains(&told), instructions > 0, "{told}");
    }
    assert!(page.contains("<title>iova: 240 of 8,506 instructions (2.8 %)</title>"), "of a batch, one I/O");
    assert!(!page.contains("<rect class=\"stage-bounce\""), "a legend of what is there");
}

#[test]
fn the_most_expensive_dma_path_comes_first() {
    let page = page(&three());
    assert!(page.contains(
        "<h1>Translated-strict adds 14.3 % to an I/O's instructions: nvme-read-4k on x86-vtd-strict.</h1>"
    ));
    assert!(page.contains("+2,709 <b>+14.3 %</b>"));
    assert!(page.contains("compared with this"));
}

#[test]
fn variation_between_boots_is_no_toll() {
    let mut sheets = three();
    let translated = sheets.iter_mut().filter(|sheet| sheet.base.is_some());
    for boots in translated.flat_map(|sheet| &mut sheet.tolls).map(|toll| &mut toll.boots) {
        // One boot maps ten times as long as the other.
        let map = boots[0].stages.entry(Stage::DmaMap).or_default();
        *map = (*map + 100) * 10;
    }
    let page = page(&sheets);
    assert!(page.contains("<h1>No DMA path adds more to an I/O than its boots vary by.</h1>"));
    assert!(page.contains(" %?") && !page.contains(" %</b>"));
}

#[test]
fn without_an_untranslated_dma_path_the_toll_is_not_made_up() {
    let page = page(&[sheet("x86-vtd-strict")]);
    assert!(page.contains("<h1>What each I/O costs on translated-strict.</h1>"));
    assert!(page.contains("what translation costs is unknown") && !page.contains("id=\"overview\""));
    assert!(!page.contains("compared with this") && !page.contains("class=\"base\""));
    assert!(self::page(&[]).contains("<h1>There is no toll sheet.</h1>"));
}

#[test]
fn evidence_is_there_for_every_sheet() {
    let page = page(&three());
    for sheet in three() {
        for words in [&sheet.kernel.release, &sheet.machine.qemu_version, &sheet.measured_on] {
            assert!(page.contains(words.as_str()), "{words}");
        }
    }
    assert_eq!(page.matches("QEMU's command line").count(), 3);
}
