//! Functions that build arrays and take them apart [@modelica36, sec. 10.3].

use daesy_graph::{BinaryOp, ExprId, Span};
use smallvec::SmallVec;

use super::value::{Dims, Scalars, Type, Value, count, dims_text};
use super::{Flattener, Refused, Res};

impl Flattener<'_> {
    /// `[a, b; c, d]`
    pub(crate) fn matrix_of(&mut self, rows: Vec<Vec<Value>>, span: Span) -> Res<Value> {
        let rank = rows.iter().flatten().map(|value| value.dims().len()).max().unwrap_or(0).max(2);
        let mut stacked = Vec::with_capacity(rows.len());
        for row in rows {
            let promoted: Vec<Value> = row.into_iter().map(|value| promote(value, rank)).collect();
            stacked.push(self.cat(1, promoted, span)?);
        }
        self.cat(0, stacked, span)
    }

    /// Joins arrays along a dimension, counted from 0.
    pub(crate) fn cat(&mut self, along: usize, values: Vec<Value>, span: Span) -> Res<Value> {
        let mut parts = Vec::with_capacity(values.len());
        for value in values {
            if let Value::Texts { .. } = value {
                return Err(self.unsupported("joining arrays of texts", span, "`cat` of Strings"));
            }
            parts.push(self.scalars(value, "joining arrays", span)?);
        }
        let Some(model) = parts.iter().find(|part| count(&part.dims) > 0).or(parts.first()).cloned() else {
            return Err(Refused);
        };
        if along >= model.dims.len() {
            let message = format!("arrays of size {} have no dimension {}", dims_text(&model.dims), along + 1);
            return Err(self.error("wrong-size", span, message));
        }
        let mut ty = model.ty.clone();
        let mut total = 0;
        for part in &parts {
            let fits = part.dims.len() == model.dims.len()
                && part
                    .dims
                    .iter()
                    .zip(&model.dims)
                    .enumerate()
                    .all(|(at, (left, right))| at == along || left == right);
            if !fits {
                let message = format!(
                    "arrays of sizes {} and {} cannot be joined",
                    dims_text(&model.dims),
                    dims_text(&part.dims)
                );
                return Err(self.error("wrong-size", span, message));
            }
            if count(&part.dims) > 0 {
                if ty == Type::Integer && part.ty == Type::Real {
                    ty = Type::Real;
                }
                if !part.ty.fits(&ty) {
                    let message = format!("{} and {} cannot be joined to one array", ty.word(), part.ty.word());
                    return Err(self.error("wrong-type", span, message));
                }
            }
            total += part.dims[along];
        }
        let n_front = count(&model.dims[..along]);
        let n_back = count(&model.dims[along + 1..]);
        self.reserve(&[n_front, total, n_back], span)?;
        let mut items = SmallVec::with_capacity(n_front * total * n_back);
        for front in 0..n_front {
            for part in &parts {
                let block = part.dims[along] * n_back;
                items.extend_from_slice(&part.items[front * block..(front + 1) * block]);
            }
        }
        let mut dims = model.dims.clone();
        dims[along] = total;
        Ok(Value::Scalars(Scalars { ty, dims, items }))
    }

    /// The same value everywhere.
    pub(crate) fn fill(&mut self, value: &Value, dims: &[usize], span: Span) -> Res<Value> {
        let dims_of_all: Dims = dims.iter().chain(value.dims()).copied().collect();
        self.reserve(&dims_of_all, span)?;
        Ok(value.pick(&vec![0; count(dims)], 0, dims))
    }

    /// Swaps the first two dimensions.
    pub(crate) fn transpose(&mut self, value: &Value, span: Span) -> Res<Value> {
        let dims: Dims = value.dims().iter().copied().collect();
        if dims.len() < 2 {
            let message = format!("`transpose` needs a matrix, not size {}", dims_text(&dims));
            return Err(self.error("wrong-size", span, message));
        }
        let (n_rows, n_columns) = (dims[0], dims[1]);
        let order: Vec<usize> =
            (0..n_columns).flat_map(|column| (0..n_rows).map(move |row| row * n_columns + column)).collect();
        Ok(value.pick(&order, 2, &[n_columns, n_rows]))
    }

    /// A matrix with a vector on its diagonal.
    pub(crate) fn diagonal(&mut self, vector: &Scalars, span: Span) -> Res<Value> {
        let n = vector.items.len();
        self.reserve(&[n, n], span)?;
        let zero = self.graph.number(0.0);
        let items = (0..n * n).map(|at| if at / n == at % n { vector.items[at % n] } else { zero }).collect();
        Ok(Value::Scalars(Scalars { ty: vector.ty.clone(), dims: Dims::from_slice(&[n, n]), items }))
    }

    /// `a x b`
    pub(crate) fn cross(&mut self, left: &[ExprId], right: &[ExprId]) -> SmallVec<[ExprId; 1]> {
        let mut items = SmallVec::new();
        for at in 0..3 {
            let (j, k) = ((at + 1) % 3, (at + 2) % 3);
            let first = self.graph.mul(left[j], right[k]);
            let second = self.graph.mul(left[k], right[j]);
            items.push(self.graph.sub(first, second));
        }
        items
    }

    /// The matrix of `x -> a x x`.
    pub(crate) fn skew(&mut self, vector: &[ExprId]) -> SmallVec<[ExprId; 1]> {
        let zero = self.graph.number(0.0);
        let (x, y, z) = (vector[0], vector[1], vector[2]);
        let (minus_x, minus_y, minus_z) = (self.graph.neg(x), self.graph.neg(y), self.graph.neg(z));
        SmallVec::from_slice(&[zero, minus_z, y, z, zero, minus_x, minus_y, x, zero])
    }

    /// Smaller or larger of two scalars.
    pub(crate) fn min_max(&mut self, is_min: bool, left: Value, right: Value, span: Span) -> Res<Value> {
        let what = if is_min { "`min`" } else { "`max`" };
        let left = self.scalars(left, what, span)?;
        let right = self.scalars(right, what, span)?;
        let (a, b) = (self.single(&left, span)?, self.single(&right, span)?);
        if !left.ty.fits(&right.ty) && !right.ty.fits(&left.ty) {
            let message = format!("{what} cannot compare {} with {}", left.ty.word(), right.ty.word());
            return Err(self.error("wrong-type", span, message));
        }
        let op = if is_min { BinaryOp::Min } else { BinaryOp::Max };
        let ty = if left.ty == Type::Real { left.ty } else { right.ty };
        let item = match ty {
            Type::Integer => self.integer_binary(op, a, b, span)?,
            _ => self.graph.binary(op, a, b),
        };
        Ok(Value::scalar(ty, item))
    }
}

/// A value with dimensions of size one added at the end.
pub(crate) fn promote(value: Value, rank: usize) -> Value {
    match value {
        Value::Scalars(mut scalars) => {
            while scalars.dims.len() < rank {
                scalars.dims.push(1);
            }
            Value::Scalars(scalars)
        }
        other => other,
    }
}
