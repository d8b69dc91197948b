//! What is at hand of a host: at most one capture, and any number of texts beside it.

use super::archive::{self, Unpacked, Wanted};
use super::disk::Disk;
use super::memory::Memory;
use super::pasted::{self, Assembled, Pasted};
use super::progress::Watcher;
use super::source::{Node, Refusal, Source};
use super::{OpenError, Reach, Tree, is_descriptor, layout, name_of, path_text, plain_links};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// Files and folders that are looked at to find the texts of one folder or archive.
const ENTRIES_MAX: usize = 20_000;
/// Bytes that are read of them.
const BYTES_MAX: usize = 256 << 20;
/// Folders below the first that are looked into for texts.
const DEPTH_MAX: usize = 3;
/// What citations call a command line that was given as an argument.
const COMMAND_LINE_NAME: &str = "--cmdline";

/// What is at hand of one host. Texts count more than files of the capture that tell of the same.
pub struct Evidence {
    capture: Option<Capture>,
    texts: Vec<Pasted>,
    command_line: Option<String>,
    /// Files and folders that were not looked at for texts, and why.
    left_out: Vec<(String, Refusal)>,
    watcher: Watcher,
}

/// A file tree of a host.
struct Capture {
    source: Box<dyn Source>,
    /// The host's root in it.
    prefix: String,
    /// What errors call it.
    shown: String,
}

/// What was looked at to find texts.
#[derive(Default)]
struct Search {
    entries: usize,
    bytes: usize,
    /// Folders between the first and the one that is looked at.
    depth: usize,
    /// Whether a limit was reached, and what follows is left out.
    is_over: bool,
    /// The first file with an archive's name. It is not unpacked.
    archive: Option<String>,
}

impl Search {
    /// The limit that was reached, if one was.
    fn limit(&self) -> Option<Refusal> {
        if self.entries > ENTRIES_MAX {
            return Some(Refusal::TooMany { what: "files and folders of one folder", max: ENTRIES_MAX });
        }
        (self.bytes > BYTES_MAX).then_some(Refusal::TooMany { what: "bytes of texts", max: BYTES_MAX })
    }
}

impl Evidence {
    /// Nothing yet. `watcher` is called with the progress of all that is read.
    pub fn new(watcher: Watcher) -> Self {
        Self { capture: None, texts: Vec::new(), command_line: None, left_out: Vec::new(), watcher }
    }

    /// Adds a directory, an archive or a text.
    ///
    /// # Errors
    /// When it can't be read, is damaged or hostile, tells of no host, or is a second capture.
    pub fn add_path(&mut self, path: &Path) -> Result<(), OpenError> {
        let shown = path_text(path);
        let io = |source| OpenError::Io { path: shown.clone(), source };
        let kind = std::fs::metadata(path).map_err(io)?.file_type();
        if kind.is_dir() {
            return self.add_source(Box::new(Disk::new(path)), &shown);
        }
        if !kind.is_file() && !is_descriptor(path) {
            return Err(OpenError::NotAFile { path: shown, kind: name_of(kind) });
        }
        self.add_reader(File::open(path).map_err(io)?, &shown)
    }

    /// Adds an archive or a text from a reader such as a pipe. Errors and citations name it `shown`.
    ///
    /// # Errors
    /// As [`Evidence::add_path`].
    pub fn add_reader(&mut self, reader: impl Read, shown: &str) -> Result<(), OpenError> {
        let unpacked = archive::unpack(reader, shown, &self.watcher, Wanted::Any);
        match unpacked.map_err(|source| OpenError::Archive { path: shown.to_owned(), source })? {
            Unpacked::Archive(memory) => self.add_source(Box::new(memory), shown),
            Unpacked::Text(cut) => {
                self.texts.push(Pasted { name: shown.to_owned(), cut });
                Ok(())
            }
        }
    }

    /// Sets the kernel's command line, in place of any that is read.
    pub fn set_command_line(&mut self, line: &str) {
        self.command_line = Some(line.to_owned());
    }

    /// Adds a file tree: that of a host, or a folder of texts.
    fn add_source(&mut self, source: Box<dyn Source>, shown: &str) -> Result<(), OpenError> {
        let refused = |refusal: Refusal| OpenError::Io {
            path: shown.to_owned(),
            source: io::Error::other(refusal.to_string()),
        };
        let mut roots = layout::host_roots(source.as_ref()).map_err(refused)?;
        if let [first, second, ..] = roots.as_slice() {
            let names = [first, second].map(|root| root.trim_end_matches('/').to_owned());
            return Err(OpenError::SeveralCaptures { path: shown.to_owned(), names });
        }
        if let Some(prefix) = roots.pop() {
            if let Some(known) = &self.capture {
                return Err(OpenError::TwoCaptures { paths: [known.shown.clone(), shown.to_owned()] });
            }
            let source = plain_links::restore(source, &prefix);
            self.capture = Some(Capture { source, prefix, shown: shown.to_owned() });
            return Ok(());
        }
        let before = self.texts.len();
        let mut search = Search::default();
        self.add_texts(source.as_ref(), "", shown, &mut search);
        let path = shown.to_owned();
        match search.archive {
            _ if self.texts.len() > before => Ok(()),
            Some(name) => Err(OpenError::HoldsArchives { path, name }),
            None => Err(OpenError::NotAHost { path }),
        }
    }

    /// Adds the texts of a folder and of those below it that tell of a host, whatever their names.
    fn add_texts(&mut self, source: &dyn Source, folder: &str, shown: &str, search: &mut Search) {
        let mut names = source.names(folder).unwrap_or_default();
        names.sort_unstable();
        for name in names {
            if search.is_over {
                return;
            }
            let path = if folder.is_empty() { name } else { format!("{folder}/{name}") };
            search.entries += 1;
            if let Some(limit) = search.limit() {
                search.is_over = true;
                self.left_out.push((format!("{shown}/{path} and what follows it"), limit));
                return;
            }
            if is_archive_name(&path) && source.node(&path) != Ok(Node::Folder) {
                let message = "an archive among other files, which is not unpacked: give it alone".to_owned();
                self.left_out.push((format!("{shown}/{path}"), Refusal::Other { message }));
                search.archive.get_or_insert(path);
                continue;
            }
            match source.node(&path) {
                Ok(Node::Folder) if search.depth < DEPTH_MAX => {
                    search.depth += 1;
                    self.add_texts(source, &path, shown, search);
                    search.depth -= 1;
                }
                Ok(Node::Folder) => {
                    self.left_out
                        .push((format!("{shown}/{path}"), Refusal::TooDeep { folders_max: DEPTH_MAX }));
                }
                Ok(Node::File) => {
                    let Ok(content) = source.read(&path) else { continue };
                    search.bytes += content.len();
                    self.add_text(&format!("{shown}/{path}"), content);
                }
                _ => {}
            }
        }
    }

    /// Adds a file of a folder if it is a text that tells of a host; it may be compressed.
    fn add_text(&mut self, name: &str, content: Vec<u8>) {
        let unpacked = archive::unpack(content.as_slice(), name, &super::progress::ignore(), Wanted::Text);
        if let Ok(Unpacked::Text(cut)) = unpacked {
            self.texts.push(Pasted { name: name.to_owned(), cut });
        }
    }

    /// The tree of the host that all of it tells of.
    ///
    /// # Errors
    /// When nothing tells of a host, or texts are of several.
    pub fn into_tree(self) -> Result<Tree, OpenError> {
        let names: Vec<String> = self.texts.iter().map(|text| text.name.clone()).collect();
        let mut assembled =
            pasted::assemble(self.texts).map_err(|hosts| OpenError::SeveralHosts { hosts })?;
        if let Some(line) = self.command_line {
            assembled.set("proc/cmdline", COMMAND_LINE_NAME, &line);
        }
        let Assembled { memory, origins, left_out } = assembled;
        let is_beside = self.capture.is_some() && origins.contains_key(pasted::LISTING);
        let tree = match self.capture {
            None if origins.is_empty() => {
                return Err(OpenError::NotAHost { path: names.join(", ") });
            }
            None => Tree::with_prefix(Box::new(memory), Reach::Capture, String::new(), self.watcher),
            Some(Capture { source, prefix, .. }) if origins.is_empty() => {
                Tree::with_prefix(source, Reach::Capture, prefix, self.watcher)
            }
            Some(Capture { source, prefix, .. }) => {
                let overlaid = Overlay { over: memory, below: source, prefix: prefix.clone() };
                Tree::with_prefix(Box::new(overlaid), Reach::Capture, prefix, self.watcher)
            }
        };
        let tree = tree.with_origins(origins);
        if let Some(listing) = is_beside.then(|| tree.text(pasted::LISTING)).flatten() {
            pasted::check_beside(&tree, &listing).map_err(|hosts| OpenError::SeveralHosts { hosts })?;
        }
        for (text, why) in left_out.into_iter().chain(self.left_out) {
            tree.refuse(&text, why);
        }
        Ok(tree)
    }
}

/// Whether a file's name is that of an archive.
fn is_archive_name(path: &str) -> bool {
    [".tar", ".tar.bz2", ".tar.gz", ".tar.xz", ".tar.zst", ".tgz"].iter().any(|end| path.ends_with(end))
}

/// A capture with files beside it that count more than its own.
struct Overlay {
    over: Memory,
    below: Box<dyn Source>,
    /// The host's root in the capture.
    prefix: String,
}

impl Overlay {
    /// The path in the files beside the capture.
    fn over_path<'p>(&self, path: &'p str) -> Option<&'p str> {
        path.strip_prefix(&self.prefix)
    }

    /// What is asked of the files beside the capture, or else of the capture.
    fn ask<T>(
        &self,
        path: &str,
        ask: impl Fn(&dyn Source, &str) -> Result<T, Refusal>,
    ) -> Result<T, Refusal> {
        let over = self.over_path(path).map(|path| ask(&self.over, path));
        match over {
            Some(Ok(answer)) => Ok(answer),
            _ => ask(self.below.as_ref(), path),
        }
    }
}

impl Source for Overlay {
    fn node(&self, path: &str) -> Result<Node, Refusal> {
        self.ask(path, |source, path| source.node(path))
    }

    fn read(&self, path: &str) -> Result<Vec<u8>, Refusal> {
        self.ask(path, |source, path| source.read(path))
    }

    fn read_at(&self, path: &str, offset: u64, length: usize) -> Result<Vec<u8>, Refusal> {
        self.ask(path, |source, path| source.read_at(path, offset, length))
    }

    fn names(&self, path: &str) -> Result<Vec<String>, Refusal> {
        let below = self.below.names(path);
        let over = self.over_path(path).and_then(|path| self.over.names(path).ok());
        match (below, over) {
            (below, None) => below,
            (Err(_), Some(over)) => Ok(over),
            (Ok(mut below), Some(over)) => {
                below.extend(over);
                below.sort_unstable();
                below.dedup();
                Ok(below)
            }
        }
    }
}
