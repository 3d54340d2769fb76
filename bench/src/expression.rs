//! Flat models written down in Rust: expressions with operators, equations one by one.

use std::cell::RefCell;
use std::ops::{Add, Div, Mul, Neg, Sub};
use std::sync::Arc;

use daesy_graph::flat::{Equation, Experiment, FlatDae, Origin, Variable, VariableKind};
use daesy_graph::source::{FileId, Span};
use daesy_graph::{ExprId, Graph, UnaryOp, VarId};

/// These models have no text.
const NOWHERE: Span = Span::new(FileId(0), 0, 0);

/// A flat model in the making.
#[derive(Default)]
pub struct FlatBuilder {
    graph: RefCell<Graph>,
    variables: RefCell<Vec<Variable>>,
    residuals: RefCell<Vec<ExprId>>,
}

/// An expression of the model `'m`.
#[derive(Clone, Copy)]
pub struct Expression<'m> {
    model: &'m FlatBuilder,
    id: ExprId,
}

/// An unknown of the model `'m`.
#[derive(Clone, Copy)]
pub struct Unknown<'m> {
    model: &'m FlatBuilder,
    var: VarId,
}

impl<'m> Unknown<'m> {
    /// A derivative; order 0 is the variable itself.
    #[must_use]
    pub fn der(self, order: u16) -> Expression<'m> {
        let id = self.model.graph.borrow_mut().der(self.var, order);
        Expression { model: self.model, id }
    }
}

impl FlatBuilder {
    fn declare(&self, name: String, kind: VariableKind, binding: Option<ExprId>) -> VarId {
        let mut variables = self.variables.borrow_mut();
        variables.push(Variable { binding, ..Variable::new(name, kind, NOWHERE) });
        VarId(variables.len() as u32 - 1)
    }

    /// A number.
    pub fn number(&self, value: f64) -> Expression<'_> {
        let id = self.graph.borrow_mut().number(value);
        Expression { model: self, id }
    }

    /// The time.
    pub fn time(&self) -> Expression<'_> {
        let id = self.graph.borrow_mut().time();
        Expression { model: self, id }
    }

    /// A new parameter.
    pub fn parameter(&self, name: impl Into<String>, value: f64) -> Expression<'_> {
        let binding = self.graph.borrow_mut().number(value);
        let var = self.declare(name.into(), VariableKind::Parameter, Some(binding));
        let id = self.graph.borrow_mut().var(var);
        Expression { model: self, id }
    }

    /// A new unknown.
    pub fn unknown(&self, name: impl Into<String>) -> Unknown<'_> {
        Unknown { model: self, var: self.declare(name.into(), VariableKind::Continuous, None) }
    }

    /// Demands that an expression be zero.
    pub fn equation(&self, residual: Expression<'_>) {
        self.residuals.borrow_mut().push(residual.id);
    }

    /// The model.
    #[must_use]
    pub fn finish(self, name: &str) -> FlatDae {
        let mut graph = self.graph.into_inner();
        let zero = graph.number(0.0);
        let component: Arc<str> = Arc::from("");
        let equation =
            |lhs| Equation { lhs, rhs: zero, origin: Origin::Equation, component: component.clone(), span: NOWHERE };
        FlatDae {
            model: name.to_owned(),
            description: None,
            equations: self.residuals.into_inner().into_iter().map(equation).collect(),
            graph,
            variables: self.variables.into_inner().into(),
            initial_equations: Vec::new(),
            when_clauses: Vec::new(),
            assertions: Vec::new(),
            experiment: Experiment::default(),
            findings: Vec::new(),
            sources: Arc::default(),
        }
    }
}

impl Expression<'_> {
    fn unary(self, op: UnaryOp) -> Self {
        Self { id: self.model.graph.borrow_mut().unary(op, self.id), ..self }
    }
    /// e to this power.
    #[must_use]
    pub fn exp(self) -> Self {
        self.unary(UnaryOp::Exp)
    }
    /// Sine.
    #[must_use]
    pub fn sin(self) -> Self {
        self.unary(UnaryOp::Sin)
    }
    /// Cosine.
    #[must_use]
    pub fn cos(self) -> Self {
        self.unary(UnaryOp::Cos)
    }
    /// Square root.
    #[must_use]
    pub fn sqrt(self) -> Self {
        self.unary(UnaryOp::Sqrt)
    }
    /// Its square, as `x^2`.
    #[must_use]
    pub fn squared(self) -> Self {
        let mut graph = self.model.graph.borrow_mut();
        let two = graph.number(2.0);
        Self { id: graph.pow(self.id, two), ..self }
    }
}

macro_rules! operator {
    ($trait:ident, $method:ident) => {
        impl<'m> $trait for Expression<'m> {
            type Output = Self;
            fn $method(self, other: Self) -> Self {
                Self { id: self.model.graph.borrow_mut().$method(self.id, other.id), ..self }
            }
        }
        impl<'m> $trait<f64> for Expression<'m> {
            type Output = Self;
            fn $method(self, other: f64) -> Self {
                self.$method(self.model.number(other))
            }
        }
        impl<'m> $trait<Expression<'m>> for f64 {
            type Output = Expression<'m>;
            fn $method(self, other: Expression<'m>) -> Expression<'m> {
                other.model.number(self).$method(other)
            }
        }
    };
}

operator!(Add, add);
operator!(Sub, sub);
operator!(Mul, mul);
operator!(Div, div);

impl Neg for Expression<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        Self { id: self.model.graph.borrow_mut().neg(self.id), ..self }
    }
}
