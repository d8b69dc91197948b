//! Toll sheets.

use toll::{Limit, PriceList, TollSheet, compare, grew, toll_over};

/// Columns of the terminal that sheets are laid out for.
const WIDTH: usize = 80;

/// A sheet: what is read is written and read again the same, does not differ from itself, and can be shown.
pub fn toll_sheet(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    let Ok(sheet) = TollSheet::read(text, "sheet.json") else { return };
    let again = serde_json::to_string(&sheet).map(|text| TollSheet::read(&text, "again.json"));
    assert!(matches!(again, Ok(Ok(again)) if again == sheet));
    let changes = compare(&sheet, &sheet, Limit::default());
    assert!(changes.is_empty() && !grew(&changes));
    let shown = |page: &report::Page| report::text(page, WIDTH, report::Style::Plain, report::Length::Full);
    let _ = shown(&report::toll_sheet(&sheet));
    let mut other = sheet.clone();
    for toll in &sheet.tolls {
        let _ = toll_over(toll, toll);
    }
    let _ = shown(&report::toll_comparison(&[sheet.clone(), sheet.clone()], &[]));
    other.tolls.rotate_left(sheet.tolls.len().min(1));
    for (toll, name) in other.tolls.iter_mut().zip(sheet.tolls.iter().map(|toll| &toll.workload)) {
        toll.workload.clone_from(name);
    }
    let changes = compare(&sheet, &other, Limit::default());
    let _ = shown(&report::toll_difference(&sheet, &other, &changes, PriceList::builtin()));
}
