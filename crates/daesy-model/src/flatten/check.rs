//! Restrictions: what class kinds may contain and extend, what may be redeclared, what every model must satisfy.

use std::rc::Rc;

use daesy_graph::flat::{FlatDae, ValueType, WhenAction};
use daesy_graph::traverse::Leaf;
use daesy_graph::{Finding, Span, VarId, VariableKind};

use super::class::{ClassUse, Core, Elem, ElemKind};
use super::expr::Variability;
use super::instance::{Complex, NodeKind};
use super::lookup::dotted;
use super::modifier::Layer;
use super::{ClassId, Flattener, NodeId, Res};
use crate::name::Name;
use crate::syntax::{
    ClassBody, ClassKind, ComponentDecl, ComponentRef, ConnectorPrefix, ElementKind, ElementPrefixes, Equation,
    EquationKind, Expr, ExprKind, Path, Subscript, VariabilityPrefix,
};

/// The keyword of a class kind.
pub(crate) const fn kind_word(kind: ClassKind) -> &'static str {
    match kind {
        ClassKind::Class => "class",
        ClassKind::Model => "model",
        ClassKind::Block => "block",
        ClassKind::Connector => "connector",
        ClassKind::ExpandableConnector => "expandable connector",
        ClassKind::Record => "record",
        ClassKind::OperatorRecord => "operator record",
        ClassKind::Type => "type",
        ClassKind::Package => "package",
        ClassKind::Function => "function",
        ClassKind::OperatorFunction => "operator function",
        ClassKind::Operator => "operator",
    }
}

/// Kinds of classes that can stand for each other have the same number; none for those that may be anything.
const fn family(kind: ClassKind) -> Option<u8> {
    match kind {
        ClassKind::Model | ClassKind::Block => Some(0),
        ClassKind::Record | ClassKind::OperatorRecord => Some(1),
        ClassKind::Function | ClassKind::OperatorFunction => Some(2),
        ClassKind::Package => Some(3),
        _ => None,
    }
}

/// What of a component differs from one that it stands for, where both are declared with a type of the language or with
/// sizes that are numbers: others show when they are used.
fn declared_difference(one: &ComponentDecl, other: &ComponentDecl) -> Option<String> {
    let primitive = |decl: &ComponentDecl| match decl.type_name.parts.as_slice() {
        [only] => ["Real", "Integer", "Boolean", "String"].into_iter().find(|&name| name == only.name.text()),
        _ => None,
    };
    let (Some(is), Some(wanted)) = (primitive(one), primitive(other)) else { return None };
    if is != wanted {
        return Some(format!("is {is}, not {wanted}"));
    }
    let sizes = [one, other].map(|decl| decl.type_subscripts.iter().chain(&decl.subscripts).collect::<Vec<_>>());
    if sizes[0].len() != sizes[1].len() {
        return Some(format!("has {} dimensions, not {}", sizes[0].len(), sizes[1].len()));
    }
    let number = |subscript: &Subscript| match subscript {
        Subscript::Expr(expr) => match expr.kind {
            ExprKind::Integer(size) => Some(size),
            _ => None,
        },
        Subscript::All(_) => None,
    };
    let pairs = sizes[0].iter().zip(&sizes[1]);
    let mut known = pairs.filter_map(|(one, other)| Some((number(one)?, number(other)?)));
    known.find(|(one, other)| one != other).map(|(one, other)| format!("has size {one}, not {other}"))
}

impl<'a> Flattener<'a> {
    /// Only models and blocks that are complete can be simulated.
    pub(crate) fn check_top(&mut self, class: ClassId) -> Res<()> {
        let class_use = self.class_use(class)?;
        let (span, full) = (self.class(class).span(), self.class(class).full.clone());
        let core = self.class(class_use.class);
        let kind = if self.class(class).kind == ClassKind::Class { core.kind } else { self.class(class).kind };
        if core.core != Core::Long
            || matches!(
                kind,
                ClassKind::Package
                    | ClassKind::Function
                    | ClassKind::OperatorFunction
                    | ClassKind::Operator
                    | ClassKind::Type
                    | ClassKind::Record
                    | ClassKind::OperatorRecord
                    | ClassKind::ExpandableConnector
            )
        {
            let message = format!("`{full}` is a {} and cannot be simulated", kind_word(kind));
            return Err(self.error_help("not-a-model", span, message, "name a model or block"));
        }
        if class_use.is_partial {
            let message = format!("`{full}` is partial and cannot be simulated");
            return Err(self.error_help("partial-class", span, message, "extend it, or name a complete model"));
        }
        let mut around = self.class(class).parent;
        while around != ClassId::ROOT {
            self.check_package_components(around);
            around = self.class(around).parent;
        }
        Ok(())
    }

    /// A package holds classes and constants, whether they are used or not [@modelica36, sec. 4.7].
    fn check_package_components(&mut self, id: ClassId) {
        let class = self.class(id);
        let (kind, full) = (class.kind, class.full.clone());
        let Some(ClassBody::Long { composition, .. }) = class.ast.map(|ast| &ast.body) else { return };
        if kind != ClassKind::Package {
            return;
        }
        for element in &composition.elements {
            if let ElementKind::Component { component, prefixes, .. } = &element.kind {
                self.check_prefixes(kind, &full, component, *prefixes);
            }
        }
    }

    /// What a class may contain, checked once for each class that is used.
    pub(crate) fn check_class(&mut self, id: ClassId) {
        if std::mem::replace(&mut self.class_mut(id).is_checked, true) {
            return;
        }
        for base in self.class(id).bases.clone() {
            self.check_class(base);
        }
        let class = self.class(id);
        let (kind, full) = (class.kind, class.full.clone());
        let Some(ast) = class.ast else { return };
        let ClassBody::Long { composition, .. } = &ast.body else { return };
        let may_have_equations = matches!(kind, ClassKind::Model | ClassKind::Block | ClassKind::Class);
        if !may_have_equations
            && let Some(section) = composition.equations.iter().find(|section| !section.equations.is_empty())
        {
            let span = section.equations[0].span;
            let message = format!("`{full}` is a {} and cannot have equations", kind_word(kind));
            self.error("misplaced-equation", span, message);
        }
        let may_have_algorithms =
            may_have_equations || matches!(kind, ClassKind::Function | ClassKind::OperatorFunction);
        if !may_have_algorithms && let Some(section) = composition.algorithms.first() {
            let message = format!("`{full}` is a {} and cannot have algorithms", kind_word(kind));
            self.error("misplaced-algorithm", section.span, message);
        }
        if let Some(external) = composition.external.as_deref()
            && may_have_equations
        {
            self.error("misplaced-external", external.span, "only functions can be external");
        }
        if matches!(kind, ClassKind::Function | ClassKind::OperatorFunction) {
            if composition.algorithms.len() > 1 {
                let span = composition.algorithms[1].span;
                self.error("function-sections", span, format!("the function `{full}` has more than one algorithm"));
            }
            if composition.algorithms.iter().any(|section| section.is_initial) {
                let span = composition.algorithms[0].span;
                self.error("function-sections", span, "a function cannot have an initial algorithm");
            }
        }
        self.check_imports(id);
        if matches!(kind, ClassKind::Connector | ClassKind::Class) {
            self.check_connector_balance(id);
        }
        for element in &composition.elements {
            if let ElementKind::Component { component, prefixes, .. } = &element.kind {
                self.check_prefixes(kind, &full, component, *prefixes);
            }
        }
    }

    /// The prefixes that a component may have in a class of a kind.
    fn check_prefixes(&mut self, kind: ClassKind, full: &str, component: &ComponentDecl, prefixes: ElementPrefixes) {
        let span = component.name.span;
        let name = component.name.name;
        if kind == ClassKind::Package && component.variability != Some(VariabilityPrefix::Constant) {
            let message = format!("`{name}` in the package `{full}` is not a constant");
            self.error_help("package-variable", span, message, "packages can have classes and constants only");
        }
        if matches!(kind, ClassKind::Record | ClassKind::OperatorRecord) {
            if component.connector_prefix.is_some() || prefixes.is_inner || prefixes.is_outer {
                let message = format!("`{name}` in a record cannot be flow, stream, inner or outer");
                self.error("record-prefix", span, message);
            }
            if component.causality.is_some() && kind == ClassKind::Record {
                let message = format!("`{name}` in a record cannot be input or output");
                self.error("record-prefix", span, message);
            }
            if prefixes.is_protected {
                self.error("record-protected", span, format!("`{name}`: a record cannot have protected components"));
            }
        }
        if kind == ClassKind::ExpandableConnector && component.connector_prefix.is_some() {
            let message = format!("`{name}` in an expandable connector cannot be flow or stream");
            self.error("expandable-connector", span, message);
        }
        if matches!(kind, ClassKind::Connector | ClassKind::ExpandableConnector) {
            if prefixes.is_inner || prefixes.is_outer {
                self.error("connector-prefix", span, format!("`{name}` in a connector cannot be inner or outer"));
            }
            if prefixes.is_protected {
                self.error(
                    "connector-protected",
                    span,
                    format!("`{name}`: a connector cannot have protected components"),
                );
            }
        }
        if matches!(kind, ClassKind::Model | ClassKind::Block | ClassKind::Class)
            && component.connector_prefix.is_some()
        {
            let message = format!("`{name}` is flow or stream, but `{full}` is not a connector");
            self.error_help("misplaced-flow", span, message, "flow and stream variables belong in connectors");
        }
        if component.connector_prefix.is_some() && component.variability.is_some() {
            self.error(
                "misplaced-flow",
                span,
                format!("`{name}` is flow or stream and cannot be constant or parameter"),
            );
        }
        if component.connector_prefix == Some(ConnectorPrefix::Flow) && component.causality.is_some() {
            self.error("misplaced-flow", span, format!("`{name}` is flow and cannot be input or output"));
        }
    }

    /// Imports must mean something, also when they are not used.
    fn check_imports(&mut self, id: ClassId) {
        let names: Vec<Name> = self.class(id).named_imports.keys().copied().collect();
        for name in names {
            let _ = self.imported(id, name);
        }
        for path in self.class(id).star_imports.clone() {
            let _ = self.import_path(&path.parts, path.span);
        }
    }

    /// A connector has as many flow variables as potential variables [@modelica36, sec. 9.3.1].
    fn check_connector_balance(&mut self, id: ClassId) {
        if self.class(id).kind != ClassKind::Connector || self.class(id).ast.is_some_and(|ast| ast.is_partial) {
            return;
        }
        let (mut n_flow, mut n_potential, mut n_stream) = (0, 0, 0);
        for at in 0..self.class(id).components.len() {
            let elem = self.class(id).elements[self.class(id).components[at] as usize].clone();
            let ElemKind::Component(decl) = elem.kind else { continue };
            let Ok(class_use) =
                self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE).and_then(|class| self.class_use(class))
            else {
                return;
            };
            // Sizes are compared by their text: equal counts of arrays are left to the count of the whole.
            let is_plain = self.class(class_use.class).core.is_primitive()
                && decl.subscripts.is_empty()
                && decl.type_subscripts.is_empty()
                && class_use.items.iter().all(|item| item.dims.is_empty());
            if !is_plain || decl.condition.is_some() {
                return;
            }
            match decl.connector_prefix {
                Some(ConnectorPrefix::Flow) => n_flow += 1,
                Some(ConnectorPrefix::Stream) => n_stream += 1,
                None if decl.causality.or(class_use.causality).is_some() => {}
                None if matches!(
                    decl.variability,
                    Some(VariabilityPrefix::Constant | VariabilityPrefix::Parameter)
                ) => {}
                None => n_potential += 1,
            }
        }
        let (span, full) = (self.class(id).span(), self.class(id).full.clone());
        if n_stream > 0 && n_flow != 1 {
            let message = format!("the stream connector `{full}` has {n_flow} flow variables, it needs exactly one");
            self.error("stream-connector", span, message);
        } else if n_flow != n_potential {
            let finding = Finding::warning(
                "unbalanced-connector",
                span,
                format!("the connector `{full}` has {n_potential} potential and {n_flow} flow variables"),
            )
            .with_help("the numbers must agree; signals are declared `input` or `output`");
            self.report(finding);
        }
    }

    /// What a class may extend [@modelica36, sec. 7.1.3].
    pub(crate) fn check_base(&mut self, id: ClassId, base: ClassId, path: &Path) -> Res<()> {
        use ClassKind as K;
        let (kind, base_kind) = (self.class(id).kind, self.class(base).kind);
        let fits = match kind {
            K::Class => true,
            K::Model => {
                matches!(base_kind, K::Model | K::Block | K::Record | K::Class | K::Connector | K::OperatorRecord)
            }
            K::Block => matches!(base_kind, K::Block | K::Record | K::Class | K::Model),
            K::Connector => matches!(base_kind, K::Connector | K::Record | K::Type | K::Class | K::OperatorRecord),
            K::ExpandableConnector => base_kind == K::ExpandableConnector || base_kind == K::Class,
            K::Record => matches!(base_kind, K::Record | K::Class),
            K::OperatorRecord => matches!(base_kind, K::OperatorRecord | K::Record | K::Class),
            K::Type => matches!(base_kind, K::Type | K::Class),
            K::Package => matches!(base_kind, K::Package | K::Class),
            K::Function => matches!(base_kind, K::Function | K::Record | K::Class),
            K::OperatorFunction => matches!(base_kind, K::Function | K::OperatorFunction | K::Class),
            K::Operator => matches!(base_kind, K::Operator | K::Package | K::Class),
        };
        if fits {
            return Ok(());
        }
        let message = format!(
            "the {} `{}` cannot extend the {} `{}`",
            kind_word(kind),
            self.class(id).full,
            kind_word(base_kind),
            dotted(&path.parts)
        );
        Err(self.error("wrong-base", path.span, message))
    }

    /// What a short class may stand for.
    pub(crate) fn check_short(&mut self, id: ClassId, base: ClassId, path: &Path) -> Res<()> {
        use ClassKind as K;
        let kind = self.class(id).kind;
        let base_class = self.class(base);
        let base_kind = base_class.kind;
        let is_primitive = base_class.core.is_primitive();
        let fits = match kind {
            K::Class => true,
            K::Type => {
                is_primitive || matches!(base_kind, K::Type | K::Record | K::Class | K::OperatorRecord | K::Connector)
            }
            K::Connector => {
                is_primitive || matches!(base_kind, K::Connector | K::Record | K::Type | K::Class | K::OperatorRecord)
            }
            K::Model => !is_primitive && matches!(base_kind, K::Model | K::Block | K::Class | K::Connector | K::Record),
            K::Block => !is_primitive && matches!(base_kind, K::Block | K::Class | K::Model),
            K::Record | K::OperatorRecord => matches!(base_kind, K::Record | K::OperatorRecord | K::Class),
            K::Package => matches!(base_kind, K::Package | K::Class),
            K::Function | K::OperatorFunction => matches!(base_kind, K::Function | K::OperatorFunction | K::Class),
            K::ExpandableConnector => base_kind == K::ExpandableConnector,
            K::Operator => matches!(base_kind, K::Operator | K::Class),
        };
        if fits {
            return Ok(());
        }
        let word = if is_primitive { "type" } else { kind_word(base_kind) };
        let message = format!(
            "the {} `{}` cannot stand for the {word} `{}`",
            kind_word(kind),
            self.class(id).full,
            dotted(&path.parts)
        );
        Err(self.error("wrong-base", path.span, message))
    }

    /// Whether a component may be declared like this.
    pub(crate) fn check_component(
        &mut self,
        elem: &Rc<Elem<'a>>,
        decl: &'a ComponentDecl,
        class_use: &ClassUse<'a>,
        parent: &Complex,
    ) -> Res<()> {
        let kind = self.class(class_use.class).kind;
        let full = self.class(class_use.class).full.clone();
        if class_use.is_partial && kind != ClassKind::Function {
            let finding = Finding::error(
                "partial-class",
                decl.type_name.span,
                format!("`{}` has the type `{full}`, which is partial", elem.name),
            )
            .with_help("redeclare it, or use a class that is complete");
            return Err(self.report(finding));
        }
        if matches!(kind, ClassKind::Package | ClassKind::Function | ClassKind::Operator | ClassKind::OperatorFunction)
            && !self.class(class_use.class).core.is_primitive()
        {
            let message = format!("`{}` cannot be declared: `{full}` is a {}", elem.name, kind_word(kind));
            return Err(self.error("not-a-type", decl.type_name.span, message));
        }
        let parent_kind = self.class(parent.class).kind;
        if parent_kind == ClassKind::Block
            && class_use.is_connector
            && !elem.prefixes.is_protected
            && decl.causality.or(class_use.causality).is_none()
        {
            self.check_block_connector(elem, class_use.class)?;
        }
        let has_prefix = decl.causality.or(class_use.causality).is_some() || decl.connector_prefix.is_some();
        if (parent.inherited.causality.is_some() && has_prefix)
            || (parent.inherited.connector_prefix.is_some() && decl.connector_prefix.is_some())
        {
            let message = format!("`{}` has a prefix, but the component it is part of has one already", elem.name);
            return Err(self.error("prefix-conflict", elem.span, message));
        }
        if decl.connector_prefix == Some(ConnectorPrefix::Stream) && has_prefix && decl.causality.is_some() {
            let message = format!("the stream variable `{}` cannot be input or output", elem.name);
            return Err(self.error("misplaced-flow", elem.span, message));
        }
        let is_composite = !self.class(class_use.class).core.is_primitive();
        if is_composite {
            let is_record_like = matches!(kind, ClassKind::Record | ClassKind::OperatorRecord);
            if matches!(parent_kind, ClassKind::Record | ClassKind::OperatorRecord)
                && !is_record_like
                && kind != ClassKind::Class
            {
                let message =
                    format!("`{}` is a {}: records can have records and values only", elem.name, kind_word(kind));
                return Err(self.error("record-component", elem.span, message));
            }
            if matches!(parent_kind, ClassKind::Connector) && matches!(kind, ClassKind::Model | ClassKind::Block) {
                let message =
                    format!("`{}` is a {}: connectors cannot have such components", elem.name, kind_word(kind));
                return Err(self.error("connector-component", elem.span, message));
            }
            if decl.connector_prefix.is_some() && !is_record_like {
                let message = format!("`{}` is flow or stream but neither a number nor a record", elem.name);
                return Err(self.error("misplaced-flow", elem.span, message));
            }
            if decl.causality.is_some() && matches!(kind, ClassKind::Model | ClassKind::Block) {
                let message = format!("the {} `{}` cannot be input or output", kind_word(kind), elem.name);
                return Err(self.error("misplaced-causality", elem.span, message));
            }
            if decl.variability.is_some() && matches!(kind, ClassKind::Model | ClassKind::Block) {
                let message =
                    format!("the {} `{}` cannot be a constant, parameter or discrete", kind_word(kind), elem.name);
                return Err(self.error("misplaced-variability", elem.span, message));
            }
            if decl.modification.as_ref().is_some_and(|one| one.value.is_some())
                && matches!(kind, ClassKind::Model | ClassKind::Block)
            {
                let message = format!("the {} `{}` cannot be given a value", kind_word(kind), elem.name);
                return Err(self.error("value-of-model", elem.span, message));
            }
        }
        if let Core::Real = self.class(class_use.class).core {
            return Ok(());
        }
        if decl.connector_prefix.is_some() && !is_composite {
            let message = format!("the flow or stream variable `{}` must be Real", elem.name);
            return Err(self.error("misplaced-flow", elem.span, message));
        }
        Ok(())
    }

    /// The connectors of a block are inputs and outputs.
    fn check_block_connector(&mut self, elem: &Rc<Elem<'a>>, class: ClassId) -> Res<()> {
        let core = self.class(class).core.clone();
        let mut is_directed = !core.is_primitive();
        if core == Core::Long {
            self.expand(class)?;
            for &at in &self.class(class).components {
                let ElemKind::Component(decl) = self.class(class).elements[at as usize].kind else { continue };
                if decl.connector_prefix.is_some() {
                    is_directed = false;
                }
            }
        }
        if is_directed {
            return Ok(());
        }
        let message = format!("the connector `{}` of a block is neither input nor output", elem.name);
        Err(self.error("block-connector", elem.span, message))
    }

    /// Reports names in a modification that a class does not have.
    ///
    /// From outside, as in a component's modification, protected elements cannot be modified.
    pub(crate) fn check_layer_names(&mut self, class: ClassId, layer: &Layer, is_outside: bool) -> Res<()> {
        if layer.is_field || !self.checked_mods.insert((layer.mods, class)) {
            return Ok(());
        }
        let mut result = Ok(());
        for at in 0..self.modifier(layer.mods).children.len() {
            let child = self.modifier(layer.mods).children[at];
            let node = self.modifier(child);
            let (name, span) = (node.name, node.span);
            let Some(&elem) = self.class(class).table.get(&name) else {
                let full = self.class(class).full.clone();
                let mut finding =
                    Finding::error("unknown-modifier", span, format!("`{full}` has no element `{name}` to modify"))
                        .with_names([name.text().to_owned()]);
                finding.help = Self::suggest(name.text(), self.element_names(class));
                result = Err(self.report(finding));
                continue;
            };
            let elem = self.class(class).elements[elem as usize].clone();
            if !elem.is_component() && elem.prefixes.is_protected && is_outside {
                let message = format!("the class `{name}` is protected and cannot be modified");
                result = Err(self.error("protected-access", span, message));
            }
            if !elem.is_component() && self.modifier(child).redeclare.is_some() {
                // Unused classes are checked as well.
                result = result.and(self.nested(elem.owner, elem.own).map(|_| ()));
            }
            if !elem.is_component() && self.modifier(child).binding.is_some() {
                let message = format!("`{name}` is a class and cannot be given a value");
                result = Err(self.error("unknown-modifier", span, message));
            }
        }
        result
    }

    /// A redeclared class must fit its constraint.
    pub(crate) fn check_class_redeclare(&mut self, elem: &Elem<'a>, plain: ClassId, new: ClassId, span: Span) {
        let constraint = match elem.constraint {
            Some(constraint) => self.resolve_class(&constraint.base, elem.owner, NodeId::SELF),
            None => Ok(plain),
        };
        let Ok(constraint) = constraint else { return };
        self.pending_constraints.push(super::PendingConstraint { constraint, new, name: elem.name, span });
    }

    /// Checks redeclared classes once everything is known.
    pub(crate) fn check_constraints(&mut self) {
        let mut at = 0;
        while at < self.pending_constraints.len() {
            let super::PendingConstraint { constraint, new, name, span } = self.pending_constraints[at];
            at += 1;
            let (Ok(constraint), Ok(new)) = (self.class_use(constraint), self.class_use(new)) else { continue };
            let _ = self.check_fits(new.class, constraint.class, name, span);
        }
    }

    /// Whether a class has what another one has (plug-compatible, in its basics).
    fn check_fits(&mut self, class: ClassId, constraint: ClassId, name: Name, span: Span) -> Res<()> {
        let (core, wanted) = (self.class(class).core.clone(), self.class(constraint).core.clone());
        if core.is_primitive() || wanted.is_primitive() {
            let fits = match (&core, &wanted) {
                (Core::Enumeration(left), Core::Enumeration(right)) => {
                    left.literals == right.literals || right.literals.is_empty()
                }
                _ => core == wanted,
            };
            if !fits {
                let message = format!(
                    "`{name}` is redeclared as `{}`, which does not fit `{}`",
                    self.class(class).full,
                    self.class(constraint).full
                );
                return Err(self.error("not-a-subtype", span, message));
            }
            return Ok(());
        }
        self.expand(class)?;
        self.expand(constraint)?;
        let kinds = [self.class(class).kind, self.class(constraint).kind];
        if let [Some(is), Some(wanted)] = kinds.map(family)
            && is != wanted
        {
            let [is, wanted] = kinds.map(kind_word);
            let message = format!(
                "`{name}` is redeclared as `{}`, a {is}, which does not fit `{}`, a {wanted}",
                self.class(class).full,
                self.class(constraint).full
            );
            return Err(self.error("not-a-subtype", span, message));
        }
        for at in 0..self.class(constraint).elements.len() {
            let wanted = self.class(constraint).elements[at].clone();
            if wanted.prefixes.is_protected {
                continue;
            }
            let found =
                self.class(class).table.get(&wanted.name).map(|&at| self.class(class).elements[at as usize].clone());
            let problem = match found {
                None => {
                    let is_optional = matches!(wanted.kind, ElemKind::Component(decl) if decl.condition.is_some());
                    (!is_optional).then(|| format!("it has no `{}`", wanted.name))
                }
                Some(found) if found.is_component() != wanted.is_component() => {
                    Some(format!("its `{}` is of another kind", wanted.name))
                }
                Some(found) if found.prefixes.is_protected => Some(format!("its `{}` is protected", wanted.name)),
                Some(found) => match (found.kind, wanted.kind) {
                    (ElemKind::Component(one), ElemKind::Component(other)) => {
                        let is_fixed = |decl: &ComponentDecl| {
                            matches!(decl.variability, Some(VariabilityPrefix::Constant | VariabilityPrefix::Parameter))
                        };
                        if is_fixed(other) && !is_fixed(one) {
                            Some(format!("its `{}` varies", wanted.name))
                        } else if one.causality != other.causality && other.causality.is_some() {
                            Some(format!("its `{}` is not {:?}", wanted.name, other.causality).to_lowercase())
                        } else {
                            declared_difference(one, other).map(|what| format!("its `{}` {what}", wanted.name))
                        }
                    }
                    _ => None,
                },
            };
            if let Some(problem) = problem {
                let finding = Finding::error(
                    "not-a-subtype",
                    span,
                    format!(
                        "`{name}` is redeclared as `{}`, which does not fit `{}`: {problem}",
                        self.class(class).full,
                        self.class(constraint).full
                    ),
                )
                .with_help("the new class needs all public elements of the constraining class");
                return Err(self.report(finding));
            }
        }
        Ok(())
    }

    /// A redeclared component must fit the constraint of the original declaration.
    pub(crate) fn check_component_redeclare(
        &mut self,
        elem: &Rc<Elem<'a>>,
        decl: &'a ComponentDecl,
        new: &'a ComponentDecl,
        layer: &Layer,
        parent: NodeId,
    ) -> Res<()> {
        let constraint = match elem.constraint {
            Some(constraint) => self.resolve_class(&constraint.base, elem.owner, parent)?,
            None => self.resolve_class(&decl.type_name, elem.owner, parent)?,
        };
        let constraint = self.class_use(constraint)?.class;
        let class = self.resolve_class(&new.type_name, layer.scope, layer.instance)?;
        let class = self.class_use(class)?.class;
        self.check_fits(class, constraint, elem.name, new.name.span)?;
        let is_more_free = match (new.variability, decl.variability) {
            (Some(new), Some(old)) => new > old,
            _ => false,
        };
        if is_more_free {
            let message = format!("`{}` cannot be redeclared to vary more than before", elem.name);
            return Err(self.error("not-a-subtype", new.name.span, message));
        }
        Ok(())
    }

    /// An inner component must have what the outer one promises.
    pub(crate) fn check_inner_outer(&mut self, inner: NodeId, elem: &Rc<Elem<'a>>, decl: &'a ComponentDecl) -> Res<()> {
        let inner = match self.node(inner).kind {
            // Being made further up; its class is not known yet.
            NodeKind::Pending { .. } | NodeKind::Busy => return Ok(()),
            _ => self.force(inner)?,
        };
        let parent = match &self.node(inner).kind {
            NodeKind::Complex(complex) => complex.class,
            NodeKind::Primitive(prim) => self.prim(*prim).class_use.class,
            NodeKind::Array { class, .. } => *class,
            _ => return Ok(()),
        };
        let class = self.resolve_class(&decl.type_name, elem.owner, NodeId::NONE)?;
        let wanted = self.class_use(class)?.class;
        if !decl.subscripts.is_empty() {
            let dims: Vec<usize> = match &self.node(inner).kind {
                NodeKind::Primitive(prim) => self.prim(*prim).dims.to_vec(),
                NodeKind::Array { dims, .. } => dims.to_vec(),
                _ => Vec::new(),
            };
            let mut is_same = dims.len() == decl.subscripts.len();
            for (subscript, &dim) in decl.subscripts.iter().zip(&dims) {
                if let Subscript::Expr(expr) = subscript
                    && let ExprKind::Integer(size) = expr.kind
                {
                    is_same &= size == dim as i64;
                }
            }
            if !is_same {
                let message = format!("the inner `{}` has other sizes: {}", elem.name, super::value::dims_text(&dims));
                return Err(self.error("wrong-size", elem.span, message));
            }
        }
        if parent == wanted {
            return Ok(());
        }
        self.check_fits(parent, wanted, elem.name, elem.span)
    }

    /// External objects that nothing reads are not made, whatever their constructors would do.
    pub(crate) fn tell_unread_objects(&mut self) {
        let unread: Vec<(NodeId, Span)> = (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter_map(|id| match &self.node(id).kind {
                NodeKind::Object(object) if object.value.borrow().is_none() => Some((id, object.span)),
                _ => None,
            })
            .collect();
        for (id, span) in unread {
            let node = self.node(id);
            let parent = self.complex(node.parent).map_or_else(String::new, |parent| parent.path.to_string());
            let name = Self::child_path(&parent, self.node(id).name);
            let message = format!("nothing reads the external object `{name}`: it is not made");
            let finding = Finding::note("unread-object", span, message)
                .with_help("what its constructor would do outside of the model is not done")
                .with_names([name]);
            self.report(finding);
        }
    }

    /// Checks of the finished list of variables.
    pub(crate) fn check_variables(&mut self) {
        self.check_constraints();
        if self.n_errors > 0 {
            return;
        }
        self.check_parameter_cycles();
        // A variable can be determined in one place only.
        let mut owner: rustc_hash::FxHashMap<VarId, Span> = rustc_hash::FxHashMap::default();
        let mut problems = Vec::new();
        for clause in &self.out.when_clauses {
            let mut seen = rustc_hash::FxHashSet::default();
            for action in clause.branches.iter().flat_map(|branch| &branch.actions) {
                if let WhenAction::Assign { variable, span, .. } = action
                    && seen.insert(*variable)
                    && let Some(first) = owner.insert(*variable, *span)
                {
                    problems.push((*variable, *span, first));
                }
            }
        }
        for (variable, span, first) in problems {
            let name = self.variables[variable.index()].name.clone();
            let finding = Finding::error("assigned-twice", span, format!("`{name}` is determined by two when-clauses"))
                .with_label(first, "the other one")
                .with_help("use `elsewhen`");
            self.report(finding);
        }
        self.check_discrete_in_der();
        for (var, span) in std::mem::take(&mut self.pre_uses) {
            if self.variables[var.index()].kind == VariableKind::Continuous {
                let message = format!(
                    "`pre({})` of a continuous variable outside a when-clause",
                    self.variables[var.index()].name
                );
                self.error_help("variability", span, message, "`pre` is for discrete variables");
            }
        }
    }

    /// Variables that change at events only have no derivative.
    fn check_discrete_in_der(&mut self) {
        let mut bad: Option<VarId> = None;
        for node in self.graph.nodes() {
            if let daesy_graph::Node::Var { var, order } = node
                && order > 0
                && self.variables[var.index()].kind == VariableKind::Discrete
                && !self.marks.discretized.contains(&var)
            {
                bad = Some(var);
            }
        }
        if let Some(var) = bad {
            let (name, span) = (self.variables[var.index()].name.clone(), self.variables[var.index()].span);
            let message = format!("`{name}` is determined in a when-clause and cannot be differentiated");
            self.error("variability", span, message);
        }
    }

    /// Marks the variables of parameters that became structural after they were made.
    pub(crate) fn copy_structural_marks(&mut self) {
        for (variable, &prim) in self.variables.iter_mut().zip(&self.var_prims) {
            variable.is_structural = self.prims[prim.0 as usize].is_structural;
        }
    }

    /// Parameters must not depend on each other in a circle, branches that are not taken left aside.
    fn check_parameter_cycles(&mut self) {
        while let Some(chain) = self.parameter_cycle() {
            if self.take_branches(&chain) {
                self.copy_structural_marks();
                continue;
            }
            let mut names: Vec<String> = chain.iter().map(|&at| self.variables[at].name.clone()).collect();
            names.push(names[0].clone());
            let finding = Finding::error(
                "cyclic-parameters",
                self.variables[chain[0]].span,
                format!("the value of `{}` depends on itself: {}", names[0], names.join(" -> ")),
            )
            .with_help("give one of them a value of its own")
            .with_names(names);
            self.report(finding);
            return;
        }
    }

    /// Replaces the if-expressions in the values of some parameters by the branches that are taken, where the
    /// conditions are known; they become structural. True if something changed.
    fn take_branches(&mut self, chain: &[usize]) -> bool {
        let mut has_changed = false;
        for &at in chain {
            let Some(binding) = self.variables[at].binding else { continue };
            let mut reach = std::mem::take(&mut self.reach);
            let below = reach.below(&self.graph, &[binding]).to_vec();
            self.reach = reach;
            let mut substitution = daesy_graph::Substitution::new();
            for expr in below {
                let daesy_graph::Node::Select { condition, then, otherwise } = self.graph.node(expr) else { continue };
                if self.variability_of(condition) > Variability::Parameter || !self.can_be_known(condition) {
                    continue;
                }
                let Ok(known) = self.known_number(condition, self.variables[at].span) else { return false };
                let taken = substitution.apply(&mut self.graph, if known != 0.0 { then } else { otherwise });
                substitution.replace(expr, taken);
            }
            let taken = substitution.apply(&mut self.graph, binding);
            has_changed |= taken != binding;
            self.variables[at].binding = Some(taken);
        }
        has_changed
    }

    /// Parameters that depend on each other in a circle.
    fn parameter_cycle(&mut self) -> Option<Vec<usize>> {
        const NEW: u8 = 0;
        const OPEN: u8 = 1;
        const DONE: u8 = 2;
        let n = self.variables.len();
        let mut state = vec![NEW; n];
        let mut reach = std::mem::take(&mut self.reach);
        let mut leaves = Vec::new();
        for start in 0..n {
            if state[start] != NEW || self.variables[start].binding.is_none() {
                continue;
            }
            let mut stack: Vec<(usize, Vec<usize>)> = vec![(start, Vec::new())];
            let mut is_new = true;
            while let Some((at, _)) = stack.last() {
                let at = *at;
                if is_new {
                    state[at] = OPEN;
                    let mut next = Vec::new();
                    if let Some(binding) = self.variables[at].binding {
                        reach.leaves(&self.graph, &[binding], &mut leaves);
                        next.extend(leaves.iter().filter_map(|leaf| match leaf {
                            Leaf::Var { var, .. } => Some(var.index()),
                            Leaf::Time => None,
                        }));
                    }
                    if let Some(last) = stack.last_mut() {
                        last.1 = next;
                    }
                }
                is_new = false;
                let Some((_, waiting)) = stack.last_mut() else { break };
                match waiting.pop() {
                    Some(next) if state[next] == NEW => {
                        stack.push((next, Vec::new()));
                        is_new = true;
                    }
                    Some(next) if state[next] == OPEN => {
                        let from = stack.iter().position(|(one, _)| *one == next).unwrap_or(0);
                        let chain = stack[from..].iter().map(|(one, _)| *one).collect();
                        self.reach = reach;
                        return Some(chain);
                    }
                    Some(_) => {}
                    None => {
                        state[at] = DONE;
                        stack.pop();
                    }
                }
            }
        }
        self.reach = reach;
        None
    }
}

/// Strings that vary take no part in equations; they stay only as parameters with their text.
pub(crate) fn drop_strings(flat: &mut FlatDae) {
    for variable in &mut flat.variables {
        if variable.value_type == ValueType::String && variable.kind == VariableKind::Continuous {
            variable.kind = VariableKind::Discrete;
        }
    }
}

/// A use of an iterator as a subscript.
#[derive(Clone, Copy)]
pub(crate) struct Use<'a> {
    pub reference: &'a ComponentRef,
    pub part: usize,
    pub dimension: usize,
}

/// Where `name` alone is a subscript of a reference.
pub(crate) fn reference_indexed_by<'a>(reference: &'a ComponentRef, name: Name, uses: &mut Vec<Use<'a>>) {
    for (part, one) in reference.parts.iter().enumerate() {
        for (dimension, subscript) in one.subscripts.iter().enumerate() {
            let Subscript::Expr(expr) = subscript else { continue };
            match &expr.kind {
                ExprKind::Ref(inner) if inner.parts.len() == 1 && inner.parts[0].name.name == name => {
                    uses.push(Use { reference, part, dimension });
                }
                _ => indexed_by(expr, name, uses),
            }
        }
    }
}

/// Where `name` alone is a subscript in an expression.
pub(crate) fn indexed_by<'a>(expr: &'a Expr, name: Name, uses: &mut Vec<Use<'a>>) {
    if let ExprKind::Ref(reference) = &expr.kind {
        reference_indexed_by(reference, name, uses);
    }
    each_child(expr, &mut |child| indexed_by(child, name, uses));
}

/// The expressions directly below an expression.
fn each_child<'a>(expr: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    match &expr.kind {
        ExprKind::Unary(_, inner) | ExprKind::Parenthesized(inner) => visit(inner),
        ExprKind::Binary(_, left, right) => {
            visit(left);
            visit(right);
        }
        ExprKind::Range { start, step, stop } => {
            visit(start);
            if let Some(step) = step {
                visit(step);
            }
            visit(stop);
        }
        ExprKind::If { branches, otherwise } => {
            for branch in branches {
                visit(&branch.condition);
                visit(&branch.value);
            }
            visit(otherwise);
        }
        ExprKind::Call { args, named, .. } => {
            args.iter().for_each(&mut *visit);
            named.iter().for_each(|arg| visit(&arg.value));
        }
        ExprKind::Comprehension { body, iterators, .. } => {
            visit(body);
            iterators.iter().filter_map(|one| one.range.as_ref()).for_each(visit);
        }
        ExprKind::Array(items) => items.iter().for_each(visit),
        ExprKind::Matrix(rows) => rows.iter().flatten().for_each(visit),
        ExprKind::Tuple(items) => items.iter().flatten().for_each(visit),
        ExprKind::PartialFunction { named, .. } => named.iter().for_each(|arg| visit(&arg.value)),
        ExprKind::Subscripted { base, subscripts } => {
            visit(base);
            for subscript in subscripts {
                if let Subscript::Expr(expr) = subscript {
                    visit(expr);
                }
            }
        }
        ExprKind::Ref(_)
        | ExprKind::Real(_)
        | ExprKind::Integer(_)
        | ExprKind::String(_)
        | ExprKind::Boolean(_)
        | ExprKind::End
        | ExprKind::Error => {}
    }
}

/// First names of all references in an expression.
pub(crate) fn names_in(expr: &Expr, visit: &mut dyn FnMut(Name)) {
    if let ExprKind::Ref(reference) = &expr.kind {
        visit(reference.parts[0].name.name);
        for subscript in reference.parts.iter().flat_map(|part| &part.subscripts) {
            if let Subscript::Expr(expr) = subscript {
                names_in(expr, visit);
            }
        }
    }
    each_child(expr, &mut |child| names_in(child, visit));
}

/// All expressions of equations.
pub(crate) fn each_expr_in_equations<'a>(equations: &'a [Equation], visit: &mut dyn FnMut(&'a Expr)) {
    for equation in equations {
        match &equation.kind {
            EquationKind::Equality(left, right) => {
                visit(left);
                visit(right);
            }
            EquationKind::Call(call) => visit(call),
            EquationKind::For { body, .. } => each_expr_in_equations(body, visit),
            EquationKind::If { branches, otherwise } => {
                for branch in branches {
                    visit(&branch.condition);
                    each_expr_in_equations(&branch.body, visit);
                }
                if let Some(body) = otherwise {
                    each_expr_in_equations(body, visit);
                }
            }
            EquationKind::When(branches) => {
                for branch in branches {
                    visit(&branch.condition);
                    each_expr_in_equations(&branch.body, visit);
                }
            }
            EquationKind::Connect(..) => {}
        }
    }
}

/// All references of connect equations.
pub(crate) fn each_connect<'a>(equations: &'a [Equation], visit: &mut dyn FnMut(&'a ComponentRef)) {
    for equation in equations {
        match &equation.kind {
            EquationKind::Connect(left, right) => {
                visit(left);
                visit(right);
            }
            EquationKind::For { body, .. } => each_connect(body, visit),
            _ => {}
        }
    }
}
