//! The static program in a guest that holds a stock kernel, busybox and nothing else: no C library, no files of a distribution.
//!
//! `packaging/release test` names the program of a release in `IOTOLL_STATIC_PROGRAM`.

#![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

mod guest;

use guest::support::{Guest, skip};
use guest::{SHELL, case, kernel};
use serde_json::Value;
use std::path::PathBuf;

const DEVICES: &str = "-device intel-iommu,intremap=on -drive driver=null-co,size=1G,if=none,id=disk -device nvme,serial=iotoll,drive=disk,addr=5";
const ADAPTER: &str = "0000:00:05.0";

#[test]
fn it_needs_nothing_but_a_kernel() {
    let Some(program) = std::env::var_os("IOTOLL_STATIC_PROGRAM").map(PathBuf::from) else {
        return skip("no IOTOLL_STATIC_PROGRAM; packaging/release test names one");
    };
    assert!(
        lab::guest::libraries::libraries(&program).unwrap().is_empty(),
        "{} is not static",
        program.display()
    );
    let Some((cache, kernel)) = kernel() else { return };
    let iotoll = program.display();
    let script = format!(
        "{SHELL}for second in $(seq 60); do [ -e /dev/nvme0n1 ] || sleep 1; done\n\
         about files\nls /lib /lib64 /usr /etc\n\
         about inspect\ndocument {iotoll} inspect --json\n\
         about text\n{iotoll} inspect\n\
         about capture\n{iotoll} capture -o /tmp/host.tar.gz\ndocument {iotoll} inspect --from /tmp/host.tar.gz --json\n\
         about end\n"
    );
    let guest = Guest {
        modules: &["nvme"],
        programs: &[&program],
        before: String::new(),
        modes: &[],
        after: &script,
        devices: DEVICES,
        command_line: "intel_iommu=on iommu.strict=1",
    };
    let Some(console) = guest.run(&cache, &kernel) else { return };
    let console = console.replace('\r', "");
    let files = case(&console, "files");
    assert!(!files.contains("libc.") && !files.contains("ld-"), "{files}");
    for name in ["inspect", "capture"] {
        let text = case(&console, name);
        let text = &text[text.find("\n{").map_or(0, |at| at + 1)..];
        let document: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let adapters = document["adapters"].as_array().unwrap();
        let disk =
            adapters.iter().find(|one| one["address"] == ADAPTER).unwrap_or_else(|| panic!("{document}"));
        assert_eq!(
            (&disk["dma_path"], &disk["driver"]),
            (&"translated-strict".into(), &"nvme".into()),
            "{disk}"
        );
    }
    assert!(case(&console, "text").contains("translated-strict"), "{console}");
}
