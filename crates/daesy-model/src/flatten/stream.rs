//! Stream connectors: `inStream` and `actualStream` [@modelica36, ch. 15].
//!
//! For a connector c in a set with other inside connectors j and outside connectors k,
//!
//! ```text
//! inStream(c.h) = (sum_j max(-m_j, eps) h_j + sum_k max(m_k, eps) inStream(h_k)) / (sum_j max(-m_j, eps) + sum_k
//! max(m_k, eps))
//! ```
//!
//! with the special cases of one partner written without the quotient. Connectors out of which nothing can flow, inside
//! ones with `m(min = 0)` and outside ones with `m(max = 0)`, are not in the sums; where none is left, it is c.h
//! itself, or 0 for what an outside connector gives [@modelica36, sec. 15.2].

use daesy_graph::flat::{Equation, Origin};
use daesy_graph::{ExprId, Node, Span, VarId};
use rustc_hash::FxHashMap;

use super::expr::{Ctx, Variability};
use super::instance::{NodeKind, PrimId};
use super::value::{Scalars, Type, Value, count};
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{ConnectorPrefix, Expr};

/// Flows smaller than this count as this, so that the mixture is defined without flow.
const SMALLEST_FLOW: f64 = 1e-10;

/// A connector seen from one side.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Side {
    node: NodeId,
    is_outside: bool,
}

/// Sets of connected stream connectors.
#[derive(Default)]
pub(crate) struct StreamSets {
    set_of: FxHashMap<Side, usize>,
    sets: Vec<Vec<Side>>,
}

impl Flattener<'_> {
    fn has_streams(&mut self, node: NodeId) -> bool {
        let Some(complex) = self.complex(node) else { return false };
        let n = self.class(complex.class).components.len() as u32;
        (0..n).any(|at| match &self.node(NodeId(complex.first.0 + at)).kind {
            NodeKind::Primitive(prim) => self.prim(*prim).connector_prefix == Some(ConnectorPrefix::Stream),
            _ => false,
        })
    }

    /// Notes that two connectors are connected, when they have stream variables.
    pub(crate) fn join_streams(&mut self, left: NodeId, left_outside: bool, right: NodeId, right_outside: bool) {
        if !self.has_streams(left) {
            return;
        }
        let streams = &mut self.connections.streams;
        let mut place = |side: Side| {
            *streams.set_of.entry(side).or_insert_with(|| {
                streams.sets.push(vec![side]);
                streams.sets.len() - 1
            })
        };
        let left = place(Side { node: left, is_outside: left_outside });
        let right = place(Side { node: right, is_outside: right_outside });
        if left == right {
            return;
        }
        let moved = std::mem::take(&mut streams.sets[right]);
        for side in &moved {
            streams.set_of.insert(*side, left);
        }
        streams.sets[left].extend(moved);
    }

    fn stream_var(&self, node: NodeId, name: Name, offset: usize) -> Option<VarId> {
        let complex = self.complex(node)?;
        match self.node(self.child(&complex, name)?).kind {
            NodeKind::Primitive(prim) => self.prim(prim).first.map(|first| VarId(first.0 + offset as u32)),
            _ => None,
        }
    }

    /// The flow variable of a stream connector.
    fn stream_flow(&mut self, node: NodeId, span: Span) -> Res<PrimId> {
        let Some(complex) = self.complex(node) else { return Err(Refused) };
        let n = self.class(complex.class).components.len() as u32;
        let flows: Vec<PrimId> = (0..n)
            .filter_map(|at| match self.node(NodeId(complex.first.0 + at)).kind {
                NodeKind::Primitive(prim) if self.prim(prim).connector_prefix == Some(ConnectorPrefix::Flow) => {
                    Some(prim)
                }
                _ => None,
            })
            .collect();
        match flows.as_slice() {
            [only] if self.prim(*only).first.is_some() => Ok(*only),
            _ => {
                let message = format!("the stream connector `{}` needs exactly one flow variable", complex.path);
                Err(self.error("stream-connector", span, message))
            }
        }
    }

    fn flow_of(&mut self, node: NodeId, span: Span) -> Res<ExprId> {
        let prim = self.stream_flow(node, span)?;
        let var = self.prim(prim).first.ok_or(Refused)?;
        Ok(self.graph.var(var))
    }

    /// Whether something can flow out of a connector into the others of its set, by the bounds of its flow variable.
    fn can_give(&mut self, side: Side, span: Span) -> Res<bool> {
        let flow = self.stream_flow(side.node, span)?;
        let bound = self.attribute(flow, if side.is_outside { "max" } else { "min" }, false)?;
        let Some(Value::Scalars(bound)) = bound else { return Ok(true) };
        let Some(&item) = bound.items.first() else { return Ok(true) };
        if self.variability_of(item) > Variability::Parameter || !self.can_be_known(item) {
            return Ok(true);
        }
        let bound = self.known_number(item, span)?;
        Ok(if side.is_outside { bound > 0.0 } else { bound < 0.0 })
    }

    fn weight(&mut self, node: NodeId, is_outside: bool, span: Span) -> Res<ExprId> {
        let flow = self.flow_of(node, span)?;
        let inward = if is_outside { flow } else { self.graph.neg(flow) };
        let smallest = self.graph.number(SMALLEST_FLOW);
        let positive = self.graph.max(inward, smallest);
        Ok(self.graph.no_event(positive))
    }

    /// What flows into a connector, were the flow inward.
    fn in_stream(&mut self, node: NodeId, name: Name, offset: usize, span: Span, depth: usize) -> Res<ExprId> {
        if depth > self.options.max_depth {
            return Err(self.limit("the depth of stream connections", self.options.max_depth, span));
        }
        let own = Side { node, is_outside: false };
        let others: Vec<Side> = match self.connections.streams.set_of.get(&own) {
            Some(&set) => self.connections.streams.sets[set].iter().copied().filter(|&side| side != own).collect(),
            None => Vec::new(),
        };
        if others.is_empty() {
            let var = self.stream_var(node, name, offset).ok_or(Refused)?;
            return Ok(self.graph.var(var));
        }
        match self.mixture(&others, name, offset, span, depth)? {
            Some(mixture) => Ok(mixture),
            None => {
                let var = self.stream_var(node, name, offset).ok_or(Refused)?;
                Ok(self.graph.var(var))
            }
        }
    }

    /// The mixture of what comes out of the given connectors; `None` if nothing can.
    fn mixture(&mut self, sides: &[Side], name: Name, offset: usize, span: Span, depth: usize) -> Res<Option<ExprId>> {
        let mut giving = Vec::with_capacity(sides.len());
        for &side in sides {
            if sides.len() == 1 || self.can_give(side, span)? {
                giving.push(side);
            }
        }
        let sides = giving;
        let mut values = Vec::with_capacity(sides.len());
        for side in &sides {
            values.push(if side.is_outside {
                self.in_stream(side.node, name, offset, span, depth + 1)?
            } else {
                let var = self.stream_var(side.node, name, offset).ok_or(Refused)?;
                self.graph.var(var)
            });
        }
        if let [only] = values.as_slice() {
            return Ok(Some(*only));
        }
        let mut numerator = None;
        let mut denominator = None;
        for (side, value) in sides.iter().zip(values) {
            let weight = self.weight(side.node, side.is_outside, span)?;
            let product = self.graph.mul(weight, value);
            numerator = Some(numerator.map_or(product, |sum| self.graph.add(sum, product)));
            denominator = Some(denominator.map_or(weight, |sum| self.graph.add(sum, weight)));
        }
        match (numerator, denominator) {
            (Some(numerator), Some(denominator)) => Ok(Some(self.graph.div(numerator, denominator))),
            _ => Ok(None),
        }
    }
}

impl<'a> Flattener<'a> {
    /// `inStream(c.h)` and `actualStream(c.h)`
    pub(crate) fn stream_call(&mut self, is_in: bool, args: &'a [Expr], span: Span, ctx: &mut Ctx) -> Res<Value> {
        let [only] = args else {
            return Err(self.error("wrong-arguments", span, "a stream operator takes one stream variable"));
        };
        let value = self.expr(only, ctx)?;
        let scalars = self.scalars(value, "a stream operator", span)?;
        let mut items = scalars.items.clone();
        for item in &mut items {
            let Node::Var { var, order: 0 } = self.graph.node(*item) else {
                return Err(self.error("stream-connector", span, "a stream operator needs a stream variable"));
            };
            let prim = self.var_prims[var.index()];
            if self.prim(prim).connector_prefix != Some(ConnectorPrefix::Stream) {
                let message = format!("`{}` is not a stream variable", self.variables[var.index()].name);
                return Err(self.error("stream-connector", span, message));
            }
            let offset = var.index() - self.prim(prim).first.map_or(0, VarId::index);
            let (node, name) = (self.prim(prim).parent, self.prim(prim).elem.name);
            let inward = self.in_stream(node, name, offset, span, 0)?;
            *item = if is_in {
                inward
            } else {
                let flow = self.flow_of(node, span)?;
                let zero = self.graph.number(0.0);
                let condition = self.graph.greater(flow, zero);
                let select = self.graph.select(condition, inward, *item);
                self.graph.smooth(0, select)
            };
        }
        Ok(Value::Scalars(Scalars { ty: Type::Real, dims: scalars.dims, items }))
    }

    /// Stream variables of outside connectors follow from what is connected to them.
    pub(crate) fn close_streams(&mut self) {
        let sets = self.connections.streams.sets.clone();
        for set in sets {
            for &side in set.iter().filter(|side| side.is_outside) {
                let others: Vec<Side> = set.iter().copied().filter(|&other| other != side).collect();
                let _ = self.close_stream(side.node, &others);
            }
        }
    }

    fn close_stream(&mut self, node: NodeId, others: &[Side]) -> Res<()> {
        let Some(complex) = self.complex(node) else { return Err(Refused) };
        let n = self.class(complex.class).components.len() as u32;
        for at in 0..n {
            let child = NodeId(complex.first.0 + at);
            let NodeKind::Primitive(prim) = self.node(child).kind else { continue };
            if self.prim(prim).connector_prefix != Some(ConnectorPrefix::Stream) {
                continue;
            }
            let (Some(first), name, span) =
                (self.prim(prim).first, self.prim(prim).elem.name, self.prim(prim).elem.span)
            else {
                continue;
            };
            for offset in 0..count(&self.prim(prim).dims.clone()) {
                let mixture = self.mixture(others, name, offset, span, 0)?;
                let rhs = mixture.unwrap_or_else(|| self.graph.number(0.0));
                let lhs = self.graph.var(VarId(first.0 + offset as u32));
                let component = complex.path.clone();
                self.out.equations.push(Equation { lhs, rhs, origin: Origin::Connection, component, span });
            }
        }
        Ok(())
    }
}
