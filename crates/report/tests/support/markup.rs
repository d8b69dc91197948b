//! What every page must be, whatever it says.

/// Values of all attributes of this name.
pub(crate) fn values<'p>(page: &'p str, attribute: &str) -> Vec<&'p str> {
    let mark = format!(" {attribute}=\"");
    page.split(mark.as_str()).skip(1).filter_map(|rest| rest.split('"').next()).collect()
}

pub(crate) fn assert_loads_nothing(page: &str) {
    assert!(values(page, "src").is_empty() && values(page, "srcset").is_empty());
    assert!(values(page, "href").iter().all(|href| href.starts_with('#')));
    for loader in [
        "<script", "<link", "<iframe", "<object", "<img", "<base", "<use", "@import", "url(", "http:",
        "https:",
    ] {
        assert!(!page.contains(loader), "{loader}");
    }
    assert!(page.contains("default-src 'none'"));
}

pub(crate) fn assert_balanced(page: &str) {
    const VOID: [&str; 3] = ["meta", "br", "!DOCTYPE"];
    let mut open = Vec::new();
    let body = page.replace(page.split("<style>").nth(1).unwrap().split("</style>").next().unwrap(), "");
    for tag in body.split('<').skip(1).filter_map(|rest| rest.split('>').next()) {
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name)),
            None => {
                let name = tag.split(' ').next().unwrap();
                open.extend((!VOID.contains(&name)).then_some(name));
            }
        }
    }
    assert_eq!(open, Vec::<&str>::new());
}

pub(crate) fn assert_links_lead_somewhere(page: &str) {
    let ids = values(page, "id");
    for href in values(page, "href") {
        assert!(ids.contains(&href.trim_start_matches('#')), "{href}");
    }
    for by in values(page, "aria-labelledby") {
        assert!(ids.contains(&by), "{by}");
    }
    let mut once = ids.clone();
    once.sort_unstable();
    once.dedup();
    assert_eq!(once.len(), ids.len(), "an id stands twice");
}
