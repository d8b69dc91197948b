//! Finds the modules that a driver needs, in the order in which they load.
//!
//! The order comes from each module's `.modinfo` ([`ModInfo`]), because `modules.dep` is created
//! only when a package is installed.

use super::{Kernel, ModInfo, ModInfoError, compression};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt, fs, io,
    path::{Path, PathBuf},
};

pub use super::compression::CompressionError;

/// Levels of nested folders; the kernel's own tree has about seven.
const FOLDER_DEPTH_MAX: usize = 32;
/// Modules in a chain of dependencies; the longest of real kernels have about ten.
const CHAIN_MAX: usize = 200;
/// Bytes of a module's file, compressed or not.
const FILE_BYTES_MAX: u64 = 512 << 20;

/// The name of a module, as the kernel prints it: `nvme_core`.
///
/// The kernel treats a dash like an underscore; here it is always an underscore.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ModuleName(String);

impl ModuleName {
    /// The name, with underscores.
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

/// A decompressed module.
#[derive(Clone, PartialEq, Eq)]
pub struct Module {
    /// Its name in the kernel: `nvme_core`.
    pub name: ModuleName,
    /// Its file's name, without the extension of a compression: `nvme-core.ko`.
    pub file_name: String,
    /// The decompressed file.
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
    /// Modules to load; each comes after its dependencies.
    pub load: Vec<Module>,
    /// The wanted modules that the kernel has built in.
    pub built_in: Vec<ModuleName>,
    /// Soft dependencies without a file of that name. They are usually aliases, which a guest without
    /// `modules.alias` can't resolve either.
    pub soft_absent: BTreeSet<ModuleName>,
}

/// Why modules can't be found or read.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// Neither a file nor built in.
    #[error(
        "module {name}{} is not in kernel {release}: neither a file below {modules} nor built in",
        NeededBy(needed_by)
    )]
    Absent {
        /// The module.
        name: ModuleName,
        /// The module that depends on it; `None` if the caller wanted it.
        needed_by: Option<ModuleName>,
        /// The kernel's release.
        release: String,
        /// The folder of the kernel's modules.
        modules: PathBuf,
    },
    /// No file, and there is no list of built-in modules.
    #[error(
        "module {name}{} is not below {modules}, \
         and without the file modules.builtin it is unknown whether it is built in",
        NeededBy(needed_by)
    )]
    AbsentOrBuiltIn {
        /// The module.
        name: ModuleName,
        /// The module that depends on it; `None` if the caller wanted it.
        needed_by: Option<ModuleName>,
        /// The folder of the kernel's modules.
        modules: PathBuf,
    },
    /// A cycle of dependencies, which the kernel's build never produces.
    #[error("cyclic dependency of modules: {}", arrow_list(.0))]
    Cycle(Vec<ModuleName>),
    /// A chain of dependencies longer than any kernel's.
    #[error("the chain of dependencies to module {0} is too long; expected at most {CHAIN_MAX} modules")]
    ChainTooLong(ModuleName),
    /// A folder or a file can't be read.
    #[error("{path}")]
    Unreadable {
        /// The folder or file.
        path: PathBuf,
        /// The operating system's error.
        source: io::Error,
    },
    /// A file is larger than any module.
    #[error("{path} has {bytes} bytes; expected a module of at most {FILE_BYTES_MAX}")]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// Its size.
        bytes: u64,
    },
    /// Folders are nested too deeply.
    #[error(
        "{path} is too deeply nested; expected at most {FOLDER_DEPTH_MAX} levels below the kernel's modules"
    )]
    TooDeep {
        /// The folder.
        path: PathBuf,
    },
    /// A file can't be decompressed.
    #[error("{path}")]
    Compression {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: CompressionError,
    },
    /// A file's section `.modinfo` can't be read.
    #[error("{path}")]
    ModInfo {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        source: ModInfoError,
    },
}

/// Displays `, which X needs,` if a module X depends on the missing one.
struct NeededBy<'a>(&'a Option<ModuleName>);

impl fmt::Display for NeededBy<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_ref().map_or(Ok(()), |by| write!(f, ", which {by} needs,"))
    }
}

/// `a -> b -> a`.
fn arrow_list(names: &[ModuleName]) -> String {
    names.iter().map(ModuleName::as_str).collect::<Vec<_>>().join(" -> ")
}

/// The modules of one kernel: their files, and the names of the built-in ones.
#[derive(Debug, Clone)]
pub struct ModuleTree {
    release: String,
    folder: PathBuf,
    files: BTreeMap<ModuleName, PathBuf>,
    /// `None` without a file `modules.builtin`.
    built_in: Option<BTreeSet<ModuleName>>,
}

impl ModuleTree {
    /// Lists a kernel's modules by their file names, without opening the files.
    ///
    /// # Errors
    /// If a folder can't be listed, or `modules.builtin` can't be read.
    pub fn of_kernel(kernel: &Kernel) -> Result<Self, ModuleError> {
        let folder = kernel.modules.clone();
        let files = files_below(&folder)?;
        let built_in = read_built_in(&folder.join("modules.builtin"))?;
        Ok(Self { release: kernel.release.clone(), folder, files, built_in })
    }

    /// The names of all modules that have a file.
    pub fn names(&self) -> impl Iterator<Item = &ModuleName> {
        self.files.keys()
    }

    /// Whether the kernel has a module built in; `None` without a file `modules.builtin`.
    pub fn is_built_in(&self, name: &ModuleName) -> Option<bool> {
        self.built_in.as_ref().map(|list| list.contains(name))
    }

    /// The wanted modules and their dependencies, in the order in which they load.
    ///
    /// # Errors
    /// If one is neither a file nor built in, or one of the files can't be read.
    pub fn load_order(&self, wanted: &[&str]) -> Result<ModuleOrder, ModuleError> {
        let mut walk = DependencyWalk {
            tree: self,
            order: ModuleOrder::default(),
            added: BTreeSet::new(),
            chain: vec![],
        };
        for name in wanted.iter().map(|name| ModuleName::from(*name)) {
            if self.is_built_in(&name) == Some(true) {
                walk.note_built_in(name);
            } else {
                walk.add(&name)?;
            }
        }
        Ok(walk.order)
    }

    /// Reads and decompresses a module's file, and parses its `.modinfo`.
    fn open(&self, path: &Path) -> Result<(Module, ModInfo), ModuleError> {
        let packed = read_file(path)?;
        let unpacked = compression::unpack(packed);
        let bytes = unpacked.map_err(|source| ModuleError::Compression { path: path.to_owned(), source })?;
        let described = ModInfo::of_module(&bytes);
        let info = described.map_err(|source| ModuleError::ModInfo { path: path.to_owned(), source })?;
        let file_name = file_name(path);
        let name = info.name.clone().unwrap_or_else(|| stem(&file_name).into());
        Ok((Module { name, file_name, bytes }, info))
    }

    /// The error for a module without a file.
    fn absent(&self, name: &ModuleName, needed_by: Option<ModuleName>) -> ModuleError {
        let (name, modules) = (name.clone(), self.folder.clone());
        match self.built_in {
            Some(_) => ModuleError::Absent { name, needed_by, release: self.release.clone(), modules },
            None => ModuleError::AbsentOrBuiltIn { name, needed_by, modules },
        }
    }
}

/// A depth-first walk over dependencies, which adds each module after those that it depends on.
struct DependencyWalk<'a> {
    tree: &'a ModuleTree,
    order: ModuleOrder,
    added: BTreeSet<ModuleName>,
    /// The modules from a wanted one to the one being added, each depending on the next.
    chain: Vec<ModuleName>,
}

impl DependencyWalk<'_> {
    /// Adds a module to the list of built-in ones, once.
    fn note_built_in(&mut self, name: ModuleName) {
        if !self.order.built_in.contains(&name) {
            self.order.built_in.push(name);
        }
    }

    /// Adds the dependencies of `name` and then `name`, unless they are added already or built in.
    fn add(&mut self, name: &ModuleName) -> Result<(), ModuleError> {
        if self.added.contains(name) || self.tree.is_built_in(name) == Some(true) {
            return Ok(());
        }
        self.check_chain(name)?;
        let path = self.tree.files.get(name);
        let path = path.ok_or_else(|| self.tree.absent(name, self.chain.last().cloned()))?;
        let (module, info) = self.tree.open(path)?;
        self.chain.push(name.clone());
        self.add_soft(&info.soft_before)?;
        for needed in &info.depends {
            self.add(needed)?;
        }
        self.chain.pop();
        self.added.insert(name.clone());
        self.order.load.push(module);
        Ok(())
    }

    /// Adds the soft dependencies that have a file.
    fn add_soft(&mut self, names: &[ModuleName]) -> Result<(), ModuleError> {
        for name in names {
            if self.tree.files.contains_key(name) {
                // Soft dependencies may be cyclic, unlike others; the module that closes the cycle is skipped.
                if !self.chain.contains(name) {
                    self.add(name)?;
                }
            } else if self.tree.is_built_in(name) != Some(true) {
                self.order.soft_absent.insert(name.clone());
            }
        }
        Ok(())
    }

    /// Checks that adding `name` to the chain makes it neither cyclic nor too long.
    fn check_chain(&self, name: &ModuleName) -> Result<(), ModuleError> {
        if let Some(start) = self.chain.iter().position(|known| known == name) {
            let cycle = self.chain[start..].iter().chain([name]).cloned().collect();
            return Err(ModuleError::Cycle(cycle));
        }
        match self.chain.len() {
            ..CHAIN_MAX => Ok(()),
            _ => Err(ModuleError::ChainTooLong(name.clone())),
        }
    }
}

/// Turns an I/O error into one that names the file.
fn unreadable(path: &Path) -> impl FnOnce(io::Error) -> ModuleError {
    move |source| ModuleError::Unreadable { path: path.to_owned(), source }
}

/// Reads a file of at most [`FILE_BYTES_MAX`] bytes.
fn read_file(path: &Path) -> Result<Vec<u8>, ModuleError> {
    let bytes = fs::metadata(path).map_err(unreadable(path))?.len();
    if bytes > FILE_BYTES_MAX {
        return Err(ModuleError::TooLarge { path: path.to_owned(), bytes });
    }
    fs::read(path).map_err(unreadable(path))
}

/// The path of each module below `folder`. Of two files for one name, the one in `updates/` is used, as by
/// depmod; else the one whose path sorts first.
fn files_below(folder: &Path) -> Result<BTreeMap<ModuleName, PathBuf>, ModuleError> {
    let mut paths = Vec::new();
    collect_module_files(folder, FOLDER_DEPTH_MAX, &mut paths)?;
    let updates = folder.join("updates");
    paths.sort_by_key(|path| (!path.starts_with(&updates), path.clone()));
    let mut files = BTreeMap::new();
    for path in paths {
        files.entry(stem(&file_name(&path)).into()).or_insert(path);
    }
    Ok(files)
}

/// Appends the paths of all modules in `folder` and at most `levels - 1` levels of folders below it.
fn collect_module_files(folder: &Path, levels: usize, paths: &mut Vec<PathBuf>) -> Result<(), ModuleError> {
    if levels == 0 {
        return Err(ModuleError::TooDeep { path: folder.to_owned() });
    }
    for entry in fs::read_dir(folder).map_err(unreadable(folder))? {
        let entry = entry.map_err(unreadable(folder))?;
        let path = entry.path();
        // Links to folders are not followed: `build` and `source` lead to the kernel's headers.
        if entry.file_type().map_err(unreadable(&path))?.is_dir() {
            collect_module_files(&path, levels - 1, paths)?;
        } else if is_module(&path) && path.is_file() {
            paths.push(path);
        }
    }
    Ok(())
}

/// Whether a path names a module's file, compressed or not.
fn is_module(path: &Path) -> bool {
    file_name(path).ends_with(".ko")
}

/// A path's file name without the extension of a compression.
fn file_name(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let packed = [".gz", ".xz", ".zst"].into_iter().find_map(|ending| name.strip_suffix(ending));
    packed.unwrap_or(&name).to_owned()
}

/// A file name without `.ko`.
fn stem(file_name: &str) -> &str {
    file_name.strip_suffix(".ko").unwrap_or(file_name)
}

/// Reads `modules.builtin`: a line per built-in module with the path that its file would have (kernel:
/// `Documentation/kbuild/kbuild.rst`). `None` if the file does not exist.
fn read_built_in(list: &Path) -> Result<Option<BTreeSet<ModuleName>>, ModuleError> {
    match fs::read_to_string(list) {
        Ok(text) => Ok(Some(text.lines().map(|line| stem(&file_name(Path::new(line))).into()).collect())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(unreadable(list)(error)),
    }
}

/// The kernel release that the modules below `folder` were built for, read from one of them. `None` if there are none.
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
        kernel::{compression::tests::every_compression, modinfo::tests::module},
    };
    use object::{Architecture, Endianness};
    use proptest::prelude::*;
    use tempfile::TempDir;

    /// A folder of made-up modules, each with a path and a `.modinfo` as `depends=b,c;name=a`.
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
            self.read()?.load_order(wanted)
        }

        fn check(&self, wanted: &[&str], expect: &str) {
            let order = self.order(wanted).unwrap();
            let names: Vec<_> = order.load.iter().map(|module| module.name.as_str()).collect();
            assert_eq!(names.join(" "), expect, "{wanted:?}");
        }
    }

    /// A module's file; `;` in the description stands for the zero bytes of `.modinfo`.
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
    fn each_module_comes_after_its_dependencies() {
        nvme().check(&["nvme"], "early crc64 t10_pi nvme_auth nvme_core nvme");
        nvme().check(&["nvme-core", "nvme", "nvme_core"], "early crc64 t10_pi nvme_auth nvme_core nvme");
        nvme().check(&["crc64", "nvme_auth"], "crc64 nvme_auth");
        nvme().check(&[], "");
    }

    #[test]
    fn built_in_modules_and_missing_soft_dependencies_are_listed() {
        let order = nvme().order(&["virtio", "nvme", "crc_t10dif", "virtio"]).unwrap();
        assert_eq!(order.built_in, ["virtio".into(), "crc-t10dif".into()]);
        assert_eq!(order.soft_absent, BTreeSet::from(["crct10dif".into()]));
        assert_eq!(order.load.len(), 6);
        assert_eq!(order.load[2].file_name, "t10-pi.ko");
    }

    #[test]
    fn a_missing_module_is_named_with_the_module_that_needs_it() {
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
    fn cycles_and_overlong_chains_of_dependencies_are_errors() {
        let tree =
            Tree::new("").with("a.ko", "depends=b").with("b.ko", "depends=c").with("c.ko", "depends=b");
        let error = tree.order(&["a"]).unwrap_err();
        assert_eq!(error.to_string(), "cyclic dependency of modules: b -> c -> b");
        let tree = Tree::new("").with("a.ko", "softdep=pre: b").with("b.ko", "softdep=pre: a");
        tree.check(&["a"], "b a");
        tree.check(&["b"], "a b");
        let chain = (0..=CHAIN_MAX).fold(Tree::new(""), |tree, number| {
            tree.with(&format!("m{number}.ko"), &format!("depends=m{}", number + 1))
        });
        assert!(matches!(chain.order(&["m0"]), Err(ModuleError::ChainTooLong(_))));
    }

    #[test]
    fn compressed_modules_are_read_and_those_in_updates_come_first() {
        for (ending, packed) in every_compression(&elf("depends=;name=a")) {
            let tree = Tree::new("").with_bytes(&format!("kernel/a.ko{ending}"), &packed);
            let order = tree.order(&["a"]).unwrap();
            assert_eq!(order.load[0].file_name, "a.ko", "{ending}");
            assert_eq!(order.load[0].bytes, elf("depends=;name=a"), "{ending}");
        }
        let tree = Tree::new("").with("kernel/a.ko", "depends=x").with("updates/dkms/a.ko", "depends=");
        tree.check(&["a"], "a");
    }

    #[test]
    fn files_that_are_not_modules_are_named() {
        let tree = Tree::new("").with_bytes("a.ko", b"\x7fELF").with_bytes("b.ko.xz", b"PK");
        assert!(matches!(tree.order(&["a"]), Err(ModuleError::ModInfo { .. })));
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
