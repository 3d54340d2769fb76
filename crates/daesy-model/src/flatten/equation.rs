//! Equation sections to scalar equations.

use std::rc::Rc;
use std::sync::Arc;

use daesy_graph::flat::{Assertion, Equation as FlatEquation, Origin, ValueType, WhenAction, WhenBranch, WhenClause};
use daesy_graph::{ExprId, Finding, Leaf, Node, Span, VarId, VariableKind};
use rustc_hash::FxHashSet;

use super::expr::{Ctx, Variability};
use super::instance::NodeKind;
use super::value::{Scalars, Type, Value, dims_text};
use super::{ClassId, Flattener, NodeId, Res};
use crate::name::Name;
use crate::syntax::{
    AlgorithmSection, ClassBody, Equation, EquationBranch, EquationKind, EquationSection, Expr, ExprKind,
};

/// Equations and what else constrains the variables.
#[derive(Clone, Default)]
pub(crate) struct Output {
    pub equations: Vec<FlatEquation>,
    pub initial_equations: Vec<FlatEquation>,
    pub when_clauses: Vec<WhenClause>,
    pub assertions: Vec<Assertion>,
}

/// Sections of a class and its base classes, each with the class it is written in.
#[derive(Default)]
pub(crate) struct Sections<'a> {
    equations: Vec<(ClassId, &'a EquationSection)>,
    algorithms: Vec<(ClassId, &'a AlgorithmSection)>,
    has_connect: bool,
}

impl<'a> Flattener<'a> {
    /// The sections of a class, found once.
    fn sections(&mut self, class: ClassId) -> Rc<Sections<'a>> {
        if let Some(sections) = self.section_cache.get(&class) {
            return sections.clone();
        }
        let mut sections = Sections::default();
        let mut seen = FxHashSet::default();
        self.add_sections(class, &mut sections, &mut seen, 0);
        let sections = Rc::new(sections);
        self.section_cache.insert(class, sections.clone());
        sections
    }

    fn add_sections(&self, class: ClassId, sections: &mut Sections<'a>, seen: &mut FxHashSet<usize>, depth: usize) {
        if depth > self.options.max_depth {
            return;
        }
        let Some(ast) = self.class(class).ast else { return };
        // A base class that is reached twice counts once.
        if !seen.insert(std::ptr::from_ref(ast) as usize) {
            return;
        }
        for &base in &self.class(class).bases {
            self.add_sections(base, sections, seen, depth + 1);
        }
        let ClassBody::Long { composition, .. } = &ast.body else { return };
        for section in &composition.equations {
            sections.equations.push((class, section));
            sections.has_connect |= section.equations.iter().any(contains_connect);
        }
        sections.algorithms.extend(composition.algorithms.iter().map(|section| (class, section)));
    }

    /// All composite instances that may have equations.
    fn equation_nodes(&self) -> Vec<NodeId> {
        (0..self.nodes.len() as u32)
            .map(NodeId)
            .filter(|&id| match &self.node(id).kind {
                NodeKind::Complex(complex) => !complex.inherited.in_package && !complex.is_record,
                _ => false,
            })
            .collect()
    }

    /// Connect equations of all instances.
    pub(crate) fn collect_connections(&mut self) {
        for node in self.equation_nodes() {
            let Some(complex) = self.complex(node) else { continue };
            let sections = self.sections(complex.class);
            if !sections.has_connect {
                continue;
            }
            for &(owner, section) in &sections.equations {
                let mut ctx = Ctx::new(owner, node);
                for equation in &section.equations {
                    if contains_connect(equation) {
                        let _ = self.connect_equation(equation, &mut ctx);
                    }
                }
            }
        }
    }

    fn connect_equation(&mut self, equation: &'a Equation, ctx: &mut Ctx) -> Res<()> {
        match &equation.kind {
            EquationKind::Connect(left, right) => self.connect(left, right, equation.span, ctx),
            EquationKind::Call(call) => self.connections_equation(call, ctx),
            EquationKind::For { iterators, body } => {
                let fallback = |this: &mut Self, name: Name, ctx: &mut Ctx| this.size_by_use_equations(body, name, ctx);
                self.for_each(iterators, &fallback, ctx, &mut |this, ctx| {
                    for equation in body {
                        if contains_connect(equation) {
                            this.connect_equation(equation, ctx)?;
                        }
                    }
                    Ok(())
                })
                .map(|_| ())
            }
            EquationKind::If { branches, otherwise } => {
                let body = self.known_branch(branches, otherwise.as_deref(), ctx)?;
                let Some(body) = body else {
                    let message = "a connect equation in an if-equation needs a condition of parameters";
                    return Err(self.error("variability", equation.span, message));
                };
                for equation in body {
                    if contains_connect(equation) {
                        self.connect_equation(equation, ctx)?;
                    }
                }
                Ok(())
            }
            EquationKind::When(_) => {
                Err(self.error("misplaced-connect", equation.span, "connect equations cannot be in when-equations"))
            }
            _ => Ok(()),
        }
    }

    /// The branch of an if-equation whose conditions are known; `None` when they vary.
    fn known_branch(
        &mut self,
        branches: &'a [EquationBranch],
        otherwise: Option<&'a [Equation]>,
        ctx: &mut Ctx,
    ) -> Res<Option<&'a [Equation]>> {
        for branch in branches {
            let condition = self.condition(&branch.condition, ctx)?;
            if self.graph.as_number(condition).is_none() && self.variability_of(condition) > Variability::Parameter {
                return Ok(None);
            }
            if !self.can_be_known(condition) {
                return Ok(None);
            }
            if self.known_number(condition, branch.condition.span)? != 0.0 {
                return Ok(Some(&branch.body));
            }
        }
        Ok(Some(otherwise.unwrap_or_default()))
    }

    /// Whether all parameters below an expression have values (those found by initial equations have not).
    pub(crate) fn can_be_known(&mut self, expr: ExprId) -> bool {
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[expr], &mut leaves);
        self.reach = reach;
        leaves.iter().all(|leaf| match leaf {
            Leaf::Var { var, .. } => {
                let prim = self.var_prims[var.index()];
                self.binding_layer(prim).is_some()
                    || matches!(self.attribute(prim, "start", true), Ok(Some(_)))
                    || self.options.values.contains_key(&self.variables[var.index()].name)
            }
            Leaf::Time => false,
        })
    }

    /// All other equations and algorithms of all instances.
    pub(crate) fn collect_equations(&mut self) {
        for node in self.equation_nodes() {
            let Some(complex) = self.complex(node) else { continue };
            let sections = self.sections(complex.class);
            for &(owner, section) in &sections.equations {
                let mut ctx = Ctx::new(owner, node);
                self.in_initial = section.is_initial;
                for equation in &section.equations {
                    let mut sink = Output::default();
                    if self.equation(equation, &mut ctx, &mut sink).is_ok() {
                        self.take(sink, section.is_initial);
                    }
                    if self.n_errors > 200 {
                        return;
                    }
                }
                self.in_initial = false;
            }
            for &(owner, section) in &sections.algorithms {
                let mut ctx = Ctx::new(owner, node);
                self.in_initial = section.is_initial;
                let _ = self.algorithm_section(&section.statements, section.is_initial, section.span, &mut ctx);
                self.in_initial = false;
            }
        }
    }

    fn take(&mut self, sink: Output, is_initial: bool) {
        if is_initial {
            self.out.initial_equations.extend(sink.equations);
        } else {
            self.out.equations.extend(sink.equations);
        }
        self.out.when_clauses.extend(sink.when_clauses);
        self.out.assertions.extend(sink.assertions);
    }

    /// `when initial() then reinit(x, value)` is the initial equation `x = value` [@modelica36, sec. 8.6], which a text
    /// that daesy wrote has already.
    pub(super) fn start_reinitialized(&mut self) {
        let mut added = Vec::new();
        for clause in &self.out.when_clauses {
            let is_initial = |condition: &ExprId| self.graph.node(*condition) == Node::Initial;
            let branch = clause.branches.iter().find(|branch| branch.conditions.iter().any(is_initial));
            for action in branch.iter().flat_map(|branch| &branch.actions) {
                if let WhenAction::Reinit { variable, value, span } = action {
                    added.push((*variable, *value, clause.component.clone(), *span));
                }
            }
        }
        for (variable, rhs, component, span) in added {
            let lhs = self.graph.var(variable);
            if !self.out.initial_equations.iter().any(|equation| (equation.lhs, equation.rhs) == (lhs, rhs)) {
                let origin = Origin::Equation;
                self.out.initial_equations.push(FlatEquation { lhs, rhs, origin, component, span });
            }
        }
    }

    fn equation(&mut self, equation: &'a Equation, ctx: &mut Ctx, sink: &mut Output) -> Res<()> {
        match &equation.kind {
            EquationKind::Equality(left, right) => self.equality(left, right, equation.span, ctx, sink),
            // Taken care of before.
            EquationKind::Connect(..) => Ok(()),
            EquationKind::For { iterators, body } => {
                let fallback = |this: &mut Self, name: Name, ctx: &mut Ctx| this.size_by_use_equations(body, name, ctx);
                self.for_each(iterators, &fallback, ctx, &mut |this, ctx| {
                    for equation in body {
                        this.equation(equation, ctx, sink)?;
                    }
                    Ok(())
                })
                .map(|_| ())
            }
            EquationKind::If { branches, otherwise } => {
                self.if_equation(branches, otherwise.as_deref(), equation.span, ctx, sink)
            }
            EquationKind::When(branches) => {
                if self.in_initial {
                    return Err(self.error(
                        "misplaced-when",
                        equation.span,
                        "when-equations cannot be initial equations",
                    ));
                }
                if ctx.in_when {
                    return Err(self.error("misplaced-when", equation.span, "when-equations cannot be nested"));
                }
                let mut clause =
                    WhenClause { branches: Vec::new(), component: self.component_path(ctx), span: equation.span };
                for branch in branches {
                    let condition = self.expr(&branch.condition, ctx)?;
                    if let Some(clock) = self.clock_condition(&condition, branch.condition.span)? {
                        return self.clocked_when(branches, clock, equation.span, ctx, sink);
                    }
                    let conditions = self.when_items(condition, branch.condition.span)?;
                    ctx.in_when = true;
                    self.functions.when = Some(self.any_of(&conditions));
                    let actions = self.when_actions(&branch.body, ctx);
                    self.functions.when = None;
                    ctx.in_when = false;
                    clause.branches.push(WhenBranch { conditions, actions: actions? });
                }
                self.check_when_branches(&clause)?;
                sink.when_clauses.push(clause);
                Ok(())
            }
            EquationKind::Call(call) => self.call_equation(call, ctx, sink),
        }
    }

    /// A when-equation of a clock: its equations hold at the ticks, and there may be any.
    fn clocked_when(
        &mut self,
        branches: &'a [EquationBranch],
        clock: ExprId,
        span: Span,
        ctx: &mut Ctx,
        sink: &mut Output,
    ) -> Res<()> {
        let [branch] = branches else {
            return Err(self.error("misplaced-when", span, "the when-equation of a clock has no `elsewhen`"));
        };
        let n_before = sink.equations.len();
        for equation in &branch.body {
            self.equation(equation, ctx, sink)?;
        }
        let sides = sink.equations[n_before..].iter().flat_map(|equation| [equation.lhs, equation.rhs]).collect();
        self.marks.ties.push(super::clock::Tie { clock, sides });
        Ok(())
    }

    fn call_equation(&mut self, call: &'a Expr, ctx: &mut Ctx, sink: &mut Output) -> Res<()> {
        let ExprKind::Call { function, args, named } = &call.kind else {
            return Err(self.error("not-an-equation", call.span, "this is an expression, not an equation"));
        };
        // Taken care of before.
        if super::overconstrained::connections_function(function).is_some() {
            return Ok(());
        }
        let name = function.parts[0].name.name.text();
        let scope = super::function::builtin_scope(function, ctx);
        if function.parts.len() == 1 && self.is_builtin(name, scope) {
            match name {
                "assert" => {
                    if let Some(assertion) = self.assertion(args, named, call.span, ctx)? {
                        sink.assertions.push(assertion);
                    }
                    return Ok(());
                }
                "reinit" => {
                    let message = "`reinit` can be used in when-equations only";
                    return Err(self.error("misplaced-reinit", call.span, message));
                }
                "terminate" => {
                    return Err(self.unsupported(
                        "terminate outside when",
                        call.span,
                        "`terminate` outside a when-equation",
                    ));
                }
                "transition" | "initialState" => return self.expr(call, ctx).map(|_| ()),
                _ => {
                    let message = format!("`{name}(..)` alone is not an equation");
                    return Err(self.error("not-an-equation", call.span, message));
                }
            }
        }
        // A call for its effect: evaluated so that what is wrong with it is found.
        self.expr(call, ctx).map(|_| ())
    }

    /// `left = right`
    fn equality(&mut self, left: &'a Expr, right: &'a Expr, span: Span, ctx: &mut Ctx, sink: &mut Output) -> Res<()> {
        let component = self.component_path(ctx);
        if let ExprKind::Tuple(places) = &left.kind
            && (places.len() != 1 || matches!(right.kind, ExprKind::Call { .. }))
        {
            let value = self.expr(right, ctx)?;
            let values = match value {
                Value::Tuple(values) => values,
                single => vec![single],
            };
            if places.len() > values.len() {
                let message = format!("{} variables for {} results", places.len(), values.len());
                return Err(self.error("wrong-size", span, message));
            }
            for (place, value) in places.iter().zip(values) {
                if let Some(place) = place {
                    let target = self.expr(place, ctx)?;
                    self.equate(target, value, span, &component, sink)?;
                }
            }
            return Ok(());
        }
        let left = super::function::first_result(self.expr(left, ctx)?);
        let right = super::function::first_result(self.expr(right, ctx)?);
        self.equate(left, right, span, &component, sink)
    }

    /// Scalar equations of two values.
    fn equate(&mut self, left: Value, right: Value, span: Span, component: &Arc<str>, sink: &mut Output) -> Res<()> {
        match (left, right) {
            (Value::Scalars(left), Value::Scalars(right)) => {
                self.check_equation(&left, &right, span)?;
                let is_real = left.ty == Type::Real || right.ty == Type::Real;
                for (&lhs, &rhs) in left.items.iter().zip(&right.items) {
                    self.check_scalar_equation(lhs, rhs, span)?;
                    if is_real {
                        self.check_real_unknown(lhs, rhs, [&left.ty, &right.ty], span)?;
                    }
                    sink.equations.push(FlatEquation {
                        lhs,
                        rhs,
                        origin: Origin::Equation,
                        component: component.clone(),
                        span,
                    });
                }
                Ok(())
            }
            (Value::Record(left), Value::Record(right)) => {
                if left.dims != right.dims {
                    let message = format!("sides of size {} and {}", dims_text(&left.dims), dims_text(&right.dims));
                    return Err(self.error("wrong-size", span, message));
                }
                if left.fields.len() != right.fields.len() {
                    return Err(self.error("wrong-type", span, "the two records have different fields"));
                }
                for field in left.fields {
                    let Some(other) = right.fields.iter().find(|other| other.name == field.name) else {
                        let message = format!("the record on the right has no field `{}`", field.name);
                        return Err(self.error("wrong-type", span, message));
                    };
                    self.equate(field.value, other.value.clone(), span, component, sink)?;
                }
                Ok(())
            }
            (Value::Texts { items: left, .. }, Value::Texts { items: right, .. }) => {
                let is_false =
                    left.iter().zip(&right).any(|(left, right)| left.is_known && right.is_known && left != right);
                if is_false {
                    return Err(self.error("contradiction", span, "this equation joins two different texts"));
                }
                // Texts take no part in the dynamics.
                self.report(Finding::note("text-equation", span, "equations between Strings are not computed"));
                Ok(())
            }
            (Value::Tuple(left), Value::Tuple(right)) if left.len() == right.len() => {
                for (left, right) in left.into_iter().zip(right) {
                    self.equate(left, right, span, component, sink)?;
                }
                Ok(())
            }
            (left, right) => {
                let message = format!("an equation cannot join {} and {}", left.describe(), right.describe());
                Err(self.error("wrong-type", span, message))
            }
        }
    }

    fn check_equation(&mut self, left: &Scalars, right: &Scalars, span: Span) -> Res<()> {
        if left.dims != right.dims {
            let message = format!(
                "the left side has size {}, the right side has size {}",
                dims_text(&left.dims),
                dims_text(&right.dims)
            );
            return Err(self.error_help("wrong-size", span, message, "both sides of an equation need the same sizes"));
        }
        let fits = left.ty.fits(&right.ty) || right.ty.fits(&left.ty);
        let is_whole = |this: &Self, scalars: &Scalars, other: &Scalars| {
            scalars.ty == Type::Integer
                && other.ty == Type::Real
                && scalars.items.iter().any(|&item| matches!(this.graph.node(item), Node::Var { order: 0, .. }))
                && other.items.iter().all(|&item| this.graph.as_number(item).is_none())
                && scalars.items.iter().any(|&item| match this.graph.node(item) {
                    Node::Var { var, .. } => this.variables[var.index()].kind == VariableKind::Discrete,
                    _ => false,
                })
                && other.items.iter().any(|&item| !matches!(this.graph.node(item), Node::Var { order: 0, .. }))
        };
        if !fits || is_whole(self, left, right) {
            let finding = Finding::error(
                "wrong-type",
                span,
                format!("the left side is {}, the right side is {}", left.ty.word(), right.ty.word()),
            );
            return Err(self.report(finding));
        }
        Ok(())
    }

    /// An equation between Reals determines a Real: one whose only unknowns are Integers, as in `i = 7/2`, would give one
    /// of them a value that is no Integer [@modelica36, sec. 8.4].
    fn check_real_unknown(&mut self, lhs: ExprId, rhs: ExprId, types: [&Type; 2], span: Span) -> Res<()> {
        let mut stack = vec![lhs, rhs];
        let mut seen = FxHashSet::default();
        let mut whole = None;
        while let Some(expr) = stack.pop() {
            let variable = match self.graph.node(expr) {
                Node::Var { var, .. } => Some(var),
                Node::Pre(var) if self.in_initial => Some(var),
                _ => None,
            };
            if let Some(var) = variable {
                let variable = &self.variables[var.index()];
                let is_unknown = match variable.kind {
                    VariableKind::Continuous | VariableKind::Discrete => true,
                    // One with `fixed = false` is.
                    VariableKind::Parameter => self.in_initial,
                    _ => false,
                };
                match variable.value_type {
                    ValueType::Real if is_unknown => return Ok(()),
                    ValueType::Integer if is_unknown => whole = Some(var),
                    _ => {}
                }
            } else if seen.insert(expr) {
                self.graph.for_each_child(expr, |child| stack.push(child));
            }
        }
        let Some(var) = whole else { return Ok(()) };
        let name = &self.variables[var.index()].name;
        let [left, right] = types.map(Type::word);
        let message = format!(
            "the Integer `{name}` cannot be found from Reals: the left side is {left}, the right side is {right}"
        );
        let help = "make both sides Integers, for example by `integer(..)` or `div(..)`";
        Err(self.error_help("wrong-type", span, message, help))
    }

    /// Equations must have an unknown.
    fn check_scalar_equation(&mut self, lhs: ExprId, rhs: ExprId, span: Span) -> Res<()> {
        if [lhs, rhs].iter().any(|&side| self.graph.as_number(side).is_some_and(f64::is_nan)) {
            let message = "a side of this equation is not a number: a result or a field of a record is not assigned";
            return Err(self.error("unset-variable", span, message));
        }
        if self.in_initial {
            return Ok(());
        }
        let (left, right) = (self.variability_of(lhs), self.variability_of(rhs));
        if left.max(right) > Variability::Parameter {
            return Ok(());
        }
        if let Node::Var { var, .. } = self.graph.node(lhs) {
            let name = self.variables[var.index()].name.clone();
            let message = format!("`{name}` is a {} and cannot be determined by an equation", left.word());
            return Err(self.error_help("parameter-equation", span, message, "give it a value in its declaration"));
        }
        if let (Some(left), Some(right)) = (self.graph.as_number(lhs), self.graph.as_number(rhs))
            && left != right
        {
            let message = format!("this equation says {left} = {right}");
            return Err(self.error("contradiction", span, message));
        }
        Ok(())
    }

    /// An if-equation: the branch that is known, or the branches joined.
    fn if_equation(
        &mut self,
        branches: &'a [EquationBranch],
        otherwise: Option<&'a [Equation]>,
        span: Span,
        ctx: &mut Ctx,
        sink: &mut Output,
    ) -> Res<()> {
        if let Some(body) = self.known_branch(branches, otherwise, ctx)? {
            for equation in body {
                self.equation(equation, ctx, sink)?;
            }
            return Ok(());
        }
        let mut conditions = Vec::with_capacity(branches.len());
        let mut sinks = Vec::with_capacity(branches.len() + 1);
        // Asserts hold in their branch only.
        let n_path = self.functions.path.len();
        let result = self.branch_outputs(branches, otherwise, ctx, &mut conditions, &mut sinks);
        self.functions.path.truncate(n_path);
        result?;
        if sinks.iter().any(|sink| !sink.when_clauses.is_empty()) {
            return Err(self.error(
                "variability",
                span,
                "when-equations in an if-equation need conditions of parameters",
            ));
        }
        let n = sinks[0].equations.len();
        if sinks.iter().any(|sink| sink.equations.len() != n) {
            let counts: Vec<String> = sinks.iter().map(|sink| sink.equations.len().to_string()).collect();
            let message =
                format!("the branches of this if-equation have different numbers of equations: {}", counts.join(", "));
            let help = "every branch, `else` included, needs the same number of equations when the condition varies";
            return Err(self.error_help("if-equation-count", span, message, help));
        }
        for inner in &mut sinks {
            sink.assertions.append(&mut inner.assertions);
        }
        let mut rest: Vec<Vec<Option<FlatEquation>>> =
            sinks.into_iter().map(|sink| sink.equations.into_iter().map(Some).collect()).collect();
        for at in 0..n {
            let Some(first) = rest[0][at].take() else { continue };
            let mut parts = vec![(first.lhs, first.rhs)];
            for other in &mut rest[1..] {
                // The equation with the same left side, else the next one.
                let same = other.iter().position(|one| one.as_ref().is_some_and(|one| one.lhs == first.lhs));
                let place = same.or_else(|| other.iter().position(Option::is_some));
                if let Some(equation) = place.and_then(|place| other[place].take()) {
                    parts.push((equation.lhs, equation.rhs));
                }
            }
            let Some((mut lhs, mut rhs)) = parts.pop() else { continue };
            while let Some((then_lhs, then_rhs)) = parts.pop() {
                let condition = conditions[parts.len()];
                lhs = if lhs == then_lhs { lhs } else { self.graph.select(condition, then_lhs, lhs) };
                rhs = self.graph.select(condition, then_rhs, rhs);
            }
            sink.equations.push(FlatEquation { lhs, rhs, ..first });
        }
        Ok(())
    }

    /// The equations of every branch, each under its condition and where none before it holds.
    fn branch_outputs(
        &mut self,
        branches: &'a [EquationBranch],
        otherwise: Option<&'a [Equation]>,
        ctx: &mut Ctx,
        conditions: &mut Vec<ExprId>,
        sinks: &mut Vec<Output>,
    ) -> Res<()> {
        for branch in branches {
            let condition = self.condition(&branch.condition, ctx)?;
            conditions.push(condition);
            let mut inner = Output::default();
            self.under(condition, |this| {
                branch.body.iter().try_for_each(|equation| this.equation(equation, ctx, &mut inner))
            })?;
            sinks.push(inner);
            let negated = self.graph.not(condition);
            self.functions.path.push(negated);
        }
        let mut last = Output::default();
        for equation in otherwise.unwrap_or_default() {
            self.equation(equation, ctx, &mut last)?;
        }
        sinks.push(last);
        Ok(())
    }

    /// What the equations of a when-branch do.
    fn when_actions(&mut self, equations: &'a [Equation], ctx: &mut Ctx) -> Res<Vec<WhenAction>> {
        let mut actions = Vec::new();
        for equation in equations {
            match &equation.kind {
                EquationKind::Equality(left, right) => {
                    let mut inner = Output::default();
                    self.equality(left, right, equation.span, ctx, &mut inner)?;
                    for equation in inner.equations {
                        let Node::Var { var, order: 0 } = self.graph.node(equation.lhs) else {
                            let message = "the left side of an equation in a when-equation must be a variable";
                            return Err(self.error_help(
                                "when-left-side",
                                equation.span,
                                message,
                                "write `v = expression`",
                            ));
                        };
                        let kind = self.variables[var.index()].kind;
                        if !matches!(kind, VariableKind::Continuous | VariableKind::Discrete) {
                            let message = format!("`{}` is not an unknown", self.variables[var.index()].name);
                            return Err(self.error("not-assignable", equation.span, message));
                        }
                        self.make_discrete(var);
                        actions.push(WhenAction::Assign { variable: var, value: equation.rhs, span: equation.span });
                    }
                }
                EquationKind::For { iterators, body } => {
                    let fallback =
                        |this: &mut Self, name: Name, ctx: &mut Ctx| this.size_by_use_equations(body, name, ctx);
                    let collected = &mut actions;
                    self.for_each(iterators, &fallback, ctx, &mut |this, ctx| {
                        collected.extend(this.when_actions(body, ctx)?);
                        Ok(())
                    })?;
                }
                EquationKind::If { branches, otherwise } => {
                    if let Some(body) = self.known_branch(branches, otherwise.as_deref(), ctx)? {
                        actions.extend(self.when_actions(body, ctx)?);
                        continue;
                    }
                    let joined = self.when_if(branches, otherwise.as_deref(), ctx)?;
                    actions.extend(joined);
                }
                EquationKind::When(_) => {
                    return Err(self.error("misplaced-when", equation.span, "when-equations cannot be nested"));
                }
                EquationKind::Connect(..) => {
                    let message = "connect equations cannot be in when-equations";
                    return Err(self.error("misplaced-connect", equation.span, message));
                }
                EquationKind::Call(call) => {
                    let ExprKind::Call { function, args, named } = &call.kind else {
                        return Err(self.error("not-an-equation", call.span, "this is not an equation"));
                    };
                    match function.parts[0].name.name.text() {
                        "reinit" => actions.extend(self.reinit(args, call.span, ctx)?),
                        "assert" => {
                            if let Some(assertion) = self.assertion(args, named, call.span, ctx)? {
                                actions.push(WhenAction::Assert(assertion));
                            }
                        }
                        "terminate" => {
                            let message = match args.first() {
                                Some(message) => self.message_text(message, ctx)?,
                                None => String::new(),
                            };
                            actions.push(WhenAction::Terminate { message, span: call.span });
                        }
                        _ => {
                            self.expr(call, ctx)?;
                        }
                    }
                }
            }
        }
        Ok(actions)
    }

    /// An if-equation inside a when-equation.
    fn when_if(
        &mut self,
        branches: &'a [EquationBranch],
        otherwise: Option<&'a [Equation]>,
        ctx: &mut Ctx,
    ) -> Res<Vec<WhenAction>> {
        let Some((first, others)) = branches.split_first() else {
            return self.when_actions(otherwise.unwrap_or_default(), ctx);
        };
        let condition = self.condition(&first.condition, ctx)?;
        let then = self.when_actions(&first.body, ctx)?;
        let other = self.when_if(others, otherwise, ctx)?;
        self.join_actions(condition, then, other)
    }

    /// What is done where a condition holds, and what where it does not, as actions that are always taken.
    pub(crate) fn join_actions(
        &mut self,
        condition: ExprId,
        then: Vec<WhenAction>,
        other: Vec<WhenAction>,
    ) -> Res<Vec<WhenAction>> {
        let mut joined = Vec::new();
        let mut other: Vec<Option<WhenAction>> = other.into_iter().map(Some).collect();
        let find = |var: VarId, is_reinit: bool, list: &mut Vec<Option<WhenAction>>| {
            list.iter_mut()
                .find(|one| match one {
                    Some(WhenAction::Assign { variable, .. }) => !is_reinit && *variable == var,
                    Some(WhenAction::Reinit { variable, .. }) => is_reinit && *variable == var,
                    _ => false,
                })
                .and_then(Option::take)
        };
        let value_of = |action: &WhenAction| match action {
            WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
            _ => None,
        };
        for action in then {
            match action {
                WhenAction::Assign { variable, value, span } => {
                    let kept = find(variable, false, &mut other).as_ref().and_then(value_of);
                    let kept = kept.unwrap_or_else(|| self.graph.pre(variable));
                    let value = self.graph.select(condition, value, kept);
                    joined.push(WhenAction::Assign { variable, value, span });
                }
                WhenAction::Reinit { variable, value, span } => {
                    let kept = find(variable, true, &mut other).as_ref().and_then(value_of);
                    let kept = kept.unwrap_or_else(|| self.graph.var(variable));
                    let value = self.graph.select(condition, value, kept);
                    joined.push(WhenAction::Reinit { variable, value, span });
                }
                WhenAction::Assert(mut assertion) => {
                    let negated = self.graph.not(condition);
                    assertion.condition = self.graph.or(negated, assertion.condition);
                    joined.push(WhenAction::Assert(assertion));
                }
                WhenAction::Terminate { span, .. } => {
                    let what = "`terminate` under a condition inside a when-clause";
                    return Err(self.unsupported("terminate", span, what));
                }
            }
        }
        for action in other.into_iter().flatten() {
            match action {
                WhenAction::Assign { variable, value, span } => {
                    let kept = self.graph.pre(variable);
                    let value = self.graph.select(condition, kept, value);
                    joined.push(WhenAction::Assign { variable, value, span });
                }
                WhenAction::Reinit { variable, value, span } => {
                    let kept = self.graph.var(variable);
                    let value = self.graph.select(condition, kept, value);
                    joined.push(WhenAction::Reinit { variable, value, span });
                }
                WhenAction::Assert(mut assertion) => {
                    assertion.condition = self.graph.or(condition, assertion.condition);
                    joined.push(WhenAction::Assert(assertion));
                }
                WhenAction::Terminate { span, .. } => {
                    let what = "`terminate` under a condition inside a when-clause";
                    return Err(self.unsupported("terminate", span, what));
                }
            }
        }
        Ok(joined)
    }

    /// Parameters with `fixed = false` whose initial equation gives them in terms of known parameters get that as their
    /// value: what is computed from them can then be computed too, and no guess of zero gets in between.
    pub(crate) fn bind_initial_parameters(&mut self) {
        loop {
            let n_before = self.out.initial_equations.len();
            let mut kept = Vec::with_capacity(n_before);
            for equation in std::mem::take(&mut self.out.initial_equations) {
                let bound = self
                    .known_parameter(equation.lhs, equation.rhs)
                    .or_else(|| self.known_parameter(equation.rhs, equation.lhs));
                match bound {
                    Some((var, value)) => {
                        self.variables[var.index()].binding = Some(value);
                        self.variables[var.index()].fixed = None;
                        // A study that gave it another value would contradict the equation.
                        self.variables[var.index()].is_final = true;
                    }
                    None => kept.push(equation),
                }
            }
            let is_done = kept.len() == n_before;
            self.out.initial_equations = kept;
            if is_done {
                return;
            }
        }
    }

    /// The parameter that an initial equation gives, if all in its value is known.
    fn known_parameter(&mut self, side: ExprId, value: ExprId) -> Option<(VarId, ExprId)> {
        let is_free = |variable: &daesy_graph::Variable| {
            variable.kind == VariableKind::Parameter && variable.fixed == Some(false) && variable.binding.is_none()
        };
        let Node::Var { var, order: 0 } = self.graph.node(side) else { return None };
        if !is_free(&self.variables[var.index()]) || self.variability_of(value) > Variability::Parameter {
            return None;
        }
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[value], &mut leaves);
        self.reach = reach;
        let waits = |leaf: &Leaf| match leaf {
            Leaf::Time => true,
            Leaf::Var { var, .. } => is_free(&self.variables[var.index()]),
        };
        (!leaves.iter().any(waits)).then_some((var, value))
    }

    /// Derivatives that only initial equations, when-clauses and assertions use, such as that of an algebraic variable,
    /// get an equation `$der(y) = der(y)`, so that something determines them.
    pub(crate) fn determine_derivatives(&mut self) {
        let mut wanted: Vec<ExprId> = self.out.assertions.iter().map(|assertion| assertion.condition).collect();
        wanted.extend(self.out.initial_equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]));
        for branch in self.out.when_clauses.iter().flat_map(|clause| &clause.branches) {
            wanted.extend(&branch.conditions);
            wanted.extend(branch.actions.iter().filter_map(|action| match action {
                WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
                WhenAction::Assert(assertion) => Some(assertion.condition),
                WhenAction::Terminate { .. } => None,
            }));
        }
        let equations = self.out.equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]);
        let known: FxHashSet<Leaf> = self.derivatives_in(&equations.collect::<Vec<_>>()).into_iter().collect();
        for leaf in self.derivatives_in(&wanted) {
            let Leaf::Var { var, order } = leaf else { continue };
            let model = &self.variables[var.index()];
            if known.contains(&leaf) || model.kind != VariableKind::Continuous {
                continue;
            }
            let name =
                if order == 1 { format!("$der({})", model.name) } else { format!("$der({},{order})", model.name) };
            let span = model.span;
            let added = daesy_graph::Variable {
                is_protected: true,
                state_select: model.state_select,
                ..daesy_graph::Variable::new(name, model.kind, span)
            };
            let (lhs, rhs) = (self.graph.var(VarId(self.variables.len() as u32)), self.graph.der(var, order));
            self.var_prims.push(self.var_prims[var.index()]);
            self.variables.push(added);
            let component = Arc::from("");
            self.out.equations.push(FlatEquation { lhs, rhs, origin: Origin::Equation, component, span });
        }
    }

    /// The derivatives of variables in some expressions.
    fn derivatives_in(&mut self, exprs: &[ExprId]) -> Vec<Leaf> {
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, exprs, &mut leaves);
        self.reach = reach;
        leaves.retain(|leaf| matches!(leaf, Leaf::Var { order, .. } if *order > 0));
        leaves
    }

    /// All branches of a when-equation must determine the same variables [@modelica36, sec. 8.3.5.2].
    fn check_when_branches(&mut self, clause: &WhenClause) -> Res<()> {
        let sets: Vec<Vec<VarId>> = clause
            .branches
            .iter()
            .map(|branch| {
                let mut set: Vec<VarId> = branch
                    .actions
                    .iter()
                    .filter_map(|action| match action {
                        WhenAction::Assign { variable, .. } => Some(*variable),
                        _ => None,
                    })
                    .collect();
                set.sort_unstable();
                set
            })
            .collect();
        for set in &sets {
            if let Some(twice) = set.windows(2).find(|pair| pair[0] == pair[1]) {
                let name = self.variables[twice[0].index()].name.clone();
                let message = format!("`{name}` is determined twice in one branch of a when-equation");
                return Err(self.error("assigned-twice", clause.span, message));
            }
        }
        if sets.windows(2).any(|pair| pair[0] != pair[1]) {
            let message = "the branches of this when-equation determine different variables";
            let help = "every branch must have equations for the same variables";
            return Err(self.error_help("when-branches", clause.span, message, help));
        }
        Ok(())
    }
}

/// Whether an equation has a connect equation, or what `Connections` says of one, in it.
pub(crate) fn contains_connect(equation: &Equation) -> bool {
    match &equation.kind {
        EquationKind::Connect(..) => true,
        EquationKind::Call(_) => super::overconstrained::is_connections_call(equation),
        EquationKind::For { body, .. } => body.iter().any(contains_connect),
        EquationKind::If { branches, otherwise } => {
            branches.iter().any(|branch| branch.body.iter().any(contains_connect))
                || otherwise.as_ref().is_some_and(|body| body.iter().any(contains_connect))
        }
        EquationKind::When(branches) => branches.iter().any(|branch| branch.body.iter().any(contains_connect)),
        _ => false,
    }
}
