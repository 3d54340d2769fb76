//! Variables of the flat model, their sizes, and outer components.

use std::rc::Rc;
use std::sync::Arc;

use daesy_graph::flat::{ValueType, Variable};
use daesy_graph::{Finding, Span, VarId, VariableKind};
use smallvec::SmallVec;

use super::class::{ClassUse, Core, Elem};
use super::expr::{Ctx, Variability};
use super::instance::{
    Complex, Declaration, DimSource, Inherited, NodeKind, Prim, PrimId, index_text, mentions, next_index,
};
use super::modifier::{Layer, Layers};
use super::value::{Dims, Type, count};
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{Causality, ComponentDecl, ConnectorPrefix, Subscript, VariabilityPrefix};

impl<'a> Flattener<'a> {
    /// Sizes of a component.
    pub(crate) fn component_dims(
        &mut self,
        sources: &[DimSource<'a>],
        declaration: &Declaration<'a>,
        elem: &Rc<Elem<'a>>,
    ) -> Res<Dims> {
        let mut dims = Dims::new();
        let mut from_value: Option<Dims> = None;
        for (at, source) in sources.iter().enumerate() {
            match source.subscript {
                Subscript::All(span) => {
                    if from_value.is_none() {
                        from_value = Some(self.value_dims(declaration, elem, *span, sources.len())?);
                    }
                    let known = from_value.as_ref().and_then(|dims| dims.get(at).copied());
                    let Some(size) = known else {
                        let message = format!("the value of `{}` has too few dimensions for `:`", elem.name);
                        return Err(self.error("wrong-size", *span, message));
                    };
                    dims.push(size);
                }
                // `A[:, size(A, 1)]`: the value knows.
                Subscript::Expr(expr) if mentions(expr, elem.name) => {
                    if from_value.is_none() {
                        from_value = Some(self.value_dims(declaration, elem, expr.span, sources.len())?);
                    }
                    match from_value.as_ref().and_then(|dims| dims.get(at).copied()) {
                        Some(size) => dims.push(size),
                        None => {
                            let message = format!("the value of `{}` has too few dimensions", elem.name);
                            return Err(self.error("wrong-size", expr.span, message));
                        }
                    }
                }
                Subscript::Expr(expr) => {
                    if let crate::syntax::ExprKind::Ref(reference) = &expr.kind {
                        let ctx = Ctx::structural(source.scope, source.instance);
                        match self.index_type(reference, &ctx) {
                            Some(Type::Boolean) => {
                                dims.push(2);
                                continue;
                            }
                            Some(Type::Enumeration(enumeration)) => {
                                dims.push(enumeration.literals.len());
                                continue;
                            }
                            _ => {}
                        }
                    }
                    let mut ctx = Ctx::structural(source.scope, source.instance);
                    let size = self.structural_scalar(expr, &mut ctx, "an array size")?;
                    if size.ty != Type::Integer {
                        let message = format!("an array size is an Integer, not {}", size.ty.word());
                        return Err(self.error("wrong-type", expr.span, message));
                    }
                    if size.value < 0.0 {
                        let message = format!("the size of `{}` is {}", elem.name, size.value);
                        return Err(self.error("negative-size", expr.span, message));
                    }
                    dims.push(size.value as usize);
                }
            }
        }
        Ok(dims)
    }

    /// Sizes of the value a declaration is given.
    pub(crate) fn value_dims(
        &mut self,
        declaration: &Declaration<'a>,
        elem: &Elem<'a>,
        span: Span,
        rank: usize,
    ) -> Res<Dims> {
        let found = declaration.layers.iter().find(|layer| {
            let node = self.modifier(layer.mods);
            layer.is_field || node.binding.is_some()
        });
        if let Some(layer) = found.cloned() {
            let value = self.layer_value(&layer, false)?;
            return Ok(value.dims().iter().copied().collect());
        }
        // Sizes may follow from an attribute or from the values of a record's fields.
        for layer in &declaration.layers {
            let children = self.modifier(layer.mods).children.clone();
            for child in children {
                let node = self.modifier(child);
                if node.binding.is_some() && !node.is_each {
                    let layer = Layer { mods: child, ..layer.clone() };
                    let value = self.layer_value(&layer, false)?;
                    if value.dims().len() >= rank {
                        return Ok(value.dims()[..rank].iter().copied().collect());
                    }
                }
            }
        }
        let message = format!("the size of `{}` is `:` but it has no value to take it from", elem.name);
        Err(self.error_help("unknown-size", span, message, "give it a value, or write the size as a number"))
    }

    #[allow(clippy::too_many_arguments, reason = "what a variable consists of")]
    pub(crate) fn make_primitive(
        &mut self,
        node: NodeId,
        parent_id: NodeId,
        parent: &Complex,
        elem: &Rc<Elem<'a>>,
        declaration: Declaration<'a>,
        class_use: Rc<ClassUse<'a>>,
        dims: Dims,
        n_own_dims: usize,
        inherited: Inherited,
    ) -> Res<()> {
        let n = count(&dims);
        self.check_count(n, elem.span)?;
        let (ty, value_type) = match &self.class(class_use.class).core {
            Core::Real => (Type::Real, ValueType::Real),
            Core::Integer => (Type::Integer, ValueType::Integer),
            Core::Boolean => (Type::Boolean, ValueType::Boolean),
            Core::String => (Type::String, ValueType::String),
            Core::Enumeration(enumeration) => {
                (Type::Enumeration(enumeration.clone()), ValueType::Enumeration(enumeration.clone()))
            }
            _ => return Err(Refused),
        };
        let variability = match inherited.variability {
            Some(VariabilityPrefix::Constant) => Variability::Constant,
            Some(VariabilityPrefix::Parameter) => Variability::Parameter,
            Some(VariabilityPrefix::Discrete) => Variability::Discrete,
            None if ty == Type::Real => Variability::Continuous,
            None => Variability::Discrete,
        };
        if parent.inherited.in_package && variability != Variability::Constant && !parent.is_record {
            let message = format!("`{}` in `{}` is not a constant", elem.name, parent.path);
            return Err(self.error_help(
                "not-constant",
                elem.span,
                message,
                "only constants can be used from enclosing classes and packages",
            ));
        }
        let has_value =
            declaration.layers.iter().any(|layer| layer.is_field || self.modifier(layer.mods).binding.is_some());
        let kind = match variability {
            Variability::Constant => VariableKind::Constant,
            Variability::Parameter => VariableKind::Parameter,
            _ if inherited.is_top && inherited.causality == Some(Causality::Input) && !has_value => VariableKind::Input,
            Variability::Discrete => VariableKind::Discrete,
            Variability::Continuous => VariableKind::Continuous,
        };
        let prim_id = PrimId(self.prims.len() as u32);
        let mut first = None;
        if !inherited.in_package {
            first = Some(VarId(self.variables.len() as u32));
            let path = Self::child_path(&parent.path, elem.name);
            self.keep_bytes(n.saturating_mul(path.len()), elem.span)?;
            let mut index: SmallVec<[u32; 2]> = SmallVec::from_elem(0, dims.len());
            for _ in 0..n {
                let name = if dims.is_empty() { path.clone() } else { format!("{path}{}", index_text(&index)) };
                self.variables.push(Variable {
                    description: declaration.decl.description.clone(),
                    value_type: value_type.clone(),
                    is_output: inherited.is_top && inherited.causality == Some(Causality::Output),
                    is_flow: inherited.connector_prefix == Some(ConnectorPrefix::Flow),
                    is_protected: inherited.is_protected,
                    is_final: inherited.is_final,
                    ..Variable::new(name, kind, declaration.decl.name.span)
                });
                self.var_prims.push(prim_id);
                next_index(&mut index, &dims);
            }
        }
        self.check_prim_names(&declaration.layers, &ty)?;
        let path = inherited.in_package.then(|| parent.path.clone());
        self.prims.push(Prim {
            parent: parent_id,
            ty,
            dims: Rc::from(dims.as_slice()),
            first,
            variability,
            causality: inherited.causality,
            connector_prefix: inherited.connector_prefix.filter(|_| inherited.in_connector),
            layers: declaration.layers,
            class_use,
            n_own_dims,
            elem: elem.clone(),
            path,
            is_structural: false,
            value: None,
        });
        self.set_kind(node, NodeKind::Primitive(prim_id));
        Ok(())
    }

    /// A variable like another one, as a new member of an expandable connector.
    pub(crate) fn copy_primitive(
        &mut self,
        node: NodeId,
        parent_id: NodeId,
        like: PrimId,
        dims: &[usize],
        path: &str,
        inherited: Inherited,
    ) -> Res<()> {
        let n = count(dims);
        let elem = self.prim(like).elem.clone();
        self.check_count(n, elem.span)?;
        self.keep_bytes(n.saturating_mul(path.len()), elem.span)?;
        let Some(model) = self.prim(like).first.map(|first| self.variables[first.index()].clone()) else {
            return Err(Refused);
        };
        let first = VarId(self.variables.len() as u32);
        let prim_id = PrimId(self.prims.len() as u32);
        let is_discrete = self.prim(like).variability == Variability::Discrete;
        let mut index: SmallVec<[u32; 2]> = SmallVec::from_elem(0, dims.len());
        for _ in 0..n {
            let name = if dims.is_empty() { path.to_owned() } else { format!("{path}{}", index_text(&index)) };
            self.variables.push(Variable {
                name,
                kind: if is_discrete { VariableKind::Discrete } else { VariableKind::Continuous },
                is_output: false,
                is_flow: false,
                is_protected: inherited.is_protected,
                ..model.clone()
            });
            self.var_prims.push(prim_id);
            next_index(&mut index, dims);
        }
        let source = self.prim(like);
        let prim = Prim {
            parent: parent_id,
            ty: source.ty.clone(),
            dims: Rc::from(dims),
            first: Some(first),
            variability: source.variability,
            causality: None,
            connector_prefix: None,
            layers: Layers::new(),
            class_use: source.class_use.clone(),
            n_own_dims: dims.len(),
            elem,
            path: None,
            is_structural: false,
            value: None,
        };
        self.prims.push(prim);
        self.set_kind(node, NodeKind::Primitive(prim_id));
        Ok(())
    }

    /// An outer component: finds the inner one in the enclosing instances.
    pub(crate) fn make_outer(
        &mut self,
        node: NodeId,
        parent_id: NodeId,
        elem: &Rc<Elem<'a>>,
        decl: &'a ComponentDecl,
    ) -> Res<()> {
        if decl.modification.is_some() {
            let message = format!("the outer component `{}` cannot have modifications", elem.name);
            self.error_help("outer-modified", elem.span, message, "modify the inner component");
        }
        if let Some(inner) = self.find_inner(parent_id, elem.name) {
            self.set_kind(node, NodeKind::Alias(inner));
            return self.check_inner_outer(inner, elem, decl);
        }
        if let Some(&inner) = self.auto_inner.get(&elem.name) {
            self.set_kind(node, NodeKind::Alias(inner));
            return Ok(());
        }
        let class = self.resolve_class(&decl.type_name, elem.owner, parent_id)?;
        let class_use = self.class_use(class)?;
        if class_use.is_partial || self.class(class_use.class).core.is_primitive() || !decl.subscripts.is_empty() {
            let finding = Finding::error(
                "missing-inner",
                elem.span,
                format!("no enclosing component declares `inner {}`", elem.name),
            )
            .with_help(format!(
                "declare `inner {} {};` in the model",
                super::lookup::dotted(&decl.type_name.parts),
                elem.name
            ));
            return Err(self.report(finding));
        }
        self.report(
            Finding::warning(
                "missing-inner",
                elem.span,
                format!(
                    "no enclosing component declares `inner {}`; one with default values was added at the top",
                    elem.name
                ),
            )
            .with_help(format!(
                "declare `inner {} {};` in the model",
                super::lookup::dotted(&decl.type_name.parts),
                elem.name
            )),
        );
        let layers = class_use.layers();
        let core = self.specialize(class_use.class, &layers)?;
        let inner = self.push_node(self.root, elem.name, NodeKind::Busy);
        self.auto_inner.insert(elem.name, inner);
        self.set_kind(node, NodeKind::Alias(inner));
        self.make_complex(
            inner,
            core,
            layers,
            Arc::from(elem.name.text()),
            Inherited::default(),
            class_use.is_connector,
            elem.span,
        )
    }

    /// The inner component of a name in the instances around one.
    pub(crate) fn find_inner(&self, instance: NodeId, name: Name) -> Option<NodeId> {
        let mut at = self.node(instance).parent;
        while at.is_some() {
            if let Some(complex) = self.complex(at) {
                let class = self.class(complex.class);
                if let Some(&found) = class.table.get(&name)
                    && class.elements[found as usize].prefixes.is_inner
                {
                    return self.child(&complex, name);
                }
            }
            at = self.node(at).parent;
        }
        None
    }
}
