//! Why a model has too many or too few equations somewhere, in the model's own words.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{Equation, FlatDae, Origin, VariableKind};
use daesy_graph::traverse::{Leaf, Reach};
use daesy_graph::{ExprId, Node, Span, VarId};

use crate::alias::Elimination;
use crate::dulmage_mendelsohn::{CulpritOptions, CulpritSet, DulmageMendelsohn};
use crate::offsets::OffsetsError;
use crate::regularize::Scope;
use crate::words::{enumerate, equation_text};

/// More names than this are counted instead of listed.
const MAX_LISTED: usize = 12;

/// Why equations and unknowns do not fit.
#[derive(Default)]
pub(crate) struct Explanation {
    pub(crate) findings: Vec<Finding>,
    /// Potentials whose level nothing fixes.
    pub(crate) open_levels: Vec<VarId>,
}

/// Explains the flat model as it was written.
pub(crate) fn singular(flat: &FlatDae, scope: &Scope, error: &OffsetsError) -> Explanation {
    explain(flat, scope, None, error)
}

/// Explains what is left after aliases are gone: the equations used for elimination belong to the story.
pub(crate) fn singular_after_elimination(
    flat: &FlatDae,
    scope: &Scope,
    elimination: &Elimination,
    error: &OffsetsError,
) -> Explanation {
    explain(flat, scope, Some(elimination), error)
}

fn explain(flat: &FlatDae, scope: &Scope, elimination: Option<&Elimination>, error: &OffsetsError) -> Explanation {
    let OffsetsError::StructurallySingular { matching, .. } = error else {
        let findings = vec![Finding::error("structure", Span::NONE, error.to_string())];
        return Explanation { findings, ..Explanation::default() };
    };
    let parts = DulmageMendelsohn::from_matching(&scope.incidence, matching.clone());
    let culprits = parts.culprits(&scope.incidence, &CulpritOptions::default());
    let (mut over, mut under) = (culprits.over_determined, culprits.under_determined);
    let (mut findings, mut open_levels) = (Vec::new(), Vec::new());
    {
        // Balances of flows that say too much and potentials without a level are one fault: no reference is connected.
        let references = References::new(flat);
        let is_excess = |set: &CulpritSet| is_excess_of_balances(flat, scope, set);
        // Sources whose flow is given from elsewhere are part of the excess where nothing but potentials is open.
        let has_flow_sum = |set: &CulpritSet| {
            set.equations
                .iter()
                .any(|&row| flat.equations[scope.equations[row as usize] as usize].origin == Origin::FlowSum)
        };
        let is_open = |set: &CulpritSet| !references.potentials_of(scope, set).is_empty();
        let is_level = |set: &CulpritSet| references.potentials_of(scope, set).len() == set.variables.len();
        let pair = |over: &[CulpritSet], under: &[CulpritSet]| {
            let plain = over.iter().position(is_excess).zip(under.iter().position(is_open));
            plain.or_else(|| over.iter().position(has_flow_sum).zip(under.iter().position(is_level)))
        };
        while let Some((at, free)) = pair(&over, &under) {
            let mut rows = over.remove(at).equations.into_iter().map(|row| scope.equations[row as usize] as usize);
            let first = rows.next();
            let of_flows = |&at: &usize| flat.equations[at].origin == Origin::FlowSum;
            let balance = first.into_iter().chain(rows).find(of_flows).or(first);
            let potentials = references.potentials_of(scope, &under.remove(free));
            findings.push(references.missing(&potentials, balance));
            open_levels.extend(potentials);
        }
    }
    findings.extend(over.iter().map(|set| over_determined(flat, scope, elimination, set)));
    findings.extend(under.iter().map(|set| under_determined(flat, scope, set)));
    Explanation { findings, open_levels }
}

/// Whether a set consists of balances of flows, whose unknowns may have cancelled.
fn is_excess_of_balances(flat: &FlatDae, scope: &Scope, set: &CulpritSet) -> bool {
    set.variables.iter().all(|&column| flat.variables[scope.variables[column as usize].index()].is_flow)
        && set.equations.iter().all(|&row| is_balance_of_flows(flat, scope.equations[row as usize] as usize))
}

/// Whether an equation speaks of flow variables only.
pub(crate) fn is_balance_of_flows(flat: &FlatDae, at: usize) -> bool {
    let equation = &flat.equations[at];
    let mut leaves = Vec::new();
    Reach::new().leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
    let mut unknowns = leaves.iter().filter_map(|leaf| match *leaf {
        Leaf::Var { var, .. } if flat.variables[var.index()].kind == VariableKind::Continuous => Some(var),
        _ => None,
    });
    equation.origin == Origin::FlowSum || unknowns.all(|var| flat.variables[var.index()].is_flow)
}

/// The potentials of a model: variables that connections make equal.
pub(crate) struct References<'a> {
    flat: &'a FlatDae,
    /// A connection of each variable that has one.
    connection_of: Vec<Option<u32>>,
}

impl<'a> References<'a> {
    pub(crate) fn new(flat: &'a FlatDae) -> Self {
        let mut connection_of = vec![None; flat.variables.len()];
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        for (at, equation) in flat.equations.iter().enumerate().filter(|(_, it)| it.origin == Origin::Connection) {
            reach.leaves(&flat.graph, &[equation.lhs, equation.rhs], &mut leaves);
            for &leaf in &leaves {
                if let Leaf::Var { var, .. } = leaf {
                    connection_of[var.index()].get_or_insert(at as u32);
                }
            }
        }
        Self { flat, connection_of }
    }

    pub(crate) fn is_potential(&self, var: VarId) -> bool {
        self.connection_of[var.index()].is_some()
    }

    fn potentials_of(&self, scope: &Scope, set: &CulpritSet) -> Vec<VarId> {
        let all = set.variables.iter().map(|&column| scope.variables[column as usize]);
        all.filter(|&var| self.is_potential(var)).collect()
    }

    /// The finding that these potentials have no level.
    pub(crate) fn missing(&self, potentials: &[VarId], balance: Option<usize>) -> Finding {
        let flat = self.flat;
        let names: Vec<&str> = potentials.iter().map(|var| flat.variables[var.index()].name.as_str()).collect();
        let connection = potentials.iter().find_map(|var| self.connection_of[var.index()]).map(|at| at as usize);
        let place = connection.or(balance).map_or(Span::NONE, |at| flat.equations[at].span);
        let message = match &names[..] {
            [name] => format!("nothing fixes the level of `{name}`: the equations speak only of differences to it"),
            names => format!(
                "nothing fixes the level of {}: the equations speak only of their differences",
                enumerate(names, MAX_LISTED)
            ),
        };
        let mut finding = Finding::error("no-reference", place, message).with_names(names.iter().copied());
        if let Some(at) = connection {
            finding = finding.with_label(flat.equations[at].span, equation_text(flat, at));
        }
        if let Some(at) = balance {
            let text = format!("{}, which follows from the other balances", equation_text(flat, at));
            finding = finding.with_label(flat.equations[at].span, text);
        }
        let unit = potentials.iter().find_map(|var| flat.variables[var.index()].unit.as_ref());
        let reference = match unit.map_or("", |unit| &*unit.text) {
            "V" => "a ground, such as Modelica.Electrical.Analog.Basic.Ground,",
            "rad" => "a fixed flange, such as Modelica.Mechanics.Rotational.Components.Fixed,",
            "m" => "a fixed flange, such as Modelica.Mechanics.Translational.Components.Fixed,",
            "K" => "a fixed temperature, such as Modelica.Thermal.HeatTransfer.Sources.FixedTemperature,",
            _ => "a ground or another fixed reference",
        };
        finding.with_help(format!("{reference} seems to be missing: connect one, or give one of them a value"))
    }
}

fn names<'a>(flat: &'a FlatDae, scope: &Scope, set: &CulpritSet) -> Vec<&'a str> {
    set.variables.iter().map(|&column| flat.variables[scope.variables[column as usize].index()].name.as_str()).collect()
}

/// Two equations that are the same up to the order of their sides.
pub(crate) struct Twins {
    pub(crate) first: usize,
    pub(crate) second: usize,
}

/// Two of the given equations that say the same.
pub(crate) fn twins(flat: &FlatDae, equations: &[usize]) -> Option<Twins> {
    let sides = |at: usize| {
        let equation = &flat.equations[at];
        if equation.lhs <= equation.rhs { (equation.lhs, equation.rhs) } else { (equation.rhs, equation.lhs) }
    };
    let mut sorted: Vec<usize> = equations.to_vec();
    sorted.sort_by_key(|&at| (sides(at), at));
    let pair = sorted.windows(2).find(|pair| sides(pair[0]) == sides(pair[1]))?;
    Some(Twins { first: pair[0], second: pair[1] })
}

/// The finding that an equation is there twice.
pub(crate) fn written_twice(flat: &FlatDae, twins: &Twins, names: &[&str]) -> Finding {
    let (first, second) = (&flat.equations[twins.first], &flat.equations[twins.second]);
    let text = equation_text(flat, twins.first);
    Finding::error("duplicate-equation", second.span, format!("the equation {text} is there twice"))
        .with_names(names.iter().copied())
        .with_label(first.span, in_component(flat, twins.first, why_it_is_there(first.origin, "once here")))
        .with_label(second.span, in_component(flat, twins.second, why_it_is_there(second.origin, "and again here")))
        .with_help("remove one of the two, and put an equation in its place that says something new")
}

fn why_it_is_there(origin: Origin, otherwise: &'static str) -> &'static str {
    match origin {
        Origin::UnconnectedFlow => "because nothing is connected here",
        Origin::Connection | Origin::FlowSum => "because of connections",
        Origin::Equation | Origin::Binding | Origin::Algorithm => otherwise,
    }
}

fn in_component(flat: &FlatDae, at: usize, text: &str) -> String {
    let component = &flat.equations[at].component;
    if component.is_empty() { text.to_owned() } else { format!("{text} (in `{component}`)") }
}

/// Adds the equations as labels, in the order of their places.
pub(crate) fn with_equations(mut finding: Finding, flat: &FlatDae, equations: &[usize]) -> Finding {
    let mut sorted: Vec<usize> = equations.iter().copied().take(MAX_LISTED).collect();
    sorted.sort_by_key(|&at| flat.equations[at].span);
    for at in sorted {
        finding = finding.with_label(flat.equations[at].span, in_component(flat, at, &equation_text(flat, at)));
    }
    finding
}

fn over_determined(flat: &FlatDae, scope: &Scope, elimination: Option<&Elimination>, set: &CulpritSet) -> Finding {
    let mut equations: Vec<usize> = set.equations.iter().map(|&row| scope.equations[row as usize] as usize).collect();
    equations.sort_by_key(|&at| flat.equations[at].span);
    let names = names(flat, scope, set);
    if let Some(twins) = twins(flat, &equations) {
        return written_twice(flat, &twins, &names);
    }
    let first = &flat.equations[equations[0]];
    let message = match (&names[..], equations.len()) {
        ([], 1) => format!(
            "this equation determines nothing: {}",
            if elimination.is_some() {
                "with the equalities of the model its unknowns cancel"
            } else {
                "it contains no unknown"
            }
        ),
        ([name], 2) => format!("two equations determine the one unknown `{name}`"),
        (names, n_equations) => {
            format!("{n_equations} equations for only {} unknowns: {}", names.len(), enumerate(names, MAX_LISTED))
        }
    };
    let finding = Finding::error("too-many-equations", first.span, message).with_names(names.iter().copied());
    with_equations(finding, flat, &equations).with_help(if equations.len() == 1 {
        "remove it, or turn one of the known quantities in it into an unknown"
    } else {
        "one of these equations is one too many: remove it, or turn one of the known quantities in them into an unknown"
    })
}

fn under_determined(flat: &FlatDae, scope: &Scope, set: &CulpritSet) -> Finding {
    let names = names(flat, scope, set);
    let first = &flat.variables[scope.variables[set.variables[0] as usize].index()];
    let message = match (&names[..], set.equations.len()) {
        ([name], 0) => format!("no equation determines `{name}`"),
        (names, 0) => format!("no equation determines {}", enumerate(names, MAX_LISTED)),
        (names, 1) => format!("the {} unknowns {} share one equation", names.len(), enumerate(names, MAX_LISTED)),
        (names, n_equations) => format!(
            "the {} unknowns {} occur in only {n_equations} equations",
            names.len(),
            enumerate(names, MAX_LISTED)
        ),
    };
    let finding = Finding::error("too-few-equations", first.span, message).with_names(names.iter().copied());
    let equations: Vec<usize> = set.equations.iter().map(|&row| scope.equations[row as usize] as usize).collect();
    let help = if names.len() == 1 {
        "give it an equation or a value, or make it a parameter or an input"
    } else {
        "an equation is missing: give one of them a value, an equation or a connection, or make it a parameter or an input"
    };
    let open = set.variables.iter().map(|&column| scope.variables[column as usize]);
    let help = match open.into_iter().find_map(|var| open_connector(flat, var)) {
        Some(connector) => {
            format!("{help}; nothing is connected to `{connector}`: is `connect({connector}, ..)` missing?")
        }
        None => help.to_owned(),
    };
    with_equations(finding, flat, &equations).with_help(help)
}

/// The part of a component that holds a variable and may be a connector, if no connection reaches it.
fn open_connector(flat: &FlatDae, var: VarId) -> Option<&str> {
    let name = flat.variables[var.index()].name.as_str();
    let (outer, _) = name.rsplit_once('.')?;
    let connector = if outer.contains('.') { outer } else { name };
    let is_of_it = |side: ExprId| match flat.graph.node(side) {
        Node::Var { var, .. } => {
            let rest = flat.variables[var.index()].name.strip_prefix(connector);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        }
        _ => false,
    };
    let is_connection = |equation: &&Equation| equation.origin == Origin::Connection;
    let mut connections = flat.equations.iter().filter(is_connection);
    let is_connected = connections.any(|equation| is_of_it(equation.lhs) || is_of_it(equation.rhs));
    (!is_connected).then_some(connector)
}
