//! Where classes come from: texts, files, folders with `package.mo`, the folders of `MODELICAPATH`, embedded texts.
//!
//! The mapping of packages to files is that of the specification's section 13.4 [@modelica36]. Files are read when a
//! name is first looked up in them, so that a large library costs nothing until it is used.

use std::path::{Path as FilePath, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use daesy_graph::{FileId, Finding, SourceFile, SourceMap, Span};

use crate::file::{MAX_TEXT_BYTES, read_bytes, read_text, require_regular};
use crate::name::Name;
use crate::syntax::{ClassBody, ClassDef, ClassKind, ElementKind, StoredDefinition};

/// A text with Modelica classes, read when needed.
#[derive(Debug)]
pub struct Slot {
    name: String,
    origin: SlotOrigin,
    stored: OnceLock<Stored>,
}

#[derive(Debug)]
enum SlotOrigin {
    Text(String),
    File(PathBuf),
}

/// A text that has been read.
#[derive(Debug)]
pub struct Stored {
    /// Its classes.
    pub definition: StoredDefinition,
    /// Its number in the source map.
    pub file: FileId,
}

/// A package that is stored as a folder.
#[derive(Debug)]
pub struct Folder {
    /// `package.mo`
    pub package: Slot,
    origin: FolderOrigin,
    entries: OnceLock<Vec<Entry>>,
}

#[derive(Debug)]
enum FolderOrigin {
    Disk(PathBuf),
    Embedded,
}

/// A class stored in a folder.
#[derive(Debug)]
pub struct Entry {
    /// Name of the class.
    pub name: Name,
    /// How it is stored.
    pub kind: EntryKind,
}

/// How a class in a folder is stored.
#[derive(Debug)]
pub enum EntryKind {
    /// As one file.
    File(Slot),
    /// As a folder with `package.mo`.
    Folder(Box<Folder>),
}

/// A class with, for packages stored as folders, the folder that holds further classes.
#[derive(Clone, Copy, Debug)]
pub struct ClassSource<'a> {
    /// The definition.
    pub class: &'a ClassDef,
    /// Its folder.
    pub folder: Option<&'a Folder>,
}

impl<'a> ClassSource<'a> {
    fn inner(&self) -> impl Iterator<Item = &'a ClassDef> + use<'a> {
        let elements = match &self.class.body {
            ClassBody::Long { composition, .. } => &composition.elements[..],
            _ => &[],
        };
        elements.iter().filter_map(|element| match &element.kind {
            ElementKind::Class { class, .. } => Some(&**class),
            _ => None,
        })
    }

    /// A class inside of it.
    #[must_use]
    pub fn nested(&self, library: &Library, name: Name) -> Option<Self> {
        let stored = || self.folder?.entries().iter().find(|entry| entry.name == name)?.source(library);
        let own = self.inner().find(|class| class.name.name == name).map(|class| Self { class, folder: None });
        own.or_else(stored)
    }

    /// Names of the classes inside of it, and whether each is known to be a package.
    #[must_use]
    pub fn nested_names(&self) -> Vec<(String, bool)> {
        let own = self.inner().map(|class| (class.name.name.text().to_owned(), class.kind == ClassKind::Package));
        let stored = self.folder.into_iter().flat_map(Folder::entries);
        let stored = stored.map(|entry| (entry.name.text().to_owned(), matches!(entry.kind, EntryKind::Folder(_))));
        own.chain(stored).collect()
    }
}

/// What a name on the disk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileKind {
    /// There is nothing of this name.
    Nothing,
    /// A file.
    File,
    /// A folder.
    Folder,
    /// Something else.
    Other,
}

/// All classes that can be found by name.
#[derive(Debug, Default)]
pub struct Library {
    sources: Mutex<SourceMap>,
    findings: Mutex<Vec<Finding>>,
    files: Vec<Slot>,
    folders: Vec<Entry>,
    /// Full names of the classes in the files and folders given, where these are parts of a package.
    chosen: Vec<String>,
    search: Vec<PathBuf>,
    searched: OnceLock<Vec<Entry>>,
    embedded: Vec<Entry>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Slot {
    fn text(name: impl Into<String>, text: impl Into<String>) -> Self {
        Self { name: name.into(), origin: SlotOrigin::Text(text.into()), stored: OnceLock::new() }
    }

    fn file(path: PathBuf) -> Self {
        Self { name: path.display().to_string(), origin: SlotOrigin::File(path), stored: OnceLock::new() }
    }

    /// Reads the text, once.
    pub fn stored<'a>(&'a self, library: &Library) -> &'a Stored {
        self.stored.get_or_init(|| {
            let mut unreadable = None;
            let text = match &self.origin {
                SlotOrigin::Text(text) => text.clone(),
                SlotOrigin::File(path) => match read_bytes(path, MAX_TEXT_BYTES) {
                    Ok(bytes) => String::from_utf8(bytes)
                        .unwrap_or_else(|error| error.into_bytes().iter().map(|&byte| char::from(byte)).collect()),
                    Err(error) => {
                        unreadable = Some(error.to_string());
                        String::new()
                    }
                },
            };
            let mut sources = lock(&library.sources);
            let file = sources.add(SourceFile::new(self.name.clone(), text));
            if let Some(cause) = unreadable {
                lock(&library.findings).push(Finding::error(
                    "unreadable-file",
                    Span::new(file, 0, 0),
                    format!("cannot read `{}`: {cause}", self.name),
                ));
            }
            let parsed = crate::parser::parse(file, sources.file(file).map_or("", |source| &source.text));
            lock(&library.findings).extend(parsed.findings);
            Stored { definition: parsed.definition, file }
        })
    }
}

impl Folder {
    fn disk(path: PathBuf) -> Self {
        Self {
            package: Slot::file(path.join("package.mo")),
            origin: FolderOrigin::Disk(path),
            entries: OnceLock::new(),
        }
    }

    /// The classes stored beside `package.mo`, in the order of `package.order` where there is one.
    pub fn entries(&self) -> &[Entry] {
        self.entries.get_or_init(|| match &self.origin {
            FolderOrigin::Embedded => Vec::new(),
            FolderOrigin::Disk(path) => {
                let mut entries = list(path, false);
                if let Ok(order) = read_text(&path.join("package.order"), MAX_TEXT_BYTES) {
                    let places: rustc_hash::FxHashMap<&str, usize> =
                        order.lines().enumerate().map(|(at, line)| (line.trim(), at)).collect();
                    entries.sort_by_key(|entry| places.get(entry.name.text()).copied().unwrap_or(usize::MAX));
                }
                entries
            }
        })
    }
}

/// Classes stored in a folder of the disk. At the top level a folder may carry its version: `Modelica 4.0.0`.
fn list(path: &FilePath, is_top: bool) -> Vec<Entry> {
    let mut paths: Vec<PathBuf> =
        std::fs::read_dir(path).map(|all| all.flatten().map(|one| one.path()).collect()).unwrap_or_default();
    paths.sort();
    // The highest version of a library comes first.
    if is_top {
        paths.reverse();
    }
    let mut entries = Vec::new();
    for path in paths {
        let Some(file_name) = path.file_name().and_then(|name| name.to_str()) else { continue };
        if path.is_dir() {
            if path.join("package.mo").is_file() {
                let name = if is_top { file_name.split(' ').next().unwrap_or(file_name) } else { file_name };
                entries.push(Entry {
                    name: Name::new(name),
                    kind: EntryKind::Folder(Box::new(Folder::disk(path.clone()))),
                });
            }
        } else if let Some(name) = file_name.strip_suffix(".mo")
            && name != "package"
        {
            let name = if is_top { name.split(' ').next().unwrap_or(name) } else { name };
            entries.push(Entry { name: Name::new(name), kind: EntryKind::File(Slot::file(path.clone())) });
        }
    }
    entries
}

impl Entry {
    /// The class, read when needed. Nothing when the file does not define it.
    pub fn source<'a>(&'a self, library: &Library) -> Option<ClassSource<'a>> {
        match &self.kind {
            EntryKind::File(slot) => {
                let classes = &slot.stored(library).definition.classes;
                let class = classes.iter().find(|class| class.name.name == self.name)?;
                Some(ClassSource { class, folder: None })
            }
            EntryKind::Folder(folder) => {
                let class = folder.package.stored(library).definition.classes.first()?;
                Some(ClassSource { class, folder: Some(folder) })
            }
        }
    }
}

/// The full name of the class in a file or folder below the folder of a top-level package.
fn dotted_path(top: &FilePath, path: &FilePath) -> Option<String> {
    let path = std::fs::canonicalize(path).ok()?;
    let mut parts: Vec<String> = Vec::new();
    for part in path.strip_prefix(top.parent()?).ok()?.components() {
        let part = part.as_os_str().to_str()?;
        match part.strip_suffix(".mo") {
            Some("package") => {}
            Some(name) => parts.push(name.to_owned()),
            None if parts.is_empty() => parts.push(part.split(' ').next().unwrap_or(part).to_owned()),
            None => parts.push(part.to_owned()),
        }
    }
    Some(parts.join("."))
}

impl Library {
    /// A library without classes.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a text under the name that findings will show.
    pub fn add_text(&mut self, name: &str, text: &str) {
        self.files.push(Slot::text(name, text));
    }

    /// Adds a file, or a folder with `package.mo`. A file that lies in a package's folder brings the whole package.
    ///
    /// # Errors
    /// When the path does not exist, is no file, or is a folder without `package.mo`.
    pub fn add_path(&mut self, path: &FilePath) -> std::io::Result<()> {
        let metadata = std::fs::metadata(path)?;
        require_regular(&metadata)?;
        let mut folder = path.to_path_buf();
        let mut is_package = metadata.is_dir();
        if !is_package {
            let parent = path.parent().map_or_else(|| PathBuf::from("."), FilePath::to_path_buf);
            if parent.join("package.mo").is_file() {
                folder = parent;
                is_package = true;
            }
        } else if !folder.join("package.mo").is_file() {
            return Err(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                format!("`{}` has no package.mo", path.display()),
            ));
        }
        if !is_package {
            self.files.push(Slot::file(path.to_path_buf()));
            return Ok(());
        }
        while let Some(parent) = folder.parent().filter(|parent| parent.join("package.mo").is_file()) {
            folder = parent.to_path_buf();
        }
        let folder = std::fs::canonicalize(&folder).unwrap_or(folder);
        self.chosen.extend(dotted_path(&folder, path));
        let file_name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let name = Name::new(file_name.split(' ').next().unwrap_or(file_name));
        if !self.folders.iter().any(|entry| entry.name == name) {
            self.folders.push(Entry { name, kind: EntryKind::Folder(Box::new(Folder::disk(folder))) });
        }
        Ok(())
    }

    /// Looks for top-level classes in these folders too, the first first.
    pub fn add_search_path(&mut self, folder: impl Into<PathBuf>) {
        self.search.push(folder.into());
    }

    /// Looks in the folders named by the environment variable `MODELICAPATH` too.
    pub fn use_modelica_path(&mut self) {
        if let Some(paths) = std::env::var_os("MODELICAPATH") {
            self.search.extend(std::env::split_paths(&paths));
        }
    }

    /// A library whose last resort are the given texts, by path such as `Modelica/Electrical/package.mo`.
    #[must_use]
    pub fn with_embedded(files: &[(&str, &str)]) -> Self {
        let mut library = Self::new();
        library.embedded = embed("", files);
        library
    }

    /// The texts read so far.
    #[must_use]
    pub fn sources(&self) -> SourceMap {
        lock(&self.sources).clone()
    }

    /// The folder of the file that a span is in.
    #[must_use]
    pub fn folder_of(&self, span: Span) -> Option<PathBuf> {
        let sources = lock(&self.sources);
        let path = FilePath::new(&sources.file(span.file)?.name).canonicalize().ok()?;
        path.parent().map(FilePath::to_path_buf)
    }

    /// The bytes of a file that a model reads, such as one with a table.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn read_file(&self, path: &str) -> std::io::Result<Vec<u8>> {
        std::fs::read(path)
    }

    /// What a name on the disk is.
    #[must_use]
    pub fn file_kind(&self, path: &str) -> FileKind {
        match std::fs::metadata(path) {
            Ok(data) if data.is_file() => FileKind::File,
            Ok(data) if data.is_dir() => FileKind::Folder,
            Ok(_) => FileKind::Other,
            Err(_) => FileKind::Nothing,
        }
    }

    /// The text of a span.
    #[must_use]
    pub fn text(&self, span: Span) -> String {
        lock(&self.sources).text(span).to_owned()
    }

    /// What was found wrong while reading.
    #[must_use]
    pub fn findings(&self) -> Vec<Finding> {
        lock(&self.findings).clone()
    }

    /// The texts and files given by the user, read.
    pub fn user_files(&self) -> impl Iterator<Item = &Stored> {
        self.files.iter().map(|slot| slot.stored(self))
    }

    /// The classes that the user's files and folders are about where these are parts of a package, by full name.
    #[must_use]
    pub fn user_classes(&self) -> &[String] {
        &self.chosen
    }

    /// A top-level class beyond the user's own files.
    #[must_use]
    pub fn find_top(&self, name: Name) -> Option<ClassSource<'_>> {
        let searched = self.searched.get_or_init(|| self.search.iter().flat_map(|path| list(path, true)).collect());
        self.folders
            .iter()
            .chain(searched)
            .chain(&self.embedded)
            .filter(|entry| entry.name == name)
            .find_map(|entry| entry.source(self))
    }

    /// Names of all top-level classes beyond the user's own files.
    pub fn top_names(&self) -> impl Iterator<Item = Name> {
        let searched = self.searched.get_or_init(|| self.search.iter().flat_map(|path| list(path, true)).collect());
        self.folders.iter().chain(searched).chain(&self.embedded).map(|entry| entry.name)
    }
}

/// The entries of an embedded folder `prefix`, which is empty or ends with a slash.
fn embed(prefix: &str, files: &[(&str, &str)]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for (path, text) in files {
        let Some(rest) = path.strip_prefix(prefix) else { continue };
        match rest.split_once('/') {
            None => {
                if let Some(name) = rest.strip_suffix(".mo").filter(|&name| name != "package") {
                    entries.push(Entry { name: Name::new(name), kind: EntryKind::File(Slot::text(*path, *text)) });
                }
            }
            Some((folder, _)) => {
                let inner = format!("{prefix}{folder}/");
                let package = files.iter().find(|(path, _)| path.strip_prefix(&inner) == Some("package.mo"));
                if let Some((path, text)) = package
                    && !entries.iter().any(|entry| entry.name.text() == folder)
                {
                    entries.push(Entry {
                        name: Name::new(folder),
                        kind: EntryKind::Folder(Box::new(Folder {
                            package: Slot::text(*path, *text),
                            origin: FolderOrigin::Embedded,
                            entries: OnceLock::from(embed(&inner, files)),
                        })),
                    });
                }
            }
        }
    }
    entries
}
