//! Connectors that nothing is connected to.

use daesy_graph::finding::Finding;
use daesy_graph::flat::{FlatDae, Origin};
use daesy_graph::{ExprId, Node, Span};
use daesy_model::parser::parse;
use daesy_model::syntax::{ClassBody, ClassDef, ElementKind};
use rustc_hash::FxHashSet;

/// A warning about connectors of the model's components that are connected to nothing. An open flange or port is the
/// end of a shaft or a wall, unless all of its component are open; an open pin is mostly a connection that was
/// forgotten.
pub(super) fn open_connectors(flat: &FlatDae) -> Option<Finding> {
    const MOST_SHOWN: usize = 8;
    let connector_of = |side: ExprId| match flat.graph.node(side) {
        Node::Var { var, .. } => {
            let variable = &flat.variables[var.index()];
            // Deeper ones belong to the components of others.
            let (connector, _) = variable.name.rsplit_once('.').filter(|_| variable.name.matches('.').count() == 2)?;
            Some((connector, variable.unit.as_ref().is_some_and(|unit| &*unit.text == "A")))
        }
        _ => None,
    };
    let component = |connector: &str| connector.split('.').next().map(str::to_owned);
    let mut joined: FxHashSet<String> = FxHashSet::default();
    let of_origin = |origin: Origin| flat.equations.iter().filter(move |equation| equation.origin == origin);
    for equation in of_origin(Origin::Connection) {
        let ends = [equation.lhs, equation.rhs].into_iter().filter_map(connector_of);
        joined.extend(ends.filter_map(|(connector, _)| component(connector)));
    }
    if joined.is_empty() {
        return None;
    }
    let mut open: Vec<&str> = Vec::new();
    for equation in of_origin(Origin::UnconnectedFlow) {
        let Some((connector, is_pin)) = connector_of(equation.lhs) else { continue };
        let is_alone = component(connector).is_some_and(|component| !joined.contains(&component));
        if (is_pin || is_alone) && !open.contains(&connector) {
            open.push(connector);
        }
    }
    let &first = open.first()?;
    let span = declaration_of(flat, first.split('.').next()?).unwrap_or(Span::NONE);
    let shown: Vec<String> = open.iter().take(MOST_SHOWN).map(|one| format!("`{one}`")).collect();
    let more = if open.len() > MOST_SHOWN { format!(" and {} more", open.len() - MOST_SHOWN) } else { String::new() };
    let (verb, whose) = if open.len() == 1 { ("is", "its flow is") } else { ("are", "their flows are") };
    let message = format!("{}{more} {verb} connected to nothing: {whose} 0", shown.join(", "));
    let finding = Finding::warning("unconnected", span, message).with_names(open.iter().copied());
    Some(finding.with_help(format!("connect it, such as by `connect({first}, ..)`, unless this is meant")))
}

/// Where a component of the model is declared, as far as that is in the file of its connections.
fn declaration_of(flat: &FlatDae, component: &str) -> Option<Span> {
    let file = flat.equations.iter().find(|equation| equation.origin == Origin::Connection)?.span.file;
    let text = &flat.sources.file(file)?.text;
    let name = flat.model.rsplit('.').next()?;
    let definition = parse(file, text).definition;
    definition.classes.iter().find_map(|class| declared_in(class, name, component))
}

fn declared_in(class: &ClassDef, name: &str, component: &str) -> Option<Span> {
    let ClassBody::Long { composition, .. } = &class.body else { return None };
    composition.elements.iter().find_map(|element| match &element.kind {
        ElementKind::Component { component: declared, .. } => {
            let is_it = class.name.name.text() == name && declared.name.name.text() == component;
            is_it.then_some(declared.name.span)
        }
        ElementKind::Class { class, .. } => declared_in(class, name, component),
        _ => None,
    })
}
