//! The tree of component instances.
//!
//! A composite instance holds one node for each component of its class, in a row; they are made when they are first
//! needed, so that an array size may depend on a parameter declared anywhere. Nodes of array elements lie in a row too.

use std::rc::Rc;
use std::sync::Arc;

use daesy_graph::{Finding, Span, VarId};
use smallvec::SmallVec;

use super::budget::{COMPONENT, MAX_WITHIN_THEMSELVES};
use super::class::{ClassUse, Core, Elem, ElemKind};
use super::expr::{Ctx, Variability};
use super::modifier::{Access, Layer, Layers};
use super::value::{Type, Value, count};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{
    Causality, ClassKind, ComponentDecl, ConnectorPrefix, Constraint, ElementKind, Expr, Subscript, VariabilityPrefix,
};

/// A primitive instance: a variable or array of variables.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub(crate) struct PrimId(pub u32);

/// A component instance.
pub(crate) struct Node {
    pub parent: NodeId,
    pub name: Name,
    pub kind: NodeKind,
}

/// How far an instance has been made, and what it is.
#[derive(Clone)]
pub(crate) enum NodeKind {
    /// To be made from an element of the parent's class.
    Pending { elem: u32 },
    /// Being made.
    Busy,
    /// Left out because its condition is false.
    Absent(Span),
    /// A finding says why it could not be made.
    Failed,
    /// A variable or an array of variables.
    Primitive(PrimId),
    /// Something with components.
    Complex(Rc<Complex>),
    /// An array of composites.
    Array { dims: Rc<[usize]>, first: NodeId, class: ClassId },
    /// An outer component: the inner one it refers to.
    Alias(NodeId),
    /// An external object, made when it is first needed.
    Object(Rc<ObjectNode>),
}

/// An external object.
pub(crate) struct ObjectNode {
    pub layers: Layers,
    pub span: Span,
    pub value: std::cell::RefCell<Option<Res<Value>>>,
}

/// What components take over from the one they are in.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Inherited {
    pub variability: Option<VariabilityPrefix>,
    pub causality: Option<Causality>,
    pub connector_prefix: Option<ConnectorPrefix>,
    pub is_protected: bool,
    pub is_final: bool,
    /// Inside a connector.
    pub in_connector: bool,
    /// Inside a package: only constants, none of them in the flat model.
    pub in_package: bool,
    /// A component of the top class, or of a connector or record there.
    pub is_top: bool,
    /// Inside a record.
    pub in_record: bool,
}

impl Inherited {
    /// What the components of a component take over.
    fn by_component(
        &self,
        elem: &Elem<'_>,
        decl: &ComponentDecl,
        declaration: &Declaration<'_>,
        class_use: &ClassUse<'_>,
    ) -> Inherited {
        let variability = stricter(declaration.decl.variability.or(decl.variability), self.variability);
        Inherited {
            variability,
            causality: declaration.decl.causality.or(decl.causality).or(class_use.causality).or(self.causality),
            connector_prefix: declaration.decl.connector_prefix.or(decl.connector_prefix).or(self.connector_prefix),
            is_protected: elem.prefixes.is_protected || self.is_protected,
            is_final: declaration.is_final || self.is_final,
            in_connector: self.in_connector,
            in_package: self.in_package,
            is_top: self.is_top && !elem.prefixes.is_protected,
            in_record: self.in_record,
        }
    }
}

/// A composite instance.
#[derive(Debug)]
pub(crate) struct Complex {
    /// The node it is.
    pub node: NodeId,
    pub class: ClassId,
    /// The node of its first component.
    pub first: NodeId,
    pub layers: Layers,
    /// Dotted name.
    pub path: Arc<str>,
    pub inherited: Inherited,
    pub is_connector: bool,
    pub is_record: bool,
}

/// A variable or an array of variables.
pub(crate) struct Prim<'a> {
    pub parent: NodeId,
    pub ty: Type,
    pub dims: Rc<[usize]>,
    /// Its first variable; none for constants in packages.
    pub first: Option<VarId>,
    pub variability: Variability,
    pub causality: Option<Causality>,
    pub connector_prefix: Option<ConnectorPrefix>,
    pub layers: Layers,
    pub class_use: Rc<ClassUse<'a>>,
    /// Number of dimensions that come from the declaration, before those of the type.
    pub n_own_dims: usize,
    pub elem: Rc<Elem<'a>>,
    pub path: Option<Arc<str>>,
    pub is_structural: bool,
    pub value: Option<Res<Arc<Value>>>,
}

/// The declaration that counts after redeclaration.
pub(crate) struct Declaration<'a> {
    pub decl: &'a ComponentDecl,
    pub scope: ClassId,
    pub instance: NodeId,
    pub layers: Layers,
    pub is_final: bool,
}

/// One array dimension to be worked out.
#[derive(Clone, Copy)]
pub(crate) struct DimSource<'a> {
    pub subscript: &'a Subscript,
    pub scope: ClassId,
    pub instance: NodeId,
}

impl<'a> Flattener<'a> {
    pub(crate) fn node(&self, id: NodeId) -> &Node {
        &self.nodes[id.0 as usize]
    }

    pub(crate) fn set_kind(&mut self, id: NodeId, kind: NodeKind) {
        self.nodes[id.0 as usize].kind = kind;
    }

    pub(crate) fn prim(&self, id: PrimId) -> &Prim<'a> {
        &self.prims[id.0 as usize]
    }

    pub(crate) fn push_node(&mut self, parent: NodeId, name: Name, kind: NodeKind) -> NodeId {
        self.nodes.push(Node { parent, name, kind });
        NodeId(self.nodes.len() as u32 - 1)
    }

    /// Makes the whole tree of the model.
    pub(crate) fn instantiate_top(&mut self, class: ClassId) -> Res<()> {
        let class_use = self.class_use(class)?;
        if let Some(item) = class_use.items.iter().find(|item| !item.dims.is_empty()) {
            let _ = item;
            let span = self.class(class).span();
            return Err(self.error("array-model", span, "an array of models cannot be simulated"));
        }
        let layers = class_use.layers();
        let core = self.specialize(class_use.class, &layers)?;
        self.check_least_size(core)?;
        let root = self.push_node(NodeId::NONE, Name::new(""), NodeKind::Busy);
        self.root = root;
        let inherited = Inherited { is_top: true, ..Inherited::default() };
        self.make_complex(root, core, layers, Arc::from(""), inherited, class_use.is_connector, Span::NONE)
    }

    /// The instance of a package, for its constants.
    pub(crate) fn package_node(&mut self, class: ClassId) -> Res<NodeId> {
        if let Some(&node) = self.package_nodes.get(&class) {
            return Ok(node);
        }
        self.expand(class)?;
        let node = self.push_node(NodeId::NONE, self.class(class).name, NodeKind::Busy);
        let layers: Layers = self.class(class).outer.iter().chain(&self.class(class).inner).cloned().collect();
        let path = self.class(class).full.clone();
        let inherited = Inherited { in_package: true, ..Inherited::default() };
        let first = self.push_children(node, class);
        self.set_kind(
            node,
            NodeKind::Complex(Rc::new(Complex {
                node,
                class,
                first,
                layers,
                path,
                inherited,
                is_connector: false,
                is_record: false,
            })),
        );
        self.package_nodes.insert(class, node);
        Ok(node)
    }

    fn push_children(&mut self, node: NodeId, class: ClassId) -> NodeId {
        let first = NodeId(self.nodes.len() as u32);
        for at in 0..self.class(class).components.len() {
            let elem = self.class(class).components[at];
            let name = self.class(class).elements[elem as usize].name;
            self.push_node(node, name, NodeKind::Pending { elem });
        }
        first
    }

    /// Makes a composite instance and all its components.
    #[allow(clippy::too_many_arguments, reason = "what an instance consists of")]
    pub(crate) fn make_complex(
        &mut self,
        node: NodeId,
        class: ClassId,
        layers: Layers,
        path: Arc<str>,
        inherited: Inherited,
        is_connector: bool,
        span: Span,
    ) -> Res<()> {
        if self.depth >= self.options.max_depth {
            let message = format!(
                "components are nested deeper than {}: `{}` probably contains itself",
                self.options.max_depth,
                self.class(class).full
            );
            self.set_kind(node, NodeKind::Failed);
            return Err(self.error_help("recursive-model", span, message, "a model cannot have itself as a component"));
        }
        if self.is_within_itself(node, class) {
            self.n_within_themselves += 1;
            if self.n_within_themselves > MAX_WITHIN_THEMSELVES {
                let what = "the number of components inside components of the same class";
                return Err(self.limit(what, MAX_WITHIN_THEMSELVES, span));
            }
        }
        self.expand(class)?;
        self.keep_bytes(path.len(), span)?;
        self.check_class(class);
        let is_record = matches!(self.class(class).kind, ClassKind::Record | ClassKind::OperatorRecord);
        let first = self.push_children(node, class);
        let n_children = self.class(class).components.len();
        let mut inherited = inherited;
        inherited.in_connector |= is_connector;
        inherited.in_record |= is_record;
        if !is_connector && !is_record && node != self.root {
            inherited.is_top = false;
        }
        let complex = Complex { node, class, first, layers, path, inherited, is_connector, is_record };
        self.set_kind(node, NodeKind::Complex(Rc::new(complex)));
        // Members of expandable connectors come into being by being connected.
        if self.class(class).kind == ClassKind::ExpandableConnector {
            self.has_expandable = true;
            return Ok(());
        }
        self.depth += 1;
        let mut result = Ok(());
        for at in 0..n_children {
            if self.force(NodeId(first.0 + at as u32)).is_err() {
                result = Err(Refused);
            }
            if self.n_errors > 200 {
                break;
            }
        }
        self.depth -= 1;
        result
    }

    /// Whether a component of a class is inside another one of the same class.
    fn is_within_itself(&self, node: NodeId, class: ClassId) -> bool {
        let mut at = self.node(node).parent;
        while at.is_some() {
            match &self.node(at).kind {
                NodeKind::Complex(complex) if complex.class == class => return true,
                _ => at = self.node(at).parent,
            }
        }
        false
    }

    /// Makes a node if it is not made yet, and follows outer components to their inner ones.
    pub(crate) fn force(&mut self, id: NodeId) -> Res<NodeId> {
        let mut id = id;
        for _ in 0..self.options.max_depth {
            match self.node(id).kind {
                NodeKind::Pending { elem } => {
                    self.set_kind(id, NodeKind::Busy);
                    self.depth += 1;
                    let result = if self.depth > 4 * self.options.max_depth {
                        Err(self.limit("the depth of dependent declarations", 4 * self.options.max_depth, Span::NONE))
                    } else {
                        self.make_component(id, elem)
                    };
                    self.depth -= 1;
                    if let Err(refused) = result {
                        if matches!(self.node(id).kind, NodeKind::Busy) {
                            self.set_kind(id, NodeKind::Failed);
                        }
                        return Err(refused);
                    }
                }
                NodeKind::Busy => {
                    let name = self.node(id).name;
                    let span = self.node_span(id);
                    let message = format!("the size or presence of `{name}` depends on itself");
                    return Err(self.error_help("cyclic-size", span, message, "give one of the sizes as a number"));
                }
                NodeKind::Failed => return Err(Refused),
                NodeKind::Alias(target) => id = target,
                _ => return Ok(id),
            }
        }
        Err(Refused)
    }

    /// Where the component of a node is declared.
    pub(crate) fn node_span(&self, id: NodeId) -> Span {
        let node = self.node(id);
        if !node.parent.is_some() {
            return Span::NONE;
        }
        match &self.node(node.parent).kind {
            NodeKind::Complex(parent) => {
                let class = self.class(parent.class);
                class.table.get(&node.name).map_or(Span::NONE, |&at| class.elements[at as usize].span)
            }
            NodeKind::Array { .. } => self.node_span(node.parent),
            _ => Span::NONE,
        }
    }

    /// The component `name` of a composite instance, not yet made.
    pub(crate) fn child(&self, complex: &Complex, name: Name) -> Option<NodeId> {
        let class = self.class(complex.class);
        let Some(&at) = class.table.get(&name) else {
            return self.extra_members.get(&(complex.node, name)).copied();
        };
        let child = class.child_of[at as usize];
        (child != u32::MAX).then(|| NodeId(complex.first.0 + child))
    }

    /// The composite instance a node is.
    pub(crate) fn complex(&self, id: NodeId) -> Option<Rc<Complex>> {
        match &self.node(id).kind {
            NodeKind::Complex(complex) => Some(complex.clone()),
            _ => None,
        }
    }

    /// Full name of a component of an instance.
    pub(crate) fn child_path(parent: &str, name: Name) -> String {
        if parent.is_empty() { name.text().to_owned() } else { format!("{parent}.{name}") }
    }

    fn make_component(&mut self, node: NodeId, elem_at: u32) -> Res<()> {
        self.spend(COMPONENT, Span::NONE)?;
        let parent_id = self.node(node).parent;
        let Some(parent) = self.complex(parent_id) else { return Err(Refused) };
        let elem = self.class(parent.class).elements[elem_at as usize].clone();
        let ElemKind::Component(decl) = elem.kind else { return Err(Refused) };
        if elem.prefixes.is_outer && !elem.prefixes.is_inner {
            return self.make_outer(node, parent_id, &elem, decl);
        }
        if elem.prefixes.is_outer && elem.prefixes.is_inner {
            // Seen from inside the class it is the outer one, seen from its components the inner one.
            let Some(outer) = self.find_inner(parent_id, elem.name) else {
                let message = format!("no enclosing component declares `inner {}`", elem.name);
                return Err(self.error("missing-inner", elem.span, message));
            };
            self.seen_as_outer.insert(node, outer);
        }
        let declaration = self.declaration(parent_id, &parent, &elem, decl)?;
        if let Some(condition) = decl.condition.as_deref()
            && !self.is_met(condition, &mut Ctx::structural(elem.owner, parent_id))?
        {
            self.set_kind(node, NodeKind::Absent(condition.span));
            return Ok(());
        }
        let type_class = self.resolve_class(&declaration.decl.type_name, declaration.scope, declaration.instance)?;
        let class_use = self.class_use(type_class)?;
        let (dim_sources, n_own_dims) = self.dim_sources(parent_id, &elem, decl, &declaration, &class_use);
        let inherited = parent.inherited.by_component(&elem, decl, &declaration, &class_use);
        self.check_component(&elem, declaration.decl, &class_use, &parent)?;
        let is_primitive = self.class(class_use.class).core.is_primitive();
        if self.class(class_use.class).core == Core::Object {
            return self.make_object(node, &elem, declaration.layers, !dim_sources.is_empty());
        }
        let dims = self.component_dims(&dim_sources, &declaration, &elem)?;
        if is_primitive {
            return self.make_primitive(
                node,
                parent_id,
                &parent,
                &elem,
                declaration,
                class_use,
                dims,
                n_own_dims,
                inherited,
            );
        }
        let full_layers = |n_index: &[u32]| -> Layers {
            let mut layers = index_layers(&declaration.layers, n_index);
            let mut skip = n_own_dims;
            for item in &class_use.items {
                layers.extend(index_layers(&item.layers, n_index.get(skip..).unwrap_or_default()));
                skip += item.dims.len();
            }
            layers
        };
        let layers = full_layers(&[]);
        let class = self.specialize(class_use.class, &layers)?;
        self.expand(class)?;
        for layer in &layers {
            self.check_layer_names(class, layer, true)?;
        }
        let path = Self::child_path(&parent.path, elem.name);
        if dims.is_empty() {
            return self.make_complex(
                node,
                class,
                layers,
                Arc::from(path),
                inherited,
                class_use.is_connector,
                elem.span,
            );
        }
        let n = count(&dims);
        self.check_count(n, elem.span)?;
        let first = NodeId(self.nodes.len() as u32);
        let name = self.node(node).name;
        for _ in 0..n {
            self.push_node(node, name, NodeKind::Busy);
        }
        self.set_kind(node, NodeKind::Array { dims: Rc::from(dims.as_slice()), first, class });
        let mut index: SmallVec<[u32; 2]> = SmallVec::from_elem(0, dims.len());
        let mut result = Ok(());
        for at in 0..n {
            let layers = full_layers(&index);
            let path: Arc<str> = Arc::from(format!("{path}{}", index_text(&index)));
            let element = NodeId(first.0 + at as u32);
            if self.make_complex(element, class, layers, path, inherited, class_use.is_connector, elem.span).is_err() {
                result = Err(Refused);
                if self.n_errors > 50 {
                    break;
                }
            }
            next_index(&mut index, &dims);
        }
        result
    }

    fn make_object(&mut self, node: NodeId, elem: &Elem<'a>, layers: Layers, is_array: bool) -> Res<()> {
        if is_array {
            return Err(self.unsupported("arrays of external objects", elem.span, &format!("`{}`", elem.name)));
        }
        let object = ObjectNode { layers, span: elem.span, value: None.into() };
        self.set_kind(node, NodeKind::Object(Rc::new(object)));
        Ok(())
    }

    /// Whether the condition of a component holds.
    fn is_met(&mut self, condition: &'a Expr, ctx: &mut Ctx) -> Res<bool> {
        let value = self.expr(condition, ctx)?;
        let scalars = self.boolean(value, "the condition of a component", condition.span)?;
        let item = self.single(&scalars, condition.span)?;
        Ok(self.known_number(item, condition.span)? != 0.0)
    }

    /// The dimensions of a component, those of its declaration before those of its type, and how many are the former.
    fn dim_sources(
        &self,
        parent: NodeId,
        elem: &Elem<'a>,
        decl: &'a ComponentDecl,
        declaration: &Declaration<'a>,
        class_use: &ClassUse<'a>,
    ) -> (SmallVec<[DimSource<'a>; 2]>, usize) {
        let mut dim_sources: SmallVec<[DimSource<'a>; 2]> = SmallVec::new();
        let has_own = !declaration.decl.subscripts.is_empty() || !declaration.decl.type_subscripts.is_empty();
        let (from, scope, instance) = if has_own || std::ptr::eq(decl, declaration.decl) {
            (declaration.decl, declaration.scope, declaration.instance)
        } else {
            (decl, elem.owner, parent)
        };
        for subscript in from.subscripts.iter().chain(&from.type_subscripts) {
            dim_sources.push(DimSource { subscript, scope, instance });
        }
        let n_own = dim_sources.len();
        for item in &class_use.items {
            for subscript in item.dims {
                let scope = item.scope.unwrap_or(declaration.scope);
                // A short class found in the instance's own class reads its sizes there.
                let instance = item.layers.last().map_or(NodeId::NONE, |layer| layer.instance);
                let instance =
                    if self.is_scope_of(declaration.instance, scope) { declaration.instance } else { instance };
                dim_sources.push(DimSource { subscript, scope, instance });
            }
        }
        (dim_sources, n_own)
    }

    /// Whether a node is an element of an array of components, or inside one.
    pub(crate) fn is_in_array(&self, id: NodeId) -> bool {
        let mut at = id;
        while at.is_some() {
            if matches!(self.node(at).kind, NodeKind::Array { .. }) {
                return true;
            }
            at = self.node(at).parent;
        }
        false
    }

    /// Whether a node is an instance of a class, or of one derived from it.
    fn is_scope_of(&self, instance: NodeId, scope: ClassId) -> bool {
        instance.is_some() && self.complex(instance).is_some_and(|complex| self.inherits(complex.class, scope))
    }

    /// Whether `class` is `base` or has it among its base classes.
    pub(crate) fn inherits(&self, class: ClassId, base: ClassId) -> bool {
        let mut seen = rustc_hash::FxHashSet::default();
        let mut waiting = vec![class];
        while let Some(at) = waiting.pop() {
            if at == base {
                return true;
            }
            if seen.insert(at) {
                waiting.extend(&self.class(at).bases);
            }
        }
        false
    }

    /// Refuses more scalars than the limit.
    pub(crate) fn check_count(&mut self, n: usize, span: Span) -> Res<()> {
        if n > self.options.max_scalars || self.variables.len() + n > self.options.max_scalars {
            return Err(self.limit("the number of scalar variables", self.options.max_scalars, span));
        }
        self.check_memory(n.saturating_mul(size_of::<daesy_graph::Variable>()), span)?;
        self.spend(n, span)
    }

    /// The declaration that counts, with the layers of modifications that reach it.
    fn declaration(
        &mut self,
        parent_id: NodeId,
        parent: &Complex,
        elem: &Rc<Elem<'a>>,
        decl: &'a ComponentDecl,
    ) -> Res<Declaration<'a>> {
        let is_valued = parent.is_record || parent.layers.iter().any(|layer| layer.is_field);
        let mut layers = self.child_layers(&parent.layers, elem.name, is_valued);
        self.check_modifiable(parent_id, parent, elem, &layers)?;
        layers.extend(Self::fill_instance(&elem.layers, parent_id));
        let is_final = self.check_final(elem, &layers)?;
        let own = decl.modification.as_deref().map(|written| Layer::new(self.mod_tree(written), elem.owner, parent_id));
        let constraining = elem.constraint.and_then(|constraint| constraint.modification.as_deref());
        let Some(at) = layers.iter().position(|layer| self.modifier(layer.mods).redeclare.is_some()) else {
            layers.extend(own);
            layers.extend(constraining.map(|written| Layer::new(self.mod_tree(written), elem.owner, parent_id)));
            return Ok(Declaration { decl, scope: elem.owner, instance: parent_id, layers, is_final });
        };
        let layer = layers[at].clone();
        let (component, constraint) = self.redeclaring(elem, decl, &layers[at..])?;
        let mut kept: Layers = layers[..at].iter().cloned().collect();
        if let Some(modification) = component.modification.as_deref() {
            kept.push(Layer { mods: self.mod_tree(modification), is_field: false, ..layer.clone() });
        }
        // Modifications of the constraining type hold for the new declaration as well, those of a later redeclaration
        // before those of an earlier one; without `constrainedby` they are those of the declaration itself, its value
        // excepted [@modelica36, sec. 7.3.2].
        if let Some(modification) = constraint.and_then(|one| one.modification.as_deref()) {
            kept.push(Layer { mods: self.mod_tree(modification), is_field: false, ..layer.clone() });
        }
        for lower in &layers[at + 1..] {
            if let Some(ElementKind::Component { constraint: Some(constraint), .. }) =
                self.modifier(lower.mods).redeclare.map(|element| &element.kind)
                && let Some(modification) = constraint.modification.as_deref()
            {
                kept.push(Layer { mods: self.mod_tree(modification), is_field: false, ..lower.clone() });
            }
        }
        if elem.constraint.is_some() {
            kept.extend(constraining.map(|written| Layer::new(self.mod_tree(written), elem.owner, parent_id)));
        } else {
            let is_value = |layer: &Layer| self.modifier(layer.mods).redeclare.is_none();
            let lower: Layers = layers.drain(at + 1..).filter(is_value).chain(own).collect();
            kept.extend(lower.into_iter().map(|layer| Layer { mods: self.without_value(layer.mods), ..layer }));
        }
        self.check_component_redeclare(elem, decl, component, &layer, parent_id)?;
        Ok(Declaration { decl: component, scope: layer.scope, instance: layer.instance, layers: kept, is_final })
    }

    /// Refuses modifications of an element that come from where they may not.
    fn check_modifiable(
        &mut self,
        parent_id: NodeId,
        parent: &Complex,
        elem: &Rc<Elem<'a>>,
        layers: &[Layer],
    ) -> Res<()> {
        // `each` needs an array around it.
        let misplaced = parent
            .layers
            .iter()
            .filter(|layer| layer.path.is_empty() && !layer.is_field)
            .find_map(|layer| self.layer_child(layer, elem.name).filter(|child| self.modifier(child.mods).is_each))
            .filter(|_| !self.is_in_array(parent_id));
        if let Some(layer) = misplaced {
            let message = format!("`each {}` on something that is not an array", elem.name);
            let span = self.modifier(layer.mods).span;
            return Err(self.error_help("misplaced-each", span, message, "remove `each`"));
        }
        if layers.iter().any(|layer| !layer.is_field) && elem.prefixes.is_protected && !parent.inherited.in_package {
            let span =
                layers.iter().find(|layer| !layer.is_field).map_or(elem.span, |layer| self.modifier(layer.mods).span);
            let finding = Finding::error(
                "protected-access",
                span,
                format!("`{}` is protected and cannot be modified", elem.name),
            )
            .with_label(elem.span, "declared here")
            .with_help("modify it in the class that extends its class, or make it public");
            return Err(self.report(finding));
        }
        Ok(())
    }

    /// Whether a component is final; what is final may not be modified from further outside.
    fn check_final(&mut self, elem: &Elem<'a>, layers: &[Layer]) -> Res<bool> {
        let mut is_final = elem.prefixes.is_final;
        if let Some(at) = layers.iter().position(|layer| self.modifier(layer.mods).is_final && !layer.is_field) {
            is_final = true;
            if let Some(outer) = layers[..at].iter().find(|layer| !layer.is_field) {
                return Err(self.final_override(elem, outer.mods, self.modifier(layers[at].mods).span));
            }
            if let Some(outer) = layers.iter().find(|_| elem.prefixes.is_final) {
                return Err(self.final_override(elem, outer.mods, elem.span));
            }
        } else if elem.prefixes.is_final
            && let Some(outer) = layers.iter().find(|layer| !layer.is_field && !self.is_from_constraint(layer))
        {
            return Err(self.final_override(elem, outer.mods, elem.span));
        }
        Ok(is_final)
    }

    /// The component, and its constraint, by which the first layer redeclares an element; the others reach the element
    /// from further inside.
    fn redeclaring(
        &mut self,
        elem: &Elem<'a>,
        decl: &ComponentDecl,
        layers: &[Layer],
    ) -> Res<(&'a ComponentDecl, Option<&'a Constraint>)> {
        let element = self.modifier(layers[0].mods).redeclare.ok_or(Refused)?;
        let ElementKind::Component { component, constraint, .. } = &element.kind else {
            let message = format!("`{}` is a component and cannot be redeclared as a class", elem.name);
            return Err(self.error("redeclare-kind", element.span, message));
        };
        let below = layers[1..].iter().find_map(|layer| self.modifier(layer.mods).redeclare);
        let is_replaceable = match below.map(|element| &element.kind) {
            Some(ElementKind::Component { prefixes, .. }) => prefixes.is_replaceable,
            _ => elem.prefixes.is_replaceable,
        };
        if !is_replaceable {
            let finding = Finding::error(
                "not-replaceable",
                element.span,
                format!("`{}` is not replaceable and cannot be redeclared", elem.name),
            )
            .with_label(elem.span, "declared here")
            .with_help("declare it `replaceable`");
            return Err(self.report(finding));
        }
        if decl.variability == Some(VariabilityPrefix::Constant) {
            let message = format!("the constant `{}` cannot be redeclared", elem.name);
            return Err(self.error("redeclare-constant", element.span, message));
        }
        Ok((component, constraint.as_deref()))
    }

    fn is_from_constraint(&self, layer: &Layer) -> bool {
        let node = self.modifier(layer.mods);
        node.binding.is_none() && node.children.is_empty() && node.redeclare.is_none() && !node.is_break
    }

    fn final_override(&mut self, elem: &Elem<'a>, outer: super::modifier::ModId, span: Span) -> Refused {
        let finding = Finding::error(
            "final-override",
            self.modifier(outer).span,
            format!("`{}` is final and cannot be modified", elem.name),
        )
        .with_label(span, "made final here")
        .with_help("remove this modification, or the `final`");
        self.report(finding)
    }

    /// The dotted name of a node for findings.
    pub(crate) fn node_path(&self, id: NodeId) -> String {
        match &self.node(id).kind {
            NodeKind::Complex(complex) => complex.path.to_string(),
            _ => {
                let parent = self.node(id).parent;
                let prefix = if parent.is_some() { self.node_path(parent) } else { String::new() };
                Self::child_path(&prefix, self.node(id).name)
            }
        }
    }
}

/// Layers with an element's index added to the way from their values.
fn index_layers(layers: &[Layer], index: &[u32]) -> Layers {
    layers
        .iter()
        .map(|layer| {
            let mut layer = layer.clone();
            if !index.is_empty() {
                layer.path.push(Access::Index(index.iter().copied().collect()));
            }
            layer
        })
        .collect()
}

/// `[1,2]`
pub(crate) fn index_text(index: &[u32]) -> String {
    use std::fmt::Write;
    let mut text = String::with_capacity(2 + 4 * index.len());
    text.push('[');
    for (at, one) in index.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        let _ = write!(text, "{}", one + 1);
    }
    text.push(']');
    text
}

/// Counts up, the last dimension fastest.
pub(crate) fn next_index(index: &mut [u32], dims: &[usize]) {
    for at in (0..dims.len()).rev() {
        index[at] += 1;
        if (index[at] as usize) < dims[at] {
            return;
        }
        index[at] = 0;
    }
}

/// Whether an expression uses a name.
pub(crate) fn mentions(expr: &Expr, name: Name) -> bool {
    let mut found = false;
    super::check::names_in(expr, &mut |one| found |= one == name);
    found
}

/// The prefix that allows less change.
fn stricter(left: Option<VariabilityPrefix>, right: Option<VariabilityPrefix>) -> Option<VariabilityPrefix> {
    match (left, right) {
        (Some(left), Some(right)) => Some(left.min(right)),
        (left, right) => left.or(right),
    }
}
