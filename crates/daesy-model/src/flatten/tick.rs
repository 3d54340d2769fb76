//! What happens at the ticks of clocks, as when-clauses.
//!
//! A clocked variable keeps its value between ticks, so that `previous(x)` is `pre(x)`, `hold(x)` is `x`, and a signal
//! of another rate is read as it is. All equations on one base clock become one when-clause
//!
//! ```text
//! when tick then  n = pre(n) + 1;  x = if n >= S and mod(n - S, P) == 0 then value else pre(x);  ..  end when
//! ```
//!
//! with values in terms of what was known before the tick: the equations are sorted, solved for their variables, and
//! put into each other, loops of linear equations by elimination. `sample(u)` is the left limit of `u`, so that nothing
//! else that happens at the tick matters [@modelica36, sec. 16.5.1].

use std::sync::Arc;

use daesy_graph::flat::{Equation, Origin, ValueType, WhenAction, WhenBranch, WhenClause};
use daesy_graph::substitute::Substitution;
use daesy_graph::{ExprId, Leaf, Node, Span, UnaryOp, VarId, Variable, VariableKind};
use rustc_hash::FxHashMap;

use super::clock::Mark;
use super::partition::{BaseClock, ClockedSet, Member, Sets, Trigger};
use super::{Flattener, Res};

/// Equations in a loop that are solved for together at most.
const MAX_LOOP: usize = 60;

/// One equation of a base clock.
struct Row {
    equation: Equation,
    set: usize,
    /// Variables of the same clock in it, and how well it gives them.
    unknowns: Vec<(usize, Grade)>,
    /// Variables of other rates that it reads.
    others: Vec<VarId>,
}

/// How well an equation gives a variable; the best comes first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Grade {
    Side,
    Linear,
    Other,
}

/// What is known of a base clock while its equations are solved.
struct Ticking<'s> {
    sets: &'s Sets,
    clock: BaseClock,
    /// Whether each set ticks now; `None` where it always does.
    active: Vec<Option<ExprId>>,
    /// Whether this is the first tick of each set.
    first: Vec<ExprId>,
    /// Time since the tick before, by set.
    intervals: Vec<ExprId>,
    variables: Vec<VarId>,
    position: FxHashMap<VarId, usize>,
    /// Of the variables: their sets, new values, and values whether they tick or not.
    set_of: Vec<usize>,
    values: Vec<Option<ExprId>>,
    updates: Vec<Option<ExprId>>,
}

impl Flattener<'_> {
    /// Turns everything clocked into when-clauses.
    pub(crate) fn resolve_clocks(&mut self) -> Res<()> {
        if !self.marks.is_used() {
            return Ok(());
        }
        let mut sets = self.clocked_sets()?;
        let clocks = self.base_clocks(&mut sets)?;
        let mut home: FxHashMap<u32, (usize, usize)> = FxHashMap::default();
        for (at, clock) in clocks.iter().enumerate() {
            home.extend(clock.sets.iter().enumerate().map(|(set, one)| (one.root, (at, set))));
        }
        let mut parts: Vec<Vec<(usize, Equation)>> = vec![Vec::new(); clocks.len()];
        let mut kept = Vec::new();
        for equation in std::mem::take(&mut self.out.equations) {
            if self.is_clock_expr(equation.lhs) || self.is_clock_expr(equation.rhs) {
                continue;
            }
            match self.clocked_set(&[equation.lhs, equation.rhs], &sets).and_then(|root| home.get(&root)) {
                Some(&(clock, set)) => parts[clock].push((set, equation)),
                None => kept.push(equation),
            }
        }
        self.out.equations = kept;
        for (at, (clock, equations)) in clocks.into_iter().zip(parts).enumerate() {
            self.tick(at, clock, equations, &sets)?;
        }
        self.replace_marks(&sets);
        for var in 0..self.variables.len() {
            if self.is_clock_variable(VarId(var as u32)) {
                // Like texts, clocks take no part in equations.
                self.variables[var].value_type = ValueType::String;
            }
        }
        self.variability.clear();
        Ok(())
    }

    /// The set of expressions.
    fn clocked_set(&mut self, exprs: &[ExprId], sets: &Sets) -> Option<u32> {
        let mut reach = std::mem::take(&mut self.reach);
        let met = reach.below_while(&self.graph, exprs, |expr| self.mark_call(expr).is_none()).to_vec();
        self.reach = reach;
        met.into_iter().find_map(|expr| match self.graph.node(expr) {
            Node::Var { var, .. } | Node::Pre(var) => sets.set_of(Member::Var(var)),
            Node::Call { .. } => sets.set_of(Member::Mark(expr)),
            _ => None,
        })
    }

    /// A new discrete variable.
    pub(crate) fn clock_variable(&mut self, name: String, value_type: ValueType, span: Span) -> VarId {
        let var = VarId(self.variables.len() as u32);
        self.variables.push(Variable {
            value_type,
            is_protected: true,
            ..Variable::new(name, VariableKind::Discrete, span)
        });
        // Nothing is asked of its declaration any more.
        let like = self.var_prims.iter().position(|&prim| !self.marks.is_clock_type(&self.prim(prim).ty));
        self.var_prims.push(self.var_prims[like.unwrap_or(0)]);
        var
    }

    /// Makes the when-clause of a base clock.
    fn tick(&mut self, number: usize, clock: BaseClock, equations: Vec<(usize, Equation)>, sets: &Sets) -> Res<()> {
        let span = clock.sets.first().map_or(Span::NONE, |set| set.span);
        let mut actions = Vec::new();
        let mut ticking = self.ticking(number, clock, sets, &mut actions);
        let mut rows = Vec::with_capacity(equations.len());
        let mut equations = equations;
        self.discretize(&mut ticking, &mut equations)?;
        for (set, equation) in equations {
            rows.push(self.row(equation, set, &mut ticking));
        }
        let matched = self.match_rows(&mut rows, &ticking)?;
        for part in components(&rows, &matched, &ticking) {
            self.solve_part(&part, &rows, &matched, &mut ticking)?;
        }
        for (at, &variable) in ticking.variables.iter().enumerate() {
            let Some(value) = ticking.updates[at] else { continue };
            self.variables[variable.index()].kind = VariableKind::Discrete;
            actions.push(WhenAction::Assign { variable, value, span: self.variables[variable.index()].span });
        }
        let condition = match ticking.clock.trigger {
            Trigger::Every { start, interval } => {
                let (start, interval) = (self.graph.number(start), self.graph.number(interval));
                self.graph.sample(start, interval)
            }
            Trigger::OnEvent { condition, .. } => self.event_condition(number, condition, span),
        };
        let branches = vec![WhenBranch { conditions: vec![condition], actions }];
        self.out.when_clauses.push(WhenClause { branches, component: Arc::from(""), span });
        Ok(())
    }

    /// The condition of a clock of events, one iteration later: what its ticks change may lead back to it, and a tick
    /// sees the condition that caused it.
    fn event_condition(&mut self, number: usize, condition: ExprId, span: Span) -> ExprId {
        let var = self.clock_variable(format!("$clock{}.condition", number + 1), ValueType::Boolean, span);
        let (lhs, before) = (self.graph.var(var), self.graph.pre(var));
        let equation =
            |lhs: ExprId, rhs: ExprId| Equation { lhs, rhs, origin: Origin::Equation, component: Arc::from(""), span };
        // Before the start it was false: what holds at the start becomes true there.
        self.out.equations.push(equation(lhs, condition));
        before
    }

    /// Ticks are counted where not all of them are alike.
    fn ticking<'s>(
        &mut self,
        number: usize,
        clock: BaseClock,
        sets: &'s Sets,
        actions: &mut Vec<WhenAction>,
    ) -> Ticking<'s> {
        let span = clock.sets.first().map_or(Span::NONE, |set| set.span);
        let counter = self.clock_variable(format!("$clock{}.ticks", number + 1), ValueType::Integer, span);
        let before_first = self.graph.number(-1.0);
        self.variables[counter.index()].start = Some(before_first);
        let (before, one) = (self.graph.pre(counter), self.graph.number(1.0));
        let now = self.graph.add(before, one);
        actions.push(WhenAction::Assign { variable: counter, value: now, span });
        let (mut active, mut first, mut intervals) = (Vec::new(), Vec::new(), Vec::new());
        for (at, set) in clock.sets.iter().enumerate() {
            let ticks = self.is_active(now, set);
            let offset = self.graph.number(set.offset as f64);
            let is_first = self.graph.equal(now, offset);
            intervals.push(match clock.trigger {
                Trigger::Every { interval, .. } => self.graph.number(interval * set.factor as f64),
                Trigger::OnEvent { first_interval, .. } => {
                    let last =
                        self.clock_variable(format!("$clock{}.time{}", number + 1, at + 1), ValueType::Real, span);
                    let (time, before) = (self.graph.time(), self.graph.pre(last));
                    let value = match ticks {
                        Some(ticks) => self.graph.select(ticks, time, before),
                        None => time,
                    };
                    actions.push(WhenAction::Assign { variable: last, value, span });
                    let since = self.graph.sub(time, before);
                    self.graph.select(is_first, first_interval, since)
                }
            });
            active.push(ticks);
            first.push(is_first);
        }
        let mut ticking = Ticking {
            sets,
            clock,
            active,
            first,
            intervals,
            variables: Vec::new(),
            position: FxHashMap::default(),
            set_of: Vec::new(),
            values: Vec::new(),
            updates: Vec::new(),
        };
        for var in (0..self.variables.len() as u32).map(VarId) {
            let Some(root) = sets.set_of(Member::Var(var)) else { continue };
            let Some(set) = ticking.clock.sets.iter().position(|set| set.root == root) else { continue };
            let is_unknown =
                matches!(self.variables[var.index()].kind, VariableKind::Continuous | VariableKind::Discrete);
            if is_unknown && !self.is_clock_variable(var) {
                ticking.add(var, set);
            }
        }
        ticking
    }

    /// `n >= S and mod(n - S, P) == 0`; `None` where it always holds.
    fn is_active(&mut self, now: ExprId, set: &ClockedSet) -> Option<ExprId> {
        if set.factor == 1 && set.offset == 0 {
            return None;
        }
        let (offset, factor) = (self.graph.number(set.offset as f64), self.graph.number(set.factor as f64));
        let begun = self.graph.greater_equal(now, offset);
        if set.factor == 1 {
            return Some(begun);
        }
        let since = self.graph.sub(now, offset);
        let (rest, zero) = (self.graph.binary(daesy_graph::BinaryOp::Modulo, since, factor), self.graph.number(0.0));
        let is_turn = self.graph.equal(rest, zero);
        Some(self.graph.and(begun, is_turn))
    }

    /// Derivatives become variables, and their states get the equation of the clock's method.
    ///
    /// Euler's methods, with the interval h since the tick before and none at the first tick:
    /// `x = pre(x) + h pre(der(x))` (explicit) and `x = pre(x) + h der(x)` (implicit) [@modelica36, sec. 16.8.2].
    fn discretize(&mut self, ticking: &mut Ticking<'_>, equations: &mut Vec<(usize, Equation)>) -> Res<()> {
        let mut made: FxHashMap<VarId, VarId> = FxHashMap::default();
        let mut substitution = Substitution::new();
        for at in 0..equations.len() {
            let (set, span) = (equations[at].0, equations[at].1.span);
            let sides = [equations[at].1.lhs, equations[at].1.rhs];
            let mut reach = std::mem::take(&mut self.reach);
            let met = reach.below_while(&self.graph, &sides, |expr| self.mark_call(expr).is_none()).to_vec();
            self.reach = reach;
            for expr in met {
                let Node::Var { var, order } = self.graph.node(expr) else { continue };
                if order == 0 || made.contains_key(&var) {
                    continue;
                }
                let method = ticking.clock.sets[set].method.clone();
                let is_implicit = match method.as_deref() {
                    Some("ExplicitEuler") if order == 1 => false,
                    Some("ImplicitEuler") if order == 1 => true,
                    Some(method) if order == 1 => {
                        let what = format!("the method `{method}` for clocked derivatives");
                        return Err(self.unsupported("solver methods of clocks", span, &what));
                    }
                    _ => {
                        let name = self.variables[var.index()].name.clone();
                        let message = format!("`der({name})` stands in a clocked equation without a method for it");
                        let help = "give its clock one: `Clock(c, solverMethod = \"ExplicitEuler\")`";
                        return Err(self.error_help("clocked-derivative", span, message, help));
                    }
                };
                let name = format!("$der({})", self.variables[var.index()].name);
                let slope = self.clock_variable(name, ValueType::Real, span);
                made.insert(var, slope);
                self.marks.discretized.insert(var);
                ticking.add(slope, set);
                let now = self.graph.var(slope);
                substitution.replace(expr, now);
                let rate = if is_implicit { now } else { self.graph.pre(slope) };
                let zero = self.graph.number(0.0);
                let step = self.graph.select(ticking.first[set], zero, ticking.intervals[set]);
                let (change, before) = (self.graph.mul(step, rate), self.graph.pre(var));
                let (lhs, rhs) = (self.graph.var(var), self.graph.add(before, change));
                let equation = Equation { lhs, rhs, ..equations[at].1.clone() };
                equations.push((set, equation));
            }
        }
        if !made.is_empty() {
            for (_, equation) in equations {
                equation.lhs = substitution.apply(&mut self.graph, equation.lhs);
                equation.rhs = substitution.apply(&mut self.graph, equation.rhs);
            }
        }
        Ok(())
    }

    /// An equation with the variables that it can give.
    fn row(&mut self, equation: Equation, set: usize, ticking: &mut Ticking<'_>) -> Row {
        let sides = [equation.lhs, equation.rhs];
        let mut reach = std::mem::take(&mut self.reach);
        let met = reach.below_while(&self.graph, &sides, |expr| self.mark_call(expr).is_none()).to_vec();
        self.reach = reach;
        let (mut unknowns, mut others) = (Vec::new(), Vec::new());
        for expr in met {
            match self.graph.node(expr) {
                Node::Var { var, order: 0 } => {
                    let Some(&at) = ticking.position.get(&var) else { continue };
                    let is_side = sides.contains(&expr);
                    unknowns.push((at, if is_side { Grade::Side } else { Grade::Other }));
                }
                Node::Call { .. } => {
                    if let Some(&source) = ticking.sets.sources.get(&expr)
                        && ticking.position.contains_key(&source)
                    {
                        others.push(source);
                    }
                }
                _ => {}
            }
        }
        Row { equation, set, unknowns, others }
    }

    /// The variable that each equation is solved for.
    fn match_rows(&mut self, rows: &mut [Row], ticking: &Ticking<'_>) -> Res<Vec<usize>> {
        let mut row_of: Vec<Option<usize>> = vec![None; ticking.variables.len()];
        let mut variable_of: Vec<Option<usize>> = vec![None; rows.len()];
        for grade in [Grade::Side, Grade::Linear, Grade::Other] {
            if grade == Grade::Linear && variable_of.contains(&None) {
                self.grade_linear(rows, ticking);
            }
            for at in 0..rows.len() {
                if variable_of[at].is_none() {
                    augment(at, rows, grade, &mut variable_of, &mut row_of);
                }
            }
        }
        for (row, variable) in rows.iter().zip(&variable_of) {
            if variable.is_none() {
                // As many equations as variables, but none for a derivative: some would have to be differentiated.
                let is_discretized = ticking.variables.iter().any(|var| self.marks.discretized.contains(var));
                if is_discretized && rows.len() == ticking.variables.len() {
                    let what = "a clocked model with derivatives whose index is higher than 1";
                    return Err(self.unsupported("solver methods of clocks", row.equation.span, what));
                }
                let message = "this clocked equation is one too many: every variable in it has an equation already";
                return Err(self.error("too-many-equations", row.equation.span, message));
            }
        }
        if let Some(free) = row_of.iter().position(Option::is_none) {
            let variable = &self.variables[ticking.variables[free].index()];
            let (message, span) =
                (format!("nothing determines the clocked variable `{}`", variable.name), variable.span);
            return Err(self.error("too-few-equations", span, message));
        }
        Ok(variable_of.into_iter().flatten().collect())
    }

    fn grade_linear(&mut self, rows: &mut [Row], ticking: &Ticking<'_>) {
        for row in rows {
            let residual = self.graph.sub(row.equation.lhs, row.equation.rhs);
            for (at, grade) in &mut row.unknowns {
                let leaf = Leaf::var(ticking.variables[*at]);
                if *grade == Grade::Other && self.graph.linear_coefficients(residual, &[leaf]).is_ok() {
                    *grade = Grade::Linear;
                }
            }
        }
    }

    /// Solves equations that need each other, one as a rule, for their variables.
    fn solve_part(&mut self, part: &[usize], rows: &[Row], matched: &[usize], ticking: &mut Ticking<'_>) -> Res<()> {
        let mut sides = Vec::with_capacity(part.len());
        for &at in part {
            let mut substitution = Substitution::new();
            let row = &rows[at];
            for &(unknown, _) in &row.unknowns {
                if let Some(value) = ticking.values[unknown] {
                    substitution.replace_leaf(&mut self.graph, Leaf::var(ticking.variables[unknown]), value);
                }
            }
            self.put_marks_in(row, ticking, &mut substitution)?;
            let (lhs, rhs) = (row.equation.lhs, row.equation.rhs);
            let pair = (substitution.apply(&mut self.graph, lhs), substitution.apply(&mut self.graph, rhs));
            sides.push(pair);
        }
        let unknowns: Vec<usize> = part.iter().map(|&at| matched[at]).collect();
        let span = rows[part[0]].equation.span;
        let values = match (sides.as_slice(), unknowns.as_slice()) {
            ([(lhs, rhs)], [unknown]) => {
                let var = ticking.variables[*unknown];
                match self.solved(*lhs, *rhs, var) {
                    Some(value) => vec![value],
                    None => self.eliminate(&sides, &[var], span)?,
                }
            }
            _ => {
                let variables: Vec<VarId> = unknowns.iter().map(|&unknown| ticking.variables[unknown]).collect();
                if unknowns.iter().any(|&unknown| ticking.set_of[unknown] != ticking.set_of[unknowns[0]]) {
                    let message = "signals of different rates need each other at the same tick";
                    let help = "use `previous` where one of them may be a tick late";
                    return Err(self.error_help("clocked-loop", span, message, help));
                }
                self.eliminate(&sides, &variables, span)?
            }
        };
        for (&unknown, value) in unknowns.iter().zip(values) {
            ticking.values[unknown] = Some(value);
            let before = self.graph.pre(ticking.variables[unknown]);
            ticking.updates[unknown] = Some(match ticking.active[ticking.set_of[unknown]] {
                Some(active) => self.graph.select(active, value, before),
                None => value,
            });
        }
        Ok(())
    }

    /// `x` of `x = value` or `not x = value`.
    fn solved(&mut self, lhs: ExprId, rhs: ExprId, var: VarId) -> Option<ExprId> {
        let expr = self.graph.var(var);
        for (side, value) in [(lhs, rhs), (rhs, lhs)] {
            let is_free = !self.depends(value, var);
            if side == expr && is_free {
                return Some(value);
            }
            if let Node::Unary { op: UnaryOp::Not, arg } = self.graph.node(side)
                && arg == expr
                && is_free
            {
                return Some(self.graph.not(value));
            }
        }
        None
    }

    fn depends(&mut self, expr: ExprId, var: VarId) -> bool {
        let mut reach = std::mem::take(&mut self.reach);
        let depends = reach.depends_on(&self.graph, expr, |leaf| leaf == Leaf::var(var));
        self.reach = reach;
        depends
    }

    /// Solves linear equations by Gauss's elimination on expressions; pivots are numbers where there are any.
    fn eliminate(&mut self, sides: &[(ExprId, ExprId)], variables: &[VarId], span: Span) -> Res<Vec<ExprId>> {
        let n = variables.len();
        // A derivative is called as it is written.
        let written = |var: &VarId| self.variables[var.index()].name.trim_start_matches('$').to_owned();
        let names: Vec<String> = variables.iter().take(6).map(|var| format!("`{}`", written(var))).collect();
        let refuse = |this: &mut Self, why: &str| {
            let message = format!("clocked equations cannot be solved for {}: {why}", names.join(", "));
            Err(this.error("clocked-loop", span, message))
        };
        if n > MAX_LOOP {
            return refuse(self, &format!("a loop of {n} equations is more than {MAX_LOOP}"));
        }
        let leaves: Vec<Leaf> = variables.iter().map(|&var| Leaf::var(var)).collect();
        let zero = self.graph.number(0.0);
        let mut matrix = vec![vec![zero; n + 1]; n];
        for (row, &(lhs, rhs)) in matrix.iter_mut().zip(sides) {
            let residual = self.graph.sub(lhs, rhs);
            let Ok(form) = self.graph.linear_coefficients(residual, &leaves) else {
                return refuse(self, "they are not linear in it");
            };
            for entry in form.coefficients {
                row[entry.column as usize] = entry.value;
            }
            row[n] = self.graph.neg(form.remainder);
        }
        for k in 0..n {
            let candidates = (k..n).filter(|&row| self.graph.as_number(matrix[row][k]) != Some(0.0));
            let Some(pivot) = candidates.min_by_key(|&row| self.graph.as_number(matrix[row][k]).is_none()) else {
                return refuse(self, "their matrix is singular");
            };
            matrix.swap(k, pivot);
            let (done, below) = matrix.split_at_mut(k + 1);
            for row in below {
                if self.graph.as_number(row[k]) == Some(0.0) {
                    continue;
                }
                let factor = self.graph.div(row[k], done[k][k]);
                for column in k + 1..=n {
                    let taken = self.graph.mul(factor, done[k][column]);
                    row[column] = self.graph.sub(row[column], taken);
                }
                row[k] = zero;
            }
        }
        let mut values = vec![zero; n];
        for k in (0..n).rev() {
            let mut right = matrix[k][n];
            for other in k + 1..n {
                let taken = self.graph.mul(matrix[k][other], values[other]);
                right = self.graph.sub(right, taken);
            }
            values[k] = self.graph.div(right, matrix[k][k]);
        }
        Ok(values)
    }

    /// What the marks of an equation stand for at a tick.
    fn put_marks_in(&mut self, row: &Row, ticking: &Ticking<'_>, substitution: &mut Substitution) -> Res<()> {
        let sides = [row.equation.lhs, row.equation.rhs];
        let mut reach = std::mem::take(&mut self.reach);
        let met = reach.below_while(&self.graph, &sides, |expr| self.mark_call(expr).is_none()).to_vec();
        self.reach = reach;
        for expr in met {
            let Some(call) = self.mark_call(expr) else { continue };
            let value = match call.mark {
                Mark::Sample => self.left_limit(call.argument, ticking.sets),
                Mark::Interval => ticking.intervals[row.set],
                Mark::FirstTick => ticking.first[row.set],
                _ => match ticking.sets.sources.get(&expr) {
                    Some(source) => match ticking.position.get(source).and_then(|&at| ticking.updates[at]) {
                        Some(update) => update,
                        // A signal of another base clock, by `noClock`.
                        None => self.graph.pre(*source),
                    },
                    None => call.argument,
                },
            };
            substitution.replace(expr, value);
        }
        Ok(())
    }

    /// An expression of continuous time with all its variables just before the event.
    fn left_limit(&mut self, expr: ExprId, sets: &Sets) -> ExprId {
        let held = self.without_marks(expr, sets);
        let mut leaves = Vec::new();
        let mut reach = std::mem::take(&mut self.reach);
        reach.leaves(&self.graph, &[held], &mut leaves);
        self.reach = reach;
        let mut substitution = Substitution::new();
        for leaf in leaves {
            let Leaf::Var { var, order: 0 } = leaf else { continue };
            if matches!(
                self.variables[var.index()].kind,
                VariableKind::Continuous | VariableKind::Discrete | VariableKind::Input
            ) {
                let before = self.graph.pre(var);
                substitution.replace_leaf(&mut self.graph, leaf, before);
            }
        }
        substitution.apply(&mut self.graph, held)
    }

    /// An expression of continuous time with clocked signals as the variables that hold them.
    fn without_marks(&mut self, expr: ExprId, sets: &Sets) -> ExprId {
        let mut substitution = Substitution::new();
        self.add_held(sets, &mut substitution);
        substitution.apply(&mut self.graph, expr)
    }

    fn add_held(&mut self, sets: &Sets, substitution: &mut Substitution) {
        for (expr, call) in &sets.marks {
            if matches!(call.mark, Mark::Hold | Mark::NoClock) {
                let value = match sets.sources.get(expr) {
                    Some(&source) => self.graph.var(source),
                    None => call.argument,
                };
                substitution.replace(*expr, value);
            }
        }
    }

    /// Replaces the marks that are left in equations of continuous time, when-clauses and assertions.
    fn replace_marks(&mut self, sets: &Sets) {
        let mut substitution = Substitution::new();
        self.add_held(sets, &mut substitution);
        self.apply_everywhere(&mut substitution);
    }

    /// Puts replacements into all equations, when-clauses and assertions.
    pub(crate) fn apply_everywhere(&mut self, substitution: &mut Substitution) {
        let mut out = std::mem::take(&mut self.out);
        let graph = &mut self.graph;
        for equation in out.equations.iter_mut().chain(&mut out.initial_equations) {
            equation.lhs = substitution.apply(graph, equation.lhs);
            equation.rhs = substitution.apply(graph, equation.rhs);
        }
        for assertion in &mut out.assertions {
            assertion.condition = substitution.apply(graph, assertion.condition);
        }
        for branch in out.when_clauses.iter_mut().flat_map(|clause| &mut clause.branches) {
            for condition in &mut branch.conditions {
                *condition = substitution.apply(graph, *condition);
            }
            for action in &mut branch.actions {
                match action {
                    WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => {
                        *value = substitution.apply(graph, *value);
                    }
                    WhenAction::Assert(assertion) => {
                        assertion.condition = substitution.apply(graph, assertion.condition);
                    }
                    WhenAction::Terminate { .. } => {}
                }
            }
        }
        self.out = out;
    }
}

impl Ticking<'_> {
    fn add(&mut self, var: VarId, set: usize) {
        self.position.insert(var, self.variables.len());
        self.variables.push(var);
        self.set_of.push(set);
        self.values.push(None);
        self.updates.push(None);
    }
}

/// Finds a variable for an equation, moving others, along the shortest way; edges up to a grade are used.
fn augment(start: usize, rows: &[Row], grade: Grade, variable_of: &mut [Option<usize>], row_of: &mut [Option<usize>]) {
    let mut came_from: FxHashMap<usize, usize> = FxHashMap::default();
    let mut waiting = std::collections::VecDeque::from([start]);
    while let Some(row) = waiting.pop_front() {
        for &(variable, own) in &rows[row].unknowns {
            if own > grade || came_from.contains_key(&variable) {
                continue;
            }
            came_from.insert(variable, row);
            match row_of[variable] {
                Some(taken) => waiting.push_back(taken),
                None => {
                    let mut variable = variable;
                    loop {
                        let row = came_from[&variable];
                        let left = variable_of[row].replace(variable);
                        row_of[variable] = Some(row);
                        match left {
                            Some(left) if row != start => variable = left,
                            _ => return,
                        }
                    }
                }
            }
        }
    }
}

/// Equations in an order in which each needs only earlier ones, those that need each other together (Tarjan's
/// algorithm).
fn components(rows: &[Row], matched: &[usize], ticking: &Ticking<'_>) -> Vec<Vec<usize>> {
    let mut row_of = vec![usize::MAX; ticking.variables.len()];
    for (row, &variable) in matched.iter().enumerate() {
        row_of[variable] = row;
    }
    let needs = |row: usize| -> Vec<usize> {
        let direct = rows[row].unknowns.iter().map(|&(unknown, _)| unknown);
        let others = rows[row].others.iter().filter_map(|var| ticking.position.get(var).copied());
        direct.chain(others).map(|unknown| row_of[unknown]).filter(|&other| other != row).collect()
    };
    let n = rows.len();
    let (mut number, mut low, mut is_open) = (vec![usize::MAX; n], vec![0; n], vec![false; n]);
    let (mut open, mut parts, mut next) = (Vec::new(), Vec::new(), 0);
    for root in 0..n {
        if number[root] != usize::MAX {
            continue;
        }
        let mut path: Vec<(usize, Vec<usize>)> = vec![(root, needs(root))];
        (number[root], low[root], is_open[root]) = (next, next, true);
        next += 1;
        open.push(root);
        while let Some((at, left)) = path.last_mut() {
            let at = *at;
            match left.pop() {
                Some(other) if number[other] == usize::MAX => {
                    (number[other], low[other], is_open[other]) = (next, next, true);
                    next += 1;
                    open.push(other);
                    path.push((other, needs(other)));
                }
                Some(other) => {
                    if is_open[other] {
                        low[at] = low[at].min(number[other]);
                    }
                }
                None => {
                    path.pop();
                    if let Some((above, _)) = path.last() {
                        low[*above] = low[*above].min(low[at]);
                    }
                    if low[at] == number[at] {
                        let from = open.iter().rposition(|&one| one == at).unwrap_or(0);
                        let part: Vec<usize> = open.drain(from..).collect();
                        part.iter().for_each(|&one| is_open[one] = false);
                        parts.push(part);
                    }
                }
            }
        }
    }
    parts
}
