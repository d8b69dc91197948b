//! Which modules a kernel needs for a driver, in the order in which they load.
//!
//! The order comes from what the modules say of themselves ([`ModInfo`]), because `modules.dep` is made
//! only when a package is installed.

use super::{Kernel, ModInfo, ModInfoError, compression};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

pub use super::compression::CompressionError;

/// Folders within folders; the kernel's own tree has about seven.
const FOLDERS_DEEP_MAX: usize = 32;
/// Modules each needing the next; the longest chains of real kernels have about ten.
const CHAIN_MAX: usize = 200;
/// Bytes of a module's file, packed or not.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// The name of a module, as the kernel prints it: `nvme_core`.
///
/// A dash and an underscore are the same to the kernel; here it is always an underscore.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleName(String);

impl ModuleName {
    /// With underscores.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl From<&str> for ModuleName {
    fn from(name: &str) -> Self {
        Self(name.replace('-', "_"))
    }
}

impl fmt::Display for ModuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A module, ready to be loaded.
#[derive(Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel: `nvme_core`.
    pub name: ModuleName,
    /// Its file's name, without the ending of a compression: `nvme-core.ko`.
    pub file_name: String,
    /// The file, unpacked.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Module({}, {} bytes)", self.file_name, self.bytes.len())
    }
}

/// Modules in the order in which they load.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModuleOrder {
    /// Each comes after those that it needs.
    pub load: Vec<Module>,
    /// The wanted ones that need no loading, because the kernel has them built in.
    pub built_in: Vec<ModuleName>,
    /// Modules that one of them would like to have loaded before it, and that no file is named for.
    /// They are usually aliases, which a guest without `modules.alias` can't resolve either.
    pub soft_absent: BTreeSet<ModuleName>,
}

/// What keeps modules from being found or read.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// Neither a file nor built in.
    #[error(
        "module {name}{} is not in kernel {release}: neither a file below {modules} nor built in",
        Needed(needed_by)
    )]
    Absent {
        /// The module.
        name: ModuleName,
        /// The module that needs it; `None` if it was wanted for itself.
        needed_by: Option<ModuleName>,
        /// The kernel's release.
        release: String,
        /// Where its modules are.
        modules: PathBuf,
    },
    /// No file, and nobody knows what the kernel has built in.
    #[error(
        "module {name}{} is not below {modules}, \
         and no file modules.builtin there tells whether it is built in",
        Needed(needed_by)
    )]
    AbsentOrBuiltIn {
        /// The module.
        name: ModuleName,
        /// The module that needs it; `None` if it was wanted for itself.
        needed_by: Option<ModuleName>,
        /// Where the kernel's modules are.
        modules: PathBuf,
    },
    /// Modules that need each other, which no build makes.
    #[error("modules need each other in a circle: {}", names(.0))]
    Circle(Vec<ModuleName>),
    /// Modules that need each other in a row that no kernel has.
    #[error("module {0} needs another that needs another and so on, {CHAIN_MAX} times")]
    ChainTooLong(ModuleName),
    /// A folder or a file that can't be read.
    #[error("{path}")]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A file that is larger than any module.
    #[error("{path} has {bytes} bytes; at most {FILE_BYTES_MAX} are accepted of a module")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Folders within folders without end.
    #[error("{path} lies more than {FOLDERS_DEEP_MAX} folders below the kernel's modules")]
    TooDeep {
        /// The folder.
        path: PathBuf,
    },
    /// A file that can't be unpacked.
    #[error("{path}")]
    Packed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CompressionError,
    },
    /// A file whose description can't be read.
    #[error("{path}")]
    Described {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ModInfoError,
    },
}

struct Needed<'a>(&'a Option<ModuleName>);

impl fmt::Display for Needed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |by| write!(f, ", which {by} needs,"))
    }
}

fn names(names: &[ModuleName]) -> String {
    names.iter().map(ModuleName::as_str).collect::<Vec<_>>().join(" -> ")
}

/// The modules of one kernel: where each one's file is, and which are built in.
#[derive(Debug, Clone)]
pub struct ModuleTree {
    release: String,
    folder: PathBuf,
    files: BTreeMap<ModuleName, PathBuf>,
    /// `None` if the kernel's build left no list.
    built_in: Option<BTreeSet<ModuleName>>,
}

impl ModuleTree {
    /// Looks a kernel's modules up by the names of their files, and opens none of them.
    ///
    /// # Errors
    /// If a folder can't be listed, or the list of what is built in can't be read.
    pub fn of_kernel(kernel: &Kernel) -> Result<Self, ModuleError> {
        let folder = kernel.modules.clone();
        let files = files_below(&folder)?;
        let built_in = built_in(&folder.join("modules.builtin"))?;
        Ok(Self { release: kernel.release.clone(), folder, files, built_in })
    }

    /// The names of all modules that have a file.
    pub fn names(&self) -> impl Iterator<Item = &ModuleName> {
        self.files.keys()
    }

    /// Whether the kernel has a module built in; `None` if its build left no list of them.
    pub fn is_built_in(&self, name: &ModuleName) -> Option<bool> {
        self.built_in.as_ref().map(|list| list.contains(name))
    }

    /// The wanted modules and all that they need, in the order in which they load.
    ///
    /// # Errors
    /// If one is neither there nor built in, or one of the files can't be read.
    pub fn order(&self, wanted: &[&str]) -> Result<ModuleOrder, ModuleError> {
        let mut walk =
            Walk { tree: self, order: ModuleOrder::default(), placed: BTreeSet::new(), chain: vec![] };
        for name in wanted.iter().map(|name| ModuleName::from(*name)) {
            if self.is_built_in(&name) == Some(true) {
                walk.note_built_in(name);
            } else {
                walk.place(&name)?;
            }
        }
        Ok(walk.order)
    }

    /// Unpacks a module and reads its description.
    fn open(&self, path: &Path) -> Result<(Module, ModInfo), ModuleError> {
        let packed = read_file(path)?;
        let unpacked = compression::unpack(packed);
        let bytes = unpacked.map_err(|source| ModuleError::Packed { path: path.to_owned(), source })?;
        let described = ModInfo::of_module(&bytes);
        let info = described.map_err(|source| ModuleError::Described { path: path.to_owned(), source })?;
        let file_name = file_name(path);
        let name = info.name.clone().unwrap_or_else(|| stem(&file_name).into());
        Ok((Module { name, file_name, bytes }, info))
    }

    fn absent(&self, name: &ModuleName, needed_by: Option<ModuleName>) -> ModuleError {
        let (name, modules) = (name.clone(), self.folder.clone());
        match self.built_in {
            Some(_) => ModuleError::Absent { name, needed_by, release: self.release.clone(), modules },
            None => ModuleError::AbsentOrBuiltIn { name, needed_by, modules },
        }
    }
}

/// A walk from wanted modules down to those that need nothing.
struct Walk<'a> {
    tree: &'a ModuleTree,
    order: ModuleOrder,
    placed: BTreeSet<ModuleName>,
    /// From a wanted module to the one being placed.
    chain: Vec<ModuleName>,
}

impl Walk<'_> {
    fn note_built_in(&mut self, name: ModuleName) {
        if !self.order.built_in.contains(&name) {
            self.order.built_in.push(name);
        }
    }

    /// Places what `name` needs, and then `name`.
    fn place(&mut self, name: &ModuleName) -> Result<(), ModuleError> {
        if self.placed.contains(name) || self.tree.is_built_in(name) == Some(true) {
            return Ok(());
        }
        self.check_chain(name)?;
        let path = self.tree.files.get(name);
        let path = path.ok_or_else(|| self.tree.absent(name, self.chain.last().cloned()))?;
        let (module, info) = self.tree.open(path)?;
        self.chain.push(name.clone());
        self.place_soft(&info.soft_before)?;
        for needed in &info.depends {
            self.place(needed)?;
        }
        self.chain.pop();
        self.placed.insert(name.clone());
        self.order.load.push(module);
        Ok(())
    }

    /// Places what can be had of modules that are not strictly needed.
    fn place_soft(&mut self, names: &[ModuleName]) -> Result<(), ModuleError> {
        for name in names {
            if self.tree.files.contains_key(name) {
                // Two modules may like each other before themselves; then neither is first.
                if !self.chain.contains(name) {
                    self.place(name)?;
                }
            } else if self.tree.is_built_in(name) != Some(true) {
                self.order.soft_absent.insert(name.clone());
            }
        }
        Ok(())
    }

    fn check_chain(&self, name: &ModuleName) -> Result<(), ModuleError> {
        if let Some(start) = self.chain.iter().position(|known| known == name) {
            let circle = self.chain[start..].iter().chain([name]).cloned().collect();
            return Err(ModuleError::Circle(circle));
        }
        match self.chain.len() {
            ..CHAIN_MAX => Ok(()),
            _ => Err(ModuleError::ChainTooLong(name.clone())),
        }
    }
}

fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ModuleError {
    move |source| ModuleError::Unreadable { path: path.to_owned(), source }
}

fn read_file(path: &Path) -> Result<Vec<u8>, ModuleError> {
    let bytes = fs::metadata(path).map_err(unreadable(path))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ModuleError::TooLarge { path: path.to_owned(), bytes });
    }
    fs::read(path).map_err(unreadable(path))
}

/// Every module's file below `folder`. Of two with the same name, the one in `updates/` counts, as for
/// depmod; else the one whose path sorts first.
fn files_below(folder: &Path) -> Result<BTreeMap<ModuleName, PathBuf>, ModuleError> {
    let mut paths = Vec::new();
    collect(folder, FOLDERS_DEEP_MAX, &mut paths)?;
    let updates = folder.join("updates");
    paths.sort_by_key(|path| (!path.starts_with(&updates), path.clone()));
    let mut files = BTreeMap::new();
    for path in paths {
        files.entry(stem(&file_name(&path)).into()).or_insert(path);
    }
    Ok(files)
}

fn collect(folder: &Path, deeper: usize, paths: &mut Vec<PathBuf>) -> Result<(), ModuleError> {
    if deeper == 0 {
        return Err(ModuleError::TooDeep { path: folder.to_owned() });
    }
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        // Links to folders lead out: `build` and `source` are the kernel's headers.
        if entry.file_type().map_err(unreadable(&path))?.is_dir() {
            collect(&path, deeper - 1, paths)?;
        } else if is_module(&path) && path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

fn is_module(path: &Path) -> bool {
    file_name(path).ends_with(".ko")
}

/// The name without the ending of a compression.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let packed = [".gz", ".xz", ".zst"].into_iter().find_map(|ending| name.strip_suffix(ending));
    packed.unwrap_or(&name).to_owned()
}

fn stem(file_name: &str) -> &str {
    file_name.strip_suffix(".ko").unwrap_or(file_name)
}

/// Reads the list of what is built in: a path per line, as if each were a module (kernel:
/// `Documentation/kbuild/kbuild.rst`, "modules.builtin").
fn built_in(list: &Path) -> Result<Option<BTreeSet<ModuleName>>, ModuleError> {
    match fs::read_to_string(list) {
        Ok(text) => Ok(Some(text.lines().map(|line| stem(&file_name(Path::new(line))).into()).collect())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(list)(error)),
    }
}

/// The release that the modules below `folder` were built for, if there are any and they say so.
pub(super) fn release_of_modules(folder: &Path) -> Result<Option<String>, ModuleError> {
    let tree = ModuleTree {
        release: String::new(),
        folder: folder.to_owned(),
        files: files_below(folder)?,
        built_in: None,
    };
    let Some(path) = tree.files.values().next() else { return Ok(None) };
    let (_, info) = tree.open(path)?;
    Ok(info.release().map(str::to_owned))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "in a test a panic is the report")]

    use super::*;
    use crate::{
        Arch,
        kernel::{compression::tests::every_packing, modinfo::tests::module},
    };
    use object::{Architecture, Endianness};
    use proptest::prelude::*;
    use tempfile::TempDir;

    /// A kernel's folder of modules: each a path and a description, as `depends=b,c name=a`.
    struct Tree {
        folder: TempDir,
    }

    impl Tree {
        fn new(built_in: &str) -> Self {
            let folder = tempfile::tempdir().unwrap();
            fs::write(folder.path().join("modules.builtin"), built_in).unwrap();
            Self { folder }
        }

        fn with(self, path: &str, description: &str) -> Self {
            let elf = elf(description);
            self.with_bytes(path, &elf)
        }

        fn with_bytes(self, path: &str, bytes: &[u8]) -> Self {
            let path = self.folder.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
            self
        }

        fn read(&self) -> Result<ModuleTree, ModuleError> {
            ModuleTree::of_kernel(&Kernel {
                arch: Arch::X86,
                release: "6.1.0-1".to_owned(),
                package: None,
                image: PathBuf::new(),
                modules: self.folder.path().to_owned(),
            })
        }

        fn order(&self, wanted: &[&str]) -> Result<ModuleOrder, ModuleError> {
            self.read()?.order(wanted)
        }

        fn check(&self, wanted: &[&str], expect: &str) {
            let order = self.order(wanted).unwrap();
            let names: Vec<_> = order.load.iter().map(|module| module.name.as_str()).collect();
            assert_eq!(names.join(" "), expect, "{wanted:?}");
        }
    }

    /// Words are separated by `;` here and by zero bytes there.
    fn elf(description: &str) -> Vec<u8> {
        let section = format!("license=GPL;{description};").replace(';', "\0");
        module(Architecture::X86_64, Endianness::Little, section.as_bytes())
    }

    fn nvme() -> Tree {
        Tree::new("kernel/lib/crc-t10dif.ko\nkernel/drivers/virtio/virtio.ko\n")
            .with("kernel/drivers/nvme/host/nvme.ko", "depends=nvme-core;name=nvme")
            .with("kernel/drivers/nvme/host/nvme-core.ko", "depends=t10-pi,nvme-auth;name=nvme_core")
            .with("kernel/drivers/nvme/common/nvme-auth.ko", "depends=;name=nvme_auth")
            .with("kernel/block/t10-pi.ko", "depends=crc-t10dif,crc64;softdep=pre: crct10dif early")
            .with("kernel/lib/crc64.ko", "depends=;name=crc64")
            .with("kernel/lib/early.ko", "depends=;name=early")
    }

    #[test]
    fn each_comes_after_what_it_needs() {
        nvme().check(&["nvme"], "early crc64 t10_pi nvme_auth nvme_core nvme");
        nvme().check(&["nvme-core", "nvme", "nvme_core"], "early crc64 t10_pi nvme_auth nvme_core nvme");
        nvme().check(&["crc64", "nvme_auth"], "crc64 nvme_auth");
        nvme().check(&[], "");
    }

    #[test]
    fn what_is_built_in_or_only_liked_is_told_apart() {
        let order = nvme().order(&["virtio", "nvme", "crc_t10dif", "virtio"]).unwrap();
        assert_eq!(order.built_in, ["virtio".into(), "crc-t10dif".into()]);
        assert_eq!(order.soft_absent, BTreeSet::from(["crct10dif".into()]));
        assert_eq!(order.load.len(), 6);
        assert_eq!(order.load[2].file_name, "t10-pi.ko");
    }

    #[test]
    fn what_is_absent_is_named_with_who_needs_it() {
        let message = |tree: Tree, wanted| tree.order(&[wanted]).unwrap_err().to_string();
        let start = "module igb is not in kernel 6.1.0-1: neither a file below ";
        assert!(message(nvme(), "igb").starts_with(start));
        let tree = Tree::new("").with("igb.ko.xz", "depends=dca");
        let text = message(tree, "igb");
        assert!(text.starts_with("module dca, which igb needs, is not in kernel 6.1.0-1"), "{text}");
        let tree = Tree::new("");
        fs::remove_file(tree.folder.path().join("modules.builtin")).unwrap();
        assert!(matches!(tree.order(&["igb"]), Err(ModuleError::AbsentOrBuiltIn { .. })));
    }

    #[test]
    fn circles_and_endless_chains_end() {
        let tree =
            Tree::new("").with("a.ko", "depends=b").with("b.ko", "depends=c").with("c.ko", "depends=b");
        let error = tree.order(&["a"]).unwrap_err();
        assert_eq!(error.to_string(), "modules need each other in a circle: b -> c -> b");
        let tree = Tree::new("").with("a.ko", "softdep=pre: b").with("b.ko", "softdep=pre: a");
        tree.check(&["a"], "b a");
        tree.check(&["b"], "a b");
        let chain = (0..=CHAIN_MAX).fold(Tree::new(""), |tree, number| {
            tree.with(&format!("m{number}.ko"), &format!("depends=m{}", number + 1))
        });
        assert!(matches!(chain.order(&["m0"]), Err(ModuleError::ChainTooLong(_))));
    }

    #[test]
    fn every_packing_and_place() {
        for (ending, packed) in every_packing(&elf("depends=;name=a")) {
            let tree = Tree::new("").with_bytes(&format!("kernel/a.ko{ending}"), &packed);
            let order = tree.order(&["a"]).unwrap();
            assert_eq!(order.load[0].file_name, "a.ko", "{ending}");
            assert_eq!(order.load[0].bytes, elf("depends=;name=a"), "{ending}");
        }
        let tree = Tree::new("").with("kernel/a.ko", "depends=x").with("updates/dkms/a.ko", "depends=");
        tree.check(&["a"], "a");
    }

    #[test]
    fn files_that_are_no_modules_are_named() {
        let tree = Tree::new("").with_bytes("a.ko", b"\x7fELF").with_bytes("b.ko.xz", b"PK");
        assert!(matches!(tree.order(&["a"]), Err(ModuleError::Described { .. })));
        let error = tree.order(&["b"]).unwrap_err();
        let causes = std::iter::successors(Some(&error as &dyn std::error::Error), |error| error.source());
        let text = causes.map(ToString::to_string).collect::<Vec<_>>().join(": ");
        assert!(text.contains("b.ko.xz: it begins with [50, 4b]; expected an ELF file"), "{text}");
    }

    #[test]
    fn links_to_folders_are_not_followed() {
        let tree = nvme();
        std::os::unix::fs::symlink(tree.folder.path(), tree.folder.path().join("build")).unwrap();
        assert_eq!(tree.read().unwrap().names().count(), 6);
    }

    proptest! {
        /// Module `m<n>` depends on some of those with lower numbers, so there is an order.
        #[test]
        fn any_order_is_topological(
            needs in proptest::collection::vec(proptest::collection::btree_set(0..12usize, 0..4), 12),
        ) {
            let below = |number: usize| needs[number].iter().copied().filter(move |other| *other < number);
            let tree = (0..needs.len()).fold(Tree::new(""), |tree, number| {
                let names: Vec<_> = below(number).map(|other| format!("m{other}")).collect();
                tree.with(&format!("m{number}.ko"), &format!("depends={}", names.join(",")))
            });
            let order = tree.order(&["m11", "m7"]).unwrap();
            let mut loaded = BTreeSet::new();
            for module in &order.load {
                let number: usize = module.name.as_str()[1..].parse().unwrap();
                prop_assert!(below(number).all(|other| loaded.contains(&other)));
                prop_assert!(loaded.insert(number), "m{number} loads twice");
            }
            prop_assert!(loaded.contains(&11) && loaded.contains(&7));
        }
    }
}
