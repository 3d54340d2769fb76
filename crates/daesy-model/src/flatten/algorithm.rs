//! Statements run on symbolic values, and algorithm sections of models turned into equations.
//!
//! A variable assigned by an algorithm section gets the equation `v = value at the end of the section`. At the
//! beginning it has its start value, or `pre(v)` when it is discrete [@modelica36, sec. 11.1.2]. When-statements become
//! when-clauses. Several of them that act at one event act one after the other: each branch that assigns a variable that
//! others assign too turns a hidden Boolean m over, so that after it the variable has the value
//! `if m <> pre(m) then (what the branch gives) else (what it was before)`.

use std::sync::Arc;

use daesy_graph::flat::{Assertion, Equation, Origin, ValueType, WhenAction, WhenBranch, WhenClause};
use daesy_graph::function::Statement as Step;
use daesy_graph::{ExprId, Finding, Node, Span, VarId, VariableKind};
use rustc_hash::{FxHashMap, FxHashSet};
use smallvec::SmallVec;

use super::budget::PASS;
use super::expr::{Ctx, Variability};
use super::function::{builtin_scope, first_result};
use super::instance::{NodeKind, PrimId};
use super::reference::Start;
use super::value::{Scalars, Type, Value, count};
use super::{Flattener, NodeId, Refused, Res};
use crate::name::Name;
use crate::syntax::{
    ComponentRef, Expr, ExprKind, NamedArg, RefPart, Statement, StatementBranch, StatementKind, Subscript,
};

/// How a list of statements ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Flow {
    Next,
    Break,
    Return,
    /// The loop is left where this condition holds.
    Maybe(ExprId),
}

/// Values of the variables an algorithm assigns.
#[derive(Clone, Debug, Default)]
pub(crate) struct Assigned {
    pub values: FxHashMap<PrimId, Value>,
    /// Elements that have been assigned.
    pub touched: FxHashSet<VarId>,
    /// Variables that are assigned in when-statements only.
    only_when: FxHashSet<PrimId>,
    /// Those that several when-statements assign, each with the number of these that are still to come.
    shared: FxHashMap<PrimId, usize>,
    /// Actions of the when-branch at hand that are not assignments.
    actions: Vec<WhenAction>,
    /// When-clauses met.
    whens: Vec<WhenClause>,
}

impl Assigned {
    /// Whether several when-statements assign a variable.
    fn is_shared(&self, prim: PrimId) -> bool {
        self.shared.contains_key(&prim)
    }

    /// The value of a variable so far.
    pub(crate) fn get(&self, prim: PrimId) -> Option<&Value> {
        self.values.get(&prim)
    }
}

/// A part of a value to be replaced.
pub(crate) struct Target<'a> {
    pub subscripts: &'a [Subscript],
    pub rest: &'a [RefPart],
}

impl<'a> Flattener<'a> {
    /// This function cannot be run symbolically.
    fn need_program(&mut self) -> Refused {
        if let Some(&class) = self.functions.stack.last() {
            self.functions.needs_program = Some(class);
        }
        Refused
    }

    /// Runs statements.
    pub(crate) fn run(&mut self, statements: &'a [Statement], ctx: &mut Ctx) -> Res<Flow> {
        for (at, statement) in statements.iter().enumerate() {
            self.spend(1, statement.span)?;
            match &statement.kind {
                StatementKind::If { branches, otherwise } => {
                    let rest = &statements[at + 1..];
                    match self.run_if(branches, otherwise.as_deref(), rest, ctx)? {
                        Ran::Through => {}
                        Ran::Block(flow) | Ran::Rest(flow) => return Ok(flow),
                    }
                }
                _ => match self.run_one(statement, ctx)? {
                    Flow::Next => {}
                    flow => return Ok(flow),
                },
            }
        }
        Ok(Flow::Next)
    }

    /// Runs the statements of a branch or loop.
    fn run_block(&mut self, statements: &'a [Statement], ctx: &mut Ctx) -> Res<Flow> {
        ctx.n_blocks += 1;
        let flow = self.run(statements, ctx);
        ctx.n_blocks -= 1;
        flow
    }

    fn run_one(&mut self, statement: &'a Statement, ctx: &mut Ctx) -> Res<Flow> {
        match &statement.kind {
            StatementKind::Assign { target, value } => {
                let value = first_result(self.expr(value, ctx)?);
                self.assign(target, value, ctx)?;
            }
            StatementKind::AssignTuple { targets, call } => {
                let value = self.expr(call, ctx)?;
                let values = match value {
                    Value::Tuple(values) => values,
                    single => vec![single],
                };
                if targets.len() > values.len() {
                    let message = format!("{} variables for {} results", targets.len(), values.len());
                    return Err(self.error("wrong-size", statement.span, message));
                }
                for (target, value) in targets.iter().zip(values) {
                    if let Some(target) = target {
                        self.assign(target, value, ctx)?;
                    }
                }
            }
            StatementKind::Call(call) => self.run_call(call, ctx)?,
            StatementKind::If { branches, otherwise } => {
                return match self.run_if(branches, otherwise.as_deref(), &[], ctx)? {
                    Ran::Through => Ok(Flow::Next),
                    Ran::Block(flow) | Ran::Rest(flow) => Ok(flow),
                };
            }
            StatementKind::For { iterators, body } => return self.run_for(statement, iterators, body, ctx),
            StatementKind::While(branch) => return self.run_while(statement, branch, ctx),
            StatementKind::When(branches) => self.run_when(branches, statement.span, ctx)?,
            StatementKind::Break => return Ok(Flow::Break),
            StatementKind::Return => {
                if !ctx.in_function {
                    return Err(self.error(
                        "misplaced-return",
                        statement.span,
                        "`return` can be used in functions only",
                    ));
                }
                return Ok(Flow::Return);
            }
        }
        Ok(Flow::Next)
    }

    fn run_for(
        &mut self,
        statement: &'a Statement,
        iterators: &'a [crate::syntax::Iterator],
        body: &'a [Statement],
        ctx: &mut Ctx,
    ) -> Res<Flow> {
        let mut flow = Flow::Next;
        // Where a pass may have left the loop: the condition, and the variables as they were then.
        let mut left: Vec<(ExprId, Ctx)> = Vec::new();
        let n_path = self.functions.path.len();
        let fallback = |this: &mut Self, name: Name, ctx: &mut Ctx| this.size_by_use_statements(body, name, ctx);
        let n_errors = self.n_errors;
        let result = self.for_each(iterators, &fallback, ctx, &mut |this, ctx| {
            if matches!(flow, Flow::Break | Flow::Return) {
                return Ok(());
            }
            if this.functions.needs_program.is_some() {
                return Err(Refused);
            }
            flow = this.run_block(body, ctx)?;
            if let Flow::Maybe(condition) = flow {
                left.push((condition, ctx.clone()));
                let negated = this.graph.not(condition);
                this.functions.path.push(negated);
            }
            Ok(())
        });
        self.functions.path.truncate(n_path);
        while let Some((condition, saved)) = left.pop() {
            let n_actions = n_actions(&saved);
            self.merge(condition, saved, ctx, n_actions)?;
        }
        if result.is_err() {
            if !self.is_open_loop(n_errors, ctx) {
                return Err(Refused);
            }
            if ctx.in_function {
                return Err(self.need_program());
            }
            self.run_loop(statement, "a for-loop whose range changes, in an algorithm section", ctx)?;
            return Ok(Flow::Next);
        }
        Ok(if flow == Flow::Return { Flow::Return } else { Flow::Next })
    }

    fn run_while(&mut self, statement: &'a Statement, branch: &'a StatementBranch, ctx: &mut Ctx) -> Res<Flow> {
        loop {
            let condition = self.condition(&branch.condition, ctx)?;
            let Some(known) = self.graph.as_number(condition) else {
                if ctx.in_function {
                    return Err(self.need_program());
                }
                self.run_loop(statement, "a while-loop whose condition changes, in an algorithm section", ctx)?;
                return Ok(Flow::Next);
            };
            if known == 0.0 {
                return Ok(Flow::Next);
            }
            self.spend(PASS, statement.span)?;
            match self.run_block(&branch.body, ctx)? {
                Flow::Next => {}
                Flow::Break => return Ok(Flow::Next),
                Flow::Return => return Ok(Flow::Return),
                Flow::Maybe(_) => {
                    let what = "leaving a while-loop under a condition that changes, in an algorithm section";
                    return Err(self.unsupported("break in while", statement.span, what));
                }
            }
        }
    }

    /// Whether a for-loop could not be run now because its range is not known: it has to be run when the model runs. What
    /// was said about the range is taken back then.
    fn is_open_loop(&mut self, n_errors: usize, ctx: &Ctx) -> bool {
        let is_open = self.n_errors > n_errors
            && self.functions.needs_program.is_none()
            && self.not_yet_known == Some(self.findings.len())
            && ctx.in_function != self.functions.stack.is_empty();
        if is_open {
            if let Some(finding) = self.findings.pop() {
                self.reported.retain(|(code, span, _)| (*code, *span) != (finding.code, finding.span));
            }
            self.n_errors = n_errors;
        }
        is_open
    }

    /// An if-statement. With conditions that are not known, all branches are run and their results selected.
    fn run_if(
        &mut self,
        branches: &'a [StatementBranch],
        otherwise: Option<&'a [Statement]>,
        rest: &'a [Statement],
        ctx: &mut Ctx,
    ) -> Res<Ran> {
        let Some((first, others)) = branches.split_first() else {
            return match otherwise {
                Some(statements) => Ok(self.run_block(statements, ctx)?.into()),
                None => Ok(Ran::Through),
            };
        };
        let condition = self.condition(&first.condition, ctx)?;
        if let Some(known) = self.settled(condition, first.condition.span) {
            if known != 0.0 {
                return Ok(self.run_block(&first.body, ctx)?.into());
            }
            return self.run_if(others, otherwise, rest, ctx);
        }
        // Both branches start with the values of all variables.
        self.spend(ctx.locals.iter().map(|local| local.value.weight()).sum(), first.condition.span)?;
        let mut then_ctx = ctx.clone();
        let n_actions = n_actions(ctx);
        self.functions.path.push(condition);
        let then = self.run_block(&first.body, &mut then_ctx);
        self.functions.path.pop();
        let then = then?;
        let negated = self.graph.not(condition);
        let other = self.under(negated, |this| this.run_if(others, otherwise, rest, ctx))?;
        if (then, other) == (Flow::Next, Ran::Through) {
            self.merge(condition, then_ctx, ctx, n_actions)?;
            return Ok(Ran::Through);
        }
        // Where only one of the two goes on, the statements that follow belong to it.
        let is_left = |flow: Flow| matches!(flow, Flow::Break | Flow::Return);
        let has_rest = !is_left(then) || !matches!(other, Ran::Block(flow) if is_left(flow));
        let then_flow = self.under(condition, |this| this.go_on(then, rest, &mut then_ctx))?;
        let other_flow = match other {
            Ran::Rest(flow) => flow,
            Ran::Through => self.under(negated, |this| this.go_on(Flow::Next, rest, ctx))?,
            Ran::Block(flow) => self.under(negated, |this| this.go_on(flow, rest, ctx))?,
        };
        // At the end of a function's body, going on and returning are the same.
        let is_last = has_rest && ctx.in_function && ctx.n_blocks == 0;
        let ended = |flow: Flow| if is_last && flow == Flow::Next { Flow::Return } else { flow };
        let (then_flow, other_flow) = (ended(then_flow), ended(other_flow));
        let flow = if then_flow == other_flow {
            then_flow
        } else {
            self.either(condition, then_flow, other_flow, first.condition.span, ctx)?
        };
        self.merge(condition, then_ctx, ctx, n_actions)?;
        Ok(if has_rest { Ran::Rest(flow) } else { Ran::Block(flow) })
    }

    /// The statements after a branch, where it goes on to them.
    fn go_on(&mut self, flow: Flow, rest: &'a [Statement], ctx: &mut Ctx) -> Res<Flow> {
        match flow {
            Flow::Next => self.run(rest, ctx),
            Flow::Break | Flow::Return => Ok(flow),
            Flow::Maybe(left) => {
                let saved = ctx.clone();
                let n_actions = n_actions(ctx);
                let negated = self.graph.not(left);
                let after = self.under(negated, |this| this.run(rest, ctx))?;
                self.merge(left, saved, ctx, n_actions)?;
                self.either(left, Flow::Break, after, Span::NONE, ctx)
            }
        }
    }

    /// How two branches end together: the loop is left where the one that is taken leaves it.
    fn either(&mut self, condition: ExprId, then: Flow, other: Flow, span: Span, ctx: &Ctx) -> Res<Flow> {
        let mut leaves = [then, other].map(|flow| match flow {
            Flow::Next => Some(self.graph.truth(false)),
            Flow::Break => Some(self.graph.truth(true)),
            Flow::Maybe(left) => Some(left),
            Flow::Return => None,
        });
        match (leaves[0].take(), leaves[1].take()) {
            (Some(then), Some(other)) if !ctx.in_function => {
                let taken = self.graph.and(condition, then);
                let negated = self.graph.not(condition);
                let not_taken = self.graph.and(negated, other);
                Ok(Flow::Maybe(self.graph.or(taken, not_taken)))
            }
            _ if ctx.in_function => Err(self.need_program()),
            _ => Err(self.unsupported("return in a branch", span, "leaving a section under a condition that changes")),
        }
    }

    /// Joins the results of two branches; `ctx` holds the second. They had so many actions in common.
    fn merge(&mut self, condition: ExprId, then: Ctx, ctx: &mut Ctx, n_actions: usize) -> Res<()> {
        for (local, chosen) in ctx.locals.iter_mut().zip(then.locals) {
            if local.value == chosen.value {
                local.is_set &= chosen.is_set;
                continue;
            }
            match self.select_value(condition, &chosen.value, &local.value) {
                Some(value) => {
                    local.value = value;
                    local.is_set |= chosen.is_set;
                }
                None => {
                    let name = local.name;
                    let message = format!("`{name}` has values of different size or kind in the branches of `if`");
                    return Err(self.error("wrong-size", Span::NONE, message));
                }
            }
        }
        if let (Some(assigned), Some(then)) = (&mut ctx.assigned, then.assigned) {
            let mut assigned = std::mem::take(assigned);
            for (prim, chosen) in then.values {
                let Some(value) = assigned.values.get(&prim) else { continue };
                if *value == chosen {
                    continue;
                }
                let value = value.clone();
                if let Some(joined) = self.select_value(condition, &chosen, &value) {
                    assigned.values.insert(prim, joined);
                }
            }
            assigned.touched.extend(then.touched);
            let mut chosen = then.actions;
            let others = assigned.actions.split_off(n_actions);
            let joined = self.join_actions(condition, chosen.split_off(n_actions), others)?;
            assigned.actions.extend(joined);
            ctx.assigned = Some(assigned);
        }
        Ok(())
    }

    /// Calls used as statements.
    fn run_call(&mut self, call: &'a Expr, ctx: &mut Ctx) -> Res<()> {
        let ExprKind::Call { function, args, named } = &call.kind else {
            return Err(self.error("not-a-statement", call.span, "only calls can be statements"));
        };
        let name = function.parts[0].name.name.text();
        if function.parts.len() == 1 && self.is_builtin(name, builtin_scope(function, ctx)) {
            match name {
                "assert" => {
                    let Some(assertion) = self.assertion(args, named, call.span, ctx)? else { return Ok(()) };
                    if let Some(assigned) = ctx.assigned.as_mut().filter(|_| ctx.in_when) {
                        assigned.actions.push(WhenAction::Assert(assertion));
                    } else if !ctx.in_program {
                        self.out.assertions.push(assertion);
                    } else if !assertion.is_warning {
                        let (condition, message) = (assertion.condition, assertion.message);
                        self.functions.program_assertions.push(Step::Assert { condition, message });
                    }
                    return Ok(());
                }
                "terminate" => {
                    let message = match args.first() {
                        Some(message) => self.message_text(message, ctx)?,
                        None => String::new(),
                    };
                    if let Some(assigned) = ctx.assigned.as_mut().filter(|_| ctx.in_when) {
                        assigned.actions.push(WhenAction::Terminate { message, span: call.span });
                        return Ok(());
                    }
                    return Err(self.unsupported(
                        "terminate outside when",
                        call.span,
                        "`terminate` outside a when-statement",
                    ));
                }
                "reinit" => {
                    if !ctx.in_when {
                        return Err(self.error(
                            "misplaced-reinit",
                            call.span,
                            "`reinit` can be used in when-clauses only",
                        ));
                    }
                    let actions = self.reinit(args, call.span, ctx)?;
                    if let Some(assigned) = ctx.assigned.as_mut() {
                        assigned.actions.extend(actions);
                    }
                    return Ok(());
                }
                _ => {}
            }
        }
        // The call is evaluated so that what is wrong with it is found; its results are not used.
        self.expr(call, ctx).map(|_| ())
    }

    /// `assert(condition, message, level)`; `None` when the condition is known to hold.
    pub(crate) fn assertion(
        &mut self,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Option<Assertion>> {
        let find = |at: usize, name: &str| {
            args.get(at).or_else(|| named.iter().find(|arg| arg.name.name.text() == name).map(|arg| &arg.value))
        };
        let (Some(condition), Some(message)) = (find(0, "condition"), find(1, "message")) else {
            return Err(self.error("wrong-arguments", span, "`assert` needs a condition and a message"));
        };
        if args.len() > 3 {
            return Err(self.error("wrong-arguments", span, "`assert` takes a condition, a message and a level"));
        }
        let mut is_warning = false;
        if let Some(level) = find(2, "level") {
            let scalars = self.scalar_expr(level, ctx)?;
            is_warning = self.known_number(scalars.items[0], level.span)? == 1.0;
        }
        let condition_span = condition.span;
        let condition = self.condition(condition, ctx)?;
        let message = self.message_text(message, ctx)?;
        let mut guarded = condition;
        for at in 0..self.functions.path.len() {
            let path = self.functions.path[at];
            let negated = self.graph.not(path);
            guarded = self.graph.or(negated, guarded);
        }
        match self.graph.as_number(guarded) {
            Some(known) if known != 0.0 => return Ok(None),
            Some(_) if !is_warning && !ctx.in_when && !ctx.in_program => {
                let finding =
                    Finding::error("assertion", condition_span, format!("assertion does not hold: {message}"));
                return Err(self.report(finding));
            }
            _ => {}
        }
        let component: Arc<str> = self.component_path(ctx);
        Ok(Some(Assertion { condition: guarded, message, is_warning, component, span }))
    }

    /// Dotted name of the instance at hand.
    pub(crate) fn component_path(&self, ctx: &Ctx) -> Arc<str> {
        if !ctx.instance.is_some() {
            return Arc::from("");
        }
        self.complex(ctx.instance).map_or_else(|| Arc::from(""), |complex| complex.path.clone())
    }

    /// `reinit(x, value)`, element by element.
    pub(crate) fn reinit(&mut self, args: &'a [Expr], span: Span, ctx: &mut Ctx) -> Res<Vec<WhenAction>> {
        let [state, value] = args else {
            return Err(self.error("wrong-arguments", span, "`reinit` needs a state and a value"));
        };
        let assigned = ctx.assigned.take();
        let state_value = self.expr(state, ctx);
        ctx.assigned = assigned;
        let states = self.numeric(state_value?, "`reinit`", span)?;
        let value = first_result(self.expr(value, ctx)?);
        let values = self.coerce(value, &Type::Real, &states.dims, "the state", span)?;
        let Value::Scalars(values) = values else { return Err(Refused) };
        let mut actions = Vec::with_capacity(states.items.len());
        for (&state, &value) in states.items.iter().zip(&values.items) {
            let Node::Var { var, order: 0 } = self.graph.node(state) else {
                return Err(self.error("not-a-variable", span, "`reinit` needs a state"));
            };
            if states.ty != Type::Real || self.variables[var.index()].kind != VariableKind::Continuous {
                let message = format!(
                    "`{}` is not a continuous unknown: it cannot be given to `reinit`",
                    self.variables[var.index()].name
                );
                return Err(self.error("not-a-state", span, message));
            }
            actions.push(WhenAction::Reinit { variable: var, value, span });
        }
        Ok(actions)
    }

    /// Primitive instances an algorithm assigns.
    fn targets(&mut self, statements: &'a [Statement], in_when: bool, ctx: &Ctx, found: &mut FxHashMap<PrimId, bool>) {
        for statement in statements {
            match &statement.kind {
                StatementKind::Assign { target, .. } => self.target_prims(target, in_when, ctx, found),
                StatementKind::AssignTuple { targets, .. } => {
                    for target in targets.iter().flatten() {
                        self.target_prims(target, in_when, ctx, found);
                    }
                }
                StatementKind::If { branches, otherwise } => {
                    for branch in branches {
                        self.targets(&branch.body, in_when, ctx, found);
                    }
                    if let Some(statements) = otherwise {
                        self.targets(statements, in_when, ctx, found);
                    }
                }
                StatementKind::For { body, .. } => self.targets(body, in_when, ctx, found),
                StatementKind::While(branch) => self.targets(&branch.body, in_when, ctx, found),
                StatementKind::When(branches) => {
                    for branch in branches {
                        self.targets(&branch.body, true, ctx, found);
                    }
                }
                StatementKind::Call(_) | StatementKind::Break | StatementKind::Return => {}
            }
        }
    }

    fn target_prims(
        &mut self,
        target: &'a ComponentRef,
        in_when: bool,
        ctx: &Ctx,
        found: &mut FxHashMap<PrimId, bool>,
    ) {
        let Ok(Start::Node(node, used)) = self.resolve_start(target, ctx) else { return };
        let mut nodes = vec![node];
        for part in &target.parts[used..] {
            let mut next = Vec::new();
            for node in self.all_elements(&nodes) {
                if let Some(complex) = self.complex(node)
                    && let Some(child) = self.child(&complex, part.name.name)
                {
                    next.push(child);
                }
            }
            nodes = next;
        }
        while let Some(node) = nodes.pop() {
            for node in self.all_elements(&[node]) {
                match self.node(node).kind.clone() {
                    NodeKind::Primitive(prim) => {
                        let only_when = found.entry(prim).or_insert(in_when);
                        *only_when &= in_when;
                    }
                    NodeKind::Complex(complex) => {
                        let n = self.class(complex.class).components.len() as u32;
                        nodes.extend((0..n).map(|at| NodeId(complex.first.0 + at)));
                    }
                    _ => {}
                }
            }
        }
    }

    /// Nodes with arrays replaced by their elements.
    fn all_elements(&mut self, nodes: &[NodeId]) -> Vec<NodeId> {
        let mut all = Vec::new();
        for &node in nodes {
            let Ok(node) = self.force(node) else { continue };
            match &self.node(node).kind {
                NodeKind::Array { dims, first, .. } => {
                    all.extend((0..count(dims) as u32).map(|at| NodeId(first.0 + at)));
                }
                _ => all.push(node),
            }
        }
        all
    }

    /// The variables of a primitive.
    fn own_value(&mut self, prim: PrimId, make: impl Fn(&mut Self, VarId) -> ExprId) -> Value {
        let first = self.prim(prim).first.unwrap_or(VarId(0));
        let dims = self.prim_dims(prim);
        let items: SmallVec<[ExprId; 1]> = (0..count(&dims) as u32).map(|at| make(self, VarId(first.0 + at))).collect();
        Value::Scalars(Scalars { ty: self.prim(prim).ty.clone(), dims, items })
    }

    /// `break` leaves the innermost loop, so it has to be in one [@modelica36, sec. 11.2.6].
    pub(crate) fn check_breaks(&mut self, statements: &[Statement]) -> Res<()> {
        match misplaced_break(statements) {
            Some(span) => {
                let message = "`break` can be used in for-loops and while-loops only";
                Err(self.error("misplaced-break", span, message))
            }
            None => Ok(()),
        }
    }

    /// An algorithm section of a model.
    pub(crate) fn algorithm_section(
        &mut self,
        statements: &'a [Statement],
        is_initial: bool,
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<()> {
        self.check_breaks(statements)?;
        let mut targets: FxHashMap<PrimId, bool> = FxHashMap::default();
        self.targets(statements, false, ctx, &mut targets);
        let mut prims: Vec<(PrimId, bool)> = targets.into_iter().collect();
        prims.sort_unstable();
        let mut assigned = Assigned::default();
        self.count_whens(statements, 1, ctx, &mut assigned.shared);
        assigned.shared.retain(|_, n_whens| *n_whens > 1);
        for &(prim, only_when) in &prims {
            if self.prim(prim).first.is_none() || self.prim(prim).ty == Type::String {
                continue;
            }
            let is_discrete = self.prim(prim).variability == Variability::Discrete;
            let value = if (only_when || is_discrete) && !is_initial {
                self.own_value(prim, |this, var| this.graph.pre(var))
            } else {
                match self.attribute(prim, "start", false)? {
                    Some(Value::Scalars(scalars)) => Value::Scalars(scalars),
                    _ => self.own_value(prim, |this, _| this.graph.number(0.0)),
                }
            };
            assigned.values.insert(prim, value);
            if only_when {
                assigned.only_when.insert(prim);
            }
        }
        ctx.assigned = Some(Box::new(assigned));
        let n_variables = self.variables.len();
        let result = self.run(statements, ctx);
        let Some(mut assigned) = ctx.assigned.take() else { return Err(Refused) };
        result?;
        self.drop_unread_turns(&mut assigned, n_variables);
        let component = self.component_path(ctx);
        for &(prim, only_when) in &prims {
            let Some(first) = self.prim(prim).first else { continue };
            if only_when {
                continue;
            }
            let Some(Value::Scalars(scalars)) = assigned.values.get(&prim) else { continue };
            for (at, &item) in scalars.items.iter().enumerate() {
                let var = VarId(first.0 + at as u32);
                if !assigned.touched.contains(&var) {
                    continue;
                }
                let lhs = self.graph.var(var);
                let equation =
                    Equation { lhs, rhs: item, origin: Origin::Algorithm, component: component.clone(), span };
                if is_initial {
                    self.out.initial_equations.push(equation);
                } else {
                    self.out.equations.push(equation);
                }
            }
        }
        let whens = Self::separate_whens(assigned.whens);
        self.out.when_clauses.extend(whens);
        Ok(())
    }

    /// How many when-statements assign each variable. One in a loop counts as more than can be met.
    fn count_whens(&mut self, statements: &'a [Statement], n: usize, ctx: &Ctx, found: &mut FxHashMap<PrimId, usize>) {
        for statement in statements {
            match &statement.kind {
                StatementKind::When(branches) => {
                    let mut targets = FxHashMap::default();
                    for branch in branches {
                        self.targets(&branch.body, true, ctx, &mut targets);
                    }
                    for prim in targets.into_keys() {
                        let count = found.entry(prim).or_default();
                        *count = count.saturating_add(n);
                    }
                }
                StatementKind::If { branches, otherwise } => {
                    let bodies = branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise.as_deref());
                    bodies.for_each(|body| self.count_whens(body, n, ctx, found));
                }
                StatementKind::For { body, .. } => self.count_whens(body, usize::MAX, ctx, found),
                StatementKind::While(branch) => self.count_whens(&branch.body, usize::MAX, ctx, found),
                _ => {}
            }
        }
    }

    /// A when-statement.
    fn run_when(&mut self, branches: &'a [StatementBranch], span: Span, ctx: &mut Ctx) -> Res<()> {
        if ctx.in_function || ctx.in_when {
            let place = if ctx.in_function { "a function" } else { "another when-statement" };
            return Err(self.error("misplaced-when", span, format!("a when-statement cannot be used in {place}")));
        }
        if !self.functions.path.is_empty() {
            return Err(self.unsupported("when in if", span, "a when-statement under a condition that changes"));
        }
        let mut clause = WhenClause { branches: Vec::new(), component: self.component_path(ctx), span };
        // Of variables that others assign too: where a branch acts, the values that it leaves.
        let mut acted: Vec<(ExprId, Vec<(PrimId, Value)>)> = Vec::new();
        for branch in branches {
            let conditions = self.when_conditions(&branch.condition, ctx)?;
            let mut inner_targets: FxHashMap<PrimId, bool> = FxHashMap::default();
            self.targets(&branch.body, true, ctx, &mut inner_targets);
            let before = ctx.assigned.clone();
            let mut prims: Vec<PrimId> = inner_targets.into_keys().collect();
            prims.sort_unstable();
            if let Some(mut assigned) = ctx.assigned.take() {
                assigned.touched.clear();
                assigned.actions.clear();
                for &prim in &prims {
                    if self.prim(prim).first.is_some() && !assigned.is_shared(prim) {
                        let value = self.own_value(prim, |this, var| this.graph.pre(var));
                        assigned.values.insert(prim, value);
                    }
                }
                ctx.assigned = Some(assigned);
            }
            ctx.in_when = true;
            self.functions.when = Some(self.any_of(&conditions));
            let result = self.run(&branch.body, ctx);
            self.functions.when = None;
            ctx.in_when = false;
            let after = std::mem::replace(&mut ctx.assigned, before);
            result?;
            let Some(after) = after else { return Err(Refused) };
            let mut actions = Vec::new();
            for &prim in &prims {
                let Some(first) = self.prim(prim).first else { continue };
                let Some(Value::Scalars(scalars)) = after.values.get(&prim) else { continue };
                for (at, &value) in scalars.items.iter().enumerate() {
                    let variable = VarId(first.0 + at as u32);
                    if after.touched.contains(&variable) {
                        self.make_discrete(variable);
                        actions.push(WhenAction::Assign { variable, value, span });
                    }
                }
            }
            let shared = prims.iter().filter(|&&prim| after.is_shared(prim));
            let left: Vec<(PrimId, Value)> =
                shared.filter_map(|&prim| after.values.get(&prim).map(|value| (prim, value.clone()))).collect();
            if !left.is_empty() {
                let acts = self.turned_over(&mut actions, span);
                acted.push((acts, left));
            }
            actions.extend(after.actions);
            clause.branches.push(WhenBranch { conditions, actions });
        }
        self.keep_in_other_branches(&mut clause, ctx);
        for (acts, left) in acted {
            for (prim, value) in left {
                let before = ctx.assigned.as_ref().and_then(|assigned| assigned.get(prim)).cloned();
                let joined = before.and_then(|before| self.select_value(acts, &value, &before));
                if let (Some(assigned), Some(joined)) = (ctx.assigned.as_mut(), joined) {
                    assigned.values.insert(prim, joined);
                }
            }
        }
        // From here on a variable has the value that the clause has given it or left it.
        let is_given = |prim: &PrimId| ctx.assigned.as_ref().is_some_and(|assigned| assigned.only_when.contains(prim));
        let actions = clause.branches.iter().flat_map(|branch| &branch.actions);
        let given = actions.filter_map(|action| match action {
            WhenAction::Assign { variable, .. } if !self.variables[variable.index()].is_hidden() => {
                Some(self.var_prims[variable.index()])
            }
            _ => None,
        });
        let mut given: FxHashSet<PrimId> = given.filter(is_given).collect();
        if let Some(assigned) = ctx.assigned.as_mut() {
            // The last of several leaves the value that the variable has.
            given.retain(|prim| match assigned.shared.get_mut(prim) {
                Some(&mut usize::MAX) => false,
                Some(left) => {
                    *left -= 1;
                    *left == 0
                }
                None => true,
            });
        }
        let values: Vec<(PrimId, Value)> =
            given.into_iter().map(|prim| (prim, self.own_value(prim, |this, var| this.graph.var(var)))).collect();
        if let Some(assigned) = ctx.assigned.as_mut() {
            assigned.values.extend(values);
            assigned.whens.push(clause);
        }
        Ok(())
    }

    /// Turns a hidden Boolean over in a branch; the truth of its having done so at the event at hand.
    fn turned_over(&mut self, actions: &mut Vec<WhenAction>, span: Span) -> ExprId {
        let name = format!("@when{}", self.variables.len());
        let variable = self.clock_variable(name, ValueType::Boolean, span);
        let (now, before) = (self.graph.var(variable), self.graph.pre(variable));
        let value = self.graph.not(before);
        actions.push(WhenAction::Assign { variable, value, span });
        self.graph.not_equal(now, before)
    }

    /// Makes constants of the hidden Booleans of a section, which are the last variables, if no value or condition reads
    /// them: where nothing that a when-statement has assigned is used by a later one.
    fn drop_unread_turns(&mut self, assigned: &mut Assigned, n_before: usize) {
        let are_turns = self.variables[n_before..].iter().all(daesy_graph::Variable::is_hidden);
        let is_turn = |variable: VarId| variable.index() >= n_before;
        let mut read: Vec<ExprId> = Vec::new();
        for branch in assigned.whens.iter().flat_map(|clause| &clause.branches) {
            read.extend(&branch.conditions);
            read.extend(branch.actions.iter().filter_map(|action| match action {
                WhenAction::Assign { variable, .. } if is_turn(*variable) => None,
                WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
                WhenAction::Assert(assertion) => Some(assertion.condition),
                WhenAction::Terminate { .. } => None,
            }));
        }
        for (prim, value) in &assigned.values {
            if !assigned.only_when.contains(prim) {
                value.flat_items(&mut read);
            }
        }
        read.extend(self.out.assertions.iter().map(|assertion| assertion.condition));
        let mut reach = std::mem::take(&mut self.reach);
        let is_read = reach
            .below(&self.graph, &read)
            .iter()
            .any(|&expr| matches!(self.graph.node(expr), Node::Var { var, .. } | Node::Pre(var) if is_turn(var)));
        self.reach = reach;
        if is_read || !are_turns {
            return;
        }
        for branch in assigned.whens.iter_mut().flat_map(|clause| &mut clause.branches) {
            branch
                .actions
                .retain(|action| !matches!(action, WhenAction::Assign { variable, .. } if is_turn(*variable)));
        }
        // Expressions that nobody needs any more still name them.
        let never = self.graph.truth(false);
        for variable in &mut self.variables[n_before..] {
            variable.kind = VariableKind::Constant;
            variable.binding = Some(never);
        }
        self.variability.clear();
    }

    /// A branch that leaves a variable alone that others of its when-statement assign keeps what statements before it
    /// have made of it.
    fn keep_in_other_branches(&mut self, clause: &mut WhenClause, ctx: &Ctx) {
        let Some(assigned) = ctx.assigned.as_ref() else { return };
        if clause.branches.len() < 2 {
            return;
        }
        let assigns = |branch: &WhenBranch, wanted: VarId| {
            branch
                .actions
                .iter()
                .any(|action| matches!(action, WhenAction::Assign { variable, .. } if *variable == wanted))
        };
        let mut kept: Vec<(VarId, ExprId)> = Vec::new();
        for action in clause.branches.iter().flat_map(|branch| &branch.actions) {
            let WhenAction::Assign { variable, .. } = action else { continue };
            let prim = self.var_prims[variable.index()];
            let first = self.prim(prim).first.map_or(0, VarId::index);
            if assigned.is_shared(prim)
                && !self.variables[variable.index()].is_hidden()
                && let Some(Value::Scalars(scalars)) = assigned.get(prim)
                && let Some(&value) = scalars.items.get(variable.index() - first)
            {
                kept.push((*variable, value));
            }
        }
        for branch in &mut clause.branches {
            for &(variable, value) in &kept {
                if !assigns(branch, variable) {
                    branch.actions.push(WhenAction::Assign { variable, value, span: clause.span });
                }
            }
        }
    }

    /// A variable assigned in a when-clause changes at events only.
    pub(crate) fn make_discrete(&mut self, variable: VarId) {
        let variable = &mut self.variables[variable.index()];
        if variable.kind == VariableKind::Continuous {
            variable.kind = VariableKind::Discrete;
        }
    }

    /// The conditions of a when-clause: one Boolean, or a vector of them.
    pub(crate) fn when_conditions(&mut self, condition: &'a Expr, ctx: &mut Ctx) -> Res<Vec<ExprId>> {
        let value = self.expr(condition, ctx)?;
        self.when_items(value, condition.span)
    }

    /// Whether one of some conditions holds.
    pub(crate) fn any_of(&mut self, conditions: &[ExprId]) -> ExprId {
        let mut any = self.graph.truth(false);
        for &condition in conditions {
            any = self.graph.or(any, condition);
        }
        any
    }

    /// The conditions that a value is.
    pub(crate) fn when_items(&mut self, value: Value, span: Span) -> Res<Vec<ExprId>> {
        let scalars = self.boolean(value, "the condition of `when`", span)?;
        if scalars.dims.len() > 1 {
            return Err(self.error("wrong-size", span, "the condition of `when` is a scalar or a vector"));
        }
        Ok(scalars.items.to_vec())
    }

    /// Variables that several when-statements of one section assign get a clause of their own, in which later
    /// statements come first: they have the last word.
    fn separate_whens(mut whens: Vec<WhenClause>) -> Vec<WhenClause> {
        let mut users: FxHashMap<VarId, Vec<usize>> = FxHashMap::default();
        for (at, clause) in whens.iter().enumerate() {
            let mut seen = FxHashSet::default();
            for action in clause.branches.iter().flat_map(|branch| &branch.actions) {
                if let WhenAction::Assign { variable, .. } = action
                    && seen.insert(*variable)
                {
                    users.entry(*variable).or_default().push(at);
                }
            }
        }
        let mut shared: Vec<VarId> = users.iter().filter(|(_, list)| list.len() > 1).map(|(&var, _)| var).collect();
        shared.sort_unstable();
        let mut added = Vec::new();
        for variable in shared {
            let mut branches = Vec::new();
            let mut span = Span::NONE;
            let mut component = Arc::from("");
            for &at in users[&variable].iter().rev() {
                let clause = &whens[at];
                span = clause.span;
                component = clause.component.clone();
                for branch in &clause.branches {
                    let own = branch.actions.iter().find_map(|action| match action {
                        WhenAction::Assign { variable: one, value, span } if *one == variable => Some((*value, *span)),
                        _ => None,
                    });
                    let Some((value, value_span)) = own else { continue };
                    branches.push(WhenBranch {
                        conditions: branch.conditions.clone(),
                        actions: vec![WhenAction::Assign { variable, value, span: value_span }],
                    });
                }
            }
            for clause in &mut whens {
                for branch in &mut clause.branches {
                    branch.actions.retain(
                        |action| !matches!(action, WhenAction::Assign { variable: one, .. } if *one == variable),
                    );
                }
            }
            added.push(WhenClause { branches, component, span });
        }
        whens.retain(|clause| clause.branches.iter().any(|branch| !branch.actions.is_empty()));
        whens.extend(added);
        whens
    }
}

/// The first `break` that is not in a loop; one in a when-statement of a loop cannot leave that loop.
fn misplaced_break(statements: &[Statement]) -> Option<Span> {
    fn find(statements: &[Statement], in_loop: bool) -> Option<Span> {
        statements.iter().find_map(|statement| match &statement.kind {
            StatementKind::Break => (!in_loop).then_some(statement.span),
            StatementKind::If { branches, otherwise } => {
                let mut bodies = branches.iter().map(|branch| branch.body.as_slice()).chain(otherwise.as_deref());
                bodies.find_map(|body| find(body, in_loop))
            }
            StatementKind::When(branches) => branches.iter().find_map(|branch| find(&branch.body, false)),
            StatementKind::For { body, .. } => find(body, true),
            StatementKind::While(branch) => find(&branch.body, true),
            StatementKind::Assign { .. }
            | StatementKind::AssignTuple { .. }
            | StatementKind::Call(_)
            | StatementKind::Return => None,
        })
    }
    find(statements, false)
}

/// Actions of the when-branch at hand so far.
fn n_actions(ctx: &Ctx) -> usize {
    ctx.assigned.as_ref().map_or(0, |assigned| assigned.actions.len())
}

/// How an if-statement ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ran {
    /// The statements after it are still to be run.
    Through,
    /// The branch left its block.
    Block(Flow),
    /// The statements after it have been run.
    Rest(Flow),
}

impl From<Flow> for Ran {
    fn from(flow: Flow) -> Self {
        match flow {
            Flow::Next => Self::Through,
            other => Self::Block(other),
        }
    }
}
