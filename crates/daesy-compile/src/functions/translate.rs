//! From the body of a function to instructions.

use daesy_graph::function::Statement;
use daesy_graph::{ArgList, BinaryOp, ExprId, Function, FunctionId, Graph, Node};
use rustc_hash::{FxHashMap, FxHashSet};

use super::{Code, List, Program, Register, Routine, Use};

/// Levels of an expression; deeper ones are left to the reference evaluator.
const MAX_DEPTH: usize = 500;

/// A call with its arguments: all outputs come from one run.
type CallKey = (FunctionId, ArgList);

/// What several branches share.
#[derive(Clone, Copy)]
enum Shared {
    Value(ExprId),
    Call(CallKey),
}

/// A shared part that is to be written.
#[derive(Clone, Copy)]
struct Part {
    what: Shared,
    /// Which of the routine's.
    number: u32,
    flag: Register,
    /// Where its value goes, or the first of its values.
    to: Register,
    /// Values that had been made before it was first needed.
    n_made: usize,
}

impl Program {
    /// A function with all that it calls; None where a body has what only the reference evaluator knows.
    pub(crate) fn new(graph: &Graph, function: FunctionId) -> Option<Self> {
        let mut known: Vec<FunctionId> = vec![function];
        let mut routines = Vec::new();
        while let Some(&next) = known.get(routines.len()) {
            routines.push(Translation::new(graph, graph.function(next), &mut known).routine()?);
        }
        Some(Self::of(routines))
    }
}

/// A routine that is being written.
struct Translation<'g> {
    graph: &'g Graph,
    function: &'g Function,
    /// Functions with their routines, which are in the same order.
    known: &'g mut Vec<FunctionId>,
    routine: Routine,
    numbers: FxHashMap<u64, Register>,
    /// Locals that need not be finite.
    unchecked: FxHashSet<u32>,
    n_registers: u32,
    next_register: u32,
    /// Jumps out of the loops around, to be given their targets.
    breaks: Vec<Vec<usize>>,
    expression: Expression,
}

/// What is known while one expression is written.
#[derive(Default)]
struct Expression {
    uses: FxHashMap<ExprId, u32>,
    call_uses: FxHashMap<CallKey, u32>,
    /// Values that are made whatever happens, with how many had been made before.
    values: FxHashMap<ExprId, (Register, usize)>,
    calls: FxHashMap<CallKey, (Register, usize)>,
    n_made: usize,
    /// The first so many values that are made whatever happens can be used.
    n_visible: usize,
    is_conditional: bool,
    parts: FxHashMap<ExprId, Part>,
    call_parts: FxHashMap<CallKey, Part>,
    waiting: Vec<Part>,
    flags: Vec<Register>,
    depth: usize,
}

impl<'g> Translation<'g> {
    fn new(graph: &'g Graph, function: &'g Function, known: &'g mut Vec<FunctionId>) -> Self {
        let mut this = Self {
            graph,
            function,
            known,
            routine: Routine {
                n_inputs: function.n_inputs as usize,
                outputs: function.outputs.clone(),
                registers: vec![0.0; function.n_locals as usize],
                ..Routine::default()
            },
            numbers: FxHashMap::default(),
            unchecked: FxHashSet::default(),
            n_registers: 0,
            next_register: 0,
            breaks: Vec::new(),
            expression: Expression::default(),
        };
        this.add_number(0.0);
        let mut seen = FxHashSet::default();
        this.look_through(&function.body, &mut seen);
        this.n_registers = this.routine.registers.len() as u32;
        this
    }

    fn add_number(&mut self, value: f64) {
        let registers = &mut self.routine.registers;
        self.numbers.entry(value.to_bits()).or_insert_with(|| {
            registers.push(value);
            registers.len() as u32 - 1
        });
    }

    /// Gives the numbers of all expressions their registers.
    fn look_through(&mut self, statements: &[Statement], seen: &mut FxHashSet<ExprId>) {
        for statement in statements {
            let mut stack: Vec<ExprId> = Vec::new();
            match statement {
                Statement::Assign { value, .. } => stack.push(*value),
                Statement::AssignAt { index, value, .. } => stack.extend([*index, *value]),
                Statement::If { condition, then, otherwise } => {
                    stack.push(*condition);
                    self.look_through(then, seen);
                    self.look_through(otherwise, seen);
                }
                Statement::While { condition, body } => {
                    stack.push(*condition);
                    self.look_through(body, seen);
                }
                Statement::Intrinsic { results, .. } => self.unchecked.extend(results),
                Statement::Assert { condition, .. } => stack.push(*condition),
                Statement::Break | Statement::Return => {}
            }
            while let Some(expr) = stack.pop() {
                if !seen.insert(expr) {
                    continue;
                }
                if let Node::Number(bits) = self.graph.node(expr) {
                    self.add_number(f64::from_bits(bits));
                }
                self.graph.for_each_child(expr, |child| stack.push(child));
            }
        }
    }

    fn routine(mut self) -> Option<Routine> {
        let function = self.function;
        self.statements(&function.body)?;
        self.emit(Code::Return);
        self.routine.registers.resize(self.n_registers as usize, 0.0);
        Some(self.routine)
    }

    fn emit(&mut self, code: Code) -> usize {
        self.routine.code.push(code);
        self.routine.code.len() - 1
    }

    fn here(&self) -> u32 {
        self.routine.code.len() as u32
    }

    /// Lets a jump lead to where the code ends now.
    fn land(&mut self, jump: usize) {
        let here = self.here();
        match &mut self.routine.code[jump] {
            Code::Jump { target } | Code::JumpUnless { target, .. } | Code::JumpIf { target, .. } => *target = here,
            _ => {}
        }
    }

    fn list(&mut self, registers: &[Register]) -> List {
        let start = self.routine.lists.len() as u32;
        self.routine.lists.extend(registers);
        List { start, len: registers.len() as u32 }
    }

    fn fresh(&mut self, n: u32) -> Register {
        let first = self.next_register;
        self.next_register += n;
        self.n_registers = self.n_registers.max(self.next_register);
        first
    }

    fn statements(&mut self, statements: &[Statement]) -> Option<()> {
        if !statements.is_empty() {
            self.emit(Code::Count { n: statements.len() as u32 });
        }
        for statement in statements {
            self.next_register = self.routine.registers.len() as u32;
            match statement {
                Statement::Assign { local, value } => {
                    let a = self.whole(*value)?;
                    self.emit(Code::Copy { to: *local, a });
                }
                Statement::AssignAt { base, len, index, value } => {
                    let index = self.whole(*index)?;
                    let a = self.whole(*value)?;
                    self.emit(Code::Store { base: *base, len: *len, index, a });
                }
                Statement::If { condition, then, otherwise } => {
                    let a = self.whole(*condition)?;
                    let skip = self.emit(Code::JumpUnless { a, target: 0 });
                    self.statements(then)?;
                    let leave = self.emit(Code::Jump { target: 0 });
                    self.land(skip);
                    self.statements(otherwise)?;
                    self.land(leave);
                }
                Statement::While { condition, body } => {
                    let again = self.here();
                    let a = self.whole(*condition)?;
                    let leave = self.emit(Code::JumpUnless { a, target: 0 });
                    self.emit(Code::Count { n: 1 });
                    self.breaks.push(vec![leave]);
                    self.statements(body)?;
                    self.emit(Code::Jump { target: again });
                    for jump in self.breaks.pop().unwrap_or_default() {
                        self.land(jump);
                    }
                }
                Statement::Intrinsic { intrinsic, args, results } => {
                    let which = self.routine.uses.len() as u32;
                    let made = Use { intrinsic: intrinsic.clone(), args: args.clone(), results: results.clone() };
                    self.routine.uses.push(made);
                    self.emit(Code::Intrinsic { which });
                }
                Statement::Break => {
                    let jump = self.emit(Code::Jump { target: 0 });
                    self.breaks.last_mut()?.push(jump);
                }
                Statement::Return => {
                    self.emit(Code::Return);
                }
                Statement::Assert { condition, .. } => {
                    let a = self.whole(*condition)?;
                    self.emit(Code::Assert { a });
                }
            }
        }
        Some(())
    }

    /// The value of the expression of a statement.
    fn whole(&mut self, root: ExprId) -> Option<Register> {
        if let Node::Number(bits) = self.graph.node(root) {
            return self.numbers.get(&bits).copied();
        }
        self.expression = Expression { n_visible: usize::MAX, ..Expression::default() };
        self.count_uses(root);
        let forget = self.emit(Code::Forget { flags: List { start: 0, len: 0 } });
        let value = self.value(root)?;
        if self.expression.waiting.is_empty() {
            return Some(value);
        }
        let over = self.emit(Code::Jump { target: 0 });
        while let Some(part) = self.expression.waiting.pop() {
            self.part(part)?;
        }
        self.land(over);
        let flags = std::mem::take(&mut self.expression.flags);
        let flags = self.list(&flags);
        self.routine.code[forget] = Code::Forget { flags };
        Some(value)
    }

    /// How many expressions use each part of an expression.
    fn count_uses(&mut self, root: ExprId) {
        let Expression { uses, call_uses, .. } = &mut self.expression;
        let mut stack = vec![root];
        while let Some(expr) = stack.pop() {
            let n = uses.entry(expr).or_default();
            *n += 1;
            if let Node::Call { function, args, .. } = self.graph.node(expr) {
                let n_calls = call_uses.entry((function, args)).or_default();
                *n_calls += 1;
                if *n_calls > 1 {
                    continue;
                }
            } else if *n > 1 {
                continue;
            }
            self.graph.for_each_child(expr, |child| stack.push(child));
        }
    }

    /// Writes a shared part.
    fn part(&mut self, part: Part) -> Option<()> {
        self.routine.parts[part.number as usize] = self.here();
        (self.expression.is_conditional, self.expression.n_visible) = (true, part.n_made);
        match part.what {
            Shared::Value(expr) => {
                let a = self.made(expr)?;
                self.emit(Code::Copy { to: part.to, a });
            }
            Shared::Call(key) => self.call_into(key, part.to)?,
        }
        self.emit(Code::Resume { flag: part.flag });
        Some(())
    }

    fn share(&mut self, what: Shared, n: u32) -> Part {
        let (flag, to, number) = (self.fresh(1), self.fresh(n), self.routine.parts.len() as u32);
        self.routine.parts.push(0);
        let n_made = self.expression.n_made.min(self.expression.n_visible);
        let part = Part { what, number, flag, to, n_made };
        self.expression.waiting.push(part);
        self.expression.flags.push(flag);
        part
    }

    /// The register with the value of an expression.
    fn value(&mut self, expr: ExprId) -> Option<Register> {
        match self.graph.node(expr) {
            Node::Number(bits) => {
                let a = *self.numbers.get(&bits)?;
                if !f64::from_bits(bits).is_finite() {
                    self.emit(Code::Fail);
                }
                return Some(a);
            }
            Node::Local(local) => {
                if self.unchecked.contains(&local) {
                    self.emit(Code::Check { a: local });
                }
                return Some(local);
            }
            Node::Call { function, output, args } => {
                if usize::from(output) >= self.graph.function(function).outputs.len() {
                    return None;
                }
                let a = self.call((function, args))? + u32::from(output);
                self.emit(Code::Check { a });
                return Some(a);
            }
            _ => {}
        }
        let now = &self.expression;
        if let Some(&(register, number)) = now.values.get(&expr)
            && number < now.n_visible
        {
            return Some(register);
        }
        if let Some(&part) = now.parts.get(&expr) {
            self.emit(Code::Force { part: part.number, flag: part.flag });
            return Some(part.to);
        }
        let is_shared = now.uses.get(&expr).is_some_and(|n| *n > 1);
        if is_shared && now.is_conditional {
            let part = self.share(Shared::Value(expr), 1);
            self.expression.parts.insert(expr, part);
            self.emit(Code::Force { part: part.number, flag: part.flag });
            return Some(part.to);
        }
        let register = self.made(expr)?;
        if is_shared {
            let number = self.expression.n_made;
            self.expression.n_made += 1;
            self.expression.values.insert(expr, (register, number));
        }
        Some(register)
    }

    /// The first of the registers with the outputs of a call.
    fn call(&mut self, key: CallKey) -> Option<Register> {
        let now = &self.expression;
        if let Some(&(register, number)) = now.calls.get(&key)
            && number < now.n_visible
        {
            return Some(register);
        }
        if let Some(&part) = now.call_parts.get(&key) {
            self.emit(Code::Force { part: part.number, flag: part.flag });
            return Some(part.to);
        }
        let is_shared = now.call_uses.get(&key).is_some_and(|n| *n > 1);
        let n_outputs = self.graph.function(key.0).outputs.len() as u32;
        if is_shared && now.is_conditional {
            let part = self.share(Shared::Call(key), n_outputs);
            self.expression.call_parts.insert(key, part);
            self.emit(Code::Force { part: part.number, flag: part.flag });
            return Some(part.to);
        }
        let register = self.fresh(n_outputs);
        self.call_into(key, register)?;
        if is_shared {
            let number = self.expression.n_made;
            self.expression.n_made += 1;
            self.expression.calls.insert(key, (register, number));
        }
        Some(register)
    }

    fn call_into(&mut self, (function, args): CallKey, to: Register) -> Option<()> {
        let list = self.graph.args(args);
        if list.len() != self.graph.function(function).n_inputs as usize {
            return None;
        }
        let registers: Vec<Register> = list.iter().map(|&arg| self.deeper(arg)).collect::<Option<_>>()?;
        let args = self.list(&registers);
        let routine = self.known.iter().position(|known| *known == function).unwrap_or_else(|| {
            self.known.push(function);
            self.known.len() - 1
        });
        self.emit(Code::Call { routine: routine as u32, args, to });
        Some(())
    }

    /// The value of an argument, one level below.
    fn deeper(&mut self, expr: ExprId) -> Option<Register> {
        if self.expression.depth >= MAX_DEPTH {
            return None;
        }
        self.expression.depth += 1;
        let value = self.value(expr);
        self.expression.depth -= 1;
        value
    }

    /// The same where it is not always needed.
    fn perhaps(&mut self, expr: ExprId) -> Option<Register> {
        let was = std::mem::replace(&mut self.expression.is_conditional, true);
        let value = self.deeper(expr);
        self.expression.is_conditional = was;
        value
    }

    /// Writes what makes a value.
    fn made(&mut self, expr: ExprId) -> Option<Register> {
        match self.graph.node(expr) {
            Node::Unary { op, arg } => {
                let a = self.deeper(arg)?;
                let to = self.fresh(1);
                self.emit(Code::Unary { op, to, a });
                Some(to)
            }
            Node::Smooth { arg, .. } | Node::Binary { op: BinaryOp::Homotopy, lhs: arg, .. } => self.deeper(arg),
            Node::Binary { op: op @ (BinaryOp::And | BinaryOp::Or), lhs, rhs } => {
                let a = self.deeper(lhs)?;
                let to = self.fresh(1);
                self.emit(Code::Truth { to, a });
                let target = 0;
                let is_or = op == BinaryOp::Or;
                let decided = if is_or { Code::JumpIf { a: to, target } } else { Code::JumpUnless { a: to, target } };
                let decided = self.emit(decided);
                let b = self.perhaps(rhs)?;
                self.emit(Code::Truth { to, a: b });
                self.land(decided);
                Some(to)
            }
            Node::Binary { op, lhs, rhs } => {
                let (a, b) = (self.deeper(lhs)?, self.deeper(rhs)?);
                let to = self.fresh(1);
                self.emit(Code::Binary { op, to, a, b });
                Some(to)
            }
            Node::Select { condition, then, otherwise } => {
                let a = self.deeper(condition)?;
                let to = self.fresh(1);
                let skip = self.emit(Code::JumpUnless { a, target: 0 });
                let a = self.perhaps(then)?;
                self.emit(Code::Copy { to, a });
                let leave = self.emit(Code::Jump { target: 0 });
                self.land(skip);
                let a = self.perhaps(otherwise)?;
                self.emit(Code::Copy { to, a });
                self.land(leave);
                Some(to)
            }
            Node::LocalAt { base, len, index } => {
                let index = self.deeper(index)?;
                let to = self.fresh(1);
                self.emit(Code::Load { to, base, len, index });
                Some(to)
            }
            _ => None,
        }
    }
}
