//! Prints roads and findings of captures, one line each: `cargo run --example verdicts -- PATH...`.

fn main() -> Result<(), host::tree::OpenError> {
    for path in std::env::args().skip(1) {
        println!("== {path}");
        let inspection = host::Inspection::of(host::Host::read(&host::Tree::open(path.as_ref())?));
        for (adapter, verdict) in inspection.adapters() {
            let at = &adapter.function.address;
            let reason = verdict.reason.as_deref().unwrap_or("");
            println!("{at} {} {reason}", verdict.road);
            for line in &verdict.evidence {
                println!("      {line}");
            }
        }
        for finding in &inspection.findings {
            let at = finding.address.map_or("host".to_owned(), |address| address.to_string());
            println!("  {} {} {at}: {}", finding.severity, finding.id, finding.what);
        }
        for u in &inspection.host.unseen {
            println!("  ? {} | {} | {}", u.what, u.why, u.remedy);
        }
    }
    Ok(())
}
