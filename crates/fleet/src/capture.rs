//! A host's capture, or the document that an inspection of one printed, read and inspected.

use crate::document::Inspected;
use crate::input::Input;
use host::diagnose::Basis;
use host::tree::{ArchiveError, OpenError};
use host::{Host, Inspection, NoFacts, Tree};
use inspection::{Document, SCHEMA};
use serde::de::Error as _;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

/// Bytes of the largest document that is read. One of a thousand adapters has some 10 MiB.
const DOCUMENT_BYTES_MAX: u64 = 256 << 20;
/// The source of rows that were read from a document.
pub(crate) const DOCUMENT: &str = "document";
/// The kind of error of an encrypted file.
pub(crate) const ENCRYPTED: &str = "encrypted";
/// The kind of error of what is larger than what is read.
const TOO_LARGE: &str = "too-large";
/// The kind of error of what is no capture.
const NO_CAPTURE: &str = "no-capture";
/// Letters of a document's schema that an error shows.
const SCHEMA_SHOWN_MAX: usize = 100;
/// Bytes that are looked at to tell a document from an archive or a text.
const START_BYTES: usize = 4096;

/// Why an input has no row.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum InputError {
    /// It can't be opened, or is no capture.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// It is no capture, and has the name of an encrypted file.
    #[error("{path}: encrypted, as its name says; decrypt it first")]
    Encrypted {
        /// Its path.
        path: String,
    },
    /// It can't be read.
    #[error("{path}")]
    Io {
        /// Its path.
        path: String,
        /// The system's error.
        source: io::Error,
    },
    /// It is JSON, and larger than any document of a host.
    #[error("{path}: larger than {} MiB; expected what `iotoll inspect --json` prints", DOCUMENT_BYTES_MAX >> 20)]
    DocumentTooLarge {
        /// Its path.
        path: String,
    },
    /// It is JSON, and not what `iotoll inspect --json` prints.
    #[error("{path}: expected a document with the schema {SCHEMA}")]
    NoDocument {
        /// Its path.
        path: String,
        /// What is wrong with it, and where.
        source: serde_json::Error,
    },
    /// A model of one of its areas failed.
    #[error("{path}")]
    Model {
        /// Its path.
        path: String,
        /// That error.
        source: Box<model::StudyError>,
    },
    /// Nothing in it tells of a host.
    #[error("{path}")]
    NoFacts {
        /// Its path.
        path: String,
        /// What was not found.
        source: NoFacts,
    },
    /// The program failed.
    #[error("{path}: a mistake in this program ended the inspection: {what}")]
    Panic {
        /// Its path.
        path: String,
        /// What it said.
        what: String,
    },
}

impl InputError {
    /// A stable word for its kind.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Open(OpenError::Io { .. }) | Self::Io { .. } => "unreadable",
            Self::Open(OpenError::Archive { source, .. }) => word_of(source),
            Self::Open(_) => NO_CAPTURE,
            Self::Encrypted { .. } => ENCRYPTED,
            Self::DocumentTooLarge { .. } => TOO_LARGE,
            Self::NoDocument { .. } => "no-document",
            Self::Model { .. } => "model",
            Self::NoFacts { .. } => "no-facts",
            Self::Panic { .. } => "program",
        }
    }
}

fn word_of(error: &ArchiveError) -> &'static str {
    match error {
        ArchiveError::Damaged { .. } => "damaged",
        ArchiveError::TooManyMembers
        | ArchiveError::TooLarge { .. }
        | ArchiveError::RatioTooHigh { .. }
        | ArchiveError::TextTooLarge { .. } => TOO_LARGE,
        _ => NO_CAPTURE,
    }
}

/// Inspects a host, by the program `made_by`. `path` is what errors and the document call it.
///
/// # Errors
/// [`InputError::NoFacts`] if it is no host, [`InputError::Model`] if a model of one of its areas fails
pub fn inspect(tree: &Tree, path: &str, made_by: &str) -> Result<Document, InputError> {
    document_of(read_host(tree, path)?, path, made_by)
}

fn read_host(tree: &Tree, path: &str) -> Result<Host, InputError> {
    let host = Host::read(tree).expect_facts();
    host.map_err(|source| InputError::NoFacts { path: path.to_owned(), source })
}

fn document_of(host: Host, path: &str, made_by: &str) -> Result<Document, InputError> {
    let failed = |source| InputError::Model { path: path.to_owned(), source: Box::new(source) };
    let areas = model::area_forecasts(&host).map_err(failed)?;
    let inspection = Inspection::with_basis(host, Basis { areas: &areas, ..Basis::default() });
    Ok(Document::new(&inspection, made_by, path, None))
}

/// What was read of an input.
#[derive(Debug)]
pub(crate) struct Capture {
    /// SHA-256 of what the inspection read, or of the document's bytes.
    pub(crate) digest: String,
    /// `files`, or the `document` of an earlier inspection, whose rules are those of its program.
    pub(crate) source: String,
    /// The host's name, where a file has it.
    pub(crate) host_name: Option<String>,
    pub(crate) inspected: Inspected,
}

impl Capture {
    /// Reads and inspects an input.
    pub(crate) fn read(input: &Input, made_by: &str) -> Result<Self, InputError> {
        let path = input.name();
        if input.bytes.is_some() && is_json(&input.path).map_err(|source| io_error(&path, source))? {
            return Self::of_document(&input.path, &path);
        }
        let tree = Tree::open(&input.path).map_err(|error| match error {
            OpenError::Archive { source: ArchiveError::Damaged { .. }, .. } => InputError::Open(error),
            OpenError::Archive { .. } if input.is_named_encrypted() => {
                InputError::Encrypted { path: path.clone() }
            }
            error => InputError::Open(error),
        })?;
        Self::of_tree(tree, &path, made_by)
    }

    fn of_tree(tree: Tree, path: &str, made_by: &str) -> Result<Self, InputError> {
        let host = read_host(&tree, path)?;
        let host_name = host.platform.host_name.as_ref().map(|name| name.value.clone());
        let document = document_of(host, path, made_by)?;
        let inspected = serde_json::to_value(&document).and_then(serde_json::from_value);
        let inspected =
            inspected.map_err(|source| InputError::NoDocument { path: path.to_owned(), source })?;
        Ok(Self { digest: tree_digest(&tree), source: "files".to_owned(), host_name, inspected })
    }

    fn of_document(file: &Path, path: &str) -> Result<Self, InputError> {
        let failed = |source| io_error(path, source);
        let mut bytes = Vec::new();
        File::open(file)
            .and_then(|file| file.take(DOCUMENT_BYTES_MAX + 1).read_to_end(&mut bytes))
            .map_err(failed)?;
        if bytes.len() as u64 > DOCUMENT_BYTES_MAX {
            return Err(InputError::DocumentTooLarge { path: path.to_owned() });
        }
        let wrong = |source| InputError::NoDocument { path: path.to_owned(), source };
        let text = without_mark(&bytes);
        let Schema { schema } = serde_json::from_slice(text).map_err(wrong)?;
        if schema != SCHEMA {
            let schema: String = schema.chars().take(SCHEMA_SHOWN_MAX).collect();
            return Err(wrong(serde_json::Error::custom(format!("the schema is {schema:?}"))));
        }
        let inspected: Inspected = serde_json::from_slice(text).map_err(wrong)?;
        if let Some(wrong_word) = inspected.wrong_word() {
            return Err(wrong(serde_json::Error::custom(wrong_word)));
        }
        let digest = hexadecimal(&Sha256::digest(&bytes));
        Ok(Self { digest, source: DOCUMENT.to_owned(), host_name: None, inspected })
    }
}

/// What a document says that it is.
#[derive(serde::Deserialize)]
struct Schema {
    schema: String,
}

fn io_error(path: &str, source: io::Error) -> InputError {
    InputError::Io { path: path.to_owned(), source }
}

/// Whether a file begins as a JSON object does. What is no regular file is not opened.
fn is_json(path: &Path) -> io::Result<bool> {
    let mut start = BufReader::with_capacity(START_BYTES, File::open(path)?);
    let bytes = start.fill_buf()?;
    Ok(without_mark(bytes).iter().find(|byte| !byte.is_ascii_whitespace()) == Some(&b'{'))
}

/// A text without the mark by which some programs begin UTF-8.
fn without_mark(text: &[u8]) -> &[u8] {
    text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text)
}

/// A digest of all that an inspection has read of a host, however it was packed.
fn tree_digest(tree: &Tree) -> String {
    let mut hasher = Sha256::new();
    tree.each_read(&mut |path, bytes| {
        for part in [path.as_bytes(), bytes] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    });
    hexadecimal(&hasher.finalize())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
