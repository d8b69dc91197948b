//! `iotoll blk namespace`: which namespaces a subsystem has, and their creation, attachment, detachment and deletion.
//!
//! ```text
//!   address     refusals of the takeover; of a deletion also what the kernel's block device has
//!     |
//!     v
//!   Controller  checks what is possible, then changes it  ->  what was done, and the namespaces afterwards
//! ```

mod change;
mod deletion;
pub(crate) mod listing;

use super::driven_adapter::{DrivenAdapter, fail_if_refused, find_candidate, refusal_lines, with_further};
use super::target::MEMORY_BYTES;
use crate::cli::{BlkNamespace, BlkNamespaceList, NvmeController};
use crate::output::{self, Lines, Outcome};
use anyhow::Context;
use listing::{Document, Listing};
use nvme::Controller;
use nvme::emulated::DiskName;
use nvme::takeover::{Candidate, Root};
use std::sync::{Arc, Mutex};

/// Runs a command of `iotoll blk namespace`.
pub(super) fn run(command: &BlkNamespace) -> anyhow::Result<Outcome> {
    match command {
        BlkNamespace::List(args) => list(args)?,
        BlkNamespace::Create(args) => {
            let address = &args.controller.address;
            print_change(&args.controller, |shared| change::create(args, address, &mut lock(shared)))?;
        }
        BlkNamespace::Attach(args) => {
            print_change(&args.controller, |shared| change::attach(args, &mut lock(shared)))?;
        }
        BlkNamespace::Detach(args) => {
            print_change(&args.controller, |shared| change::detach(args, &mut lock(shared)))?;
        }
        BlkNamespace::Delete(args) => {
            let refuse = |candidate: &Candidate| deletion::kernel_refusals(candidate, args);
            let (done, listing) = drive(&args.controller, refuse, |shared| {
                let done = deletion::delete(args, shared)?;
                Ok((done, Listing::read(&mut lock(shared))?))
            })?;
            output::print_page(&report::controller_upkeep(&listing.upkeep(Some(done))))?;
        }
    }
    Ok(Outcome::Fine)
}

fn lock(shared: &Arc<Mutex<Controller>>) -> std::sync::MutexGuard<'_, Controller> {
    Controller::lock(shared)
}

/// Prints the namespaces.
fn list(args: &BlkNamespaceList) -> anyhow::Result<()> {
    let listing = drive(&args.controller, |_| Ok(Vec::new()), |shared| Listing::read(&mut lock(shared)))?;
    match args.json {
        true => output::print_json(&Document::new(&args.controller.address, &listing)),
        false => output::print_page(&report::controller_upkeep(&listing.upkeep(None))),
    }
}

/// Makes a change that destroys no data. Prints what was done, and the namespaces afterwards.
fn print_change(
    controller: &NvmeController,
    change: impl FnOnce(&Arc<Mutex<Controller>>) -> anyhow::Result<String>,
) -> anyhow::Result<()> {
    let (done, listing) = drive(
        controller,
        |_| Ok(Vec::new()),
        |shared| {
            let done = change(shared)?;
            Ok((done, Listing::read(&mut lock(shared))?))
        },
    )?;
    output::print_page(&report::controller_upkeep(&listing.upkeep(Some(done))))
}

/// Drives a controller, of this host or emulated, for as long as it is used. `refuse` has further reasons against it, found before the adapter is
/// unbound.
fn drive<T>(
    controller: &NvmeController,
    refuse: impl FnOnce(&Candidate) -> anyhow::Result<Vec<Lines>>,
    use_controller: impl FnOnce(&Arc<Mutex<Controller>>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let NvmeController { address, consent } = controller;
    if let Some(disk) = DiskName::parse(address)? {
        // The others are kept, so that namespaces can be attached to them.
        let mut machines = disk.open(|builder| builder.unallocated_bytes(disk.bytes()))?.into_iter();
        let first = machines.next().context("no emulated controller")?;
        return use_controller(&Arc::new(Mutex::new(first.controller)));
    }
    let root = Root::default();
    let candidate = find_candidate(&root, address)?;
    let refusals = refusal_lines(&candidate.refusals(&root, consent.accepted()));
    fail_if_refused(with_further(refusals, refuse(&candidate))?)?;
    let adapter = DrivenAdapter::open_candidate(&root, &candidate, MEMORY_BYTES, Vec::new())?;
    let used = use_controller(&adapter.adapter.controller());
    let closed = adapter.close();
    let used = used?;
    closed?;
    Ok(used)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::{
        BlkNamespaceAttach, BlkNamespaceCreate, BlkNamespaceDelete, BlkNamespaceDetach, Consent, Overwrite,
    };
    use nvme::chunk::{Chunk, Drive, RetryPolicy, Waiting};
    use nvme::emulated::Machine;
    use nvme::spec::command::admin;
    use report::{Length, Style};

    const ADDRESS: &str = "0000:3b:00.0";

    fn named() -> NvmeController {
        NvmeController {
            address: ADDRESS.to_owned(),
            consent: Consent { unbind: true, accept_no_iommu: false },
        }
    }

    /// Controllers of one subsystem, with a namespace of 64 blocks of 4 KiB and as much again.
    fn controllers(paths: usize) -> Vec<(Arc<Mutex<Controller>>, Arc<nvme::emulated::Emulated>)> {
        let machines = Machine::builder(64, 12).unallocated_bytes(64 << 12).open_paths(paths).unwrap();
        machines
            .into_iter()
            .map(|machine| (Arc::new(Mutex::new(machine.controller)), machine.emulated))
            .collect()
    }

    fn create(shared: &Arc<Mutex<Controller>>, blocks: u64, attach: bool) -> anyhow::Result<String> {
        let args =
            BlkNamespaceCreate { controller: named(), blocks, block_bytes: 4096, shared: false, attach };
        change::create(&args, ADDRESS, &mut lock(shared))
    }

    fn delete(
        shared: &Arc<Mutex<Controller>>,
        namespace: u32,
        overwrite: Option<&str>,
        wipe: &[&str],
    ) -> Result<String, String> {
        let overwrite = Overwrite {
            overwrite: overwrite.map(str::to_owned),
            wipe: wipe.iter().map(|word| (*word).to_owned()).collect(),
            accept_shared: false,
        };
        let args = BlkNamespaceDelete { controller: named(), namespace, overwrite };
        deletion::delete(&args, shared).map_err(|error| match error.downcast_ref::<Lines>() {
            Some(Lines(lines)) => lines.join("\n"),
            None => format!("{error:#}"),
        })
    }

    /// The page's words, one blank between them.
    fn text(shared: &Arc<Mutex<Controller>>) -> String {
        let upkeep = Listing::read(&mut lock(shared)).unwrap().upkeep(None);
        let text = report::text(&report::controller_upkeep(&upkeep), 200, Style::Plain, Length::Full);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn expect(text: &str, words: &[&str]) {
        for word in words {
            assert!(text.contains(word), "{word:?} is not in\n{text}");
        }
    }

    #[test]
    fn each_namespace_is_listed_with_where_it_is() {
        let both = controllers(2);
        let (one, two) = (&both[0].0, &both[1].0);
        assert!(create(one, 8, false).unwrap().ends_with("namespace attach 0000:3b:00.0 --namespace 2"));
        create(two, 4, true).unwrap();
        let words = [
            "256.00 KiB, 64 blocks of 4096 bytes; NGUID 0",
            "; may be shared; attached to this controller (0) and to 1",
            "32.00 KiB, 8 blocks of 4096 bytes",
            "; private; allocated, attached to no controller",
            "; private; attached to controller 1, not to this one",
            "namespaces 3, at most 16",
            "unallocated 208.00 KiB, 212992 bytes",
            "blocks of new ones 4096, 512 bytes",
        ];
        expect(&text(one), &words);
        expect(&text(two), &["; private; attached to this controller (1) alone"]);
        let listing = Listing::read(&mut lock(one)).unwrap();
        let document = serde_json::to_value(Document::new(ADDRESS, &listing)).unwrap();
        let rows = document["namespaces"].as_array().unwrap();
        let attached: Vec<String> = rows.iter().map(|row| row["attached_controllers"].to_string()).collect();
        assert_eq!(attached, ["[0,1]", "[]", "[1]"]);
        let is_here: Vec<bool> = rows.iter().map(|row| row["is_attached"].as_bool().unwrap()).collect();
        assert_eq!(is_here, [true, false, false]);
        let mut names: Vec<&str> = rows.iter().map(|row| row["nguid"].as_str().unwrap()).collect();
        names.dedup();
        assert_eq!((names.len(), names[0].len()), (3, 32));
        assert_eq!(document["unallocated_bytes"], "212992");
    }

    #[test]
    fn a_controller_without_management_shows_what_it_has() {
        let machine = Machine::builder(64, 12)
            .open_prepared(|emulated| emulated.change_controller(|one| one.can_manage_namespaces = false))
            .unwrap();
        let shared = Arc::new(Mutex::new(machine.controller));
        expect(&text(&shared), &["private; attached to this controller", "(OACS bit 3 is clear); those"]);
        let words = "no namespace was created: the controller can't manage namespaces (OACS bit 3 is clear)";
        assert_eq!(format!("{:#}", create(&shared, 1, false).unwrap_err()), words);
        let words = delete(&shared, 1, Some("emulated"), &[]).unwrap_err();
        assert!(words.starts_with("namespace 1 was not deleted: the controller can't manage"), "{words}");
    }

    #[test]
    fn a_deletion_names_what_is_lost() {
        let machines = controllers(1);
        let (shared, emulated) = &machines[0];
        create(shared, 64, true).unwrap();
        let namespace = lock(shared).namespaces()[1];
        let (policy, waiting) = (RetryPolicy::default(), Waiting::Polling);
        let drive = Drive::open(Arc::clone(shared), namespace, 1, 4096, waiting, policy).unwrap();
        let mut chunk = Chunk::from(drive);
        let mut swap = [0; 4096];
        // A version, the number of the last page, and the signature.
        (swap[1024], swap[1028]) = (1, 63);
        swap[4086..].copy_from_slice(b"SWAPSPACE2");
        chunk.write(0, &swap).unwrap();
        chunk.close().unwrap();
        let refused = delete(shared, 2, None, &[]).unwrap_err();
        let words = [
            "namespace 2 of 0000:3b:00.0 is not deleted: --overwrite does not name it; --wipe does not name what is on it (swap)",
            "what would be lost:",
            "namespace 2 of 0000:3b:00.0, 256.00 KiB, iotoll emulated controller, serial number emulated",
            "NGUID 0",
            "swap: ",
            "add: --overwrite emulated --wipe swap",
        ];
        expect(&refused, &words);
        for (overwrite, wipe) in [(None, &["swap"][..]), (Some("other"), &["swap"]), (Some("emulated"), &[])]
        {
            delete(shared, 2, overwrite, wipe).unwrap_err();
        }
        // Another namespace has nothing of that.
        let refused = delete(shared, 1, Some("emulated"), &["swap"]).unwrap_err();
        expect(&refused, &["--wipe names what is not on it (swap)", "only zeros were read at both ends"]);
        assert!(!emulated.admin_opcodes()[..].ends_with(&[admin::NAMESPACE_MANAGEMENT]));
        assert_eq!(emulated.content(2).map(|content| content.len()), Some(64 << 12));
        let done = delete(shared, 2, Some("emulated"), &["swap"]).unwrap();
        assert_eq!((done.as_str(), emulated.content(2)), ("namespace 2 was deleted with its data", None));
    }

    #[test]
    fn what_a_detached_namespace_has_is_not_known() {
        let both = controllers(2);
        let (one, two) = (&both[0].0, &both[1].0);
        create(two, 8, true).unwrap();
        let words = delete(one, 2, Some("emulated"), &["unreadable"]).unwrap_err();
        let expected = "namespace 2 was not deleted: namespace 2 is attached to other controllers (1); detach it there first";
        assert_eq!(words, expected);
        let detach = |shared: &Arc<Mutex<Controller>>, accept_shared| {
            let args =
                BlkNamespaceDetach { controller: named(), namespace: 2, controllers: vec![1], accept_shared };
            change::detach(&args, &mut lock(shared)).map_err(|error| format!("{error:#}"))
        };
        let words = detach(one, false).unwrap_err();
        expect(&words, &["may use it through controller 1; if that may fail, add: --accept-shared"]);
        detach(one, true).unwrap();
        let words = delete(one, 2, Some("emulated"), &[]).unwrap_err();
        expect(
            &words,
            &["(unreadable)", "it is not attached to this controller, so what is on it is not known"],
        );
        delete(one, 2, Some("emulated"), &["unreadable"]).unwrap();
        let words = delete(one, 2, Some("emulated"), &["unreadable"]).unwrap_err();
        assert_eq!(words, "namespace 2 was not deleted: no namespace 2 is allocated");
    }

    #[test]
    fn attachment_is_to_this_controller_or_to_those_named() {
        let both = controllers(2);
        let (one, two) = (&both[0].0, &both[1].0);
        create(one, 8, false).unwrap();
        let attach = |controllers: &[u16]| {
            let args =
                BlkNamespaceAttach { controller: named(), namespace: 2, controllers: controllers.to_vec() };
            change::attach(&args, &mut lock(two)).map_err(|error| format!("{error:#}"))
        };
        expect(&attach(&[0, 1]).unwrap_err(), &["namespace 2 was not attached: namespace 2 is private"]);
        expect(&attach(&[5]).unwrap_err(), &["no controller 5"]);
        assert_eq!(attach(&[]).unwrap(), "namespace 2 was attached to controller 1");
        expect(&attach(&[]).unwrap_err(), &["is attached to controller 1 already"]);
        // Detached from this one, without a further consent.
        let args = BlkNamespaceDetach {
            controller: named(),
            namespace: 2,
            controllers: vec![],
            accept_shared: false,
        };
        let done = change::detach(&args, &mut lock(two)).unwrap();
        assert_eq!(done, "namespace 2 was detached from controller 1; its data stay");
    }
}
