//! Values of expressions: arrays of scalar graph nodes with a type, texts, records, functions.
//!
//! Arrays are stored row by row. An array of records is a record of arrays: every field has the record's dimensions in
//! front of its own.

use std::sync::Arc;

use daesy_graph::ExprId;
use daesy_graph::flat::Enumeration;
use smallvec::{SmallVec, smallvec};

use super::{ClassId, NodeId};
use crate::name::Name;

/// Sizes of an array; empty for a scalar.
pub(crate) type Dims = SmallVec<[usize; 2]>;

/// The type of a scalar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Type {
    Real,
    Integer,
    Boolean,
    String,
    Enumeration(Arc<Enumeration>),
}

impl Type {
    /// As it is called in findings.
    pub(crate) fn word(&self) -> &str {
        match self {
            Self::Real => "Real",
            Self::Integer => "Integer",
            Self::Boolean => "Boolean",
            Self::String => "String",
            Self::Enumeration(enumeration) => &enumeration.name,
        }
    }

    /// Whether a value of this type can be given to something of type `to`.
    pub(crate) fn fits(&self, to: &Self) -> bool {
        match (self, to) {
            (Self::Integer, Self::Real) => true,
            (Self::Enumeration(left), Self::Enumeration(right)) => {
                Arc::ptr_eq(left, right) || left.literals == right.literals || right.literals.is_empty()
            }
            _ => self == to,
        }
    }

    /// Whether it is a number.
    pub(crate) const fn is_numeric(&self) -> bool {
        matches!(self, Self::Real | Self::Integer)
    }
}

/// An array of scalars.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Scalars {
    pub ty: Type,
    pub dims: Dims,
    pub items: SmallVec<[ExprId; 1]>,
}

/// A text, and whether it is known already.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Text {
    pub text: Arc<str>,
    pub is_known: bool,
}

/// A record, or an array of records.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Record {
    pub class: ClassId,
    pub dims: Dims,
    pub fields: Vec<Field>,
}

/// A field of a record.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Field {
    pub name: Name,
    pub value: Value,
}

/// A function given as an argument.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct FunctionValue {
    pub class: ClassId,
    /// Arguments bound by `function f(x = 1)`.
    pub bound: Vec<Field>,
}

/// The value of an expression.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    Scalars(Scalars),
    Texts {
        dims: Dims,
        items: Vec<Text>,
    },
    Record(Box<Record>),
    Tuple(Vec<Self>),
    Function(Box<FunctionValue>),
    /// An external object.
    Object(Arc<super::native::Object>),
}

/// What the value of a modification depends on.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) struct BindingKey {
    /// Address of the expression.
    pub expr: usize,
    pub scope: ClassId,
    pub instance: NodeId,
    pub is_structural: bool,
}

/// Number of elements; the largest number there is where it is larger still.
pub(crate) fn count(dims: &[usize]) -> usize {
    if dims.contains(&0) { 0 } else { dims.iter().fold(1, |n: usize, &dim| n.saturating_mul(dim)) }
}

/// `[2, 3]`, or `scalar`.
pub(crate) fn dims_text(dims: &[usize]) -> String {
    if dims.is_empty() {
        return "scalar".to_owned();
    }
    format!("[{}]", dims.iter().map(usize::to_string).collect::<Vec<_>>().join(", "))
}

impl Scalars {
    pub(crate) fn scalar(ty: Type, item: ExprId) -> Self {
        Self { ty, dims: Dims::new(), items: smallvec![item] }
    }
}

impl Value {
    pub(crate) fn scalar(ty: Type, item: ExprId) -> Self {
        Self::Scalars(Scalars::scalar(ty, item))
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::Texts { dims: Dims::new(), items: vec![Text { text: Arc::from(text), is_known: true }] }
    }

    /// Its sizes; none for tuples and functions.
    pub(crate) fn dims(&self) -> &[usize] {
        match self {
            Self::Scalars(scalars) => &scalars.dims,
            Self::Texts { dims, .. } => dims,
            Self::Record(record) => &record.dims,
            Self::Tuple(_) | Self::Function(_) | Self::Object(_) => &[],
        }
    }

    /// As it is called in findings.
    pub(crate) fn describe(&self) -> String {
        let base = match self {
            Self::Scalars(scalars) => scalars.ty.word().to_owned(),
            Self::Texts { .. } => "String".to_owned(),
            Self::Record(_) => "record".to_owned(),
            Self::Tuple(items) => return format!("a list of {} results", items.len()),
            Self::Function(_) => return "function".to_owned(),
            Self::Object(_) => return "external object".to_owned(),
        };
        if self.dims().is_empty() { base } else { format!("{base}{}", dims_text(self.dims())) }
    }

    /// The elements at the given offsets, which are counted in units of the first `dims.len() - rank_kept` dimensions.
    ///
    /// The result has `new_dims` in place of the first `n_indexed` dimensions.
    pub(crate) fn pick(&self, offsets: &[usize], n_indexed: usize, new_dims: &[usize]) -> Self {
        fn dims_after(dims: &[usize], n_indexed: usize, new_dims: &[usize]) -> Dims {
            new_dims.iter().chain(&dims[n_indexed..]).copied().collect()
        }
        match self {
            Self::Scalars(scalars) => {
                let stride = count(&scalars.dims[n_indexed..]);
                let items = offsets
                    .iter()
                    .flat_map(|&offset| &scalars.items[offset * stride..(offset + 1) * stride])
                    .copied()
                    .collect();
                Self::Scalars(Scalars {
                    ty: scalars.ty.clone(),
                    dims: dims_after(&scalars.dims, n_indexed, new_dims),
                    items,
                })
            }
            Self::Texts { dims, items } => {
                let stride = count(&dims[n_indexed..]);
                let picked = offsets
                    .iter()
                    .flat_map(|&offset| &items[offset * stride..(offset + 1) * stride])
                    .cloned()
                    .collect();
                Self::Texts { dims: dims_after(dims, n_indexed, new_dims), items: picked }
            }
            Self::Record(record) => Self::Record(Box::new(Record {
                class: record.class,
                dims: dims_after(&record.dims, n_indexed, new_dims),
                fields: record
                    .fields
                    .iter()
                    .map(|field| Field { name: field.name, value: field.value.pick(offsets, n_indexed, new_dims) })
                    .collect(),
            })),
            Self::Tuple(_) | Self::Function(_) | Self::Object(_) => self.clone(),
        }
    }

    /// Values of the same shape as one value with `dims` in front. `None` when they do not match.
    pub(crate) fn stack(values: Vec<Self>, dims: &[usize]) -> Option<Self> {
        let mut values = values.into_iter();
        let Some(first) = values.next() else {
            return Some(Self::Scalars(Scalars {
                ty: Type::Real,
                dims: dims.iter().copied().collect(),
                items: SmallVec::new(),
            }));
        };
        if dims.is_empty() {
            return Some(first);
        }
        match first {
            Self::Scalars(first) => {
                let mut ty = first.ty;
                let mut items = first.items;
                for value in values {
                    let Self::Scalars(next) = value else { return None };
                    if next.dims != first.dims {
                        return None;
                    }
                    if ty == Type::Integer && next.ty == Type::Real {
                        ty = Type::Real;
                    }
                    if !next.ty.fits(&ty) {
                        return None;
                    }
                    items.extend(next.items);
                }
                Some(Self::Scalars(Scalars { ty, dims: dims.iter().chain(&first.dims).copied().collect(), items }))
            }
            Self::Texts { dims: inner, mut items } => {
                for value in values {
                    let Self::Texts { dims: next_dims, items: next } = value else { return None };
                    if next_dims != inner {
                        return None;
                    }
                    items.extend(next);
                }
                Some(Self::Texts { dims: dims.iter().chain(&inner).copied().collect(), items })
            }
            Self::Record(first) => {
                let n_fields = first.fields.len();
                let mut columns: Vec<Vec<Self>> = vec![Vec::new(); n_fields];
                let names: Vec<Name> = first.fields.iter().map(|field| field.name).collect();
                let (class, inner) = (first.class, first.dims.clone());
                for value in std::iter::once(Self::Record(first)).chain(values) {
                    let Self::Record(record) = value else { return None };
                    if record.dims != inner || record.fields.len() != n_fields {
                        return None;
                    }
                    for field in record.fields {
                        let at = names.iter().position(|&name| name == field.name)?;
                        columns[at].push(field.value);
                    }
                }
                let mut fields = Vec::with_capacity(n_fields);
                for (name, column) in names.into_iter().zip(columns) {
                    fields.push(Field { name, value: Self::stack(column, dims)? });
                }
                Some(Self::Record(Box::new(Record {
                    class,
                    dims: dims.iter().chain(&inner).copied().collect(),
                    fields,
                })))
            }
            Self::Tuple(_) | Self::Function(_) | Self::Object(_) => None,
        }
    }

    /// A field of a record.
    pub(crate) fn field(&self, name: Name) -> Option<&Self> {
        match self {
            Self::Record(record) => record.fields.iter().find(|field| field.name == name).map(|field| &field.value),
            _ => None,
        }
    }

    /// Every scalar of the value replaced.
    pub(crate) fn map_scalars(&self, change: &mut impl FnMut(ExprId) -> ExprId) -> Self {
        match self {
            Self::Scalars(scalars) => Self::Scalars(Scalars {
                ty: scalars.ty.clone(),
                dims: scalars.dims.clone(),
                items: scalars.items.iter().map(|&item| change(item)).collect(),
            }),
            Self::Record(record) => Self::Record(Box::new(Record {
                class: record.class,
                dims: record.dims.clone(),
                fields: record
                    .fields
                    .iter()
                    .map(|field| Field { name: field.name, value: field.value.map_scalars(change) })
                    .collect(),
            })),
            Self::Tuple(items) => Self::Tuple(items.iter().map(|item| item.map_scalars(change)).collect()),
            Self::Texts { .. } | Self::Function(_) | Self::Object(_) => self.clone(),
        }
    }

    /// Number of scalars and texts in the value.
    pub(crate) fn weight(&self) -> usize {
        match self {
            Self::Scalars(scalars) => scalars.items.len(),
            Self::Texts { items, .. } => items.len(),
            Self::Record(record) => record.fields.iter().map(|field| field.value.weight()).sum(),
            Self::Tuple(items) => items.iter().map(Self::weight).sum(),
            Self::Function(_) | Self::Object(_) => 1,
        }
    }

    /// All scalars of the value in order, those of records field by field.
    pub(crate) fn flat_items(&self, into: &mut Vec<ExprId>) {
        match self {
            Self::Scalars(scalars) => into.extend(&scalars.items),
            Self::Record(record) => record.fields.iter().for_each(|field| field.value.flat_items(into)),
            Self::Tuple(items) => items.iter().for_each(|item| item.flat_items(into)),
            Self::Texts { .. } | Self::Function(_) | Self::Object(_) => {}
        }
    }
}

/// All multi-indices of an array in order, as offsets for chosen positions in each dimension.
pub(crate) fn offsets(dims: &[usize], chosen: &[Vec<usize>]) -> Vec<usize> {
    let mut result = vec![0];
    for (dim, chosen) in dims.iter().zip(chosen) {
        let mut next = Vec::with_capacity(result.len() * chosen.len());
        for base in &result {
            next.extend(chosen.iter().map(|&at| base * dim + at));
        }
        result = next;
    }
    result
}
