//! An emulated controller for tests of commands.

use nvme::Controller;
use nvme::emulated::{Emulated, Machine};
use nvme::spec::identify;
use std::sync::Arc;

/// An emulated controller, opened.
pub(super) struct EmulatedDisk {
    pub(super) emulated: Arc<Emulated>,
    pub(super) controller: Controller,
}

impl EmulatedDisk {
    /// Opens a controller that reports a changed identity.
    pub(super) fn new(change: impl FnOnce(&mut identify::Controller)) -> Self {
        let machine = Machine::builder(512, 9).open_prepared(|emulated| emulated.change_controller(change));
        let Machine { emulated, controller, .. } = machine.unwrap();
        Self { emulated, controller }
    }
}
