//! What a name means at one place [@modelica36, ch. 5].

use daesy_graph::{Finding, Span};
use smallvec::SmallVec;

use super::class::{ElemKind, State};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{Ident, Path};

/// What a simple name means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Found {
    /// A class.
    Class {
        class: ClassId,
        /// Found in the very class the lookup began in.
        is_local: bool,
    },
    /// A component.
    Component {
        /// The class whose element it is.
        holder: ClassId,
        /// Its number among the holder's elements.
        at: u32,
        /// Found in the very class the lookup began in.
        is_local: bool,
    },
}

impl<'a> Flattener<'a> {
    /// An element of a class (short classes are followed).
    pub(crate) fn member(&mut self, class: ClassId, name: Name) -> Option<Res<Found>> {
        if class == ClassId::ROOT {
            return self.top_class(name).map(|found| found.map(|class| Found::Class { class, is_local: false }));
        }
        // A type may have functions of its own beside the predefined type it extends.
        if self.class(class).core == super::class::Core::Long
            && self.class(class).kind == crate::syntax::ClassKind::Type
            && self.expand(class).is_ok()
            && let Some(found) = self.member_of(class, name, false)
        {
            return Some(found);
        }
        let class = match self.class_use(class) {
            Ok(class) => class.class,
            Err(refused) => return Some(Err(refused)),
        };
        if self.expand(class).is_err() {
            return Some(Err(Refused));
        }
        self.member_of(class, name, false)
    }

    /// An element in the table of an expanded class, or in what is there of one being expanded.
    fn member_of(&mut self, class: ClassId, name: Name, is_local: bool) -> Option<Res<Found>> {
        let this = self.class(class);
        if this.state == State::Expanding {
            if let Some(&at) = this.own_table.get(&name) {
                let elem = this.own[at as usize].clone();
                if !elem.prefixes.is_redeclare {
                    return match elem.kind {
                        ElemKind::Class(_) => {
                            Some(self.nested(class, at).map(|class| Found::Class { class, is_local }))
                        }
                        // Components cannot be used before the class is known.
                        ElemKind::Component(_) => None,
                    };
                }
            }
            let bases = this.bases.clone();
            return bases.into_iter().find_map(|base| self.member_of(base, name, is_local));
        }
        let &at = this.table.get(&name)?;
        let elem = &this.elements[at as usize];
        match elem.kind {
            ElemKind::Component(_) => Some(Ok(Found::Component { holder: class, at, is_local })),
            ElemKind::Class(_) => {
                let (owner, own) = (elem.owner, elem.own);
                Some(self.nested(owner, own).map(|class| Found::Class { class, is_local }))
            }
        }
    }

    /// A nested class by name.
    pub(crate) fn member_class(&mut self, class: ClassId, name: Name) -> Option<Res<ClassId>> {
        match self.member(class, name)? {
            Ok(Found::Class { class, .. }) => Some(Ok(class)),
            Ok(Found::Component { .. }) => None,
            Err(refused) => Some(Err(refused)),
        }
    }

    /// The meaning of a simple name in a class: its elements, its imports, the enclosing classes, the top.
    pub(crate) fn lookup(&mut self, name: Name, scope: ClassId) -> Option<Res<Found>> {
        let mut at = scope;
        let mut is_local = true;
        while at != ClassId::ROOT {
            // An enclosing class that fails has said why; the search goes on to find more.
            let _ = self.expand(at);
            if let Some(found) = self.member_of(at, name, is_local) {
                return Some(found);
            }
            if let Some(found) = self.imported(at, name) {
                return Some(found);
            }
            if self.class(at).ast.is_some_and(|ast| ast.is_encapsulated) {
                // Only predefined types are seen from inside an encapsulated class.
                return self.predefined(name);
            }
            at = self.class(at).parent;
            is_local = false;
        }
        self.top_class(name).map(|found| found.map(|class| Found::Class { class, is_local: false }))
    }

    fn predefined(&self, name: Name) -> Option<Res<Found>> {
        let is_predefined = matches!(
            name.text(),
            "Real" | "Integer" | "Boolean" | "String" | "StateSelect" | "AssertionLevel" | "Clock" | "ExternalObject"
        );
        let &found = self.tops.get(&name).filter(|_| is_predefined)?;
        found.map(|found| found.map(|class| Found::Class { class, is_local: false }))
    }

    pub(crate) fn imported(&mut self, class: ClassId, name: Name) -> Option<Res<Found>> {
        if let Some(target) = self.class(class).named_imports.get(&name).copied() {
            let mut parts: SmallVec<[Ident; 4]> = target.path.parts.iter().copied().collect();
            if let Some(member) = target.member {
                parts.push(Ident { name: member, span: target.path.span });
            }
            return Some(self.import_path(&parts, target.path.span));
        }
        let mut first: Option<Res<Found>> = None;
        for at in 0..self.class(class).star_imports.len() {
            let path = self.class(class).star_imports[at];
            let Ok(Found::Class { class: package, .. }) = self.import_path(&path.parts, path.span) else { continue };
            if let Some(found) = self.member(package, name) {
                let found = found.map(as_foreign);
                if first.is_some_and(|first| first != found) {
                    let message = format!("`{name}` is imported from two packages");
                    let help = "import it by its full name";
                    return Some(Err(self.error_help("duplicate-import", path.span, message, help)));
                }
                first = Some(found);
            }
        }
        first
    }

    /// What an import path means, looked up from the top.
    pub(crate) fn import_path(&mut self, parts: &[Ident], span: Span) -> Res<Found> {
        let mut found = Found::Class { class: ClassId::ROOT, is_local: false };
        for (at, part) in parts.iter().enumerate() {
            let Found::Class { class, .. } = found else {
                return Err(self.error(
                    "import-path",
                    span,
                    "an import path may end in a component, not go through one",
                ));
            };
            let kind = self.class(class).kind;
            if at > 0
                && kind != crate::syntax::ClassKind::Package
                && self.class(class).core != super::class::Core::Short
            {
                let text = dotted(&parts[..at]);
                let message = format!("`{text}` is a {}, not a package to import from", super::check::kind_word(kind));
                return Err(self.error("import-path", span, message));
            }
            found = match self.member(class, part.name) {
                Some(found) => as_foreign(found?),
                None => {
                    let text = dotted(&parts[..=at]);
                    let mut finding =
                        Finding::error("unknown-class", span, format!("the import `{text}` is not known"))
                            .with_names([text]);
                    let known = self.class_names(class);
                    finding.help = Self::suggest(part.name.text(), known)
                        .or_else(|| Self::whole_library(parts[0].name.text()).filter(|_| class != ClassId::ROOT));
                    if class == ClassId::ROOT && finding.help.is_none() {
                        finding.help = Some(format!("is the library `{}` on MODELICAPATH?", part.name));
                    }
                    return Err(self.report(finding));
                }
            };
        }
        Ok(found)
    }

    /// The class that a path means in `scope`; findings say what is wrong with it.
    ///
    /// `instance` is the instance of `scope`, for modifications of classes that are declared there.
    pub(crate) fn resolve_class(&mut self, path: &Path, scope: ClassId, instance: NodeId) -> Res<ClassId> {
        match self.resolve_path(&path.parts, path.is_global, path.span, scope, instance)? {
            Found::Class { class, .. } => Ok(class),
            Found::Component { .. } => {
                let text = dotted(&path.parts);
                Err(self.error("not-a-class", path.span, format!("`{text}` is a component, not a class")))
            }
        }
    }

    /// The base class that a path means in a class being expanded.
    pub(crate) fn resolve_base(&mut self, path: &Path, scope: ClassId) -> Res<ClassId> {
        // Base classes are found without what is inherited [@modelica36, sec. 7.1.4].
        if let Some(first) = path.parts.first()
            && !path.is_global
            && !self.class(scope).own_table.contains_key(&first.name)
            && self.class(scope).bases.iter().any(|&base| self.class(base).table.contains_key(&first.name))
        {
            let message = format!("the base class `{}` is itself inherited", dotted(&path.parts));
            let help = "name it by its full name";
            return Err(self.error_help("inherited-base", path.span, message, help));
        }
        let class = self.resolve_class(path, scope, NodeId::SELF)?;
        let parent = self.class(self.class(class).parent);
        let is_replaceable = parent.own_table.get(&self.class(class).name).is_some_and(|&own| {
            let elem = &parent.own[own as usize];
            let is_this = match (elem.kind, self.class(class).ast) {
                (ElemKind::Class(source), Some(ast)) => std::ptr::eq(source.class, ast),
                _ => false,
            };
            is_this && elem.prefixes.is_replaceable
        });
        if is_replaceable {
            let message = format!("`{}` is replaceable and cannot be a base class", dotted(&path.parts));
            return Err(self.error("replaceable-base", path.span, message));
        }
        Ok(class)
    }

    /// The class or constant that a path means in `scope`.
    pub(crate) fn resolve_path(
        &mut self,
        parts: &[Ident],
        is_global: bool,
        span: Span,
        scope: ClassId,
        instance: NodeId,
    ) -> Res<Found> {
        let Some(first) = parts.first() else { return Err(Refused) };
        let start = if is_global {
            self.top_class(first.name).map(|found| found.map(|class| Found::Class { class, is_local: false }))
        } else {
            self.lookup(first.name, scope)
        };
        let Some(found) = start else { return Err(self.unknown_name(*first, scope, true)) };
        let mut found = self.bind_found(found?, *first, is_global, scope, instance)?;
        for (at, part) in parts.iter().enumerate().skip(1) {
            let Found::Class { class, .. } = found else {
                let text = dotted(&parts[..at]);
                return Err(self.error("not-a-class", span, format!("`{text}` is a component, not a class")));
            };
            found = match self.member(class, part.name) {
                Some(found) => {
                    let found = found?;
                    self.check_not_protected(&found, class, part)?;
                    match as_foreign(found) {
                        Found::Class { class, is_local } => {
                            Found::Class { class: self.bind_context(class, NodeId::NONE), is_local }
                        }
                        other => other,
                    }
                }
                None => {
                    let text = dotted(&parts[..at]);
                    let mut finding =
                        Finding::error("unknown-class", part.span, format!("`{text}` has no element `{}`", part.name))
                            .with_names([dotted(parts)]);
                    let known = self.class_names(class);
                    finding.help =
                        Self::suggest(part.name.text(), known).or_else(|| Self::whole_library(parts[0].name.text()));
                    return Err(self.report(finding));
                }
            };
        }
        Ok(found)
    }

    /// What a simple name means in an instance of `scope`: outer classes replaced by inner ones, modifications read
    /// there.
    pub(crate) fn bind_found(
        &mut self,
        found: Found,
        ident: Ident,
        is_global: bool,
        scope: ClassId,
        instance: NodeId,
    ) -> Res<Found> {
        let Found::Class { class, is_local } = found else { return Ok(found) };
        if self.has_outer_classes
            && !is_global
            && let Some(class) = self.inner_class(ident, scope, instance)?
        {
            return Ok(Found::Class { class, is_local: true });
        }
        let context = if is_local { instance } else { NodeId::NONE };
        Ok(Found::Class { class: self.bind_context(class, context), is_local })
    }

    /// The inner class that a name means which is declared `outer` where it is found: that of the nearest enclosing
    /// instance [@modelica36, sec. 5.4]. `None` if the name is not declared so, or no instance is known.
    fn inner_class(&mut self, ident: Ident, scope: ClassId, instance: NodeId) -> Res<Option<ClassId>> {
        let mut at = scope;
        let elem = loop {
            let class = self.class(at);
            if let Some(&found) = class.table.get(&ident.name) {
                break class.elements[found as usize].clone();
            }
            if at == ClassId::ROOT {
                return Ok(None);
            }
            at = class.parent;
        };
        if elem.is_component() || !elem.prefixes.is_outer {
            return Ok(None);
        }
        if instance == NodeId::SELF {
            return Err(self.unsupported(
                "outer base classes",
                ident.span,
                &format!("extending the outer `{}`", elem.name),
            ));
        }
        if !instance.is_some() {
            return Ok(None);
        }
        let mut around = self.node(instance).parent;
        while around.is_some() {
            if let Some(complex) = self.complex(around) {
                let class = self.class(complex.class);
                let found = class.table.get(&ident.name).map(|&found| class.elements[found as usize].clone());
                if let Some(inner) = found.filter(|inner| inner.prefixes.is_inner && !inner.is_component()) {
                    let class = self.nested(inner.owner, inner.own)?;
                    return Ok(Some(self.bind_context(class, around)));
                }
            }
            around = self.node(around).parent;
        }
        let message = format!("no enclosing component declares `inner {}`; the outer class itself is used", elem.name);
        let help = format!("declare `inner` class `{}` in the model", elem.name);
        self.report(Finding::warning("missing-inner", elem.span, message).with_help(help));
        Ok(None)
    }

    /// A class nested in another must not be reached from outside when it is protected.
    fn check_not_protected(&mut self, found: &Found, class: ClassId, part: &Ident) -> Res<()> {
        let core = self.class_use(class)?.class;
        let holder = self.class(core);
        let is_protected = match found {
            Found::Class { .. } => {
                holder.table.get(&part.name).is_some_and(|&at| holder.elements[at as usize].prefixes.is_protected)
            }
            Found::Component { holder, at, .. } => self.class(*holder).elements[*at as usize].prefixes.is_protected,
        };
        if is_protected {
            let message = format!("`{}` is protected in `{}`", part.name, self.class(core).full);
            return Err(self.error_help(
                "protected-access",
                part.span,
                message,
                "protected elements can be used inside their class only",
            ));
        }
        Ok(())
    }

    /// How to get the Modelica Standard Library, of which only a part is built in.
    pub(crate) fn whole_library(root: &str) -> Option<String> {
        (root == "Modelica").then(|| {
            "daesy has only a part of the Modelica Standard Library built in: get the whole one from \
             https://github.com/modelica/ModelicaStandardLibrary/releases, and name the folder that holds it in the \
             environment variable MODELICAPATH"
                .to_owned()
        })
    }

    /// Says that a name is not known, with the nearest that is.
    pub(crate) fn unknown_name(&mut self, ident: Ident, scope: ClassId, is_class: bool) -> Refused {
        let mut known: Vec<&'static str> = Vec::new();
        let mut at = scope;
        // From inside an encapsulated class nothing around it is seen.
        let mut wall: Option<(ClassId, usize)> = None;
        while at != ClassId::ROOT {
            let class = self.class(at);
            known.extend(
                class
                    .elements
                    .iter()
                    .chain(&class.own)
                    .filter(|elem| !is_class || !elem.is_component())
                    .map(|elem| elem.name.text()),
            );
            known.extend(class.named_imports.keys().map(|name| name.text()));
            let (parent, star_imports) = (class.parent, class.star_imports.clone());
            for path in star_imports {
                if let Ok(Found::Class { class, .. }) = self.import_path(&path.parts, path.span) {
                    known.extend(if is_class { self.class_names(class) } else { self.element_names(class) });
                }
            }
            if wall.is_none() && self.class(at).ast.is_some_and(|ast| ast.is_encapsulated) {
                wall = Some((at, known.len()));
            }
            at = parent;
        }
        known.extend(self.class(ClassId::ROOT).own.iter().map(|elem| elem.name.text()));
        let hidden = wall.map(|(class, n_inside)| (class, known.split_off(n_inside)));
        if is_class {
            known.extend(["Real", "Integer", "Boolean", "String"]);
        }
        let place = self.class(scope).full.clone();
        let (code, what) = if is_class { ("unknown-class", "class") } else { ("unknown-name", "name") };
        let mut finding =
            Finding::error(code, ident.span, format!("there is no {what} `{}` in `{place}` or around it", ident.name))
                .with_names([ident.name.text().to_owned()]);
        let is_hidden = hidden.filter(|(_, names)| names.contains(&ident.name.text())).map(|(class, _)| {
            let full = &self.class(class).full;
            format!("`{full}` is encapsulated, so names around it are not seen in it: import what it uses")
        });
        finding.help = is_hidden
            .or_else(|| Self::suggest(ident.name.text(), known))
            .or_else(|| is_class.then(|| format!("if `{}` is a library, is it on MODELICAPATH?", ident.name)));
        self.report(finding)
    }
}

fn as_foreign(found: Found) -> Found {
    match found {
        Found::Class { class, .. } => Found::Class { class, is_local: false },
        Found::Component { holder, at, .. } => Found::Component { holder, at, is_local: false },
    }
}

/// Identifiers joined by dots.
pub(crate) fn dotted(parts: &[Ident]) -> String {
    parts.iter().map(|part| part.name.text()).collect::<Vec<_>>().join(".")
}
