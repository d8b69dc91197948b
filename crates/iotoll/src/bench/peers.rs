//! Allocators of shared libraries, which join the built-in ones.

use crate::peer_file::PeerFile;
use anyhow::ensure;
use bench::{Contestant, Peer};

/// Loads peers, under names that nobody has: neither one of `taken` nor another peer.
pub(super) fn load_peers(files: &[PeerFile], taken: &[&str]) -> anyhow::Result<Vec<Contestant>> {
    let mut peers: Vec<Contestant> = Vec::new();
    for PeerFile { name, library } in files {
        let is_taken = taken.contains(&name.as_str()) || peers.iter().any(|peer| peer.name == *name);
        ensure!(
            !is_taken,
            "a contestant named {name:?} exists; expected another name for the peer {}",
            library.display()
        );
        peers.push(Contestant::peer(name, &Peer::load(library)?));
    }
    Ok(peers)
}
