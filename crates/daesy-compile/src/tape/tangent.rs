//! Derivatives of a program under construction, by forward accumulation.
//!
//! Every value `y = f(a, b)` gets a tangent `y' = f_a a' + f_b b'` [@griewank2008, ch. 3], in the order in which the
//! values were made. A tangent that is zero by structure takes no operation. The result is the exact derivative of
//! what the program computes: where a program iterates, of its iterates.

use super::build::{Node, TapeBuilder, Value};
use crate::operation::{Binary, Opcode, Unary};
use rustc_hash::FxHashMap;

impl TapeBuilder {
    /// The tangents of some values, given those of the inputs that have one; `None` if a tangent is zero by structure.
    pub fn tangents(&mut self, seeds: &FxHashMap<Value, Value>, outputs: &[Value]) -> Vec<Option<Value>> {
        let Some(n) = outputs.iter().map(|value| value.0 as usize + 1).max() else { return Vec::new() };
        let is_needed = self.needed_for(outputs, n);
        let mut tangents: Vec<Option<Value>> = vec![None; n];
        for node in 0..n {
            if !is_needed[node] {
                continue;
            }
            let value = Value(node as u32);
            tangents[node] = match self.nodes[node] {
                Node::Input(_) => seeds.get(&value).copied(),
                Node::Constant(_) | Node::Call(_) => None,
                Node::Operation { opcode, arguments } => self.operation_tangent(value, opcode, arguments, &tangents),
                Node::Result { call, position } => self.call_tangent(call, position, &tangents),
            };
        }
        outputs.iter().map(|value| tangents[value.0 as usize]).collect()
    }

    fn needed_for(&self, outputs: &[Value], n: usize) -> Vec<bool> {
        let mut is_needed = vec![false; n];
        for output in outputs {
            is_needed[output.0 as usize] = true;
        }
        for node in (0..n).rev() {
            if !is_needed[node] {
                continue;
            }
            match self.nodes[node] {
                Node::Input(_) | Node::Constant(_) => {}
                Node::Operation { opcode, arguments } => {
                    for &argument in &arguments[..opcode.n_operands()] {
                        is_needed[argument as usize] = true;
                    }
                }
                Node::Call(call) => {
                    for &argument in &self.calls[call as usize].arguments {
                        is_needed[argument as usize] = true;
                    }
                }
                Node::Result { call, .. } => is_needed[self.calls[call as usize].node as usize] = true,
            }
        }
        is_needed
    }

    fn scaled(&mut self, factor: Value, tangent: Option<Value>) -> Option<Value> {
        tangent.map(|tangent| self.mul(factor, tangent))
    }

    fn sum(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.add(a, b)),
            (a, b) => a.or(b),
        }
    }

    fn difference(&mut self, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        match (a, b) {
            (Some(a), Some(b)) => Some(self.sub(a, b)),
            (Some(a), None) => Some(a),
            (None, Some(b)) => Some(self.neg(b)),
            (None, None) => None,
        }
    }

    fn chosen(&mut self, condition: Value, a: Option<Value>, b: Option<Value>) -> Option<Value> {
        if a.is_none() && b.is_none() {
            return None;
        }
        let zero = self.constant(0.0);
        Some(self.select(condition, a.unwrap_or(zero), b.unwrap_or(zero)))
    }

    fn operation_tangent(
        &mut self,
        value: Value,
        opcode: Opcode,
        arguments: [u32; 3],
        tangents: &[Option<Value>],
    ) -> Option<Value> {
        let [a, b, c] = arguments.map(Value);
        let of = |at: Value| tangents[at.0 as usize];
        let da = of(a);
        let (db, dc) =
            (if opcode.n_operands() > 1 { of(b) } else { None }, if opcode.n_operands() > 2 { of(c) } else { None });
        if da.is_none() && db.is_none() && dc.is_none() {
            return None;
        }
        let one = self.constant(1.0);
        match opcode {
            Opcode::Copy => da,
            Opcode::Neg => da.map(|da| self.neg(da)),
            Opcode::Abs => {
                let sign = self.unary(Unary::Sign, a);
                self.scaled(sign, da)
            }
            Opcode::Sqrt => {
                let double = self.add(value, value);
                da.map(|da| self.div(da, double))
            }
            Opcode::Exp => self.scaled(value, da),
            Opcode::Log => da.map(|da| self.div(da, a)),
            Opcode::Log10 => {
                let factor = self.constant(std::f64::consts::LN_10);
                let denominator = self.mul(factor, a);
                da.map(|da| self.div(da, denominator))
            }
            Opcode::Sin => {
                let cosine = self.unary(Unary::Cos, a);
                self.scaled(cosine, da)
            }
            Opcode::Cos => {
                let sine = self.unary(Unary::Sin, a);
                let sine = self.neg(sine);
                self.scaled(sine, da)
            }
            Opcode::Tan => {
                let square = self.mul(value, value);
                let factor = self.add(one, square);
                self.scaled(factor, da)
            }
            Opcode::Asin | Opcode::Acos => {
                let square = self.mul(a, a);
                let inside = self.sub(one, square);
                let root = self.unary(Unary::Sqrt, inside);
                let root = if opcode == Opcode::Asin { root } else { self.neg(root) };
                da.map(|da| self.div(da, root))
            }
            Opcode::Atan => {
                let square = self.mul(a, a);
                let denominator = self.add(one, square);
                da.map(|da| self.div(da, denominator))
            }
            Opcode::Sinh => {
                let factor = self.unary(Unary::Cosh, a);
                self.scaled(factor, da)
            }
            Opcode::Cosh => {
                let factor = self.unary(Unary::Sinh, a);
                self.scaled(factor, da)
            }
            Opcode::Tanh => {
                let square = self.mul(value, value);
                let factor = self.sub(one, square);
                self.scaled(factor, da)
            }
            Opcode::Add => self.sum(da, db),
            Opcode::Sub => self.difference(da, db),
            Opcode::Mul => {
                let left = self.scaled(b, da);
                let right = self.scaled(a, db);
                self.sum(left, right)
            }
            Opcode::Div => {
                let right = self.scaled(value, db);
                let numerator = self.difference(da, right)?;
                Some(self.div(numerator, b))
            }
            Opcode::Pow => self.power_tangent(value, a, b, da, db),
            Opcode::Atan2 => {
                let (left, right) = (self.scaled(b, da), self.scaled(a, db));
                let numerator = self.difference(left, right)?;
                let (aa, bb) = (self.mul(a, a), self.mul(b, b));
                let square = self.add(aa, bb);
                Some(self.div(numerator, square))
            }
            Opcode::Min => {
                let is_first = self.binary(Binary::Less, a, b);
                self.chosen(is_first, da, db)
            }
            Opcode::Max => {
                let is_first = self.binary(Binary::Less, b, a);
                self.chosen(is_first, da, db)
            }
            Opcode::Modulo | Opcode::Remainder => {
                let ratio = self.div(a, b);
                let whole = self.unary(if opcode == Opcode::Modulo { Unary::Floor } else { Unary::Trunc }, ratio);
                let right = self.scaled(whole, db);
                self.difference(da, right)
            }
            Opcode::Select => self.chosen(a, db, dc),
            Opcode::MulThenAdd | Opcode::FusedMulAdd => {
                let (left, right) = (self.scaled(b, da), self.scaled(a, db));
                let product = self.sum(left, right);
                self.sum(product, dc)
            }
            Opcode::MulThenSub | Opcode::FusedMulSub => {
                let (left, right) = (self.scaled(b, da), self.scaled(a, db));
                let product = self.sum(left, right);
                self.difference(product, dc)
            }
            Opcode::SubProduct | Opcode::FusedSubProduct => {
                let (left, right) = (self.scaled(b, da), self.scaled(a, db));
                let product = self.sum(left, right);
                self.difference(dc, product)
            }
            Opcode::Sign
            | Opcode::Not
            | Opcode::Ceil
            | Opcode::Floor
            | Opcode::Trunc
            | Opcode::Quotient
            | Opcode::Less
            | Opcode::LessEqual
            | Opcode::Greater
            | Opcode::GreaterEqual
            | Opcode::Equal
            | Opcode::NotEqual
            | Opcode::And
            | Opcode::Or
            | Opcode::SinCos
            | Opcode::Call => None,
        }
    }

    /// `(a^b)' = b a^(b-1) a' + a^b log(a) b'`, the second term only where a is positive.
    fn power_tangent(
        &mut self,
        value: Value,
        a: Value,
        b: Value,
        da: Option<Value>,
        db: Option<Value>,
    ) -> Option<Value> {
        let by_base = da.map(|da| {
            let one = self.constant(1.0);
            let exponent = self.sub(b, one);
            let power = self.binary(Binary::Pow, a, exponent);
            let factor = self.mul(b, power);
            self.mul(factor, da)
        });
        let by_exponent = db.map(|db| {
            let logarithm = self.unary(Unary::Log, a);
            let factor = self.mul(value, logarithm);
            let term = self.mul(factor, db);
            let zero = self.constant(0.0);
            let is_positive = self.binary(Binary::Less, zero, a);
            self.select(is_positive, term, zero)
        });
        self.sum(by_base, by_exponent)
    }

    /// A result of a call: by the tangent that was registered with its function.
    fn call_tangent(&mut self, call: u32, position: u32, tangents: &[Option<Value>]) -> Option<Value> {
        let pending = &self.calls[call as usize];
        let arguments: Vec<Value> = pending.arguments.iter().map(|&argument| Value(argument)).collect();
        let derivatives: Vec<Option<Value>> = arguments.iter().map(|value| tangents[value.0 as usize]).collect();
        if derivatives.iter().all(Option::is_none) {
            return None;
        }
        let function = self.tangent_of_call(call)?;
        let zero = self.constant(0.0);
        let mut all = arguments;
        all.extend(derivatives.into_iter().map(|derivative| derivative.unwrap_or(zero)));
        Some(self.call(function, &all)[position as usize])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Executor, Interpreter, TapeOptions};

    #[test]
    fn tangents_equal_central_differences_for_every_operation() {
        let mut builder = TapeBuilder::new(5, TapeOptions::default().with_structural_zeros());
        let [x, y, z] = [0, 1, 2].map(|at| builder.input(at));
        let mut outputs = Vec::new();
        for &op in Unary::ALL {
            outputs.push(builder.unary(op, x));
        }
        let four = builder.constant(4.0);
        let shifted = builder.add(y, four);
        for &op in Binary::ALL {
            outputs.push(builder.binary(op, shifted, z));
            outputs.push(builder.binary(op, z, shifted));
        }
        for &op in crate::Ternary::ALL {
            outputs.push(builder.ternary(op, x, y, z));
        }
        let seeds = FxHashMap::from_iter([(x, builder.input(3)), (y, builder.input(4))]);
        let zero = builder.constant(0.0);
        let tangents: Vec<Value> =
            builder.tangents(&seeds, &outputs).into_iter().map(|tangent| tangent.unwrap_or(zero)).collect();
        let n = outputs.len();
        outputs.extend(tangents);
        let interpreter = Interpreter::new(builder.finish(&outputs).unwrap());
        let (point, direction) = ([0.37, -0.61, 1.43], [0.8, -1.3]);
        let at = |step: f64| {
            let inputs =
                [point[0] + step * direction[0], point[1] + step * direction[1], point[2], direction[0], direction[1]];
            interpreter.evaluate(&inputs).unwrap()
        };
        let (middle, after, before) = (at(0.0), at(1e-5), at(-1e-5));
        for output in 0..n {
            let difference = (after[output] - before[output]) / 2e-5;
            let exact = middle[n + output];
            assert!((difference - exact).abs() <= 1e-7 * (1.0 + exact.abs()), "output {output}: {difference} {exact}");
        }
    }
}
