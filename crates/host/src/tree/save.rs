//! Saves what was read of a host as an archive that reads the same.
//!
//! Only what an inspection asked for goes in: files read, links followed, and the names of folders
//! listed. Attributes that nobody asked for are not touched: reading some of them acts on the device.

use super::{Node, Reach, Refusal, Tree, kmsg, rdma_resource};
use crate::redact::Redactor;
use flate2::{Compression, write::GzEncoder};
use std::collections::BTreeMap;
use std::io::{self, Write};
use tar::{Builder, EntryType, Header};

/// Where the live log goes, so that captures are alike.
const LOG_PATH: &str = "var/log/dmesg";

enum Saved {
    /// With the path by which it was asked for: that says what it holds, the real one may not.
    File {
        asked: String,
        bytes: Vec<u8>,
    },
    Folder,
    Link(String),
    /// There, and this user could not read it: an empty file that nobody may read, so that whoever reads the capture
    /// is told.
    Unreadable,
}

/// What became of a host's files in an archive.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SaveReport {
    /// Members written.
    pub members: usize,
    /// What a tar archive can't hold, by path from the host's root: links with an empty target, and names or
    /// targets with a NUL.
    pub left_out: Vec<String>,
}

impl Tree {
    /// Writes a gzip-compressed tar archive of everything read so far, redacted.
    ///
    /// # Errors
    /// When `out` can't be written to.
    pub fn save(&self, out: impl Write, redactor: &mut Redactor) -> io::Result<SaveReport> {
        let mut report = SaveReport::default();
        let mut builder = Builder::new(GzEncoder::new(out, Compression::default()));
        for (path, saved) in redacted(self.members(), redactor) {
            if !fits_tar(&path, &saved) {
                report.left_out.push(path);
                continue;
            }
            append_member(&mut builder, &path, &saved)?;
            report.members += 1;
        }
        builder.into_inner()?.finish()?.flush()?;
        Ok(report)
    }

    /// Calls `each` with the path and content of all that was read so far, sorted by path: bytes of files and targets of links. It is the same
    /// however a host's files were packed.
    pub fn each_read(&self, each: &mut dyn FnMut(&str, &[u8])) {
        for (path, saved) in self.members() {
            match saved {
                Saved::File { bytes, .. } => each(&path, &bytes),
                Saved::Link(target) => each(&path, target.as_bytes()),
                Saved::Folder | Saved::Unreadable => each(&path, &[]),
            }
        }
    }

    /// Everything to store, by its path in the archive.
    fn members(&self) -> BTreeMap<String, Saved> {
        let read_log = self.read_log();
        let mut members = BTreeMap::new();
        for (path, target) in read_log.links() {
            members.insert(path.to_owned(), Saved::Link(target.to_owned()));
        }
        for path in read_log.files() {
            if path == kmsg::PATH {
                let log = self.kernel_log().map_or_else(Vec::new, |text| text.body().as_bytes().to_vec());
                members.insert(LOG_PATH.to_owned(), Saved::File { asked: path.to_owned(), bytes: log });
            } else if path == rdma_resource::PATH && self.reach == Reach::Live {
                let counts =
                    self.rdma_resources().map_or_else(Vec::new, |text| text.body().as_bytes().to_vec());
                members.insert(path.to_owned(), Saved::File { asked: path.to_owned(), bytes: counts });
            } else if let Some(real) = self.real_path(path) {
                self.add_path(path, &real, &mut members);
            }
        }
        for (path, why) in read_log.missed() {
            if *why == Refusal::NoPermission {
                let place = match self.resolve_folder_of(path) {
                    _ if path == kmsg::PATH => LOG_PATH.to_owned(),
                    Ok(stored) => self.without_prefix(&stored).to_owned(),
                    Err(_) => path.clone(),
                };
                members.entry(place).or_insert(Saved::Unreadable);
            }
        }
        members
    }

    /// Adds the file or folder that is at `real`, and that was asked for as `asked`.
    fn add_path(&self, asked: &str, real: &str, members: &mut BTreeMap<String, Saved>) {
        let stored = format!("{}{real}", self.prefix);
        match self.source.node(&stored) {
            Ok(Node::File) => {
                if let Ok(bytes) = self.source.read(&stored) {
                    members.insert(real.to_owned(), Saved::File { asked: asked.to_owned(), bytes });
                }
            }
            Ok(Node::Folder) => self.add_names(real, &stored, members),
            _ => {}
        }
    }

    /// Adds the names in a folder: links, folders, and empty files for those whose name is a number. Only their names are
    /// read (interrupt vectors).
    fn add_names(&self, real: &str, stored: &str, members: &mut BTreeMap<String, Saved>) {
        members.entry(real.to_owned()).or_insert(Saved::Folder);
        for name in self.source.names(stored).unwrap_or_default() {
            let saved = match self.source.node(&format!("{stored}/{name}")) {
                Ok(Node::Link(target)) => Saved::Link(target),
                Ok(Node::Folder) => Saved::Folder,
                Ok(Node::File) if name.bytes().all(|byte| byte.is_ascii_digit()) => {
                    Saved::File { asked: real.to_owned(), bytes: Vec::new() }
                }
                _ => continue,
            };
            members.entry(format!("{real}/{name}")).or_insert(saved);
        }
    }
}

/// Contents, names and targets of links as they may leave the host. What is learnt of one file counts in all.
fn redacted(members: BTreeMap<String, Saved>, redactor: &mut Redactor) -> BTreeMap<String, Saved> {
    for saved in members.values() {
        if let Saved::File { asked, bytes } = saved {
            redactor.learn(asked, bytes);
        }
    }
    let redacted = members.into_iter().map(|(path, saved)| {
        let saved = match saved {
            Saved::File { asked, bytes } => {
                let bytes = redactor.file(&asked, bytes);
                Saved::File { asked, bytes }
            }
            other @ (Saved::Folder | Saved::Unreadable) => other,
            Saved::Link(target) => Saved::Link(redactor.path(&target)),
        };
        (redactor.path(&path), saved)
    });
    redacted.collect()
}

/// Archives from elsewhere hold links and names that no file system would.
fn fits_tar(path: &str, saved: &Saved) -> bool {
    let target_fits = match saved {
        Saved::Link(target) => !target.is_empty() && !target.contains('\0'),
        Saved::File { .. } | Saved::Folder | Saved::Unreadable => true,
    };
    target_fits && !path.contains('\0')
}

/// Appends a member to the archive.
fn append_member(builder: &mut Builder<impl Write>, path: &str, saved: &Saved) -> io::Result<()> {
    let mut header = Header::new_gnu();
    header.set_mode(0o644);
    header.set_size(0);
    match saved {
        Saved::File { bytes, .. } => {
            header.set_size(bytes.len() as u64);
            builder.append_data(&mut header, path, bytes.as_slice())
        }
        Saved::Unreadable => {
            header.set_mode(0);
            builder.append_data(&mut header, path, io::empty())
        }
        Saved::Folder => {
            header.set_entry_type(EntryType::Directory);
            header.set_mode(0o755);
            builder.append_data(&mut header, path, io::empty())
        }
        Saved::Link(target) => {
            header.set_entry_type(EntryType::Symlink);
            builder.append_link(&mut header, path, target)
        }
    }
}
