//! Definitions put in, or values of parameters: fewer states and constraints, the same solutions.

use daesy_structure::{condense, regularize};

fn names(regular: &daesy_graph::regular::RegularDae) -> (Vec<String>, Vec<String>) {
    let name = |derivative: &daesy_graph::regular::Derivative| {
        format!("{}^{}", regular.flat.variables[derivative.var.index()].name, derivative.order)
    };
    (regular.states.iter().map(name).collect(), regular.unknowns.iter().map(name).collect())
}

/// A pendulum with named velocities, a named force, and a circle of definitions.
const PENDULUM: &str = "model P Real x(start=1, fixed=true); Real y; Real vx(start=0, fixed=true); Real vy; Real force; \
    Real lambda; Real a; Real b; equation der(x) = vx; der(y) = vy; force = lambda*x; der(vx) = -force; \
    der(vy) = -lambda*y - 9.81; x^2 + y^2 = 1; a = b + x; b = 2*a; end P;";

#[test]
fn velocities_and_forces_are_put_in() {
    let flat = daesy_model::flatten_text("p.mo", PENDULUM, Some("P")).unwrap();
    let full = regularize(flat.clone()).unwrap();
    let condensed = condense(flat).unwrap();
    let (states, unknowns) = names(&condensed);
    assert_eq!(states, ["x^0", "x^1", "y^0", "y^1"]);
    // One of the two variables of the circle stays.
    assert_eq!(unknowns.len(), 4, "{unknowns:?}");
    assert_eq!(condensed.constraints.len(), 2);
    assert!(full.states.len() > condensed.states.len());
    assert_eq!(full.verdict, condensed.verdict);
    assert_eq!(condensed.eliminated.len(), 4);
}

/// In a long ladder each current is its neighbour and one more: put into each other they would be sums over the whole
/// ladder.
#[test]
fn definitions_do_not_add_up_along_a_ladder() {
    let text = "model L constant Integer n = 400; Real v[n](each start=0, each fixed=true); Real i[n]; Real j[n]; \
        equation for k in 1:n loop (if k == 1 then sin(time) else v[max(k - 1, 1)]) - v[k] = 2*i[k]; j[k] = 3*der(v[k]); \
        i[k] = j[k] + (if k == n then 0 else i[min(k + 1, n)]); end for; end L;";
    let flat = daesy_model::flatten_text("l.mo", text, Some("L")).unwrap();
    let condensed = condense(flat).unwrap();
    assert!(condensed.unknowns.len() <= 800, "{}", condensed.unknowns.len());
    let system = daesy_compile::compile(condensed).unwrap();
    let n_entries = daesy_system::DaeSystem::pattern(&system, daesy_system::Part::ResidualByUnknowns).n_entries();
    assert!(n_entries < 3200, "{n_entries}");
}

/// With `c = 0` the coefficient of a derivative vanishes, whatever x is.
const VANISHING: &str = "model V parameter Real c = 1; parameter Real k = 3; Real x; Real y; Real q; equation
    q = noEvent(if x > 0 then c*sqrt(x) else c/(1 + x*x)); y = q*der(x) + k*x; der(y) = -y; end V;";

fn specialized(values: &[(&str, f64)]) -> Option<Vec<String>> {
    let flat = daesy_model::flatten_text("v.mo", VANISHING, Some("V")).unwrap();
    let values: Vec<_> = values.iter().map(|&(name, value)| (flat.find(name).unwrap(), value)).collect();
    let special = daesy_structure::straighten::specialize(&flat, &values)?;
    assert!(special.decisive.contains(&flat.find("c").unwrap()));
    Some((0..3).map(|at| daesy_structure::words::equation_text(&special.flat, at)).collect())
}

#[test]
fn products_with_zero_lose_their_unknowns_and_variables_that_are_numbers_are_put_in() {
    let equations = specialized(&[("c", 0.0), ("k", 3.0)]).unwrap();
    assert_eq!(equations, ["q = 0", "y = 3*x", "der(y) = -y"]);
}

#[test]
fn equations_that_lose_nothing_at_the_values_of_parameters_stay() {
    assert_eq!(specialized(&[("c", 1.0), ("k", 3.0)]), None);
    assert_eq!(specialized(&[]), None);
}
