//! What a class name means when it is used: short classes followed, nested classes as redeclared.

use std::rc::Rc;

use smallvec::{SmallVec, smallvec};

use super::class::{Class, ClassUse, Core, State, UseItem};
use super::modifier::{Layer, Layers};
use super::{ClassId, Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{ClassBody, ClassKind};

impl<'a> Flattener<'a> {
    /// The same class with its modifications read in `instance` where that was open; [`NodeId::NONE`] stands for the
    /// top.
    pub(crate) fn bind_context(&mut self, id: ClassId, instance: NodeId) -> ClassId {
        let class = self.class(id);
        let is_open = |layer: &Layer| layer.instance == NodeId::SELF && instance != NodeId::SELF;
        let is_open_short = (class.core == Core::Short && class.context == NodeId::NONE && instance != NodeId::NONE)
            || (class.context == NodeId::SELF && instance != NodeId::SELF);
        if !is_open_short && !class.outer.iter().any(is_open) && !class.inner.iter().any(is_open) {
            return id;
        }
        if let Some(&bound) = self.bound.get(&(id, instance)) {
            return bound;
        }
        let mut copy = Class::new(class.name, class.full.clone(), class.kind, class.core.clone(), class.parent);
        copy.ast = class.ast;
        copy.folder = class.folder;
        let is_unbound = class.context == NodeId::NONE || class.context == NodeId::SELF;
        copy.context = if is_unbound { instance } else { class.context };
        copy.outer = Self::fill_instance(&class.outer, instance).into_vec();
        copy.inner = Self::fill_instance(&class.inner, instance).into_vec();
        copy.original = class.original;
        let bound = self.push_class(copy);
        self.bound.insert((id, instance), bound);
        bound
    }

    /// The class with redeclarations and modifications of nested classes applied; itself when there are none.
    pub(crate) fn specialize(&mut self, id: ClassId, layers: &[Layer]) -> Res<ClassId> {
        let relevant: Vec<Layer> = {
            let mut relevant = Vec::new();
            let mut is_expanded = false;
            for layer in layers {
                if layer.is_field {
                    continue;
                }
                let node = self.modifier(layer.mods);
                // The constants of a package belong to it: a package with other values is another package.
                let is_package = self.class(id).kind == ClassKind::Package && !node.children.is_empty();
                let mut is_relevant = node.has_class_redeclare || is_package;
                if !is_relevant && !node.children.is_empty() {
                    if !is_expanded {
                        if self.class(id).state == State::New {
                            self.expand(id)?;
                        }
                        is_expanded = true;
                    }
                    let node = self.modifier(layer.mods);
                    let class = self.class(id);
                    is_relevant = node.children.iter().any(|&child| {
                        let name = self.modifier(child).name;
                        class.table.get(&name).is_some_and(|&at| !class.elements[at as usize].is_component())
                    });
                }
                if is_relevant {
                    relevant.push(layer.clone());
                }
            }
            relevant
        };
        if relevant.is_empty() {
            return Ok(id);
        }
        let key = (id, relevant);
        if let Some(&found) = self.specialized.get(&key) {
            return Ok(found);
        }
        let class = self.class(id);
        let mut copy = Class::new(class.name, class.full.clone(), class.kind, class.core.clone(), class.parent);
        copy.ast = class.ast;
        copy.folder = class.folder;
        copy.context = class.context;
        copy.original = class.original;
        copy.outer = key.1.iter().chain(&class.outer).cloned().collect();
        copy.inner = class.inner.clone();
        let special = self.push_class(copy);
        self.specialized.insert(key, special);
        Ok(special)
    }

    /// Follows short classes to what is meant.
    pub(crate) fn class_use(&mut self, id: ClassId) -> Res<Rc<ClassUse<'a>>> {
        if let Some(cached) = &self.class(id).use_cache {
            return cached.clone();
        }
        if self.expand_depth > self.options.max_depth {
            let span = self.class(id).span();
            return Err(self.error_help(
                "cyclic-class",
                span,
                format!("class `{}` is defined by itself", self.class(id).full),
                "short class definitions must end at a class with a body or a predefined type",
            ));
        }
        self.expand_depth += 1;
        let result = self.class_use_inner(id);
        self.expand_depth -= 1;
        self.class_mut(id).use_cache = Some(result.clone());
        result
    }

    pub(crate) fn class_use_inner(&mut self, id: ClassId) -> Res<Rc<ClassUse<'a>>> {
        let class = self.class(id);
        let is_connector = matches!(class.kind, ClassKind::Connector | ClassKind::ExpandableConnector);
        let is_partial = class.ast.is_some_and(|ast| ast.is_partial);
        let mut layers: Layers = class.outer.iter().cloned().collect();
        match &class.core {
            Core::Unsupported(feature) => {
                let (feature, span, full) = (*feature, class.span(), class.full.clone());
                Err(self.unsupported(feature, span, &format!("`{full}`")))
            }
            Core::Short => self.short_use(id, is_connector, is_partial, layers),
            core => {
                if *core == Core::Long {
                    self.expand(id)?;
                }
                layers.extend(self.class(id).inner.iter().cloned());
                let Some(chain) = self.class(id).primitive.clone() else {
                    return Ok(Rc::new(ClassUse {
                        class: id,
                        items: smallvec![UseItem { layers, dims: &[], scope: None }],
                        causality: None,
                        is_connector,
                        is_partial,
                        constrained: None,
                    }));
                };
                if !self.class(id).components.is_empty() {
                    let (span, full) = (self.class(id).span(), self.class(id).full.clone());
                    let message = format!("`{full}` extends a predefined type and cannot have components");
                    return Err(self.error("extends-primitive", span, message));
                }
                let mut chain = ClassUse::clone(&chain);
                chain.is_connector |= is_connector;
                chain.is_partial |= is_partial;
                if self.class(id).table.contains_key(&Name::new("equalityConstraint")) {
                    chain.constrained = Some(id);
                }
                if !layers.is_empty() {
                    chain.items.insert(0, UseItem { layers, dims: &[], scope: None });
                }
                Ok(Rc::new(chain))
            }
        }
    }

    /// The use of a short class: that of its base, with the modifications that the definition adds to `layers`.
    fn short_use(
        &mut self,
        id: ClassId,
        is_connector: bool,
        is_partial: bool,
        mut layers: Layers,
    ) -> Res<Rc<ClassUse<'a>>> {
        let class = self.class(id);
        let Some(ClassBody::Short { causality, base, subscripts, modification }) = class.ast.map(|ast| &ast.body)
        else {
            return Err(Refused);
        };
        let (parent, context) = (class.parent, class.context);
        let inner = class.inner.clone();
        let base_class = self.resolve_class(base, parent, context)?;
        let base_use = self.class_use(base_class)?;
        if let Some(modification) = modification.as_deref() {
            layers.push(Layer::new(self.mod_tree(modification), parent, context));
        }
        layers.extend(inner);
        let item = UseItem { layers: layers.clone(), dims: subscripts, scope: Some(parent) };
        self.check_short(id, base_use.class, base)?;
        let mut items: SmallVec<[UseItem<'a>; 1]> = smallvec![item];
        items.extend(base_use.items.iter().cloned());
        let core = if self.class(base_use.class).core.is_primitive() {
            base_use.class
        } else {
            let special = self.specialize(base_use.class, &layers)?;
            if let Some(modification) = modification.as_deref() {
                self.expand(special)?;
                let layer = Layer::new(self.mod_tree(modification), parent, context);
                self.check_layer_names(special, &layer, false)?;
            }
            special
        };
        Ok(Rc::new(ClassUse {
            class: core,
            items,
            causality: causality.or(base_use.causality),
            is_connector: is_connector || base_use.is_connector,
            is_partial: is_partial || (base_use.is_partial && self.class(id).kind != ClassKind::Type),
            constrained: base_use.constrained,
        }))
    }
}
