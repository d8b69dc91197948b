//! What a controller says of itself.

use nvme::spec::error_log::{self, ErrorEntry};
use nvme::spec::identify::{self, Controller, Namespace};
use nvme::spec::zone::{self, Zone, ZonedNamespace};

/// A controller's description, a namespace's, its zones, a list of namespaces, an error log and a report of zones, all out of the same bytes: what
/// is read and written again reads the same.
pub fn nvme_structures(data: &[u8]) {
    let mut bytes = [0; 4096];
    bytes.iter_mut().zip(data).for_each(|(byte, given)| *byte = *given);
    let controller = Controller::read(&bytes);
    for text in [&controller.serial, &controller.model, &controller.firmware] {
        assert!(!text.contains(|c: char| c.is_control()), "{text:?}");
    }
    assert_eq!(Controller::read(&controller.write()), controller);
    if let Some(namespace) = Namespace::read(&bytes) {
        assert!(namespace.bytes() >= namespace.block_bytes());
        assert_eq!(Namespace::read(&namespace.write()), Some(namespace));
    }
    assert!(identify::active_namespaces(&bytes).count() <= 1024);
    identify::command_set(&bytes);
    if let Some(zoned) = ZonedNamespace::read(&bytes, 0) {
        assert_eq!(ZonedNamespace::read(&zoned.write(), 0), Some(zoned));
    }
    for zone in zone::report(data) {
        assert_eq!(Zone::read(&zone.write()), Some(zone));
    }
    for entry in error_log::entries(data) {
        assert_eq!(ErrorEntry::read(&entry.write()), Some(entry));
    }
}
