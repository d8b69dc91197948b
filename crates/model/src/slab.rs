//! A slab: a vector with reusable indices.

use std::ops::{Index, IndexMut};

/// Items identified by an index.
#[derive(Debug)]
pub(crate) struct Slab<Thing> {
    all: Vec<Thing>,
    free: Vec<u32>,
}

impl<Thing> Default for Slab<Thing> {
    fn default() -> Self {
        Self { all: Vec::new(), free: Vec::new() }
    }
}

impl<Thing> Slab<Thing> {
    /// Stores a thing. Returns its number.
    pub(crate) fn put(&mut self, thing: Thing) -> u32 {
        if let Some(place) = self.free.pop() {
            self.all[place as usize] = thing;
            return place;
        }
        self.all.push(thing);
        (self.all.len() - 1) as u32
    }

    /// Frees an index for reuse. The item stays readable until then.
    pub(crate) fn free(&mut self, place: u32) {
        self.free.push(place);
    }

    /// Removes an item.
    pub(crate) fn take(&mut self, place: u32) -> Thing
    where
        Thing: Default,
    {
        self.free(place);
        std::mem::take(&mut self[place])
    }
}

impl<Thing> Index<u32> for Slab<Thing> {
    type Output = Thing;

    fn index(&self, place: u32) -> &Thing {
        &self.all[place as usize]
    }
}

impl<Thing> IndexMut<u32> for Slab<Thing> {
    fn index_mut(&mut self, place: u32) -> &mut Thing {
        &mut self.all[place as usize]
    }
}
