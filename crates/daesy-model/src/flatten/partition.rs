//! Which variables tick together, and when [@modelica36, sec. 16.7].
//!
//! Variables of one equation have the same clock, unless an operator stands between them. `subSample` and its like
//! relate the clocks of two such sets: with the period `p` and the first tick `s` of the argument, the result has
//!
//! ```text
//! subSample(u, n): n p, s     superSample(u, n): p / n, s     shiftSample(u, k, r): p, s + k p / r     backSample: p, s - k p / r
//! ```
//!
//! Sets that are related have a base clock. Its ticks are the coarsest grid on which all of them tick: a set with the
//! factor `P` and the offset `S` is active at the ticks `S, S + P, S + 2 P, ..` of the base clock, counted from 0.

use std::sync::Arc;

use daesy_graph::flat::{Equation, Origin, ValueType, WhenAction};
use daesy_graph::{ExprId, Node, Span, VarId, VariableKind};
use rustc_hash::{FxHashMap, FxHashSet};

use super::clock::{Mark, MarkCall};
use super::{Flattener, Res};

/// Intervals that differ by less, relative to their size, are the same.
const SAME_INTERVAL: f64 = 1e-9;

/// What belongs to a clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Member {
    Var(VarId),
    Mark(ExprId),
}

/// Sets of what ticks together.
#[derive(Default)]
pub(crate) struct Sets {
    ids: FxHashMap<Member, u32>,
    parents: Vec<u32>,
    clocked: Vec<u32>,
    /// Marks in the order they were met.
    pub marks: Vec<(ExprId, MarkCall)>,
    /// The variable whose value a mark hands on.
    pub sources: FxHashMap<ExprId, VarId>,
    relations: Vec<Relation>,
}

/// How the clock of one set follows from that of another.
#[derive(Clone, Copy, Debug)]
struct Relation {
    from: u32,
    to: u32,
    /// Of the periods; the factor is to be found where there is none.
    ratio: Option<Ratio>,
    is_sub: bool,
    /// In periods of `from`.
    shift: Ratio,
    span: Span,
}

impl Sets {
    fn id(&mut self, member: Member) -> u32 {
        let next = self.parents.len() as u32;
        let id = *self.ids.entry(member).or_insert(next);
        if id == next {
            self.parents.push(next);
        }
        id
    }

    fn root(&self, mut id: u32) -> u32 {
        while self.parents[id as usize] != id {
            id = self.parents[id as usize];
        }
        id
    }

    fn join(&mut self, left: u32, right: u32) -> u32 {
        let (left, right) = (self.root(left), self.root(right));
        // The older root stays, so that paths are short where long chains grow at one end.
        let (kept, gone) = (left.min(right), left.max(right));
        self.parents[gone as usize] = kept;
        kept
    }

    /// The set of a variable, if it has been met.
    pub(crate) fn set_of(&self, member: Member) -> Option<u32> {
        self.ids.get(&member).map(|&id| self.root(id))
    }

    fn clocked_roots(&self) -> FxHashSet<u32> {
        self.clocked.iter().map(|&id| self.root(id)).collect()
    }
}

/// A fraction in lowest terms with a positive denominator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ratio {
    num: i128,
    den: i128,
}

fn gcd(a: i128, b: i128) -> i128 {
    if b == 0 { a.abs() } else { gcd(b, a % b) }
}

impl Ratio {
    const ZERO: Self = Self { num: 0, den: 1 };
    const ONE: Self = Self { num: 1, den: 1 };

    fn new(num: i128, den: i128) -> Option<Self> {
        let divisor = gcd(num, den).max(1) * den.signum();
        let made = Self { num: num / divisor, den: den / divisor };
        // Products of two such numbers still fit.
        (den != 0 && made.num.abs() < 1 << 60 && made.den < 1 << 60).then_some(made)
    }

    fn times(self, other: Self) -> Option<Self> {
        Self::new(self.num * other.num, self.den * other.den)
    }

    fn over(self, other: Self) -> Option<Self> {
        Self::new(self.num * other.den, self.den * other.num)
    }

    fn plus(self, other: Self) -> Option<Self> {
        Self::new(self.num * other.den + other.num * self.den, self.den * other.den)
    }

    fn minus(self, other: Self) -> Option<Self> {
        self.plus(Self { num: -other.num, den: other.den })
    }

    /// The largest number of which both are multiples.
    fn common(self, other: Self) -> Option<Self> {
        Self::new(gcd(self.num * other.den, other.num * self.den), self.den * other.den)
    }

    fn value(self) -> f64 {
        self.num as f64 / self.den as f64
    }

    fn whole(self) -> Option<u64> {
        (self.den == 1).then(|| u64::try_from(self.num).ok()).flatten()
    }
}

/// Period and first tick of a set, in units of its base clock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Rate {
    period: Ratio,
    start: Ratio,
}

/// What makes a base clock tick.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Trigger {
    /// At `start`, `start + interval`, ..
    Every { start: f64, interval: f64 },
    /// When a condition becomes true; the interval before the first tick is given.
    OnEvent { condition: ExprId, first_interval: ExprId },
}

/// A set on its base clock.
#[derive(Clone, Debug)]
pub(crate) struct ClockedSet {
    pub root: u32,
    pub factor: u64,
    pub offset: u64,
    /// The method for derivatives.
    pub method: Option<Arc<str>>,
    pub span: Span,
}

/// Sets that tick on one grid.
#[derive(Clone, Debug)]
pub(crate) struct BaseClock {
    pub trigger: Trigger,
    pub sets: Vec<ClockedSet>,
}

impl Flattener<'_> {
    /// Puts everything that must tick together into one set; continuous variables are in sets without a clock.
    pub(crate) fn clocked_sets(&mut self) -> Res<Sets> {
        let mut sets = Sets::default();
        for at in 0..self.out.equations.len() {
            let (lhs, rhs) = (self.out.equations[at].lhs, self.out.equations[at].rhs);
            self.join_members(&[lhs, rhs], &mut sets);
        }
        for expr in self.exprs_beside_equations() {
            let _ = self.clock_members(&[expr], &mut sets);
        }
        for var in self.marks.previous.clone() {
            let id = sets.id(Member::Var(var));
            sets.clocked.push(id);
        }
        for tie in self.marks.ties.clone() {
            let all: Vec<ExprId> = tie.sides.iter().copied().chain([tie.clock]).collect();
            if let Some(id) = self.join_members(&all, &mut sets) {
                sets.clocked.push(id);
            }
        }
        let mut at = 0;
        while let Some(&(expr, call)) = sets.marks.get(at) {
            at += 1;
            self.place_mark(expr, call, &mut sets)?;
        }
        Ok(sets)
    }

    /// Expressions of when-clauses, assertions and initial equations.
    pub(crate) fn exprs_beside_equations(&self) -> Vec<ExprId> {
        let mut exprs: Vec<ExprId> = self.out.assertions.iter().map(|assertion| assertion.condition).collect();
        exprs.extend(self.out.initial_equations.iter().flat_map(|equation| [equation.lhs, equation.rhs]));
        for branch in self.out.when_clauses.iter().flat_map(|clause| &clause.branches) {
            exprs.extend(&branch.conditions);
            exprs.extend(branch.actions.iter().filter_map(|action| match action {
                WhenAction::Assign { value, .. } | WhenAction::Reinit { value, .. } => Some(*value),
                WhenAction::Assert(assertion) => Some(assertion.condition),
                WhenAction::Terminate { .. } => None,
            }));
        }
        exprs
    }

    /// Unknowns and marks in expressions; what is inside of a mark is not looked at.
    fn clock_members(&mut self, exprs: &[ExprId], sets: &mut Sets) -> Vec<u32> {
        let mut reach = std::mem::take(&mut self.reach);
        let met = reach.below_while(&self.graph, exprs, |expr| self.mark_call(expr).is_none()).to_vec();
        self.reach = reach;
        let mut ids = Vec::new();
        for expr in met {
            let member = match self.graph.node(expr) {
                Node::Var { var, .. } | Node::Pre(var) => match self.variables[var.index()].kind {
                    VariableKind::Continuous | VariableKind::Discrete | VariableKind::Input => Member::Var(var),
                    VariableKind::Constant | VariableKind::Parameter => continue,
                },
                Node::Call { .. } => match self.mark_call(expr) {
                    Some(call) => {
                        if !sets.ids.contains_key(&Member::Mark(expr)) {
                            sets.marks.push((expr, call));
                        }
                        Member::Mark(expr)
                    }
                    None => continue,
                },
                _ => continue,
            };
            ids.push(sets.id(member));
        }
        ids
    }

    fn join_members(&mut self, exprs: &[ExprId], sets: &mut Sets) -> Option<u32> {
        let ids = self.clock_members(exprs, sets);
        let (&first, others) = ids.split_first()?;
        Some(others.iter().fold(first, |kept, &id| sets.join(kept, id)))
    }

    /// What a mark says of clocks.
    fn place_mark(&mut self, expr: ExprId, call: MarkCall, sets: &mut Sets) -> Res<()> {
        let own = sets.id(Member::Mark(expr));
        let number = |this: &Self, expr: ExprId| this.graph.as_number(expr).unwrap_or(0.0) as i128;
        match call.mark {
            Mark::Sample => {
                let _ = self.clock_members(&[call.argument], sets);
                sets.clocked.push(own);
                if let Some(clock) = self.join_members(&[call.first], sets) {
                    sets.join(own, clock);
                }
            }
            Mark::Hold | Mark::NoClock => {
                if let Some(source) = self.source(expr, call, sets) {
                    sets.clocked.push(source);
                }
            }
            Mark::Sub | Mark::Super | Mark::Shift | Mark::Back => {
                sets.clocked.push(own);
                let Some(source) = self.source(expr, call, sets) else { return Ok(()) };
                sets.clocked.push(source);
                let (first, second) = (number(self, call.first), number(self, call.second));
                let span = self.marks.spans.get(&expr).copied().unwrap_or(Span::NONE);
                let (ratio, shift) = match call.mark {
                    Mark::Sub if first > 0 => (Ratio::new(first, 1), Some(Ratio::ZERO)),
                    Mark::Super if first > 0 => (Ratio::new(1, first), Some(Ratio::ZERO)),
                    Mark::Shift => (Some(Ratio::ONE), Ratio::new(first, second)),
                    Mark::Back => (Some(Ratio::ONE), Ratio::new(-first, second)),
                    _ => (None, Some(Ratio::ZERO)),
                };
                let Some(shift) = shift else { return Err(self.clock_range(span)) };
                let is_sub = call.mark == Mark::Sub;
                sets.relations.push(Relation { from: source, to: own, ratio, is_sub, shift, span });
            }
            Mark::Interval | Mark::FirstTick | Mark::Same => {
                sets.clocked.push(own);
                if let Some(id) = self.join_members(&[call.argument], sets) {
                    sets.join(own, id);
                }
            }
            Mark::OnEvent => {
                let _ = self.clock_members(&[call.argument], sets);
                sets.clocked.push(own);
            }
            Mark::Inferred | Mark::Every => sets.clocked.push(own),
        }
        Ok(())
    }

    fn clock_range(&mut self, span: Span) -> super::Refused {
        self.error("clock-rate", span, "the factors and counters of these clocks are too large to be exact")
    }

    /// The set of what a mark hands on. An expression that is not a variable gets one, so that its value is kept.
    fn source(&mut self, expr: ExprId, call: MarkCall, sets: &mut Sets) -> Option<u32> {
        if self.is_clock_expr(call.argument) {
            return self.join_members(&[call.argument], sets);
        }
        let set = self.join_members(&[call.argument], sets)?;
        if let Node::Var { var, order: 0 } = self.graph.node(call.argument) {
            sets.sources.insert(expr, var);
            return Some(set);
        }
        let span = self.marks.spans.get(&expr).copied().unwrap_or(Span::NONE);
        let value_type = self.marks.types.get(&expr).cloned().unwrap_or(ValueType::Real);
        let var = self.clock_variable(format!("$held{}", self.variables.len()), value_type, span);
        let lhs = self.graph.var(var);
        let component = Arc::from("");
        self.out.equations.push(Equation { lhs, rhs: call.argument, origin: Origin::Equation, component, span });
        let id = sets.id(Member::Var(var));
        sets.sources.insert(expr, var);
        Some(sets.join(set, id))
    }

    /// The base clocks of a model.
    pub(crate) fn base_clocks(&mut self, sets: &mut Sets) -> Res<Vec<BaseClock>> {
        let clocked = sets.clocked_roots();
        // In the order of what the user wrote, so that results can be repeated.
        let mut roots: Vec<u32> = clocked.into_iter().collect();
        roots.sort_unstable();
        let place: FxHashMap<u32, usize> = roots.iter().enumerate().map(|(at, &root)| (root, at)).collect();
        let mut known = Vec::new();
        let mut unknown = Vec::new();
        for relation in sets.relations.clone() {
            let (from, to) = (sets.root(relation.from), sets.root(relation.to));
            let relation = Relation { from: place[&from] as u32, to: place[&to] as u32, ..relation };
            if relation.ratio.is_some() { known.push(relation) } else { unknown.push(relation) }
        }
        let triggers = self.triggers(sets, &place)?;
        let groups = self.groups(roots.len(), &known)?;
        for relation in unknown {
            let interval = |set: u32| {
                let (group, rate) = groups.rates[set as usize];
                groups.rates.iter().enumerate().find_map(|(at, (other, known))| match triggers[at] {
                    Some((Trigger::Every { interval, .. }, _)) if *other == group => {
                        Some(interval / known.period.value() * rate.period.value())
                    }
                    _ => None,
                })
            };
            let (Some(from), Some(to)) = (interval(relation.from), interval(relation.to)) else {
                let message = "the factor cannot be found: the interval of the clock on one side is not known";
                return Err(self.error_help("clock-rate", relation.span, message, "give the factor"));
            };
            let quotient = if relation.is_sub { to / from } else { from / to };
            let factor = quotient.round();
            if factor < 1.0 || (quotient - factor).abs() > SAME_INTERVAL * factor {
                let message =
                    format!("the clocks here have the intervals {from} s and {to} s, of which none divides the other");
                return Err(self.error("clock-rate", relation.span, message));
            }
            let factor = factor as i128;
            let ratio = if relation.is_sub { Ratio::new(factor, 1) } else { Ratio::new(1, factor) };
            known.push(Relation { ratio, ..relation });
        }
        let groups = self.groups(roots.len(), &known)?;
        let spans = self.set_spans(sets, &place, roots.len());
        let methods = self.set_methods(sets, &place, roots.len());
        let mut clocks = Vec::new();
        for group in 0..groups.n {
            let members: Vec<usize> = (0..roots.len()).filter(|&at| groups.rates[at].0 == group).collect();
            let rates: Vec<Rate> = members.iter().map(|&at| groups.rates[at].1).collect();
            let given: Vec<(usize, Trigger, Span)> = members
                .iter()
                .enumerate()
                .filter_map(|(at, &set)| triggers[set].map(|(trigger, span)| (at, trigger, span)))
                .collect();
            let span = members.iter().map(|&at| spans[at]).find(|span| !span.is_none()).unwrap_or(Span::NONE);
            let (trigger, unit, first) = self.trigger_of(&given, &rates, span)?;
            let mut clock = BaseClock { trigger, sets: Vec::new() };
            // A method that is given for one set counts for those related to it.
            let method = members.iter().find_map(|&at| methods[at].clone());
            for (&at, rate) in members.iter().zip(&rates) {
                let factor = rate.period.over(unit).and_then(Ratio::whole);
                let offset = rate.start.minus(first).and_then(|offset| offset.over(unit)).and_then(Ratio::whole);
                let (Some(factor), Some(offset)) = (factor, offset) else {
                    let message = "a clock of events cannot tick between its events, or before the first of them";
                    return Err(self.error("clock-rate", spans[at], message));
                };
                let method = methods[at].clone().or_else(|| method.clone());
                clock.sets.push(ClockedSet { root: roots[at], factor, offset, method, span: spans[at] });
            }
            clocks.push(clock);
        }
        Ok(clocks)
    }

    /// What the clocks of each set are given as.
    fn triggers(&mut self, sets: &Sets, place: &FxHashMap<u32, usize>) -> Res<Vec<Option<(Trigger, Span)>>> {
        let mut triggers: Vec<Option<(Trigger, Span)>> = vec![None; place.len()];
        for &(expr, call) in &sets.marks {
            let Some(at) = sets.set_of(Member::Mark(expr)).and_then(|root| place.get(&root)) else { continue };
            let trigger = match call.mark {
                Mark::Every => {
                    Trigger::Every { start: 0.0, interval: self.graph.as_number(call.first).unwrap_or(f64::NAN) }
                }
                Mark::OnEvent => Trigger::OnEvent { condition: call.argument, first_interval: call.first },
                _ => continue,
            };
            let span = self.marks.spans.get(&expr).copied().unwrap_or(Span::NONE);
            if let Some((known, other)) = triggers[*at]
                && !is_same_trigger(known, trigger)
            {
                return Err(self.contradiction(span, other));
            }
            triggers[*at] = Some((trigger, span));
        }
        Ok(triggers)
    }

    fn contradiction(&mut self, span: Span, other: Span) -> super::Refused {
        let finding = daesy_graph::Finding::error(
            "clock-rate",
            span,
            "two clocks contradict each other: signals of both meet in an equation",
        )
        .with_label(other, "the other clock")
        .with_help("put `subSample`, `superSample`, `shiftSample`, or `hold` and `sample` between them");
        self.report(finding)
    }

    /// What makes a group tick, the unit of its grid and its first tick.
    fn trigger_of(
        &mut self,
        given: &[(usize, Trigger, Span)],
        rates: &[Rate],
        span: Span,
    ) -> Res<(Trigger, Ratio, Ratio)> {
        let Some(&(lead, trigger, lead_span)) = given.first() else {
            let message = "nothing says when the clocked signals here tick";
            return Err(self.error_help("clock-rate", span, message, "give one of them a clock, such as `Clock(0.1)`"));
        };
        let lead_rate = rates[lead];
        for &(at, other, other_span) in &given[1..] {
            let agrees = match (trigger, other) {
                (Trigger::Every { interval, .. }, Trigger::Every { interval: other, .. }) => {
                    let wanted = interval / lead_rate.period.value() * rates[at].period.value();
                    rates[at].start == lead_rate.start && (other - wanted).abs() <= SAME_INTERVAL * wanted
                }
                (one, other) => rates[at] == lead_rate && is_same_trigger(one, other),
            };
            if !agrees {
                return Err(self.contradiction(other_span, lead_span));
            }
        }
        match trigger {
            Trigger::OnEvent { .. } => Ok((trigger, lead_rate.period, lead_rate.start)),
            Trigger::Every { interval, .. } => {
                let first = rates.iter().map(|rate| rate.start).min_by(|a, b| a.value().total_cmp(&b.value()));
                let first = first.unwrap_or(Ratio::ZERO);
                let mut unit = Some(lead_rate.period);
                for rate in rates {
                    unit = unit.and_then(|unit| unit.common(rate.period));
                    unit = unit.and_then(|unit| unit.common(rate.start.minus(first)?));
                }
                let Some(unit) = unit else { return Err(self.clock_range(span)) };
                let second = interval / lead_rate.period.value();
                let early = first.minus(lead_rate.start).map_or(0.0, Ratio::value);
                if early < 0.0 {
                    let message = "`backSample` makes a clock that would tick before the simulation starts";
                    return Err(self.error("clock-rate", lead_span, message));
                }
                let trigger = Trigger::Every { start: early * second, interval: unit.value() * second };
                Ok((trigger, unit, first))
            }
        }
    }

    /// A place for each set: that of a mark in it.
    fn set_spans(&self, sets: &Sets, place: &FxHashMap<u32, usize>, n: usize) -> Vec<Span> {
        let mut spans = vec![Span::NONE; n];
        for (expr, _) in &sets.marks {
            if let Some(&at) = sets.set_of(Member::Mark(*expr)).and_then(|root| place.get(&root))
                && let Some(&span) = self.marks.spans.get(expr)
            {
                spans[at] = span;
            }
        }
        spans
    }

    fn set_methods(&self, sets: &Sets, place: &FxHashMap<u32, usize>, n: usize) -> Vec<Option<Arc<str>>> {
        let mut methods = vec![None; n];
        for (expr, _) in &sets.marks {
            if let Some(&at) = sets.set_of(Member::Mark(*expr)).and_then(|root| place.get(&root))
                && let Some(method) = self.marks.methods.get(expr)
            {
                methods[at] = Some(method.clone());
            }
        }
        methods
    }

    /// Sets that relations join, with their rates.
    fn groups(&mut self, n: usize, relations: &[Relation]) -> Res<Groups> {
        let unset = Rate { period: Ratio::ONE, start: Ratio::ZERO };
        let mut rates = vec![(usize::MAX, unset); n];
        let mut next: Vec<Vec<usize>> = vec![Vec::new(); n];
        for (at, relation) in relations.iter().enumerate() {
            next[relation.from as usize].push(at);
            next[relation.to as usize].push(at);
        }
        let mut n_groups = 0;
        for start in 0..n {
            if rates[start].0 != usize::MAX {
                continue;
            }
            rates[start].0 = n_groups;
            let mut waiting = vec![start];
            while let Some(at) = waiting.pop() {
                for &relation in &next[at] {
                    let relation = relations[relation];
                    let is_forward = relation.from as usize == at;
                    let other = if is_forward { relation.to } else { relation.from } as usize;
                    let Some(rate) = follow(rates[at].1, relation, is_forward) else {
                        return Err(self.clock_range(relation.span));
                    };
                    if rates[other].0 == usize::MAX {
                        rates[other] = (n_groups, rate);
                        waiting.push(other);
                    } else if rates[other].1 != rate {
                        let message =
                            "the clocks contradict each other: two ways lead to the same signal with different rates";
                        return Err(self.error("clock-rate", relation.span, message));
                    }
                }
            }
            n_groups += 1;
        }
        Ok(Groups { n: n_groups, rates })
    }
}

struct Groups {
    n: usize,
    /// The group and rate of each set.
    rates: Vec<(usize, Rate)>,
}

/// The rate on the other side of a relation.
fn follow(rate: Rate, relation: Relation, is_forward: bool) -> Option<Rate> {
    let ratio = relation.ratio?;
    if is_forward {
        let start = rate.start.plus(relation.shift.times(rate.period)?)?;
        Some(Rate { period: rate.period.times(ratio)?, start })
    } else {
        let period = rate.period.over(ratio)?;
        Some(Rate { period, start: rate.start.minus(relation.shift.times(period)?)? })
    }
}

fn is_same_trigger(left: Trigger, right: Trigger) -> bool {
    match (left, right) {
        (Trigger::Every { interval: left, .. }, Trigger::Every { interval: right, .. }) => {
            (left - right).abs() <= SAME_INTERVAL * left
        }
        (Trigger::OnEvent { condition: left, .. }, Trigger::OnEvent { condition: right, .. }) => left == right,
        _ => false,
    }
}
