//! Classes as they are meant at one place: elements of base classes included, redeclarations of classes applied.
//!
//! A class that nothing modifies is made once and shared by all its uses. Only redeclarations and modifications of
//! *nested classes* make a class of its own ([`Flattener::specialize`]); values and attributes travel beside it as
//! layers.

use std::rc::Rc;
use std::sync::Arc;

use daesy_graph::flat::Enumeration;
use daesy_graph::{Finding, Span};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

use super::modifier::{Layer, Layers};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::library::{ClassSource, Folder};
use crate::name::Name;
use crate::syntax::{
    Argument, Causality, ClassBody, ClassDef, ClassKind, ComponentDecl, Constraint, Element, ElementKind,
    ElementPrefixes, ExprKind, Ident, Import, Modification, ModificationValue, Path, Subscript,
};

/// What a class is at its core.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Core {
    /// Written with elements and sections.
    Long,
    /// Another name for a class, with modifications.
    Short,
    /// `Real`
    Real,
    /// `Integer`
    Integer,
    /// `Boolean`
    Boolean,
    /// `String`
    String,
    /// An enumeration.
    Enumeration(Arc<Enumeration>),
    /// The base class of all external objects.
    ExternalObject,
    /// A class of external objects, made by its constructor.
    Object,
    /// Known by name, refused when used.
    Unsupported(&'static str),
}

impl Core {
    /// Whether values of this class are scalars.
    pub(crate) const fn is_primitive(&self) -> bool {
        matches!(self, Self::Real | Self::Integer | Self::Boolean | Self::String | Self::Enumeration(_))
    }
}

/// How far a class has been worked out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum State {
    New,
    Expanding,
    Expanded,
    Failed,
}

/// What an element of a class declares.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ElemKind<'a> {
    /// A component.
    Component(&'a ComponentDecl),
    /// A class.
    Class(ClassSource<'a>),
}

/// An element of a class.
#[derive(Clone, Debug)]
pub(crate) struct Elem<'a> {
    pub name: Name,
    pub kind: ElemKind<'a>,
    pub prefixes: ElementPrefixes,
    pub constraint: Option<&'a Constraint>,
    /// The class it is written in.
    pub owner: ClassId,
    /// Its number among the owner's own elements.
    pub own: u32,
    /// Modifications by the extends clauses it came through, outermost first.
    pub layers: Layers,
    /// Came through a `protected` extends clause.
    pub span: Span,
}

impl Elem<'_> {
    /// Whether it is a component.
    pub(crate) const fn is_component(&self) -> bool {
        matches!(self.kind, ElemKind::Component(_))
    }

    /// Whether it is annotated with `Evaluate = true`: its value may be used while the model is laid out.
    pub(crate) fn is_evaluated(&self) -> bool {
        let ElemKind::Component(decl) = self.kind else { return false };
        decl.annotation.as_deref().is_some_and(|annotation| is_true(annotation, "Evaluate"))
    }
}

/// Whether an annotation says `name = true`.
pub(crate) fn is_true(annotation: &Modification, name: &str) -> bool {
    annotation.args.iter().any(|argument| match argument {
        Argument::Modify { name: path, modification: Some(one), .. } => {
            path.parts.last().is_some_and(|part| part.name.text() == name)
                && matches!(&one.value, Some(ModificationValue::Expr(expr))
                    if matches!(expr.kind, ExprKind::Boolean(true)))
        }
        _ => false,
    })
}

/// One step in the chain of short classes from a type name to the class that is meant.
#[derive(Clone, Debug, Default)]
pub(crate) struct UseItem<'a> {
    /// Modifications at this step, outermost first. The dimensions of this and later steps index their values.
    pub layers: Layers,
    /// Dimensions at this step.
    pub dims: &'a [Subscript],
    /// Where the dimensions are read.
    pub scope: Option<ClassId>,
}

/// A class with everything its short names say.
#[derive(Clone, Debug)]
pub(crate) struct ClassUse<'a> {
    /// A long class, a predefined type or an enumeration.
    pub class: ClassId,
    /// The chain, outermost first.
    pub items: SmallVec<[UseItem<'a>; 1]>,
    /// `input` or `output` in a short class.
    pub causality: Option<Causality>,
    /// One of the names is that of a connector.
    pub is_connector: bool,
    /// The outermost name is partial.
    pub is_partial: bool,
    /// A type with a function `equalityConstraint` of its own.
    pub constrained: Option<ClassId>,
}

impl ClassUse<'_> {
    /// All layers of the chain, outermost first.
    pub(crate) fn layers(&self) -> Layers {
        self.items.iter().flat_map(|item| item.layers.iter().cloned()).collect()
    }
}

/// What an import clause makes known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ImportTarget<'a> {
    pub path: &'a Path,
    /// A name after the path, from `import A.{b, c}`.
    pub member: Option<Name>,
}

/// A class at one place.
pub(crate) struct Class<'a> {
    pub name: Name,
    pub full: Arc<str>,
    pub kind: ClassKind,
    pub core: Core,
    pub ast: Option<&'a ClassDef>,
    pub folder: Option<&'a Folder>,
    /// The class it is written in, as that is meant at this place.
    pub parent: ClassId,
    /// The instance of the parent in which a short class's modifications are read.
    pub context: NodeId,
    /// Modifications from outside, outermost first; they override what is written in the class.
    pub outer: Vec<Layer>,
    /// Modifications of the constraining class; what is written in the class overrides them.
    pub inner: Vec<Layer>,
    /// The inherited class that `class extends` extends.
    pub original: Option<ClassId>,
    pub state: State,
    pub own: Vec<Rc<Elem<'a>>>,
    pub own_table: FxHashMap<Name, u32>,
    pub nested: Vec<Option<Res<ClassId>>>,
    pub elements: Vec<Rc<Elem<'a>>>,
    pub table: FxHashMap<Name, u32>,
    /// For each element, its number among the components.
    pub child_of: Vec<u32>,
    pub components: Vec<u32>,
    pub named_imports: FxHashMap<Name, ImportTarget<'a>>,
    pub star_imports: Vec<&'a Path>,
    pub bases: Vec<ClassId>,
    /// The predefined type this class extends.
    pub primitive: Option<Rc<ClassUse<'a>>>,
    pub use_cache: Option<Res<Rc<ClassUse<'a>>>>,
    pub is_checked: bool,
}

impl<'a> Class<'a> {
    pub(crate) fn new(name: Name, full: Arc<str>, kind: ClassKind, core: Core, parent: ClassId) -> Self {
        Self {
            name,
            full,
            kind,
            core,
            ast: None,
            folder: None,
            parent,
            context: NodeId::NONE,
            outer: Vec::new(),
            inner: Vec::new(),
            original: None,
            state: State::New,
            own: Vec::new(),
            own_table: FxHashMap::default(),
            nested: Vec::new(),
            elements: Vec::new(),
            table: FxHashMap::default(),
            child_of: Vec::new(),
            components: Vec::new(),
            named_imports: FxHashMap::default(),
            star_imports: Vec::new(),
            bases: Vec::new(),
            primitive: None,
            use_cache: None,
            is_checked: false,
        }
    }

    /// Where the class's name is written.
    pub(crate) fn span(&self) -> Span {
        self.ast.map_or(Span::NONE, |ast| ast.name.span)
    }
}

/// What the extended class brings to an elaboration.
struct ExtendsClause<'a> {
    base: ClassId,
    layer: Option<Layer>,
    span: Span,
    is_protected: bool,
    is_class_extends: bool,
    path: Option<&'a Path>,
}

impl<'a> Flattener<'a> {
    pub(crate) fn class(&self, id: ClassId) -> &Class<'a> {
        &self.classes[id.0 as usize]
    }

    pub(crate) fn class_mut(&mut self, id: ClassId) -> &mut Class<'a> {
        &mut self.classes[id.0 as usize]
    }

    pub(crate) fn push_class(&mut self, class: Class<'a>) -> ClassId {
        // A limit that is met here ends the work at the next thing that is asked for.
        let _ = self.spend(1, class.span());
        self.classes.push(class);
        ClassId(self.classes.len() as u32 - 1)
    }

    /// The class of top-level classes, and the predefined types.
    pub(crate) fn make_root(&mut self) {
        let mut root = Class::new(Name::new(""), Arc::from(""), ClassKind::Package, Core::Long, ClassId::ROOT);
        root.state = State::Expanded;
        self.push_class(root);
        let clock_type = self.marks.clock_type.clone();
        let mut builtin = |name: &str, core: Core| {
            let class = Class::new(Name::new(name), Arc::from(name), ClassKind::Type, core, ClassId::ROOT);
            let id = self.push_class(class);
            self.class_mut(id).state = State::Expanded;
            self.tops.insert(Name::new(name), Some(Ok(id)));
            id
        };
        let real = builtin("Real", Core::Real);
        let integer = builtin("Integer", Core::Integer);
        let boolean = builtin("Boolean", Core::Boolean);
        let string = builtin("String", Core::String);
        let mut enumeration = |name: &str, literals: &[&str]| {
            let literals = literals.iter().map(|&literal| literal.to_owned()).collect();
            builtin(name, Core::Enumeration(Arc::new(Enumeration { name: name.to_owned(), literals })));
        };
        enumeration("StateSelect", &["never", "avoid", "default", "prefer", "always"]);
        enumeration("AssertionLevel", &["warning", "error"]);
        builtin("Clock", Core::Enumeration(clock_type));
        builtin("ExternalObject", Core::ExternalObject);
        (self.real, self.integer, self.boolean, self.string) = (real, integer, boolean, string);
        // The user's classes: those without `within` at the top, the others when their package is met.
        let library = self.library;
        for stored in library.user_files() {
            let within: String = stored
                .definition
                .within
                .iter()
                .flat_map(|path| &path.parts)
                .map(|part| part.name.text())
                .collect::<Vec<_>>()
                .join(".");
            for class in &stored.definition.classes {
                if within.is_empty() {
                    let source = ClassSource { class, folder: None };
                    self.add_own(ClassId::ROOT, class_elem(source, ClassId::ROOT));
                } else {
                    self.within.entry(within.clone()).or_default().push(class);
                }
            }
        }
        // Packages that exist only by their members' `within` clauses are not invented: lookup will say what is
        // missing.
    }

    /// A top-level class.
    pub(crate) fn top_class(&mut self, name: Name) -> Option<Res<ClassId>> {
        if let Some(&found) = self.tops.get(&name) {
            return found;
        }
        let found = if let Some(&at) = self.class(ClassId::ROOT).own_table.get(&name) {
            Some(self.nested(ClassId::ROOT, at))
        } else {
            let library = self.library;
            library.find_top(name).map(|source| Ok(self.class_of(source, ClassId::ROOT)))
        };
        self.tops.insert(name, found);
        found
    }

    /// A class as written in `parent`.
    fn class_of(&mut self, source: ClassSource<'a>, parent: ClassId) -> ClassId {
        let ast = source.class;
        let name = ast.name.name;
        let full: Arc<str> = if parent == ClassId::ROOT {
            Arc::from(name.text())
        } else {
            Arc::from(format!("{}.{name}", self.class(parent).full))
        };
        let core = match &ast.body {
            ClassBody::Long { .. } => Core::Long,
            ClassBody::Short { .. } => Core::Short,
            ClassBody::Enumeration(Some(literals)) => {
                let mut seen = rustc_hash::FxHashSet::default();
                for literal in literals {
                    if !seen.insert(literal.name.name) {
                        let message = format!("the enumeration `{full}` has two literals `{}`", literal.name.name);
                        self.error("duplicate-name", literal.name.span, message);
                    }
                    if matches!(literal.name.name.text(), "quantity" | "min" | "max" | "start" | "fixed") {
                        let message = format!("`{}` is an attribute and cannot be a literal", literal.name.name);
                        self.error("reserved-literal", literal.name.span, message);
                    }
                }
                let literals = literals.iter().map(|literal| literal.name.name.text().to_owned()).collect();
                Core::Enumeration(Arc::new(Enumeration { name: full.to_string(), literals }))
            }
            ClassBody::Enumeration(None) => {
                Core::Enumeration(Arc::new(Enumeration { name: full.to_string(), literals: Vec::new() }))
            }
            ClassBody::Derivative { .. } => Core::Unsupported("functions defined as `der(f, x)`"),
        };
        let mut class = Class::new(name, full, ast.kind, core, parent);
        class.ast = Some(ast);
        class.folder = source.folder;
        self.push_class(class)
    }

    fn add_own(&mut self, id: ClassId, mut elem: Elem<'a>) {
        if matches!(elem.name.text(), "Real" | "Integer" | "Boolean" | "String") {
            let message = format!("`{}` is a predefined type and cannot be declared", elem.name);
            self.error_help("reserved-name", elem.span, message, "choose another name");
            return;
        }
        let class = self.class_mut(id);
        elem.own = class.own.len() as u32;
        match class.own_table.entry(elem.name) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(elem.own);
                class.own.push(Rc::new(elem));
                class.nested.push(None);
            }
            std::collections::hash_map::Entry::Occupied(place) => {
                let first = class.own[*place.get() as usize].span;
                let full = class.full.clone();
                let place = if full.is_empty() { "at the top level".to_owned() } else { format!("in `{full}`") };
                let finding =
                    Finding::error("duplicate-name", elem.span, format!("`{}` is declared twice {place}", elem.name))
                        .with_label(first, "first declared here")
                        .with_help("rename one of the two");
                self.report(finding);
            }
        }
    }

    /// A nested class of `owner`, by its number among the owner's own elements.
    pub(crate) fn nested(&mut self, owner: ClassId, own: u32) -> Res<ClassId> {
        if let Some(found) = self.class(owner).nested[own as usize] {
            return found;
        }
        let elem = self.class(owner).own[own as usize].clone();
        let ElemKind::Class(source) = elem.kind else { return Err(Refused) };
        let plain = self.class_of(source, owner);
        self.constrain(&elem, plain);
        // Set before redeclarations are looked at: they may name the class itself.
        self.class_mut(owner).nested[own as usize] = Some(Ok(plain));
        let layers: Vec<Layer> = {
            let class = self.class(owner);
            class.outer.iter().chain(&class.inner).filter_map(|layer| self.layer_child(layer, elem.name)).collect()
        };
        let result = if layers.is_empty() { Ok(plain) } else { self.apply_to_class(&elem, plain, &layers) };
        self.class_mut(owner).nested[own as usize] = Some(result);
        result
    }

    /// Applies the modifications of the constraining class to the declaration itself: they hold there as in every
    /// redeclaration, and what is written in the class overrides them [@modelica36, sec. 7.3.2].
    fn constrain(&mut self, elem: &Elem<'a>, id: ClassId) {
        if let Some(modification) = elem.constraint.and_then(|constraint| constraint.modification.as_deref()) {
            let mods = self.mod_tree(modification);
            let inner = Layer::new(mods, elem.owner, NodeId::SELF);
            self.class_mut(id).inner.push(inner);
        }
    }

    /// A class with modifications and redeclarations from outside.
    fn apply_to_class(&mut self, elem: &Elem<'a>, plain: ClassId, layers: &[Layer]) -> Res<ClassId> {
        let Some(at) = layers.iter().position(|layer| self.modifier(layer.mods).redeclare.is_some()) else {
            if layers.is_empty() {
                return Ok(plain);
            }
            let ElemKind::Class(source) = elem.kind else { return Err(Refused) };
            let id = self.class_of(source, elem.owner);
            self.class_mut(id).outer = layers.to_vec();
            self.constrain(elem, id);
            return Ok(id);
        };
        let layer = layers[at].clone();
        let element = self.modifier(layer.mods).redeclare.ok_or(Refused)?;
        let ElementKind::Class { class: ast, constraint: new_constraint, .. } = &element.kind else {
            let message = format!("`{}` is a class and cannot be redeclared as a component", elem.name);
            return Err(self.error("redeclare-kind", element.span, message));
        };
        let below_layer = layers[at + 1..].iter().find(|layer| self.modifier(layer.mods).redeclare.is_some()).cloned();
        let below = below_layer.as_ref().and_then(|layer| self.modifier(layer.mods).redeclare);
        let (is_replaceable, is_final) = match below.map(|element| &element.kind) {
            Some(ElementKind::Class { prefixes, .. }) => (prefixes.is_replaceable, prefixes.is_final),
            _ => (elem.prefixes.is_replaceable, elem.prefixes.is_final),
        };
        if is_final || !is_replaceable {
            let what = if is_final { "final" } else { "not replaceable" };
            let finding = Finding::error(
                "not-replaceable",
                element.span,
                format!("class `{}` is {what} and cannot be redeclared", elem.name),
            )
            .with_label(elem.span, "declared here")
            .with_help("declare it `replaceable`");
            return Err(self.report(finding));
        }
        let id = self.class_of(ClassSource { class: ast, folder: None }, layer.scope);
        self.class_mut(id).context = layer.instance;
        self.class_mut(id).outer = layers[..at].to_vec();
        if matches!(&ast.body, ClassBody::Long { extends: Some(_), .. }) {
            let original = self.apply_to_class(elem, plain, &layers[at + 1..])?;
            self.class_mut(id).original = Some(original);
        }
        // Modifications of the constraining class hold for every redeclaration [@modelica36, sec. 7.3.2], those of a
        // later one before those of an earlier one.
        if let Some(modification) = new_constraint.as_deref().and_then(|one| one.modification.as_deref()) {
            let mods = self.mod_tree(modification);
            self.class_mut(id).inner.push(Layer { mods, is_field: false, ..layer.clone() });
        }
        for lower in &layers[at + 1..] {
            if let Some(ElementKind::Class { constraint: Some(constraint), .. }) =
                self.modifier(lower.mods).redeclare.map(|element| &element.kind)
                && let Some(modification) = constraint.modification.as_deref()
            {
                let mods = self.mod_tree(modification);
                self.class_mut(id).inner.push(Layer { mods, is_field: false, ..lower.clone() });
            }
        }
        let constraining = match (elem.constraint, elem.kind) {
            (Some(constraint), _) => constraint.modification.as_deref(),
            (None, ElemKind::Class(source)) => match &source.class.body {
                ClassBody::Short { modification, .. } => modification.as_deref(),
                _ => None,
            },
            _ => None,
        };
        if let Some(modification) = constraining {
            let mods = self.mod_tree(modification);
            let inner = Layer::new(mods, elem.owner, NodeId::SELF);
            self.class_mut(id).inner.push(inner);
        }
        // A redeclaration below may have narrowed the constraint.
        if let (Some(layer), Some(ElementKind::Class { constraint: Some(constraint), .. })) =
            (&below_layer, below.map(|element| &element.kind))
            && let Ok(constraint) = self.resolve_class(&constraint.base, layer.scope, layer.instance)
        {
            let pending = super::PendingConstraint { constraint, new: id, name: elem.name, span: element.span };
            self.pending_constraints.push(pending);
        }
        self.check_class_redeclare(elem, plain, id, element.span);
        Ok(id)
    }

    /// Declares what is written in the class itself.
    fn declare(&mut self, id: ClassId) {
        let Some(ast) = self.class(id).ast else { return };
        let ClassBody::Long { composition, .. } = &ast.body else { return };
        for element in &composition.elements {
            match &element.kind {
                ElementKind::Import(import) => self.add_import(id, import),
                ElementKind::Extends { .. } => {}
                ElementKind::Class { prefixes, class, constraint } => {
                    let mut elem = class_elem(ClassSource { class, folder: None }, id);
                    elem.prefixes = *prefixes;
                    elem.prefixes.is_final |= class.is_final;
                    elem.constraint = constraint.as_deref();
                    self.has_outer_classes |= prefixes.is_outer;
                    self.add_own(id, elem);
                }
                ElementKind::Component { prefixes, component, constraint } => {
                    let elem = Elem {
                        name: component.name.name,
                        kind: ElemKind::Component(component),
                        prefixes: *prefixes,
                        constraint: constraint.as_deref(),
                        owner: id,
                        own: 0,
                        layers: Layers::new(),
                        span: component.name.span,
                    };
                    self.add_own(id, elem);
                }
            }
        }
        let library = self.library;
        if let Some(folder) = self.class(id).folder {
            for entry in folder.entries() {
                if self.class(id).own_table.contains_key(&entry.name) {
                    continue;
                }
                if let Some(source) = entry.source(library) {
                    self.add_own(id, class_elem(source, id));
                }
            }
        }
        let full = self.class(id).full.clone();
        if let Some(added) = self.within.get(&*full).cloned() {
            for class in added {
                if !self.class(id).own_table.contains_key(&class.name.name) {
                    self.add_own(id, class_elem(ClassSource { class, folder: None }, id));
                }
            }
        }
    }

    fn add_import(&mut self, id: ClassId, import: &'a Import) {
        let mut add = |name: Ident, path: &'a Path, member: Option<Name>| {
            let old = self.class_mut(id).named_imports.insert(name.name, ImportTarget { path, member });
            if old.is_some() {
                let message = format!("two import clauses bring the name `{}`", name.name);
                self.error("duplicate-import", name.span, message);
            }
        };
        match import {
            Import::Qualified(path) => {
                if let Some(&last) = path.parts.last() {
                    add(last, path, None);
                }
            }
            Import::Renamed { name, path } => add(*name, path, None),
            Import::Listed { path, names } => {
                for name in names {
                    add(*name, path, Some(name.name));
                }
            }
            Import::Unqualified(path) => self.class_mut(id).star_imports.push(path),
        }
    }

    /// Works a class out: its own elements and those of its base classes.
    pub(crate) fn expand(&mut self, id: ClassId) -> Res<()> {
        match self.class(id).state {
            State::Expanded | State::Expanding => return Ok(()),
            State::Failed => return Err(Refused),
            State::New => {}
        }
        if self.expand_depth > self.options.max_depth {
            let span = self.class(id).span();
            self.class_mut(id).state = State::Failed;
            return Err(self.limit("the depth of base classes", self.options.max_depth, span));
        }
        self.expand_depth += 1;
        self.class_mut(id).state = State::Expanding;
        let result = self.expand_inner(id);
        self.expand_depth -= 1;
        self.class_mut(id).state = if result.is_ok() { State::Expanded } else { State::Failed };
        result
    }

    fn expand_inner(&mut self, id: ClassId) -> Res<()> {
        self.declare(id);
        let Some(ast) = self.class(id).ast else { return Ok(()) };
        let ClassBody::Long { extends, composition } = &ast.body else { return Ok(()) };
        let redeclared: Vec<&'a Element> =
            composition.elements.iter().filter(|element| is_redeclaring(element)).collect();
        let redeclared_names: Vec<(Name, Span)> =
            redeclared.iter().filter_map(|element| declared_name(element)).map(|name| (name.name, name.span)).collect();
        let redeclare_layer =
            (!redeclared.is_empty()).then(|| Layer::new(self.redeclare_tree(&redeclared), id, NodeId::SELF));
        let mut failed = false;
        let mut elements: Vec<Rc<Elem<'a>>> = Vec::new();
        let mut table: FxHashMap<Name, u32> = FxHashMap::default();
        if let (Some(modification), Some(original)) = (extends, self.class(id).original) {
            let mods = self.mod_tree(modification);
            let layer = Layer::new(mods, id, NodeId::SELF);
            let clause = ExtendsClause {
                base: original,
                layer: Some(layer),
                span: ast.name.span,
                is_protected: false,
                is_class_extends: true,
                path: None,
            };
            failed |= self.inherit(id, &clause, redeclare_layer.as_ref(), &mut elements, &mut table).is_err();
        }
        let mut own = 0;
        for element in &composition.elements {
            match &element.kind {
                ElementKind::Import(_) => {}
                ElementKind::Extends { base, modification, is_protected, .. } => {
                    let Ok(base_class) = self.resolve_base(base, id) else {
                        failed = true;
                        continue;
                    };
                    let layer = modification
                        .as_deref()
                        .map(|modification| Layer::new(self.mod_tree(modification), id, NodeId::SELF));
                    let clause = ExtendsClause {
                        base: base_class,
                        layer,
                        span: base.span,
                        is_protected: *is_protected,
                        is_class_extends: false,
                        path: Some(base),
                    };
                    failed |= self.inherit(id, &clause, redeclare_layer.as_ref(), &mut elements, &mut table).is_err();
                }
                ElementKind::Class { .. } | ElementKind::Component { .. } => {
                    // Own elements in the order of their declaration; a duplicate was reported and left out.
                    let Some(name) = declared_name(element) else { continue };
                    let Some(elem) = self.class(id).own.get(own).cloned() else { continue };
                    if elem.name != name.name || elem_span(&elem) != name.span {
                        continue;
                    }
                    own += 1;
                    if redeclared_names.iter().any(|&(redeclared, span)| redeclared == elem.name && span == name.span) {
                        continue;
                    }
                    self.add_element(id, elem, &mut elements, &mut table);
                }
            }
        }
        while let Some(elem) = self.class(id).own.get(own).cloned() {
            own += 1;
            self.add_element(id, elem, &mut elements, &mut table);
        }
        if !failed {
            failed = self.check_redeclared(id, &redeclared_names, &elements, &table).is_err();
        }
        let class = self.class_mut(id);
        class.elements = elements;
        class.table = table;
        for at in 0..class.elements.len() {
            if class.elements[at].is_component() {
                class.child_of.push(class.components.len() as u32);
                class.components.push(at as u32);
            } else {
                class.child_of.push(u32::MAX);
            }
        }
        if failed { Err(Refused) } else { Ok(()) }
    }

    /// What a class redeclares must be in a base class, and not become public.
    fn check_redeclared(
        &mut self,
        id: ClassId,
        redeclared: &[(Name, Span)],
        elements: &[Rc<Elem<'a>>],
        table: &FxHashMap<Name, u32>,
    ) -> Res<()> {
        let mut result = Ok(());
        for &(name, span) in redeclared {
            if let Some(&at) = table.get(&name) {
                let is_public = self
                    .class(id)
                    .own_table
                    .get(&name)
                    .is_some_and(|&own| !self.class(id).own[own as usize].prefixes.is_protected);
                if elements[at as usize].prefixes.is_protected && is_public {
                    let message = format!("`{name}` is protected and cannot be redeclared as public");
                    self.error("protected-redeclare", span, message);
                }
            } else {
                let finding = Finding::error(
                    "redeclare-unknown",
                    span,
                    format!(
                        "`redeclare {name}`: no base class of `{}` has an element of this name",
                        self.class(id).full
                    ),
                );
                result = Err(self.report(finding));
            }
        }
        result
    }

    fn add_element(
        &mut self,
        id: ClassId,
        elem: Rc<Elem<'a>>,
        elements: &mut Vec<Rc<Elem<'a>>>,
        table: &mut FxHashMap<Name, u32>,
    ) {
        if let Some(&at) = table.get(&elem.name) {
            let old = elements[at as usize].clone();
            if self.same_declaration(&old, &elem) {
                // The same element by two ways: it must be modified in the same way.
                let words = |this: &Self, elem: &Elem<'a>| -> Vec<String> {
                    let spans = elem.layers.iter().map(|layer| this.modifier(layer.mods).span);
                    spans.map(|span| this.library.text(span).split_whitespace().collect()).collect()
                };
                if elem.layers.iter().map(|layer| layer.mods).eq(old.layers.iter().map(|layer| layer.mods))
                    || words(self, &old) == words(self, &elem)
                {
                    return;
                }
                let finding = Finding::error(
                    "duplicate-name",
                    elem.span,
                    format!("`{}` is inherited twice in `{}` and modified differently", elem.name, self.class(id).full),
                )
                .with_help("modify it in one of the extends clauses only, or in both in the same way");
                self.report(finding);
                return;
            }
            if let Some(says_more) = self.fuller_declaration(&old, &elem) {
                let full = self.class(id).full.clone();
                let message =
                    format!("`{}` is inherited twice in `{full}`; the declaration that says more counts", elem.name);
                self.report(
                    Finding::warning("duplicate-name", elem.span, message).with_label(old.span, "the other one"),
                );
                let mut kept = Elem::clone(if says_more { &elem } else { &old });
                kept.layers = if elem.layers.is_empty() { old.layers.clone() } else { elem.layers.clone() };
                elements[at as usize] = Rc::new(kept);
                return;
            }
            let finding = Finding::error(
                "duplicate-name",
                elem.span,
                format!("`{}` is inherited twice in `{}`, and the declarations differ", elem.name, self.class(id).full),
            )
            .with_label(old.span, "the other declaration")
            .with_help("only identical declarations may come from several places; rename one, or use `redeclare`");
            self.report(finding);
            return;
        }
        table.insert(elem.name, elements.len() as u32);
        elements.push(elem);
    }

    /// Takes over the elements of a base class.
    fn inherit(
        &mut self,
        id: ClassId,
        clause: &ExtendsClause<'a>,
        redeclare: Option<&Layer>,
        elements: &mut Vec<Rc<Elem<'a>>>,
        table: &mut FxHashMap<Name, u32>,
    ) -> Res<()> {
        let base_use = self.class_use(clause.base)?;
        if self.class(base_use.class).core == Core::ExternalObject {
            self.class_mut(id).core = Core::Object;
            return Ok(());
        }
        let own_layers: Layers = redeclare.into_iter().chain(clause.layer.as_ref()).cloned().collect();
        let mut layers = own_layers.clone();
        layers.extend(base_use.layers());
        if self.class(base_use.class).core.is_primitive() {
            let mut chain = ClassUse::clone(&base_use);
            chain.items.insert(0, UseItem { layers: own_layers, dims: &[], scope: None });
            self.class_mut(id).primitive = Some(Rc::new(chain));
            return Ok(());
        }
        if self.class(base_use.class).state == State::Expanding {
            let finding = Finding::error(
                "cyclic-inheritance",
                clause.span,
                format!("`{}` extends itself, directly or through other classes", self.class(id).full),
            )
            .with_help("a class cannot be its own base");
            return Err(self.report(finding));
        }
        if let Some(path) = clause.path {
            self.check_base(id, base_use.class, path)?;
        }
        let mut class_layers: Vec<Layer> = self.class(id).outer.iter().chain(&self.class(id).inner).cloned().collect();
        class_layers.extend(layers.iter().cloned());
        let base = self.specialize(base_use.class, &class_layers)?;
        self.expand(base)?;
        // Names in the clause must exist in the base class.
        if let Some(layer) = &clause.layer {
            self.check_layer_names(base, layer, false)?;
        }
        self.class_mut(id).bases.push(base);
        for at in 0..self.class(base).elements.len() {
            let elem = self.class(base).elements[at].clone();
            let added: Layers = layers.iter().filter_map(|layer| self.layer_child(layer, elem.name)).collect();
            let elem = if added.is_empty() && !clause.is_protected {
                elem
            } else {
                let mut changed = Elem::clone(&elem);
                let mut all = added;
                all.extend(changed.layers.iter().cloned());
                changed.layers = all;
                changed.prefixes.is_protected |= clause.is_protected;
                Rc::new(changed)
            };
            if clause.is_class_extends && table.contains_key(&elem.name) {
                continue;
            }
            self.add_element(id, elem, elements, table);
        }
        Ok(())
    }

    /// Names of the classes in a class, for suggestions.
    pub(crate) fn class_names(&mut self, id: ClassId) -> Vec<&'static str> {
        let _ = self.expand(id);
        let class = self.class(id);
        class
            .own
            .iter()
            .chain(&class.elements)
            .filter(|elem| !elem.is_component())
            .map(|elem| elem.name.text())
            .collect()
    }

    /// Names of all elements in a class, for suggestions.
    pub(crate) fn element_names(&self, id: ClassId) -> Vec<&'static str> {
        self.class(id).elements.iter().map(|elem| elem.name.text()).collect()
    }
}

/// Whether an element stands for one of a base class.
fn is_redeclaring(element: &Element) -> bool {
    match &element.kind {
        ElementKind::Class { prefixes, class, .. } => {
            prefixes.is_redeclare || matches!(&class.body, ClassBody::Long { extends: Some(_), .. })
        }
        ElementKind::Component { prefixes, .. } => prefixes.is_redeclare,
        _ => false,
    }
}

/// The name of the class or component that an element declares.
fn declared_name(element: &Element) -> Option<Ident> {
    match &element.kind {
        ElementKind::Class { class, .. } => Some(class.name),
        ElementKind::Component { component, .. } => Some(component.name),
        _ => None,
    }
}

fn elem_span(elem: &Elem<'_>) -> Span {
    elem.span
}

fn class_elem<'a>(source: ClassSource<'a>, owner: ClassId) -> Elem<'a> {
    Elem {
        name: source.class.name.name,
        kind: ElemKind::Class(source),
        prefixes: ElementPrefixes { is_final: source.class.is_final, ..ElementPrefixes::default() },
        constraint: None,
        owner,
        own: 0,
        layers: Layers::new(),
        span: source.class.name.span,
    }
}

impl Flattener<'_> {
    /// Whether two declarations say the same: the very same one, or the same words. Descriptions and annotations do not
    /// count [@modelica36, sec. 7.1].
    fn same_declaration(&self, left: &Elem<'_>, right: &Elem<'_>) -> bool {
        match (left.kind, right.kind) {
            (ElemKind::Component(one), ElemKind::Component(other)) => {
                std::ptr::eq(one, other)
                    || (self.type_words(one) == self.type_words(other)
                        && one.variability == other.variability
                        && one.causality == other.causality
                        && one.connector_prefix == other.connector_prefix
                        && self.declaration_words(one) == self.declaration_words(other))
            }
            (ElemKind::Class(one), ElemKind::Class(other)) => {
                std::ptr::eq(one.class, other.class)
                    || self.without_spaces(one.class.span) == self.without_spaces(other.class.span)
                    || self.same_short_class(one.class, other.class)
            }
            _ => false,
        }
    }

    /// Whether the second of two declarations says all that the first one does, and more; `Some(false)` for the other
    /// way round, nothing when they say different things.
    fn fuller_declaration(&self, first: &Elem<'_>, second: &Elem<'_>) -> Option<bool> {
        let (ElemKind::Component(one), ElemKind::Component(other)) = (first.kind, second.kind) else { return None };
        let is_same = self.type_words(one) == self.type_words(other)
            && one.variability == other.variability
            && one.causality == other.causality
            && one.connector_prefix == other.connector_prefix
            && self.size_words(&one.subscripts) == self.size_words(&other.subscripts)
            && self.size_words(&one.type_subscripts) == self.size_words(&other.type_subscripts)
            && (first.layers.is_empty() || second.layers.is_empty());
        let (one, other) = (self.said_of(one)?, self.said_of(other)?);
        match (one.iter().all(|part| other.contains(part)), other.iter().all(|part| one.contains(part))) {
            (true, _) if is_same => Some(true),
            (_, true) if is_same => Some(false),
            _ => None,
        }
    }

    /// The modifications, value and condition of a declaration, each as a text.
    fn said_of(&self, decl: &ComponentDecl) -> Option<Vec<String>> {
        let mut parts = Vec::new();
        if let Some(modification) = decl.modification.as_deref() {
            for argument in &modification.args {
                let Argument::Modify { span, .. } = argument else { return None };
                parts.push(self.without_spaces(*span));
            }
            match &modification.value {
                Some(ModificationValue::Expr(value)) => parts.push(format!("={}", self.without_spaces(value.span))),
                Some(ModificationValue::Break(_)) => return None,
                None => {}
            }
        }
        parts.extend(decl.condition.as_ref().map(|condition| format!("if{}", self.without_spaces(condition.span))));
        Some(parts)
    }

    /// Whether two short classes say the same.
    fn same_short_class(&self, one: &ClassDef, other: &ClassDef) -> bool {
        let parts = |class: &ClassDef| match &class.body {
            ClassBody::Short { causality, base, subscripts, modification } => {
                let modification = modification.as_ref().and_then(|modification| modification.span);
                let mut words: Vec<String> = base.parts.iter().map(|part| part.name.to_string()).collect();
                words.push(modification.map_or_else(String::new, |span| self.without_spaces(span)));
                words.extend(self.size_words(subscripts));
                Some((class.kind, class.is_partial, *causality, words))
            }
            _ => None,
        };
        parts(one).is_some_and(|words| parts(other) == Some(words))
    }

    fn size_words(&self, subscripts: &[Subscript]) -> Vec<String> {
        subscripts
            .iter()
            .map(|subscript| match subscript {
                Subscript::All(_) => ":".to_owned(),
                Subscript::Expr(expr) => self.without_spaces(expr.span),
            })
            .collect()
    }

    fn without_spaces(&self, span: Span) -> String {
        self.library.text(span).split_whitespace().collect()
    }

    fn type_words(&self, decl: &ComponentDecl) -> Vec<Name> {
        decl.type_name.parts.iter().map(|part| part.name).collect()
    }

    /// Sizes, modifications and condition of a declaration.
    fn declaration_words(&self, decl: &ComponentDecl) -> Vec<String> {
        let sizes = self.size_words(&decl.subscripts).into_iter().chain(self.size_words(&decl.type_subscripts));
        let modification = decl.modification.as_ref().and_then(|modification| modification.span);
        let condition = decl.condition.as_ref().map(|condition| condition.span);
        sizes
            .chain(
                [modification, condition].map(|span| span.map_or_else(String::new, |span| self.without_spaces(span))),
            )
            .collect()
    }
}
