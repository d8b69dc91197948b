//! This host today beside after the fixes, in the page.

use crate::cost::Cost;
use crate::{outlook, svg};
use host::judge::{Outlook, Road};
use maud::{Markup, html};

pub(super) fn section(outlooks: &[Outlook]) -> Markup {
    let (rows, left_out) = outlook::rows(outlooks);
    html! {
        @if !rows.is_empty() {
            section #outlook aria-labelledby="outlook-title" {
                h2 #outlook-title { (outlook::TITLE) }
                div.scroll {
                    table {
                        caption { "What an I/O takes of a CPU by either road, the largest change first" }
                        thead {
                            tr {
                                th scope="col" { "adapter" }
                                th scope="col" { "I/O" }
                                th scope="col" { "road today" }
                                th.number scope="col" { "takes" }
                                th scope="col" { "road after" }
                                th.number scope="col" { "takes" }
                                th.number scope="col" { "change" }
                                th.number scope="col" { (outlook::load()) }
                            }
                        }
                        tbody {
                            @for row in &rows {
                                tr {
                                    th scope="row" { code { (row.adapters) } }
                                    td { (row.io) }
                                    (road(row.road_today))
                                    td.number { (row.today) }
                                    (road(row.road_after))
                                    td.number { (row.after) }
                                    td.number { (row.change) }
                                    td.number { (row.of_a_cpu) }
                                }
                            }
                        }
                    }
                }
                p.remark { (outlook::legend(outlooks, left_out)) }
            }
        }
    }
}

fn road(road: Road) -> Markup {
    let cost = Cost::of(road);
    html! {
        td.roadword {
            svg.tiny viewBox="-8 -8 16 16" width="14" height="14" aria-hidden="true" { (svg::mark(cost)) }
            span.road.(cost.class()) { (road.word()) }
        }
    }
}
