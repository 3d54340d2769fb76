//! Models as bytes, for whoever must run a model without being able to read its text.
//!
//! [`to_bytes`] keeps everything that evaluation of a regular model needs, [`flat_to_bytes`] the same of a flat one: the
//! whole graph, variables, equations, when-clauses, functions with their tables. Findings and source texts stay behind,
//! so that all spans of what is read back are [`Span::NONE`]. Numbers keep their bits; whole numbers are written in
//! groups of seven bits, the lowest first. The same model gives the same bytes.

use std::sync::Arc;

use crate::flat::{
    Assertion, Enumeration, Equation, Experiment, FlatDae, Origin, StateSelect, ValueType, Variable, VariableKind,
    WhenAction, WhenBranch, WhenClause,
};
use crate::foreign::Foreign;
use crate::function::{Function, FunctionId, Statement};
use crate::graph::Graph;
use crate::intrinsic::{Generator, Intrinsic};
use crate::node::{BinaryOp, ExprId, Node, UnaryOp, VarId};
use crate::regular::{
    Derivative, DiscreteEquation, Eliminated, GuessRule, InputUse, Rate, RegularDae, RegularEquation, SolveBlock,
    StructuralVerdict,
};
use crate::source::{SourceMap, Span};
use crate::unit::Unit;
use crate::whole::Whole;

/// First bytes of every stored regular model, the last of them the version of the form.
const HEAD: &[u8; 8] = b"daesyr\0\x03";

/// First bytes of every stored flat model.
const FLAT_HEAD: &[u8; 8] = b"daesyf\0\x02";

/// Bytes that are no stored model.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("these bytes are no model that this version of daesy has stored (near byte {at})")]
pub struct NotStored {
    /// Where reading ended.
    pub at: usize,
}

/// Bytes being read, and what indices may point at.
pub(crate) struct Reader<'b> {
    bytes: &'b [u8],
    at: usize,
    n_nodes: u32,
    n_variables: u32,
    n_functions: u32,
}

impl<'b> Reader<'b> {
    /// A reader of bytes that begin with a head.
    fn after(head: &[u8; 8], bytes: &'b [u8]) -> Result<Self, NotStored> {
        let mut reader = Self { bytes, at: 0, n_nodes: 0, n_variables: 0, n_functions: 0 };
        if reader.take(head.len())? == head { Ok(reader) } else { Err(NotStored { at: 0 }) }
    }

    /// The end of the bytes.
    fn end<T>(&self, read: T) -> Result<T, NotStored> {
        if self.at == self.bytes.len() { Ok(read) } else { self.fail() }
    }

    fn fail<T>(&self) -> Result<T, NotStored> {
        Err(NotStored { at: self.at })
    }

    fn take(&mut self, n: usize) -> Result<&'b [u8], NotStored> {
        let end = self.at.checked_add(n).filter(|&end| end <= self.bytes.len());
        let Some(end) = end else { return self.fail() };
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A length that the bytes left can hold: every element takes at least one.
    fn length(&mut self) -> Result<usize, NotStored> {
        let length = usize::read(self)?;
        if length > self.bytes.len() - self.at { self.fail() } else { Ok(length) }
    }
}

/// What can be written and read back.
pub(crate) trait Stored: Sized {
    fn write(&self, bytes: &mut Vec<u8>);
    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored>;
}

impl Stored for u64 {
    fn write(&self, bytes: &mut Vec<u8>) {
        let mut rest = *self;
        while rest >= 0x80 {
            bytes.push((rest as u8 & 0x7f) | 0x80);
            rest >>= 7;
        }
        bytes.push(rest as u8);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let byte = reader.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        reader.fail()
    }
}

impl Stored for i64 {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.cast_unsigned().write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        u64::read(reader).map(u64::cast_signed)
    }
}

macro_rules! store_whole_numbers {
    ($($kind:ty),*) => {$(
        impl Stored for $kind {
            fn write(&self, bytes: &mut Vec<u8>) {
                (*self as u64).write(bytes);
            }

            fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
                let value = u64::read(reader)?;
                Self::try_from(value).or_else(|_| reader.fail())
            }
        }
    )*};
}

store_whole_numbers!(u8, u16, u32, usize);

impl Stored for bool {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.push(u8::from(*self));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        Ok(reader.take(1)?[0] != 0)
    }
}

impl Stored for f64 {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let taken = reader.take(8)?;
        let mut eight = [0; 8];
        eight.copy_from_slice(taken);
        Ok(Self::from_bits(u64::from_le_bytes(eight)))
    }
}

impl<const N: usize> Stored for [f64; N] {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.iter().for_each(|value| value.write(bytes));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let mut values = [0.0; N];
        for value in &mut values {
            *value = f64::read(reader)?;
        }
        Ok(values)
    }
}

impl Stored for [u8; 2] {
    fn write(&self, bytes: &mut Vec<u8>) {
        bytes.extend_from_slice(self);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let taken = reader.take(2)?;
        Ok([taken[0], taken[1]])
    }
}

impl Stored for String {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.len().write(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let length = reader.length()?;
        let taken = reader.take(length)?;
        match std::str::from_utf8(taken) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => reader.fail(),
        }
    }
}

impl Stored for Arc<str> {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.len().write(bytes);
        bytes.extend_from_slice(self.as_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        String::read(reader).map(Into::into)
    }
}

impl<T: Stored> Stored for Arc<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        (**self).write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        T::read(reader).map(Self::new)
    }
}

impl<T: Stored> Stored for Vec<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.len().write(bytes);
        self.iter().for_each(|one| one.write(bytes));
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let length = reader.length()?;
        (0..length).map(|_| T::read(reader)).collect()
    }
}

impl<T: Stored> Stored for Option<T> {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.is_some().write(bytes);
        if let Some(one) = self {
            one.write(bytes);
        }
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        Ok(if bool::read(reader)? { Some(T::read(reader)?) } else { None })
    }
}

impl Stored for ExprId {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let id = u32::read(reader)?;
        if id < reader.n_nodes { Ok(Self(id)) } else { reader.fail() }
    }
}

impl Stored for VarId {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let id = u32::read(reader)?;
        if id < reader.n_variables { Ok(Self(id)) } else { reader.fail() }
    }
}

impl Stored for FunctionId {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.0.write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        let id = u32::read(reader)?;
        if id < reader.n_functions { Ok(Self(id)) } else { reader.fail() }
    }
}

/// Source texts stay behind.
impl Stored for Span {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(_: &mut Reader<'_>) -> Result<Self, NotStored> {
        Ok(Self::NONE)
    }
}

impl Stored for Unit {
    fn write(&self, bytes: &mut Vec<u8>) {
        self.text.write(bytes);
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        String::read(reader).map(|text| Self::parse(&text))
    }
}

/// A struct, field by field.
macro_rules! store_struct {
    ($name:ident { $($field:ident),* $(,)? }) => {
        impl $crate::stored::Stored for $name {
            fn write(&self, bytes: &mut Vec<u8>) {
                let Self { $($field),* } = self;
                $($crate::stored::Stored::write($field, bytes);)*
            }

            fn read(
                reader: &mut $crate::stored::Reader<'_>,
            ) -> Result<Self, $crate::stored::NotStored> {
                Ok(Self { $($field: $crate::stored::Stored::read(reader)?),* })
            }
        }
    };
}

/// An enumeration, by numbers that never change.
macro_rules! store_enum {
    ($name:ident { $($number:literal => $variant:ident $({ $($field:ident),* $(,)? })? $(( $only:ident ))?),* $(,)? }) => {
        impl $crate::stored::Stored for $name {
            fn write(&self, bytes: &mut Vec<u8>) {
                match self {
                    $(Self::$variant $({ $($field),* })? $(( $only ))? => {
                        bytes.push($number);
                        $($($crate::stored::Stored::write($field, bytes);)*)?
                        $($crate::stored::Stored::write($only, bytes);)?
                    })*
                }
            }

            fn read(
                reader: &mut $crate::stored::Reader<'_>,
            ) -> Result<Self, $crate::stored::NotStored> {
                match reader.tag()? {
                    $($number => Ok(Self::$variant
                        $({ $($field: $crate::stored::Stored::read(reader)?),* })?
                        $(({
                            let $only = $crate::stored::Stored::read(reader)?;
                            $only
                        }))?),)*
                    _ => reader.unknown(),
                }
            }
        }
    };
}

pub(crate) use {store_enum, store_struct};

impl Reader<'_> {
    pub(crate) fn tag(&mut self) -> Result<u8, NotStored> {
        Ok(self.take(1)?[0])
    }

    pub(crate) fn unknown<T>(&self) -> Result<T, NotStored> {
        self.fail()
    }
}

store_enum!(UnaryOp {
    0 => Neg, 1 => Not, 2 => Abs, 3 => Sign, 4 => Sqrt, 5 => Exp, 6 => Log, 7 => Log10, 8 => Sin, 9 => Cos,
    10 => Tan, 11 => Asin, 12 => Acos, 13 => Atan, 14 => Sinh, 15 => Cosh, 16 => Tanh, 17 => Ceil, 18 => Floor,
    19 => NoEvent, 20 => WithEvents,
});
store_enum!(BinaryOp {
    0 => Add, 1 => Sub, 2 => Mul, 3 => Div, 4 => Pow, 5 => Atan2, 6 => Min, 7 => Max, 8 => Quotient, 9 => Modulo,
    10 => Remainder, 11 => Less, 12 => LessEqual, 13 => Greater, 14 => GreaterEqual, 15 => Equal, 16 => NotEqual,
    17 => And, 18 => Or, 19 => Homotopy,
});
store_enum!(VariableKind { 0 => Constant, 1 => Parameter, 2 => Input, 3 => Continuous, 4 => Discrete });
store_enum!(ValueType { 0 => Real, 1 => Integer, 2 => Boolean, 3 => String, 4 => Enumeration(enumeration) });
store_enum!(StateSelect { 0 => Never, 1 => Avoid, 2 => Default, 3 => Prefer, 4 => Always });
store_enum!(Origin {
    0 => Equation, 1 => Binding, 2 => Connection, 3 => FlowSum, 4 => UnconnectedFlow, 5 => Algorithm,
});
store_enum!(Generator { 0 => Xorshift64Star, 1 => Xorshift128Plus, 2 => Xorshift1024Star });
/// A model that runs elsewhere cannot be stored: what is written cannot be read.
impl Stored for Foreign {
    fn write(&self, _: &mut Vec<u8>) {}

    fn read(reader: &mut Reader<'_>) -> Result<Self, NotStored> {
        reader.unknown()
    }
}

store_enum!(Intrinsic {
    0 => Curve { curve, order },
    1 => Surface { surface, orders },
    2 => Signal { table, column, order },
    3 => NextEvent { table },
    4 => Random(generator),
    5 => Fourier { n },
    6 => Foreign(foreign),
    7 => Whole(whole),
});
store_enum!(Whole {
    0 => Constant(number), 1 => Add, 2 => Subtract, 3 => Multiply, 4 => Quotient, 5 => Modulo, 6 => Remainder,
    7 => Minimum, 8 => Maximum, 9 => Compare, 10 => Narrow,
});
store_enum!(Statement {
    0 => Assign { local, value },
    1 => AssignAt { base, len, index, value },
    2 => If { condition, then, otherwise },
    3 => While { condition, body },
    4 => Intrinsic { intrinsic, args, results },
    5 => Break,
    6 => Return,
    7 => Assert { condition, message },
});
store_enum!(WhenAction {
    0 => Assign { variable, value, span },
    1 => Reinit { variable, value, span },
    2 => Assert(assertion),
    3 => Terminate { message, span },
});
store_enum!(Rate { 0 => State(at), 1 => Unknown(at) });

store_struct!(Enumeration { name, literals });
store_struct!(Variable {
    name,
    description,
    kind,
    value_type,
    is_output,
    is_flow,
    is_protected,
    is_structural,
    is_final,
    binding,
    text,
    start,
    guess,
    written_order,
    is_start_of_type,
    fixed,
    min,
    max,
    nominal,
    unit,
    display_unit,
    state_select,
    span,
});
store_struct!(Equation { lhs, rhs, origin, component, span });
store_struct!(WhenClause { branches, component, span });
store_struct!(WhenBranch { conditions, actions });
store_struct!(Assertion { condition, message, is_warning, component, span });
store_struct!(Experiment { start, stop, interval, tolerance });
store_struct!(Function { name, n_inputs, outputs, n_locals, body, span });
store_struct!(Derivative { var, order });
store_struct!(RegularEquation { residual, source, differentiated });
store_struct!(SolveBlock { start, len, is_linear });
store_struct!(Eliminated { var, value, source });
store_struct!(GuessRule { of, source });
store_struct!(InputUse { var, derivatives_needed });
store_struct!(DiscreteEquation { variable, value, source, span });
store_struct!(StructuralVerdict { structural_index, degrees_of_freedom, hidden_constraints, differentiations });

fn write_graph(graph: &Graph, bytes: &mut Vec<u8>) {
    graph.len().write(bytes);
    graph.functions().len().write(bytes);
    for node in graph.nodes() {
        write_node(graph, node, bytes);
    }
    for function in graph.functions() {
        function.write(bytes);
    }
}

fn write_node(graph: &Graph, node: Node, bytes: &mut Vec<u8>) {
    match node {
        Node::Number(bits) => {
            bytes.push(0);
            f64::from_bits(bits).write(bytes);
        }
        Node::Time => bytes.push(1),
        Node::Var { var, order } => {
            bytes.push(2);
            var.write(bytes);
            order.write(bytes);
        }
        Node::Pre(var) => {
            bytes.push(3);
            var.write(bytes);
        }
        Node::Unary { op, arg } => {
            bytes.push(4);
            op.write(bytes);
            arg.write(bytes);
        }
        Node::Binary { op, lhs, rhs } => {
            bytes.push(5);
            op.write(bytes);
            lhs.write(bytes);
            rhs.write(bytes);
        }
        Node::Select { condition, then, otherwise } => {
            bytes.push(6);
            [condition, then, otherwise].iter().for_each(|arg| arg.write(bytes));
        }
        Node::Smooth { order, arg } => {
            bytes.push(7);
            order.write(bytes);
            arg.write(bytes);
        }
        Node::Call { function, output, args } => {
            bytes.push(8);
            function.write(bytes);
            output.write(bytes);
            graph.args(args).to_vec().write(bytes);
        }
        Node::Sample { start, interval } => {
            bytes.push(9);
            start.write(bytes);
            interval.write(bytes);
        }
        Node::Initial => bytes.push(10),
        Node::Terminal => bytes.push(11),
        Node::Local(local) => {
            bytes.push(12);
            local.write(bytes);
        }
        Node::LocalAt { base, len, index } => {
            bytes.push(13);
            base.write(bytes);
            len.write(bytes);
            index.write(bytes);
        }
    }
}

fn read_graph(reader: &mut Reader<'_>) -> Result<Graph, NotStored> {
    let mut graph = Graph::default();
    let n_nodes = reader.length()?;
    let Ok(n_functions) = u32::try_from(reader.length()?) else { return reader.fail() };
    reader.n_functions = n_functions;
    for at in 0..n_nodes {
        let node = read_node(&mut graph, reader)?;
        // Every node exists once, so that each is made now and gets its old number.
        if graph.intern(node).index() != at {
            return reader.fail();
        }
        reader.n_nodes = at as u32 + 1;
    }
    for _ in 0..n_functions {
        let function = Function::read(reader)?;
        graph.add_function(function);
    }
    Ok(graph)
}

fn read_node(graph: &mut Graph, reader: &mut Reader<'_>) -> Result<Node, NotStored> {
    Ok(match reader.tag()? {
        0 => Node::Number(f64::read(reader)?.to_bits()),
        1 => Node::Time,
        2 => Node::Var { var: VarId::read(reader)?, order: u16::read(reader)? },
        3 => Node::Pre(VarId::read(reader)?),
        4 => Node::Unary { op: UnaryOp::read(reader)?, arg: ExprId::read(reader)? },
        5 => Node::Binary { op: BinaryOp::read(reader)?, lhs: ExprId::read(reader)?, rhs: ExprId::read(reader)? },
        6 => Node::Select {
            condition: ExprId::read(reader)?,
            then: ExprId::read(reader)?,
            otherwise: ExprId::read(reader)?,
        },
        7 => Node::Smooth { order: u16::read(reader)?, arg: ExprId::read(reader)? },
        8 => {
            let (function, output) = (FunctionId::read(reader)?, u16::read(reader)?);
            let args = Vec::<ExprId>::read(reader)?;
            Node::Call { function, output, args: graph.arg_list(&args) }
        }
        9 => Node::Sample { start: ExprId::read(reader)?, interval: ExprId::read(reader)? },
        10 => Node::Initial,
        11 => Node::Terminal,
        12 => Node::Local(u32::read(reader)?),
        13 => Node::LocalAt { base: u32::read(reader)?, len: u32::read(reader)?, index: ExprId::read(reader)? },
        _ => return reader.fail(),
    })
}

fn write_flat(flat: &FlatDae, bytes: &mut Vec<u8>) {
    flat.variables.len().write(bytes);
    write_graph(&flat.graph, bytes);
    flat.model.write(bytes);
    flat.description.write(bytes);
    flat.variables.write(bytes);
    flat.equations.write(bytes);
    flat.initial_equations.write(bytes);
    flat.when_clauses.write(bytes);
    flat.assertions.write(bytes);
    flat.experiment.write(bytes);
}

fn read_flat(reader: &mut Reader<'_>) -> Result<FlatDae, NotStored> {
    reader.n_variables = u32::read(reader)?;
    let graph = read_graph(reader)?;
    let flat = FlatDae {
        graph,
        model: Stored::read(reader)?,
        description: Stored::read(reader)?,
        variables: Vec::<Variable>::read(reader)?.into(),
        equations: Stored::read(reader)?,
        initial_equations: Stored::read(reader)?,
        when_clauses: Stored::read(reader)?,
        assertions: Stored::read(reader)?,
        experiment: Stored::read(reader)?,
        findings: Vec::new(),
        sources: Arc::new(SourceMap::default()),
    };
    if flat.variables.len() == reader.n_variables as usize { Ok(flat) } else { reader.fail() }
}

/// A flat model as bytes.
#[must_use]
pub fn flat_to_bytes(flat: &FlatDae) -> Vec<u8> {
    let mut bytes = FLAT_HEAD.to_vec();
    write_flat(flat, &mut bytes);
    bytes
}

/// The flat model that was written as bytes.
///
/// # Errors
/// When the bytes are no such model.
pub fn flat_from_bytes(bytes: &[u8]) -> Result<FlatDae, NotStored> {
    let mut reader = Reader::after(FLAT_HEAD, bytes)?;
    let flat = read_flat(&mut reader)?;
    reader.end(flat)
}

/// A regular model as bytes.
#[must_use]
pub fn to_bytes(regular: &RegularDae) -> Vec<u8> {
    let mut bytes = HEAD.to_vec();
    write_flat(&regular.flat, &mut bytes);
    regular.states.write(&mut bytes);
    regular.rates.write(&mut bytes);
    regular.unknowns.write(&mut bytes);
    regular.equations.write(&mut bytes);
    regular.constraints.write(&mut bytes);
    regular.blocks.write(&mut bytes);
    regular.eliminated.write(&mut bytes);
    regular.guesses.write(&mut bytes);
    regular.inputs.write(&mut bytes);
    regular.parameters.write(&mut bytes);
    regular.bound.write(&mut bytes);
    regular.discrete_equations.write(&mut bytes);
    regular.discrete.write(&mut bytes);
    regular.differentiated.write(&mut bytes);
    regular.initial_equations.write(&mut bytes);
    regular.verdict.write(&mut bytes);
    bytes
}

/// The model that was written as bytes.
///
/// # Errors
/// When the bytes are no such model.
pub fn from_bytes(bytes: &[u8]) -> Result<RegularDae, NotStored> {
    let mut reader = Reader::after(HEAD, bytes)?;
    let reader = &mut reader;
    let regular = RegularDae {
        flat: read_flat(reader)?,
        states: Stored::read(reader)?,
        rates: Stored::read(reader)?,
        unknowns: Stored::read(reader)?,
        equations: Stored::read(reader)?,
        constraints: Stored::read(reader)?,
        blocks: Stored::read(reader)?,
        eliminated: Stored::read(reader)?,
        guesses: Stored::read(reader)?,
        inputs: Stored::read(reader)?,
        parameters: Stored::read(reader)?,
        bound: Stored::read(reader)?,
        discrete_equations: Stored::read(reader)?,
        discrete: Stored::read(reader)?,
        differentiated: Stored::read(reader)?,
        initial_equations: Stored::read(reader)?,
        verdict: Stored::read(reader)?,
        findings: Vec::new(),
    };
    reader.end(regular)
}
