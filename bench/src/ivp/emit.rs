//! Peers get their functions as C, compiled with all optimizations: right sides, Jacobians and products with Jacobians
//! of a hand-reduced model M y' = f(t, y), written from the expression graph with common parts shared.

#![allow(unsafe_code)]

use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

use daesy_graph::flat::FlatDae;
use daesy_graph::substitute::Substitution;
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{BinaryOp, ExprId, Graph, Node, UnaryOp, VarId};
use libloading::Library;

use super::{Problem, Unreached};

type RightSide = unsafe extern "C" fn(f64, *const f64, *mut f64);
type Product = unsafe extern "C" fn(f64, *const f64, *const f64, *mut f64);

/// An entry of the constant mass matrix.
#[derive(Clone, Copy, Debug)]
pub struct MassEntry {
    /// Row.
    pub row: usize,
    /// Column.
    pub column: usize,
    /// Value.
    pub value: f64,
}

/// M y' = f(t, y), compiled.
pub struct ReducedModel {
    /// Number of variables.
    pub n: usize,
    /// Their names.
    pub names: Vec<String>,
    /// Their start values.
    pub start: Vec<f64>,
    /// M.
    pub mass: Vec<MassEntry>,
    right_side: RightSide,
    jacobian: RightSide,
    product: Product,
    /// Keeps the functions in memory.
    _library: Library,
}

impl ReducedModel {
    /// f = f(t, y)
    pub fn right_side(&self, time: f64, y: &[f64], f: &mut [f64]) {
        debug_assert!(y.len() == self.n && f.len() == self.n);
        // SAFETY: the function reads n values of y and writes n values of f.
        unsafe { (self.right_side)(time, y.as_ptr(), f.as_mut_ptr()) }
    }

    /// Writes df/dy column by column; entries that are always zero are not written.
    pub fn jacobian(&self, time: f64, y: &[f64], jacobian: &mut [f64]) {
        debug_assert!(y.len() == self.n && jacobian.len() == self.n * self.n);
        // SAFETY: the function reads n values of y and writes within n * n values.
        unsafe { (self.jacobian)(time, y.as_ptr(), jacobian.as_mut_ptr()) }
    }

    /// product = df/dy v
    pub fn product(&self, time: f64, y: &[f64], v: &[f64], product: &mut [f64]) {
        debug_assert!(y.len() == self.n && v.len() == self.n && product.len() == self.n);
        // SAFETY: the function reads n values of y and v and writes n values.
        unsafe { (self.product)(time, y.as_ptr(), v.as_ptr(), product.as_mut_ptr()) }
    }
}

/// Reads the hand-reduced form of a problem, writes it as C, compiles and loads it.
///
/// # Errors
/// When the model cannot be read or the C compiler is missing.
pub fn reduced_model(problem: &Problem, root: &Path, target: &Path) -> Result<ReducedModel, Unreached> {
    let unreached = |reason: String| Unreached { reason };
    let path = root.join("bench/peers/models").join(format!("{}.mo", problem.folder));
    let text = std::fs::read_to_string(&path).map_err(|error| unreached(format!("{}: {error}", path.display())))?;
    let mut flat = daesy_model::flatten_text("reduced.mo", &text, Some(problem.reduced_class))
        .map_err(|error| unreached(format!("{error:?}")))?;
    let system = Reduced::new(&mut flat);
    let code = system.write(&flat.graph);
    let source = target.join(format!("{}.c", problem.folder));
    let library = target.join(format!("{}.so", problem.folder));
    std::fs::create_dir_all(target)
        .and_then(|()| std::fs::write(&source, code))
        .map_err(|e| unreached(e.to_string()))?;
    let compiled = Command::new("cc")
        .args(["-O3", "-march=native", "-fno-math-errno", "-shared", "-fPIC", "-o"])
        .args([&library, &source])
        .arg("-lm")
        .status()
        .map_err(|error| unreached(format!("cc: {error}")))?;
    if !compiled.success() {
        return Err(unreached("the C compiler failed".to_owned()));
    }
    // SAFETY: the library was just made from functions of these types; they have no state.
    unsafe {
        let library = Library::new(&library).map_err(|error| unreached(error.to_string()))?;
        let symbol = |error: libloading::Error| unreached(error.to_string());
        Ok(ReducedModel {
            n: system.names.len(),
            right_side: *library.get::<RightSide>(b"right_side").map_err(symbol)?,
            jacobian: *library.get::<RightSide>(b"jacobian").map_err(symbol)?,
            product: *library.get::<Product>(b"product").map_err(symbol)?,
            names: system.names,
            start: system.start,
            mass: system.mass,
            _library: library,
        })
    }
}

/// An entry of df/dy.
struct Entry {
    row: usize,
    column: usize,
    value: ExprId,
}

/// The expressions of a reduced model.
struct Reduced {
    names: Vec<String>,
    start: Vec<f64>,
    variables: Vec<VarId>,
    right_sides: Vec<ExprId>,
    entries: Vec<Entry>,
    mass: Vec<MassEntry>,
}

impl Reduced {
    /// Protected variables are names for expressions, in order; the others are y.
    fn new(flat: &mut FlatDae) -> Self {
        use daesy_graph::flat::VariableKind;
        let mut substitution = Substitution::new();
        let mut numbers = vec![f64::NAN; flat.variables.len()];
        let mut evaluator = daesy_graph::Evaluator::new();
        for at in 0..flat.variables.len() {
            let variable = &flat.variables[at];
            if matches!(variable.kind, VariableKind::Parameter | VariableKind::Constant)
                && let Some(binding) = variable.binding
            {
                let value = evaluator.evaluate_one(&flat.graph, binding, &|var: VarId, _: u16| numbers[var.index()]);
                numbers[at] = value;
                let number = flat.graph.number(value);
                substitution.replace_leaf(&mut flat.graph, Leaf::var(VarId(at as u32)), number);
            }
        }
        let is_name = |flat: &FlatDae, var: VarId| flat.variables[var.index()].is_protected;
        let mut residuals = Vec::new();
        for at in 0..flat.equations.len() {
            let (lhs, rhs) = (flat.equations[at].lhs, flat.equations[at].rhs);
            match flat.graph.node(lhs) {
                Node::Var { var, order: 0 } if is_name(flat, var) => {
                    let value = substitution.apply(&mut flat.graph, rhs);
                    substitution.replace_leaf(&mut flat.graph, Leaf::var(var), value);
                }
                _ => {
                    let residual = flat.graph.sub(lhs, rhs);
                    residuals.push(substitution.apply(&mut flat.graph, residual));
                }
            }
        }
        let variables: Vec<VarId> = (0..flat.variables.len() as u32)
            .map(VarId)
            .filter(|&var| flat.variables[var.index()].kind == VariableKind::Continuous && !is_name(flat, var))
            .collect();
        let rates: Vec<Leaf> = variables.iter().map(|&var| Leaf::der(var, 1)).collect();
        let values: Vec<Leaf> = variables.iter().map(|&var| Leaf::var(var)).collect();
        let mut mass = Vec::new();
        for entry in flat.graph.jacobian(&residuals, &rates) {
            let value = flat.graph.as_number(entry.value).expect("mass matrices are constant");
            mass.push(MassEntry { row: entry.row as usize, column: entry.column as usize, value });
        }
        let zero = flat.graph.number(0.0);
        let mut without_rates = Substitution::new();
        for &rate in &rates {
            without_rates.replace_leaf(&mut flat.graph, rate, zero);
        }
        let right_sides: Vec<ExprId> = residuals
            .iter()
            .map(|&residual| {
                let value = without_rates.apply(&mut flat.graph, residual);
                flat.graph.neg(value)
            })
            .collect();
        let entries = flat
            .graph
            .jacobian(&right_sides, &values)
            .into_iter()
            .map(|entry| Entry { row: entry.row as usize, column: entry.column as usize, value: entry.value })
            .collect();
        let start = variables
            .iter()
            .map(|&var| {
                let start = flat.variables[var.index()].start;
                start.map_or(0.0, |expr| {
                    evaluator.evaluate_one(&flat.graph, expr, &|var: VarId, _: u16| numbers[var.index()])
                })
            })
            .collect();
        let names = variables.iter().map(|&var| flat.variables[var.index()].name.clone()).collect();
        Self { names, start, variables, right_sides, entries, mass }
    }

    fn write(&self, graph: &Graph) -> String {
        let mut code = String::from("#include <math.h>\n");
        let values: Vec<ExprId> = self.entries.iter().map(|entry| entry.value).collect();
        let n = self.names.len();
        code.push_str("void right_side(double t, const double *y, double *f) {\n");
        self.write_nodes(graph, &self.right_sides, &mut code);
        for (row, value) in self.right_sides.iter().enumerate() {
            let _ = writeln!(code, "  f[{row}] = n{};", value.index());
        }
        code.push_str("}\nvoid jacobian(double t, const double *y, double *j) {\n");
        self.write_nodes(graph, &values, &mut code);
        for entry in &self.entries {
            let _ = writeln!(code, "  j[{}] = n{};", entry.column * n + entry.row, entry.value.index());
        }
        code.push_str("}\nvoid product(double t, const double *y, const double *v, double *f) {\n");
        self.write_nodes(graph, &values, &mut code);
        for row in 0..n {
            let sum: String = self
                .entries
                .iter()
                .filter(|entry| entry.row == row)
                .map(|entry| format!(" + n{}*v[{}]", entry.value.index(), entry.column))
                .collect();
            let _ = writeln!(code, "  f[{row}] = 0.0{sum};");
        }
        code.push_str("}\n");
        code
    }

    fn write_nodes(&self, graph: &Graph, roots: &[ExprId], code: &mut String) {
        let mut reach = Reach::new();
        for &expr in reach.below(graph, roots) {
            let text = match graph.node(expr) {
                Node::Number(bits) => format!("{:?}", f64::from_bits(bits)),
                Node::Time => "t".to_owned(),
                Node::Var { var, .. } => {
                    let at = self.variables.iter().position(|&known| known == var);
                    format!("y[{}]", at.expect("names and parameters are replaced"))
                }
                Node::Unary { op, arg } => unary(op, arg.index()),
                Node::Binary { op, lhs, rhs } => binary(op, lhs.index(), rhs.index(), graph.as_number(rhs)),
                Node::Select { condition, then, otherwise } => {
                    format!("n{} != 0.0 ? n{} : n{}", condition.index(), then.index(), otherwise.index())
                }
                node => unreachable!("reduced models hold no {node:?}"),
            };
            let _ = writeln!(code, "  const double n{} = {text};", expr.index());
        }
    }
}

fn unary(op: UnaryOp, arg: usize) -> String {
    match op {
        UnaryOp::Neg => format!("-n{arg}"),
        UnaryOp::NoEvent => format!("n{arg}"),
        UnaryOp::Sign => format!("(double)((n{arg} > 0.0) - (n{arg} < 0.0))"),
        UnaryOp::Abs => format!("fabs(n{arg})"),
        UnaryOp::Sqrt => format!("sqrt(n{arg})"),
        UnaryOp::Exp => format!("exp(n{arg})"),
        UnaryOp::Log => format!("log(n{arg})"),
        UnaryOp::Sin => format!("sin(n{arg})"),
        UnaryOp::Cos => format!("cos(n{arg})"),
        UnaryOp::Tan => format!("tan(n{arg})"),
        other => unreachable!("reduced models hold no {other:?}"),
    }
}

fn binary(op: BinaryOp, lhs: usize, rhs: usize, exponent: Option<f64>) -> String {
    match (op, exponent) {
        (BinaryOp::Add, _) => format!("n{lhs} + n{rhs}"),
        (BinaryOp::Sub, _) => format!("n{lhs} - n{rhs}"),
        (BinaryOp::Mul, _) => format!("n{lhs} * n{rhs}"),
        (BinaryOp::Div, _) => format!("n{lhs} / n{rhs}"),
        (BinaryOp::Pow, Some(2.0)) => format!("n{lhs} * n{lhs}"),
        (BinaryOp::Pow, Some(3.0)) => format!("n{lhs} * n{lhs} * n{lhs}"),
        (BinaryOp::Pow, Some(4.0)) => format!("(n{lhs} * n{lhs}) * (n{lhs} * n{lhs})"),
        (BinaryOp::Pow, _) => format!("pow(n{lhs}, n{rhs})"),
        (BinaryOp::Less, _) => format!("(double)(n{lhs} < n{rhs})"),
        (BinaryOp::LessEqual, _) => format!("(double)(n{lhs} <= n{rhs})"),
        (BinaryOp::Greater, _) => format!("(double)(n{lhs} > n{rhs})"),
        (BinaryOp::GreaterEqual, _) => format!("(double)(n{lhs} >= n{rhs})"),
        (other, _) => unreachable!("reduced models hold no {other:?}"),
    }
}
