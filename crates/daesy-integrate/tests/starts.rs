//! Which start values hold: random systems with explicit, hidden and nonlinear constraints against an exhaustive search
//! over ranks.

use std::collections::HashMap;

use daesy_integrate::{InitializeOptions, Initialized, initialize};
use daesy_system::{
    Block, DaeSystem, Description, EquationLabel, Evaluator, GivenParameter, LaneEvaluator, ParameterError, Part,
    Pattern, Persistence, Point, Quantity, Rate, StartClass, StartCondition, StartOrigin,
};

/// A row a . z + q (b . z)^2 - c.
#[derive(Clone)]
struct Row {
    a: Vec<f64>,
    q: f64,
    b: Vec<f64>,
    c: f64,
}

impl Row {
    fn linear(a: Vec<f64>, c: f64) -> Self {
        Self { b: vec![0.0; a.len()], a, q: 0.0, c }
    }

    fn value(&self, z: &[f64]) -> f64 {
        dot(&self.a, z) + self.q * dot(&self.b, z).powi(2) - self.c
    }

    fn gradient(&self, z: &[f64]) -> Vec<f64> {
        let inner = 2.0 * self.q * dot(&self.b, z);
        self.a.iter().zip(&self.b).map(|(a, b)| a + inner * b).collect()
    }
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Numbers that look random, the same everywhere.
struct Dice(u64);

impl Dice {
    fn number(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        2.0 * ((self.0 >> 11) as f64 / (1u64 << 53) as f64) - 1.0
    }

    fn below(&mut self, n: usize) -> usize {
        (0.5 * (self.number() + 1.0) * n as f64) as usize % n
    }
}

/// Unknowns follow from states, constraints and initial conditions restrict them, and some of them have wishes.
#[derive(Clone)]
struct Start {
    n_states: usize,
    n_unknowns: usize,
    residuals: Vec<Row>,
    constraints: Vec<Row>,
    initial: Vec<Row>,
    /// By class.
    wishes: Vec<(StartClass, Row)>,
}

impl Start {
    /// Rows whose sparse structure is hidden: they are mixed among each other, which changes no rank but every pattern.
    fn random(dice: &mut Dice, is_nonlinear: bool) -> Self {
        let (n_states, n_unknowns) = (2 + dice.below(4), 1 + dice.below(3));
        let n = n_states + n_unknowns;
        let truth: Vec<f64> = (0..n).map(|_| 2.0 * dice.number()).collect();
        let row = |columns: &[usize], dice: &mut Dice| {
            let mut row = Row::linear(vec![0.0; n], 0.0);
            for &column in columns {
                row.a[column] = dice.number() + 0.3 * dice.number().signum();
            }
            if is_nonlinear {
                row.q = 0.1;
                row.b.clone_from(&row.a);
            }
            row.c = row.value(&truth);
            row
        };
        let residuals: Vec<Row> = (0..n_unknowns)
            .map(|at| {
                let mut made = row(&[n_states + at, dice.below(n_states)], dice);
                made.a[n_states + at] += 2.0;
                made.c = 0.0;
                made.c = made.value(&truth);
                made
            })
            .collect();
        let n_constraints = dice.below(n_states);
        let constraints: Vec<Row> = (0..n_constraints)
            .map(|_| {
                let columns: Vec<usize> = (0..1 + dice.below(2)).map(|_| dice.below(n_states)).collect();
                row(&columns, dice)
            })
            .collect();
        let initial: Vec<Row> = (0..dice.below(2)).map(|_| row(&[dice.below(n)], dice)).collect();
        let mut start = Self { n_states, n_unknowns, residuals, constraints, initial, wishes: Vec::new() };
        start.residuals = mixed(&start.residuals, dice);
        start.constraints = mixed(&start.constraints, dice);
        start.wish(dice, &truth);
        start
    }

    /// Wishes near the truth, but not at it.
    fn wish(&mut self, dice: &mut Dice, truth: &[f64]) {
        let n = self.n_states + self.n_unknowns;
        for column in 0..n {
            let mut a = vec![0.0; n];
            a[column] = if dice.below(4) == 0 { -1.0 } else { 1.0 };
            let value = a[column] * (truth[column] + 0.05 * dice.number());
            let class = match (column < self.n_states, dice.below(3)) {
                (true, 0) => StartClass::Default,
                (true, _) => StartClass::Differential,
                (false, 0) => StartClass::Other,
                (false, _) => continue,
            };
            self.wishes.push((class, Row::linear(a, value)));
        }
        self.wishes.sort_by_key(|(class, _)| *class);
    }

    fn demanded(&self) -> impl Iterator<Item = &Row> {
        self.residuals.iter().chain(&self.constraints).chain(&self.initial)
    }

    /// The same in other units of the variables, and with states and unknowns in another order.
    fn transformed(&self, scales: &[f64], order: &[usize]) -> Self {
        let moved = |row: &Row| Row {
            a: order.iter().map(|&column| row.a[column] * scales[column]).collect(),
            b: order.iter().map(|&column| row.b[column] * scales[column]).collect(),
            ..*row
        };
        Self {
            residuals: self.residuals.iter().rev().map(moved).collect(),
            constraints: self.constraints.iter().rev().map(moved).collect(),
            initial: self.initial.iter().rev().map(moved).collect(),
            wishes: self.wishes.iter().map(|(class, row)| (*class, moved(row))).collect(),
            ..*self
        }
    }

    fn solve(&self) -> Result<Vec<f64>, daesy_integrate::IntegrateError> {
        let system = System::new(self);
        let Initialized { states, unknowns, .. } =
            initialize(&system, 0.0, &[], &[], &[], &InitializeOptions::default())?;
        Ok(states.into_iter().chain(unknowns).collect())
    }

    /// Which wishes hold at a point.
    fn held(&self, z: &[f64]) -> Vec<bool> {
        self.wishes.iter().map(|(_, row)| row.value(z).abs() <= 1e-9 * (1.0 + row.c.abs())).collect()
    }

    /// Which wishes can hold at a point: of each class the largest set that is independent together with what comes
    /// before, by trying all of them; of several the first in the order of the wishes.
    fn possible(&self, z: &[f64]) -> Vec<bool> {
        let mut taken: Vec<Vec<f64>> = self.demanded().map(|row| row.gradient(z)).collect();
        let mut is_possible = vec![false; self.wishes.len()];
        for class in [StartClass::Differential, StartClass::Other, StartClass::Default] {
            let members: Vec<usize> = (0..self.wishes.len()).filter(|&at| self.wishes[at].0 == class).collect();
            let before = rank(&taken);
            let mut best: Vec<usize> = Vec::new();
            for set in 0u32..1 << members.len() {
                // The first member is the highest bit, so that larger numbers hold earlier members.
                let chosen: Vec<usize> = members
                    .iter()
                    .enumerate()
                    .filter(|(place, _)| set >> (members.len() - 1 - place) & 1 == 1)
                    .map(|(_, &at)| at)
                    .collect();
                let with: Vec<Vec<f64>> =
                    taken.iter().cloned().chain(chosen.iter().map(|&at| self.wishes[at].1.gradient(z))).collect();
                if chosen.len() >= best.len() && rank(&with) == before + chosen.len() {
                    best = chosen;
                }
            }
            for at in best {
                is_possible[at] = true;
                taken.push(self.wishes[at].1.gradient(z));
            }
        }
        is_possible
    }
}

/// Random combinations of rows that span the same.
fn mixed(rows: &[Row], dice: &mut Dice) -> Vec<Row> {
    if rows.iter().any(|row| row.q != 0.0) {
        return rows.to_vec();
    }
    let n = rows.len();
    (0..n)
        .map(|at| {
            let factors: Vec<f64> =
                (0..n).map(|other| if other == at { 2.0 + dice.number() } else { 0.5 * dice.number() }).collect();
            let combine = |of: &dyn Fn(&Row) -> f64| rows.iter().zip(&factors).map(|(row, f)| f * of(row)).sum::<f64>();
            Row::linear((0..rows[0].a.len()).map(|j| combine(&|row| row.a[j])).collect(), combine(&|row| row.c))
        })
        .collect()
}

/// Rank by elimination with complete pivoting, rows scaled to norm one.
fn rank(rows: &[Vec<f64>]) -> usize {
    let mut rows: Vec<Vec<f64>> = rows
        .iter()
        .map(|row| {
            let size = dot(row, row).sqrt();
            row.iter().map(|value| if size > 0.0 { value / size } else { 0.0 }).collect()
        })
        .collect();
    let n = rows.first().map_or(0, Vec::len);
    let mut found = 0;
    while found < rows.len() {
        let candidates = (found..rows.len()).flat_map(|row| (0..n).map(move |column| (row, column)));
        let best = candidates.max_by(|&(a, j), &(b, k)| rows[a][j].abs().total_cmp(&rows[b][k].abs()));
        let Some((row, column)) = best.filter(|&(row, column)| rows[row][column].abs() > 1e-8) else { break };
        rows.swap(found, row);
        let (done, rest) = rows.split_at_mut(found + 1);
        let pivot = &done[found];
        for other in rest {
            let factor = other[column] / pivot[column];
            other.iter_mut().zip(pivot).for_each(|(value, pivot)| *value -= factor * pivot);
            other[column] = 0.0;
        }
        found += 1;
    }
    found
}

struct System<'m> {
    start: &'m Start,
    description: Description,
    patterns: HashMap<Part, Pattern>,
}

impl<'m> System<'m> {
    fn new(start: &'m Start) -> Self {
        let (n_states, n_unknowns) = (start.n_states, start.n_unknowns);
        let quantity = |at: usize| Quantity {
            name: format!("z{at}"),
            nominal: 1.0,
            start: 0.0,
            start_origin: StartOrigin::Default,
            min: f64::NEG_INFINITY,
            max: f64::INFINITY,
            persistence: Persistence::Default,
        };
        let label = EquationLabel { text: String::new(), place: String::new(), differentiated: 0 };
        let description = Description {
            states: (0..n_states).map(quantity).collect(),
            rates: vec![Rate::Unknown(0); n_states],
            unknowns: (n_states..n_states + n_unknowns).map(quantity).collect(),
            blocks: vec![Block { start: 0, len: n_unknowns as u32, is_linear: false }],
            residuals: vec![label.clone(); start.residuals.len()].into(),
            constraints: vec![label.clone(); start.constraints.len()].into(),
            initial: vec![label; start.initial.len()],
            start_conditions: start
                .wishes
                .iter()
                .map(|&(class, _)| StartCondition { name: String::new(), class, nominal: 1.0 })
                .collect(),
            ..Description::default()
        };
        let mut system = Self { start, description, patterns: HashMap::new() };
        for part in [Part::Residual, Part::Constraint, Part::Initial, Part::Start] {
            let n_rows = system.rows(part).len();
            let row_starts = (0..=n_rows as u32).collect();
            system.patterns.insert(part, Pattern { n_rows, n_cols: 1, row_starts, columns: vec![0; n_rows] });
        }
        for part in [
            Part::ResidualByStates,
            Part::ConstraintByStates,
            Part::InitialByStates,
            Part::StartByStates,
            Part::ResidualByUnknowns,
            Part::InitialByUnknowns,
            Part::StartByUnknowns,
        ] {
            let columns = system.columns(part);
            let mut pattern = Pattern { n_rows: 0, n_cols: columns.len(), row_starts: vec![0], columns: Vec::new() };
            for row in system.rows(part) {
                let is_entry = |column: &usize| row.a[*column] != 0.0 || row.q * row.b[*column] != 0.0;
                let entries = columns.clone().filter(is_entry).map(|column| (column - columns.start) as u32);
                pattern.columns.extend(entries);
                pattern.row_starts.push(pattern.columns.len() as u32);
                pattern.n_rows += 1;
            }
            system.patterns.insert(part, pattern);
        }
        system
    }

    fn rows(&self, part: Part) -> Vec<&Row> {
        match part {
            Part::Residual | Part::ResidualByStates | Part::ResidualByUnknowns => self.start.residuals.iter().collect(),
            Part::Constraint | Part::ConstraintByStates => self.start.constraints.iter().collect(),
            Part::Initial | Part::InitialByStates | Part::InitialByUnknowns => self.start.initial.iter().collect(),
            _ => self.start.wishes.iter().map(|(_, row)| row).collect(),
        }
    }

    fn columns(&self, part: Part) -> std::ops::Range<usize> {
        match part {
            Part::ResidualByUnknowns | Part::InitialByUnknowns | Part::StartByUnknowns => {
                self.start.n_states..self.start.n_states + self.start.n_unknowns
            }
            _ => 0..self.start.n_states,
        }
    }
}

impl DaeSystem for System<'_> {
    fn description(&self) -> &Description {
        &self.description
    }

    fn pattern(&self, part: Part) -> &Pattern {
        &self.patterns[&part]
    }

    fn evaluator(&self) -> Box<dyn Evaluator + '_> {
        Box::new(Rows(self))
    }

    fn lane_evaluator(&self, _n_lanes: usize) -> Box<dyn LaneEvaluator + '_> {
        unreachable!("one point only")
    }

    fn parameter_values(&self, _given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
        Ok(Vec::new())
    }
}

struct Rows<'m>(&'m System<'m>);

impl Evaluator for Rows<'_> {
    fn evaluate(&mut self, part: Part, point: &Point<'_>, values: &mut [f64]) {
        let z: Vec<f64> = point.states.iter().chain(point.unknowns).copied().collect();
        let pattern = self.0.pattern(part);
        let rows = self.0.rows(part);
        if matches!(part, Part::Residual | Part::Constraint | Part::Initial | Part::Start) {
            values.iter_mut().zip(rows).for_each(|(value, row)| *value = row.value(&z));
            return;
        }
        let first = self.0.columns(part).start;
        for ((row, column), value) in pattern.entries().zip(values) {
            *value = rows[row].gradient(&z)[first + column];
        }
    }
}

/// Starts whose demanded rows are independent, so that there is one.
fn random_starts(seed: u64, n: usize, is_nonlinear: bool) -> Vec<Start> {
    let mut dice = Dice(seed);
    let mut starts = Vec::new();
    while starts.len() < n {
        let start = Start::random(&mut dice, is_nonlinear);
        let demanded: Vec<Vec<f64>> = start.demanded().map(|row| row.a.clone()).collect();
        if rank(&demanded) == demanded.len() {
            starts.push(start);
        }
    }
    starts
}

#[test]
fn as_many_start_values_hold_as_ranks_allow() {
    for (at, start) in random_starts(1, 300, false).iter().enumerate() {
        let z = start.solve().unwrap_or_else(|error| panic!("start {at}: {error}"));
        for row in start.demanded() {
            assert!(row.value(&z).abs() < 1e-9, "start {at}");
        }
        assert_eq!(start.held(&z), start.possible(&z), "start {at}");
    }
}

#[test]
fn the_same_holds_where_equations_are_nonlinear() {
    let starts = random_starts(2, 200, true);
    let mut n_same = 0;
    for (at, start) in starts.iter().enumerate() {
        let z = start.solve().unwrap_or_else(|error| panic!("start {at}: {error}"));
        for row in start.demanded() {
            assert!(row.value(&z).abs() < 1e-8, "start {at}");
        }
        let (held, possible) = (start.held(&z), start.possible(&z));
        n_same += usize::from(held == possible);
    }
    // A wish may be independent of the others and still lie beyond all solutions.
    assert!(n_same >= 190, "{n_same} of {}", starts.len());
}

#[test]
fn neither_units_nor_the_order_of_equations_and_variables_change_what_holds() {
    let mut dice = Dice(3);
    for (at, start) in random_starts(4, 150, false).iter().enumerate() {
        let (n_states, n) = (start.n_states, start.n_states + start.n_unknowns);
        let scales: Vec<f64> = (0..n).map(|_| 10f64.powf(3.0 * dice.number())).collect();
        let shift = dice.below(n_states);
        let order: Vec<usize> = (0..n_states).map(|at| (at + shift) % n_states).chain((n_states..n).rev()).collect();
        let z = start.solve().unwrap();
        let moved = start.transformed(&scales, &order);
        let y = moved.solve().unwrap_or_else(|error| panic!("start {at}: {error}"));
        assert_eq!(start.held(&z), moved.held(&y), "start {at}");
        for (place, &column) in order.iter().enumerate() {
            assert!((z[column] - scales[column] * y[place]).abs() < 1e-7 * (1.0 + z[column].abs()), "start {at}");
        }
    }
}
