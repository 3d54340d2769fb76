//! Modifications: what is written in parentheses and after `=`, as trees, and the layers of them that meet at one
//! element.
//!
//! Nothing is merged. An element is reached through a list of *layers*, outermost first; each layer is one tree as it
//! was written, with the place (class and instance) in which its expressions are to be read. The value of an attribute
//! is that of the first layer that has one: outer modifications override inner ones [@modelica36, sec. 7.2.4].

use daesy_graph::{Finding, Span};
use smallvec::SmallVec;

use super::{ClassId, Flattener, NodeId};
use crate::name::Name;
use crate::syntax::{Argument, BreakTarget, Element, ElementKind, Expr, Modification, ModificationValue};

/// A modification in the flattener's arena.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct ModId(pub u32);

/// One modified element.
#[derive(Debug)]
pub(crate) struct ModNode<'a> {
    /// Name of the modified element.
    pub name: Name,
    /// `= value`
    pub binding: Option<&'a Expr>,
    /// `= break`: the value is taken away.
    pub is_break: bool,
    /// `each`
    pub is_each: bool,
    /// `final`
    pub is_final: bool,
    /// `redeclare ..`
    pub redeclare: Option<&'a Element>,
    /// Whether the element redeclares a class, here or in a child.
    pub has_class_redeclare: bool,
    /// Modifications of its elements.
    pub children: SmallVec<[ModId; 4]>,
    /// Its place.
    pub span: Span,
}

/// A step from the value of a modification to the part that is meant for one element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Access {
    /// The element of an array, from 0.
    Index(SmallVec<[u32; 2]>),
    /// The field of a record.
    Field(Name),
}

/// A modification on its way to an element.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Layer {
    /// The modification.
    pub mods: ModId,
    /// Only its value counts: it belongs to an enclosing record, and `path` leads from its value to this element's.
    pub is_field: bool,
    /// From the value to what this element gets.
    pub path: SmallVec<[Access; 1]>,
    /// The class in which its expressions are read.
    pub scope: ClassId,
    /// The instance of that class; [`NodeId::SELF`] until it is known.
    pub instance: NodeId,
}

impl Layer {
    /// A modification of what is declared in `scope` itself.
    pub(crate) fn new(mods: ModId, scope: ClassId, instance: NodeId) -> Self {
        Self { mods, is_field: false, path: SmallVec::new(), scope, instance }
    }
}

/// Layers, outermost first.
pub(crate) type Layers = SmallVec<[Layer; 2]>;

impl<'a> Flattener<'a> {
    /// The node of a modification.
    pub(crate) fn modifier(&self, id: ModId) -> &ModNode<'a> {
        &self.mods[id.0 as usize]
    }

    fn push_mod(&mut self, node: ModNode<'a>) -> ModId {
        self.mods.push(node);
        ModId(self.mods.len() as u32 - 1)
    }

    /// The tree of a modification as written, made once.
    pub(crate) fn mod_tree(&mut self, modification: &'a Modification) -> ModId {
        let key = std::ptr::from_ref(modification) as usize;
        if let Some(&id) = self.mod_cache.get(&key) {
            return id;
        }
        let span = modification.span.unwrap_or(Span::NONE);
        let id = self.build_mod(Name::new(""), Some(modification), span, 0);
        self.mod_cache.insert(key, id);
        id
    }

    /// A tree that holds nothing but redeclarations written as elements of a class.
    pub(crate) fn redeclare_tree(&mut self, elements: &[&'a Element]) -> ModId {
        let mut children = SmallVec::new();
        let mut has_class_redeclare = false;
        for element in elements {
            if let Some(child) = self.redeclare_node(element, false) {
                has_class_redeclare |= self.modifier(child).has_class_redeclare;
                children.push(child);
            }
        }
        self.push_mod(ModNode {
            name: Name::new(""),
            binding: None,
            is_break: false,
            is_each: false,
            is_final: false,
            redeclare: None,
            has_class_redeclare,
            children,
            span: Span::NONE,
        })
    }

    fn redeclare_node(&mut self, element: &'a Element, is_each: bool) -> Option<ModId> {
        let (name, is_class, prefixes) = match &element.kind {
            ElementKind::Class { class, prefixes, .. } => (class.name.name, true, prefixes),
            ElementKind::Component { component, prefixes, .. } => (component.name.name, false, prefixes),
            _ => return None,
        };
        Some(self.push_mod(ModNode {
            name,
            binding: None,
            is_break: false,
            is_each,
            is_final: prefixes.is_final,
            redeclare: Some(element),
            has_class_redeclare: is_class,
            children: SmallVec::new(),
            span: element.span,
        }))
    }

    fn build_mod(&mut self, name: Name, modification: Option<&'a Modification>, span: Span, depth: usize) -> ModId {
        let mut node = ModNode {
            name,
            binding: None,
            is_break: false,
            is_each: false,
            is_final: false,
            redeclare: None,
            has_class_redeclare: false,
            children: SmallVec::new(),
            span,
        };
        let Some(modification) = modification else { return self.push_mod(node) };
        if depth > self.options.max_depth {
            self.limit("modification depth", self.options.max_depth, span);
            return self.push_mod(node);
        }
        match &modification.value {
            Some(ModificationValue::Expr(value)) => node.binding = Some(value),
            Some(ModificationValue::Break(_)) => node.is_break = true,
            None => {}
        }
        for argument in &modification.args {
            let child = match argument {
                Argument::Modify { is_each, is_final, name, modification, span, .. } => {
                    let Some(last) = name.parts.last() else { continue };
                    let mut child = self.build_mod(last.name, modification.as_deref(), *span, depth + 1);
                    self.mods[child.0 as usize].is_final = *is_final;
                    for part in name.parts.iter().rev().skip(1) {
                        let has_class_redeclare = self.modifier(child).has_class_redeclare;
                        child = self.push_mod(ModNode {
                            name: part.name,
                            binding: None,
                            is_break: false,
                            is_each: false,
                            is_final: false,
                            redeclare: None,
                            has_class_redeclare,
                            children: SmallVec::from_iter([child]),
                            span: *span,
                        });
                    }
                    self.mods[child.0 as usize].is_each = *is_each;
                    child
                }
                Argument::Redeclare { is_each, element, .. } => {
                    let Some(child) = self.redeclare_node(element, *is_each) else { continue };
                    child
                }
                Argument::Break { what, span } => {
                    let what = match what {
                        BreakTarget::Name(name) => format!("break {}", name.name),
                        BreakTarget::Connect(..) => "break connect(..)".to_owned(),
                    };
                    self.unsupported("selective model extension", *span, &format!("`{what}` in an extends clause"));
                    continue;
                }
            };
            node.has_class_redeclare |= self.modifier(child).has_class_redeclare;
            self.add_child(&mut node.children, child);
        }
        self.push_mod(node)
    }

    /// Adds a modification beside others; `a.b = 1, a.c = 2` become one, `a = 1, a = 2` is an error.
    fn add_child(&mut self, children: &mut SmallVec<[ModId; 4]>, child: ModId) {
        let name = self.modifier(child).name;
        let Some(&old) = children.iter().find(|&&old| self.modifier(old).name == name) else {
            children.push(child);
            return;
        };
        let (first, second) = (self.modifier(old), self.modifier(child));
        let both_values = (first.binding.is_some() || first.is_break) && (second.binding.is_some() || second.is_break);
        if both_values || first.redeclare.is_some() || second.redeclare.is_some() {
            let finding = Finding::error(
                "duplicate-modifier",
                second.span,
                format!("`{name}` is modified twice at the same place"),
            )
            .with_label(first.span, "first modified here")
            .with_help("remove one of the two");
            self.report(finding);
            return;
        }
        let second = &mut self.mods[child.0 as usize];
        let moved = std::mem::take(&mut second.children);
        let (binding, is_break, is_final, is_each) = (second.binding, second.is_break, second.is_final, second.is_each);
        let first = &mut self.mods[old.0 as usize];
        first.binding = first.binding.or(binding);
        first.is_break |= is_break;
        first.is_final |= is_final;
        first.is_each |= is_each;
        let mut merged = std::mem::take(&mut first.children);
        for one in moved {
            self.add_child(&mut merged, one);
        }
        let has_class_redeclare = merged.iter().any(|&one| self.modifier(one).has_class_redeclare);
        let first = &mut self.mods[old.0 as usize];
        first.children = merged;
        first.has_class_redeclare |= has_class_redeclare;
    }

    /// The same modification without its value.
    pub(crate) fn without_value(&mut self, id: ModId) -> ModId {
        let node = self.modifier(id);
        if node.binding.is_none() && !node.is_break {
            return id;
        }
        let copy = ModNode {
            name: node.name,
            binding: None,
            is_break: false,
            is_each: node.is_each,
            is_final: node.is_final,
            redeclare: node.redeclare,
            has_class_redeclare: node.has_class_redeclare,
            children: node.children.clone(),
            span: node.span,
        };
        self.push_mod(copy)
    }

    /// The layer's part for the element `name`, without the values of enclosing records.
    pub(crate) fn layer_child(&self, layer: &Layer, name: Name) -> Option<Layer> {
        if layer.is_field {
            return None;
        }
        let node = self.modifier(layer.mods);
        let &child = node.children.iter().find(|&&child| self.modifier(child).name == name)?;
        let path = if self.modifier(child).is_each { SmallVec::new() } else { layer.path.clone() };
        Some(Layer { mods: child, is_field: false, path, scope: layer.scope, instance: layer.instance })
    }

    /// All layers for the element `name` of a class; with `is_record` the values of the record itself count as well.
    pub(crate) fn child_layers(&self, layers: &[Layer], name: Name, is_record: bool) -> Layers {
        let mut children = Layers::new();
        for layer in layers {
            if is_record && (layer.is_field || self.modifier(layer.mods).binding.is_some()) {
                let mut path = layer.path.clone();
                path.push(Access::Field(name));
                children.push(Layer { is_field: true, path, ..layer.clone() });
            }
            if let Some(child) = self.layer_child(layer, name) {
                children.push(child);
            }
        }
        children
    }

    /// The layers with their instance filled in where it was open.
    pub(crate) fn fill_instance(layers: &[Layer], instance: NodeId) -> Layers {
        layers
            .iter()
            .map(|layer| {
                let mut layer = layer.clone();
                if layer.instance == NodeId::SELF {
                    layer.instance = instance;
                }
                layer
            })
            .collect()
    }
}
