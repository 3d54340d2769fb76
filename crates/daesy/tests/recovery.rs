//! Alias elimination on random models with hidden equalities: whatever is eliminated, every equation of the flat model
//! holds for the values that are reported.

use std::fmt::Write as _;

use daesy_compile::compile;
use daesy_graph::flat::{FlatDae, VariableKind};
use daesy_graph::{Environment, Evaluator, VarId};
use daesy_integrate::{InitializeOptions, initialize};
use daesy_model::flatten::flatten_text;
use daesy_structure::regularize;
use daesy_system::{DaeSystem, Part, Point};
use rustc_hash::FxHashMap;

/// A core of states and unknowns whose variables hide behind chains of equal and opposite names, constants and an
/// input.
struct Hidden {
    text: String,
    n_equalities: usize,
}

fn hidden_model(rng: &mut fastrand::Rng) -> Hidden {
    let n_states = rng.usize(1..4);
    let n_core = n_states + rng.usize(1..4);
    let mut names: Vec<Vec<(String, bool)>> = Vec::new();
    let mut equations: Vec<String> = Vec::new();
    let mut declared: Vec<String> = Vec::new();
    let mut n_equalities = 0;
    // Class k < n_core: a core variable; then one class known from parameters and one that is the input.
    for class in 0..n_core + 2 {
        let root = if class == n_core + 1 { "u".to_owned() } else { format!("c{class}") };
        if class != n_core + 1 {
            declared.push(root.clone());
        }
        let mut members = vec![(root, false)];
        for at in 0..rng.usize(..6) {
            let name = format!("c{class}_{at}");
            let (before, before_negated) = members[rng.usize(..members.len())].clone();
            let is_negated = rng.bool();
            equations.push(match (is_negated, rng.usize(..4)) {
                (false, 0) => format!("{name} = {before}"),
                (false, 1) => format!("{before} - {name} = 0"),
                (false, 2) => format!("0 = {name} - {before}"),
                (false, _) => format!("-{name} = -{before}"),
                (true, 0) => format!("{name} = -{before}"),
                (true, 1) => format!("{before} + {name} = 0"),
                (true, 2) => format!("0 = -{name} - {before}"),
                (true, _) => format!("-({name} + {before}) = 0"),
            });
            n_equalities += 1;
            declared.push(name.clone());
            members.push((name, before_negated ^ is_negated));
        }
        names.push(members);
    }
    equations.push(format!("c{n_core} = 2*p - 1"));
    n_equalities += 1;
    let mention = |rng: &mut fastrand::Rng, class: usize| {
        let (name, is_negated) = &names[class][rng.usize(..names[class].len())];
        if *is_negated { format!("(-{name})") } else { name.clone() }
    };
    for core in 0..n_core {
        let mut sum = format!("{:.2}", rng.f64());
        for other in 0..n_core + 2 {
            let _ = write!(sum, " + ({:.2})*{}", rng.f64() - 0.5, mention(rng, other));
        }
        if core < n_states {
            let name = mention(rng, core);
            equations.push(format!("der({name}) = {sum}"));
        } else {
            equations.push(format!("4*{} = {sum} + 0.1*sin({})", mention(rng, core), mention(rng, core)));
        }
    }
    // A sum that becomes an equality only when something else is known to vanish.
    declared.extend(["zero", "late", "later"].map(str::to_owned));
    equations.push(format!("late + zero = {}", mention(rng, 0)));
    equations.push("later - p = zero".to_owned());
    equations.push("zero = 0".to_owned());
    n_equalities += 3;
    rng.shuffle(&mut equations);
    rng.shuffle(&mut declared);
    let mut text = "model M\n  parameter Real p = 0.75;\n  input Real u;\n".to_owned();
    for name in declared {
        let _ = writeln!(text, "  Real {name}{};", if name == "c0" { "(start=0.5, fixed=true)" } else { "" });
    }
    let _ = writeln!(text, "equation\n  {};\nend M;", equations.join(";\n  "));
    Hidden { text, n_equalities }
}

/// Values by name, derivatives as `der(name)`.
struct Reported<'a> {
    flat: &'a FlatDae,
    values: FxHashMap<String, f64>,
}

impl Environment for Reported<'_> {
    fn value(&self, var: VarId, order: u16) -> f64 {
        let name = &self.flat.variables[var.index()].name;
        let name = if order == 0 { name.clone() } else { format!("der({name})") };
        *self.values.get(&name).unwrap_or_else(|| panic!("{name} is not reported"))
    }

    fn time(&self) -> f64 {
        0.3
    }
}

#[test]
fn every_equation_holds_for_the_reported_values() {
    let mut rng = fastrand::Rng::with_seed(7);
    for _ in 0..200 {
        let Hidden { text, n_equalities } = hidden_model(&mut rng);
        let flat = flatten_text("hidden.mo", &text, None).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let regular = regularize(flat.clone()).unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(regular.eliminated.len(), n_equalities, "all equalities are used, and nothing else:\n{text}");
        let n_unknowns = flat.variables.iter().filter(|it| it.kind == VariableKind::Continuous).count();
        let remaining: std::collections::HashSet<VarId> =
            regular.states.iter().chain(&regular.unknowns).map(|derivative| derivative.var).collect();
        assert_eq!(remaining.len() + regular.eliminated.len(), n_unknowns, "{text}");
        let system = compile(regular).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let parameters = system.parameter_values(&[]).unwrap();
        let description = system.description();
        let mut inputs = vec![0.0; description.n_inputs];
        for input in &description.inputs {
            inputs[input.start] = -1.7;
        }
        let start = initialize(&system, 0.3, &parameters, &inputs, &[], &InitializeOptions::default())
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        let mut observed = vec![0.0; description.observed.len()];
        let point = Point {
            time: 0.3,
            states: &start.states,
            unknowns: &start.unknowns,
            parameters: &start.parameters,
            inputs: &inputs,
            modes: &[],
        };
        system.evaluator().evaluate(Part::Observed, &point, &mut observed);
        let mut values: FxHashMap<String, f64> = description.observed.iter().cloned().zip(observed).collect();
        values.insert("p".to_owned(), 0.75);
        assert_eq!(values["c0"], 0.5, "{text}");
        assert_eq!(values["u"], -1.7);
        let reported = Reported { flat: &flat, values };
        let mut evaluator = Evaluator::new();
        for equation in &flat.equations {
            let lhs = evaluator.evaluate_one(&flat.graph, equation.lhs, &reported);
            let rhs = evaluator.evaluate_one(&flat.graph, equation.rhs, &reported);
            assert!((lhs - rhs).abs() < 1e-7, "{}: {lhs} {rhs}\n{text}", flat.equation_text(equation));
        }
    }
}

/// Equations of a chain are found in any order: v[i] = v[i + 1] + p with the known end last or first, and equal
/// variables in long chains.
#[test]
fn long_chains_are_eliminated_in_either_direction() {
    for reversed in [false, true] {
        let n = 3_000;
        let mut equations: Vec<String> = (1..n).map(|at| format!("v[{at}] = v[{}]", at + 1)).collect();
        equations.push(format!("v[{n}] = p"));
        equations.extend((1..n).map(|at| format!("w[{at}] = -w[{}]", at + 1)));
        equations.push(format!("der(w[{n}]) = -w[{n}]"));
        if reversed {
            equations.reverse();
        }
        let text = format!(
            "model M\n  parameter Real p = 2;\n  Real v[{n}], w[{n}];\nequation\n  {};\nend M;\n",
            equations.join(";\n  ")
        );
        let flat = flatten_text("chain.mo", &text, None).unwrap();
        let regular = regularize(flat).unwrap();
        assert_eq!(regular.eliminated.len(), 2 * n - 1);
        assert_eq!((regular.states.len(), regular.unknowns.len()), (1, 1));
    }
}
