//! Collecting values in static single assignment form.

use super::{LaneFunction, Operand, Tape, TapeError, allocate};
use crate::operation::{Binary, Opcode, Ternary, Unary};
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use rustc_hash::{FxBuildHasher, FxHashMap};
use std::hash::BuildHasher;

/// A value of the builder that made it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub struct Value(pub(super) u32);

/// A function registered with a builder.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct FunctionId(u32);

/// What the builder may change beyond what keeps every bit. All off by default.
#[derive(Clone, Copy, Debug, Default)]
#[non_exhaustive]
pub struct TapeOptions {
    /// Take a constant zero as structural: `0 * x = 0`, `0 / x = 0`, `0 + x = x`, `0 - x = -x`. Differs from running
    /// the operation where x is infinite or NaN, and in the sign of zeros.
    pub zeros_are_structural: bool,
    /// Round `a * b + c` once where the product has no other use, instead of product and sum each.
    pub contract: bool,
}

impl TapeOptions {
    /// Takes constant zeros as structural.
    #[must_use]
    pub const fn with_structural_zeros(mut self) -> Self {
        self.zeros_are_structural = true;
        self
    }
    /// Rounds products and sums together.
    #[must_use]
    pub const fn with_contraction(mut self) -> Self {
        self.contract = true;
        self
    }
}

/// One value: an operation on earlier ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Node {
    /// Input by number.
    Input(u32),
    /// Constant by number.
    Constant(u32),
    /// Operation; unused arguments are 0.
    Operation { opcode: Opcode, arguments: [u32; 3] },
    /// A call by number. It has no value itself.
    Call(u32),
    /// One result of a call.
    Result { call: u32, position: u32 },
}

#[derive(Clone)]
struct Function {
    body: LaneFunction,
    n_results: usize,
    /// From arguments and their tangents to the tangents of the results.
    tangent: Option<LaneFunction>,
}

#[derive(Clone)]
pub(super) struct PendingCall {
    pub(super) function: LaneFunction,
    pub(super) arguments: Vec<u32>,
    /// The function's number with the builder.
    registered: u32,
    /// The node of the call itself and of each result.
    pub(super) node: u32,
    pub(super) results: Vec<u32>,
}

fn hash(node: &Node) -> u64 {
    FxBuildHasher.hash_one(node)
}

/// A product of a value that varies from lane to lane and one that does not.
#[derive(Clone, Copy)]
struct UniformProduct {
    varying: Value,
    factor: Value,
}

/// Builds a [`Tape`].
///
/// Values belong to the builder that made them; handing one to another builder is a mistake that may panic.
///
/// ```
/// use daesy_compile::{Executor, Interpreter, TapeBuilder, TapeOptions, Unary};
/// let mut builder = TapeBuilder::new(2, TapeOptions::default());
/// let (x, y) = (builder.input(0), builder.input(1));
/// let sine = builder.unary(Unary::Sin, x);
/// let sum = builder.add(sine, y);
/// let tape = builder.finish(&[sum])?;
/// let interpreter = Interpreter::new(tape);
/// assert_eq!(interpreter.evaluate(&[0.0, 2.0])?, [2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct TapeBuilder {
    options: TapeOptions,
    n_inputs: usize,
    pub(super) nodes: Vec<Node>,
    pub(super) constants: Vec<f64>,
    pub(super) calls: Vec<PendingCall>,
    functions: Vec<Function>,
    /// Inputs from this number on are the same for all lanes.
    n_lane_inputs: usize,
    /// By node, whether it is the same for all lanes.
    is_uniform: Vec<bool>,
    /// Operations by what they are: numbers of nodes.
    known_nodes: HashTable<u32>,
    known_constants: FxHashMap<u64, u32>,
    known_calls: FxHashMap<(u32, Vec<u32>), u32>,
}

impl TapeBuilder {
    /// A builder for a program with this many inputs.
    ///
    /// # Panics
    /// If there are 2^31 inputs or more.
    #[must_use]
    pub fn new(n_inputs: usize, options: TapeOptions) -> Self {
        assert!(n_inputs < Operand::CONSTANT as usize, "{n_inputs} inputs, but values are numbered with 31 bits");
        let nodes: Vec<Node> = (0..n_inputs as u32).map(Node::Input).collect();
        Self {
            options,
            n_inputs,
            n_lane_inputs: n_inputs,
            is_uniform: vec![false; nodes.len()],
            nodes,
            constants: Vec::new(),
            calls: Vec::new(),
            functions: Vec::new(),
            known_nodes: HashTable::new(),
            known_constants: FxHashMap::default(),
            known_calls: FxHashMap::default(),
        }
    }

    /// Says that inputs from `n_lane_inputs` on are the same for all lanes. Factors that are the same for all are
    /// then gathered outside products and sums, so that [`TapeBuilder::finish_split`] computes their products once;
    /// that changes roundings.
    #[must_use]
    pub fn with_uniform_inputs(mut self, n_lane_inputs: usize) -> Self {
        self.n_lane_inputs = n_lane_inputs;
        for (input, is_uniform) in self.is_uniform.iter_mut().enumerate().take(self.n_inputs) {
            *is_uniform = input >= n_lane_inputs;
        }
        self
    }

    /// Whether a value is the same for all lanes.
    #[must_use]
    pub fn is_uniform(&self, value: Value) -> bool {
        self.is_uniform[value.0 as usize]
    }

    /// A product of a value that varies and one that does not.
    fn uniform_product(&self, value: Value) -> Option<UniformProduct> {
        let (Opcode::Mul, [a, b, _]) = self.operation_of(value)? else { return None };
        match (self.is_uniform[a as usize], self.is_uniform[b as usize]) {
            (false, true) => Some(UniformProduct { varying: Value(a), factor: Value(b) }),
            (true, false) => Some(UniformProduct { varying: Value(b), factor: Value(a) }),
            _ => None,
        }
    }

    /// `a * b` with the factors gathered that are the same for all lanes.
    fn gathered_product(&mut self, a: Value, b: Value) -> Option<Value> {
        if self.n_lane_inputs == self.n_inputs {
            return None;
        }
        match (self.is_uniform(a), self.is_uniform(b)) {
            (true, false) => {
                let UniformProduct { varying, factor } = self.uniform_product(b)?;
                let factor = self.mul(a, factor);
                Some(self.mul(varying, factor))
            }
            (false, true) => {
                let UniformProduct { varying, factor } = self.uniform_product(a)?;
                let factor = self.mul(factor, b);
                Some(self.mul(varying, factor))
            }
            (false, false) => {
                let one = self.constant(1.0);
                let (x, y) = match (self.uniform_product(a), self.uniform_product(b)) {
                    (None, None) => return None,
                    (x, y) => {
                        let whole = |varying| UniformProduct { varying, factor: one };
                        (x.unwrap_or(whole(a)), y.unwrap_or(whole(b)))
                    }
                };
                let (varying, factor) = (self.mul(x.varying, y.varying), self.mul(x.factor, y.factor));
                Some(self.mul(varying, factor))
            }
            (true, true) => None,
        }
    }

    /// `a + b`, or the difference, with the factor outside that both have and that is the same for all lanes.
    fn gathered_sum(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        if self.n_lane_inputs == self.n_inputs {
            return None;
        }
        let (a, b) = (self.uniform_product(a)?, self.uniform_product(b)?);
        let is_opposite = !self.is_same_up_to_sign(a.factor, b.factor)?;
        let sum = if is_opposite == (op == Binary::Add) {
            self.sub(a.varying, b.varying)
        } else {
            self.add(a.varying, b.varying)
        };
        Some(self.mul(sum, a.factor))
    }

    /// Whether two values that are equal or opposite are equal; none if they are neither.
    fn is_same_up_to_sign(&self, a: Value, b: Value) -> Option<bool> {
        if a == b {
            return Some(true);
        }
        if let (Some(x), Some(y)) = (self.as_constant(a), self.as_constant(b)) {
            return (x == -y).then_some(false);
        }
        let is_negated =
            |value, of: Value| matches!(self.operation_of(value), Some((Opcode::Neg, [x, ..])) if x == of.0);
        (is_negated(a, b) || is_negated(b, a)).then_some(false)
    }

    /// Takes out of values, if all have it up to its sign, a factor that is the same for all lanes.
    pub(crate) fn take_common_factor(&mut self, values: &mut [Value]) -> Option<Value> {
        let products: Vec<UniformProduct> =
            values.iter().map(|&value| self.uniform_product(value)).collect::<Option<_>>()?;
        let common = products.first()?.factor;
        let same: Vec<bool> =
            products.iter().map(|product| self.is_same_up_to_sign(common, product.factor)).collect::<Option<_>>()?;
        for ((value, product), is_same) in values.iter_mut().zip(products).zip(same) {
            *value = if is_same { product.varying } else { self.neg(product.varying) };
        }
        Some(common)
    }

    /// Number of values so far.
    #[must_use]
    pub fn n_values(&self) -> usize {
        self.nodes.len()
    }

    /// The input with this number.
    ///
    /// # Panics
    /// If there are not so many inputs.
    #[must_use]
    pub fn input(&self, index: usize) -> Value {
        assert!(index < self.n_inputs, "input {index} of a program with {} inputs", self.n_inputs);
        Value(index as u32)
    }

    /// A number. All NaN are the same.
    pub fn constant(&mut self, value: f64) -> Value {
        let value = if value.is_nan() { f64::NAN } else { value };
        if let Some(&node) = self.known_constants.get(&value.to_bits()) {
            return Value(node);
        }
        let node = self.push(Node::Constant(self.constants.len() as u32));
        self.constants.push(value);
        self.known_constants.insert(value.to_bits(), node);
        Value(node)
    }

    /// The number, if the value is one.
    #[must_use]
    pub fn as_constant(&self, value: Value) -> Option<f64> {
        match self.nodes[value.0 as usize] {
            Node::Constant(index) => Some(self.constants[index as usize]),
            _ => None,
        }
    }

    /// An operation on one value.
    pub fn unary(&mut self, op: Unary, a: Value) -> Value {
        if let Some(number) = self.as_constant(a) {
            return self.constant(op.evaluate(number));
        }
        let inner = self.operation_of(a);
        let structural = self.options.zeros_are_structural;
        match (op, inner) {
            (Unary::Neg, Some((Opcode::Neg, [x, ..]))) => return Value(x),
            (Unary::Neg, Some((Opcode::Sub, [x, y, _]))) if structural => return self.sub(Value(y), Value(x)),
            (Unary::Neg, Some((Opcode::Mul, _))) if structural => {
                if let Some(UniformProduct { varying, factor }) = self.uniform_product(a) {
                    let factor = self.neg(factor);
                    return self.mul(varying, factor);
                }
            }
            (Unary::Abs, Some((Opcode::Neg, [x, ..]))) => return self.unary(Unary::Abs, Value(x)),
            (Unary::Abs, Some((Opcode::Abs, _)))
            | (
                Unary::Floor | Unary::Ceil | Unary::Trunc,
                Some((Opcode::Floor | Opcode::Ceil | Opcode::Trunc | Opcode::Quotient, _)),
            ) => return a,
            _ => {}
        }
        self.share(op.into(), [a.0, 0, 0])
    }

    /// An operation on two values.
    pub fn binary(&mut self, op: Binary, a: Value, b: Value) -> Value {
        let (x, y) = (self.as_constant(a), self.as_constant(b));
        if let (Some(x), Some(y)) = (x, y) {
            return self.constant(op.evaluate(x, y));
        }
        if let Some(value) = self.identity(op, a, b, x, y) {
            return value;
        }
        let is_symmetric =
            matches!(op, Binary::Add | Binary::Mul | Binary::Equal | Binary::NotEqual | Binary::And | Binary::Or);
        match op {
            Binary::Greater => self.share(Opcode::Less, [b.0, a.0, 0]),
            Binary::GreaterEqual => self.share(Opcode::LessEqual, [b.0, a.0, 0]),
            _ if is_symmetric => self.share(op.into(), [a.0.min(b.0), a.0.max(b.0), 0]),
            _ => self.share(op.into(), [a.0, b.0, 0]),
        }
    }

    /// A simpler value for an operation with at most one constant argument, if one gives the same bits (or as the
    /// options allow).
    fn identity(&mut self, op: Binary, a: Value, b: Value, x: Option<f64>, y: Option<f64>) -> Option<Value> {
        let is = |number: Option<f64>, value: f64| number.is_some_and(|n| n.to_bits() == value.to_bits());
        let structural = self.options.zeros_are_structural;
        let (a_is_zero, b_is_zero) = (structural && x == Some(0.0), structural && y == Some(0.0));
        match op {
            Binary::Add => {
                if is(y, -0.0) || b_is_zero {
                    return Some(a);
                }
                if is(x, -0.0) || a_is_zero {
                    return Some(b);
                }
                if let Some(inner) = self.negated(b) {
                    return Some(self.sub(a, inner));
                }
                match self.negated(a) {
                    Some(inner) => Some(self.sub(b, inner)),
                    None => self.gathered_sum(op, a, b),
                }
            }
            Binary::Sub => {
                if is(y, 0.0) || b_is_zero {
                    return Some(a);
                }
                if is(x, -0.0) || a_is_zero {
                    return Some(self.neg(b));
                }
                match (self.negated(a), self.negated(b)) {
                    (Some(a), Some(b)) => Some(self.sub(b, a)),
                    (None, Some(inner)) => Some(self.add(a, inner)),
                    // Negations move outwards until a difference or an absolute value takes them up.
                    (Some(inner), None) if structural => {
                        let sum = self.add(inner, b);
                        Some(self.neg(sum))
                    }
                    _ => self.gathered_sum(op, a, b),
                }
            }
            Binary::Mul => {
                if a_is_zero || b_is_zero {
                    return Some(self.constant(0.0));
                }
                if is(y, 1.0) {
                    return Some(a);
                }
                if is(x, 1.0) {
                    return Some(b);
                }
                if is(y, -1.0) {
                    return Some(self.neg(a));
                }
                if is(x, -1.0) {
                    return Some(self.neg(b));
                }
                self.signs_taken_out(op, a, b).or_else(|| self.gathered_product(a, b))
            }
            Binary::Div => {
                if a_is_zero {
                    return Some(self.constant(0.0));
                }
                if is(y, 1.0) {
                    return Some(a);
                }
                if is(y, -1.0) {
                    return Some(self.neg(a));
                }
                self.signs_taken_out(op, a, b)
            }
            Binary::Min | Binary::Max if a == b => Some(a),
            Binary::And if x.or(y) == Some(0.0) => Some(self.constant(0.0)),
            Binary::Or if x.or(y).is_some_and(|n| n != 0.0) => Some(self.constant(1.0)),
            _ => None,
        }
    }

    /// What a value is the negative of. What is the same for all lanes is negated once; there is nothing to gain.
    fn negated(&self, value: Value) -> Option<Value> {
        match self.operation_of(value) {
            Some((Opcode::Neg, [inner, ..])) if !self.is_uniform(value) => Some(Value(inner)),
            _ => None,
        }
    }

    /// A product or quotient of values of which some are negated: two negations cancel, one moves outwards.
    fn signs_taken_out(&mut self, op: Binary, a: Value, b: Value) -> Option<Value> {
        match (self.negated(a), self.negated(b)) {
            (None, None) => None,
            (Some(a), Some(b)) => Some(self.binary(op, a, b)),
            (of_a, of_b) => {
                if !self.options.zeros_are_structural {
                    return None;
                }
                let value = self.binary(op, of_a.unwrap_or(a), of_b.unwrap_or(b));
                Some(self.neg(value))
            }
        }
    }

    /// An operation on three values.
    pub fn ternary(&mut self, op: Ternary, a: Value, b: Value, c: Value) -> Value {
        let (x, y, z) = (self.as_constant(a), self.as_constant(b), self.as_constant(c));
        if let (Some(x), Some(y), Some(z)) = (x, y, z) {
            return self.constant(op.evaluate(x, y, z));
        }
        match op {
            Ternary::Select => match x {
                Some(condition) => {
                    if condition != 0.0 {
                        b
                    } else {
                        c
                    }
                }
                None if b == c => b,
                None => self.share(Opcode::Select, [a.0, b.0, c.0]),
            },
            // What rounds twice is kept as two operations, so that it is shared with others; `finish` joins them again.
            Ternary::MulThenAdd => {
                let product = self.mul(a, b);
                self.add(product, c)
            }
            Ternary::MulThenSub => {
                let product = self.mul(a, b);
                self.sub(product, c)
            }
            Ternary::SubProduct => {
                let product = self.mul(a, b);
                self.sub(c, product)
            }
            Ternary::FusedMulAdd | Ternary::FusedMulSub | Ternary::FusedSubProduct => {
                let structural = self.options.zeros_are_structural;
                if structural && (x == Some(0.0) || y == Some(0.0)) {
                    return if op == Ternary::FusedMulSub { self.neg(c) } else { c };
                }
                self.share(op.into(), [a.0, b.0, c.0])
            }
        }
    }

    /// `a + b`
    pub fn add(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Add, a, b)
    }
    /// `a - b`
    pub fn sub(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Sub, a, b)
    }
    /// `a * b`
    pub fn mul(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Mul, a, b)
    }
    /// `a / b`
    pub fn div(&mut self, a: Value, b: Value) -> Value {
        self.binary(Binary::Div, a, b)
    }
    /// `-a`
    pub fn neg(&mut self, a: Value) -> Value {
        self.unary(Unary::Neg, a)
    }
    /// `yes` if `condition` is true, else `no`.
    pub fn select(&mut self, condition: Value, yes: Value, no: Value) -> Value {
        self.ternary(Ternary::Select, condition, yes, no)
    }

    /// Makes a function known that runs per lane. It gets as many arguments as [`TapeBuilder::call`] hands it.
    ///
    /// # Panics
    /// If it has 2^31 results or more.
    pub fn register(&mut self, n_results: usize, body: LaneFunction) -> FunctionId {
        assert!(n_results < Operand::CONSTANT as usize, "{n_results} results, but values are numbered with 31 bits");
        self.functions.push(Function { body, n_results, tangent: None });
        FunctionId(self.functions.len() as u32 - 1)
    }

    /// Gives a function its tangent: from arguments and their tangents to the tangents of the results.
    ///
    /// # Panics
    /// If the function was registered with another builder.
    pub fn set_tangent(&mut self, function: FunctionId, tangent: LaneFunction) {
        self.functions[function.0 as usize].tangent = Some(tangent);
    }

    /// The tangent of the function of a call, registered in its turn.
    pub(super) fn tangent_of_call(&mut self, call: u32) -> Option<FunctionId> {
        let registered = self.calls[call as usize].registered as usize;
        let Function { n_results, tangent, .. } = &self.functions[registered];
        let (n_results, tangent) = (*n_results, tangent.clone()?);
        Some(self.register_shared(n_results, &tangent))
    }

    /// Registers a function once, however often it is handed over.
    pub(super) fn register_shared(&mut self, n_results: usize, body: &LaneFunction) -> FunctionId {
        let known = self.functions.iter().position(|function| std::sync::Arc::ptr_eq(&function.body, body));
        match known {
            Some(at) => FunctionId(at as u32),
            None => self.register(n_results, body.clone()),
        }
    }

    /// Number of inputs.
    #[must_use]
    pub const fn n_inputs(&self) -> usize {
        self.n_inputs
    }

    pub(super) const fn options(&self) -> TapeOptions {
        self.options
    }

    /// An operation by its opcode, of which the first `n` arguments are read.
    pub(super) fn raw_operation(&mut self, opcode: Opcode, arguments: [Value; 3], n: usize) -> Value {
        let mut nodes = [0; 3];
        for (node, argument) in nodes.iter_mut().zip(&arguments[..n]) {
            *node = argument.0;
        }
        self.share(opcode, nodes)
    }

    /// Calls a registered function; the same call with the same arguments is made once.
    ///
    /// # Panics
    /// If the function was registered with another builder.
    pub fn call(&mut self, function: FunctionId, arguments: &[Value]) -> Vec<Value> {
        let key = (function.0, arguments.iter().map(|value| value.0).collect::<Vec<_>>());
        let index = if let Some(&known) = self.known_calls.get(&key) {
            known
        } else {
            let index = self.calls.len() as u32;
            let Function { body, n_results, .. } = &self.functions[function.0 as usize];
            let (body, n_results) = (body.clone(), *n_results);
            let node = self.push(Node::Call(index));
            let results =
                (0..n_results as u32).map(|position| self.push(Node::Result { call: index, position })).collect();
            let registered = function.0;
            self.calls.push(PendingCall { function: body, arguments: key.1.clone(), registered, node, results });
            self.known_calls.insert(key, index);
            index
        };
        self.calls[index as usize].results.iter().map(|&node| Value(node)).collect()
    }

    /// The program that computes `outputs` from the inputs.
    ///
    /// # Errors
    /// [`TapeError::TooLong`] if there are 2^31 values or more.
    ///
    /// # Panics
    /// If an output belongs to another builder.
    pub fn finish(self, outputs: &[Value]) -> Result<Tape, TapeError> {
        let limit = Operand::CONSTANT as usize;
        let needed = self.nodes.len() + outputs.len();
        if needed >= limit {
            return Err(TapeError::TooLong { needed, limit });
        }
        let outputs: Vec<u32> = outputs.iter().map(|value| value.0).collect();
        Ok(allocate::assemble(self.n_inputs, self.options.contract, self.nodes, &self.constants, self.calls, &outputs))
    }

    fn operation_of(&self, value: Value) -> Option<(Opcode, [u32; 3])> {
        match self.nodes[value.0 as usize] {
            Node::Operation { opcode, arguments } => Some((opcode, arguments)),
            _ => None,
        }
    }

    fn push(&mut self, node: Node) -> u32 {
        let is_uniform = match &node {
            Node::Input(input) => *input as usize >= self.n_lane_inputs,
            Node::Constant(_) => true,
            Node::Operation { opcode, arguments } => {
                arguments[..opcode.n_operands()].iter().all(|&argument| self.is_uniform[argument as usize])
            }
            Node::Call(_) | Node::Result { .. } => false,
        };
        self.is_uniform.push(is_uniform);
        self.nodes.push(node);
        self.nodes.len() as u32 - 1
    }

    fn share(&mut self, opcode: Opcode, arguments: [u32; 3]) -> Value {
        let node = Node::Operation { opcode, arguments };
        let (nodes, next) = (&self.nodes, self.nodes.len() as u32);
        let is_same = |&known: &u32| nodes[known as usize] == node;
        let hash_of = |&known: &u32| hash(&nodes[known as usize]);
        match self.known_nodes.entry(hash(&node), is_same, hash_of) {
            Entry::Occupied(known) => Value(*known.get()),
            Entry::Vacant(vacant) => {
                vacant.insert(next);
                Value(self.push(node))
            }
        }
    }

    /// Makes room for so many more operations.
    pub(crate) fn reserve(&mut self, n_operations: usize) {
        self.nodes.reserve(n_operations);
        self.is_uniform.reserve(n_operations);
        let nodes = &self.nodes;
        self.known_nodes.reserve(n_operations, |&known| hash(&nodes[known as usize]));
    }
}
