//! Shows a capture as this crate lays it out: `cargo run -p report --example show -- CAPTURE
//! (page | WIDTH) [ADDRESS]`; a width of 0 is 100 columns in colour.

use report::Style;
use std::{env, error::Error, path::Path};

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let [capture, layout, rest @ ..] = args.as_slice() else {
        return Err("usage: show CAPTURE (page | WIDTH) [ADDRESS]".into());
    };
    let inspection = host::Inspection::of(host::Host::read(&host::Tree::open(Path::new(capture))?));
    let (width, style) = match layout.parse() {
        Ok(0) => (100, Style::Colour),
        Ok(width) => (width, Style::Plain),
        Err(_) => {
            print!("{}", report::page(&inspection, "the example `show`"));
            return Ok(());
        }
    };
    match rest.first() {
        Some(address) => {
            let shown = report::adapter(&inspection, address.parse()?, width, style);
            print!("{}", shown.ok_or("no adapter at this address")?);
        }
        None => print!("{}", report::inspection(&inspection, width, style)),
    }
    Ok(())
}
