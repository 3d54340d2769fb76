//! A flat model's equations and values are checked for their dimensions.

use std::sync::Arc;

use daesy_graph::flat::{Experiment, Origin};
use daesy_graph::{Equation, FlatDae, Graph, SourceMap, Span, Unit, Variable, VariableKind};

fn variable(name: &str, kind: VariableKind, unit: &str) -> Variable {
    Variable { unit: Some(Unit::parse(unit)), ..Variable::new(name, kind, Span::NONE) }
}

#[test]
fn a_slip_in_an_equation_and_one_in_a_value_are_told() {
    let mut graph = Graph::default();
    let vars: Vec<_> = (0..4).map(|var| graph.var(daesy_graph::VarId(var))).collect();
    let (v, i, r) = (vars[0], vars[1], vars[2]);
    let right = graph.mul(r, i);
    let wrong = graph.div(i, r);
    let mut power = variable("P", VariableKind::Parameter, "W");
    power.binding = Some(right);
    let equation = |rhs| Equation { lhs: v, rhs, origin: Origin::Equation, component: "".into(), span: Span::NONE };
    let dae = FlatDae {
        model: "Slip".into(),
        description: None,
        variables: vec![
            variable("load.v", VariableKind::Continuous, "V"),
            variable("load.i", VariableKind::Continuous, "A"),
            variable("load.R", VariableKind::Parameter, "Ohm"),
            power,
        ]
        .into(),
        equations: vec![equation(right), equation(wrong)],
        initial_equations: vec![],
        when_clauses: vec![],
        assertions: vec![],
        experiment: Experiment::default(),
        findings: vec![],
        sources: Arc::new(SourceMap::default()),
        graph,
    };
    let messages: Vec<String> = dae.check_units().into_iter().map(|finding| finding.message).collect();
    assert_eq!(
        messages,
        [
            "the sides of the equation have different dimensions: `load.v` in kg.m2/(s3.A) and `load.i/load.R` in \
             s3.A3/(kg.m2)",
            "`P` in kg.m2/s3 gets the value `load.R*load.i` in kg.m2/(s3.A)",
        ]
    );
    assert_eq!(dae.equation_text(&dae.equations[0]), "load.v = load.R*load.i");
}
