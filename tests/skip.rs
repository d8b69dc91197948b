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

/// Whether a test whose guests take minutes ends here, which it then says. They vary what other tests boot, and run only where
/// `IOTOLL_KERNEL_TESTS` is `all`, as `./check guests` sets it.
#[allow(dead_code, reason = "most boot no guest")]
pub(crate) fn takes_too_long() -> bool {
    let is_left_out = std::env::var("IOTOLL_KERNEL_TESTS").map_or(true, |guests| guests != "all");
    if is_left_out {
        skip("takes minutes; ./check guests runs it");
    }
    is_left_out
}

/// Past the test harness, which keeps what `eprintln` writes of a test that passes; in one piece, since others write too.
fn say(what: &str, why: &str) {
    // The harness names a test's thread after it.
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let _ = io::stderr().write_all(format!("{what} {test}: {why}\n").as_bytes());
}
