// How a test says that it did not run, or not all of it: `./check` counts these lines, since cargo counts such tests as passed.

use std::io::{self, Write};

/// Says that the test ends without having run.
#[allow(dead_code, reason = "some only leave parts out")]
pub(crate) fn skip(why: &str) {
    say("SKIPPED", why);
}

/// Says that the test goes on without a part.
#[allow(dead_code, reason = "most run as a whole")]
pub(crate) fn skip_part(why: &str) {
    say("PARTLY SKIPPED", why);
}

/// Past the test harness, which keeps what `eprintln` writes of a test that passes; in one piece, since others write too.
fn say(what: &str, why: &str) {
    // The harness names a test's thread after it.
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = io::stderr().write_all(format!("{what} {test}: {why}\n").as_bytes());
}
