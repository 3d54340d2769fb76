//! The order in which parameters and constants can be evaluated.

use daesy_graph::VarId;
use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, ValueType, VariableKind};
use daesy_graph::traverse::{Leaf, Reach};

/// All numeric parameters and constants such that each binding needs only earlier ones.
///
/// # Errors
/// A finding that names the cycle when bindings depend on each other.
pub fn order_parameters(flat: &FlatDae) -> Result<Vec<VarId>, Box<Finding>> {
    let is_parameter = |var: VarId| {
        let variable = &flat.variables[var.index()];
        matches!(variable.kind, VariableKind::Parameter | VariableKind::Constant)
            && variable.value_type != ValueType::String
    };
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    let mut needs = |var: VarId| -> Vec<VarId> {
        // One that has no value begins at its start value, which may need others too.
        let variable = &flat.variables[var.index()];
        let Some(value) = variable.binding.or(variable.start) else { return Vec::new() };
        reach.leaves(&flat.graph, &[value], &mut leaves);
        leaves
            .iter()
            .filter_map(|leaf| match *leaf {
                Leaf::Var { var, order: 0 } if is_parameter(var) => Some(var),
                _ => None,
            })
            .collect()
    };
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; flat.variables.len()];
    let mut order = Vec::new();
    let mut path: Vec<(VarId, Vec<VarId>)> = Vec::new();
    for start in (0..flat.variables.len() as u32).map(VarId) {
        if !is_parameter(start) || marks[start.index()] == Mark::Done {
            continue;
        }
        marks[start.index()] = Mark::Open;
        path.push((start, needs(start)));
        while let Some((var, left)) = path.last_mut() {
            let var = *var;
            let Some(next) = left.pop() else {
                marks[var.index()] = Mark::Done;
                order.push(var);
                path.pop();
                continue;
            };
            match marks[next.index()] {
                Mark::Done => {}
                Mark::New => {
                    marks[next.index()] = Mark::Open;
                    let below = needs(next);
                    path.push((next, below));
                }
                Mark::Open => {
                    let first = path.iter().position(|(var, _)| *var == next).unwrap_or(0);
                    let mut names: Vec<&str> =
                        path[first..].iter().map(|(var, _)| flat.variables[var.index()].name.as_str()).collect();
                    names.push(&flat.variables[next.index()].name);
                    return Err(Box::new(
                        Finding::error(
                            "parameter-cycle",
                            flat.variables[next.index()].span,
                            format!("the parameters depend on each other: {}", names.join(" -> ")),
                        )
                        .with_names(names[..names.len() - 1].iter().copied())
                        .with_help("give one of them a value that does not use the others"),
                    ));
                }
            }
        }
    }
    Ok(order)
}
