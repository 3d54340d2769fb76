//! Realizations for blocks of lanes: what the ensemble integrator asks for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use daesy_integrate::ensemble::{CHUNK, DisturbanceRow, Disturbances, LaneDisturbances};
use rustc_hash::FxHashMap;

use super::bridge::MAX_DEPTH;
use super::jet::JetMatrix;
use super::normal::{Draw, fill};
use super::philox::{Purpose, experiment_and_pair, key};
use super::process::DiscreteProcess;

/// How disturbances run between grid points.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Interpolation {
    /// Straight lines, as in [@abdalmoaty2021].
    #[default]
    Linear,
    /// The exact conditional law.
    Exact,
}

impl Interpolation {
    /// Halvings of an interval that have to be prepared.
    #[must_use]
    pub const fn depth(self) -> usize {
        match self {
            Self::Linear => 0,
            Self::Exact => MAX_DEPTH,
        }
    }
}

/// Disturbances at several points of parameters, made from the same random numbers.
pub struct ShapedNoise {
    /// Seed of the random numbers.
    pub seed: u64,
    /// Whether every other realization mirrors the one before it.
    pub is_antithetic: bool,
    /// Between grid points.
    pub interpolation: Interpolation,
    /// Which entries of the model's inputs the output rows are.
    pub slots: Vec<usize>,
    /// The processes, by point of parameters.
    pub points: Vec<Arc<DiscreteProcess>>,
    /// First step of the random numbers, so that a later experiment may go on where an earlier one ended.
    pub first_step: u32,
}

/// The random numbers of one block.
struct Innovations {
    key: [u32; 2],
    experiment: u32,
    realizations: Vec<u32>,
    signs: Vec<f64>,
    n_components: usize,
    first_step: u32,
    /// Intervals whose numbers are kept: a chunk if several points of parameters read them, else one.
    n_kept: usize,
    /// The intervals that `values` holds, in units of so many.
    chunk: usize,
    /// `[step][component][lane]`
    values: Vec<f64>,
}

impl Innovations {
    fn draw(&self, step: u32, purpose: Purpose, values: &mut [f64]) {
        let n_lanes = self.realizations.len();
        let mut spare = if self.n_components % 2 == 1 { vec![0.0; n_lanes] } else { Vec::new() };
        for (pair, rows) in values.chunks_mut(2 * n_lanes).enumerate() {
            let draw = Draw {
                key: self.key,
                step,
                pair: experiment_and_pair(self.experiment, pair as u32),
                purpose: purpose.word(),
            };
            let (first, second) = rows.split_at_mut(n_lanes);
            let second = if second.is_empty() { &mut spare[..] } else { second };
            fill(draw, &self.realizations, first, second);
        }
        if self.signs.iter().any(|sign| *sign < 0.0) {
            for row in values.chunks_mut(n_lanes) {
                row.iter_mut().zip(&self.signs).for_each(|(value, sign)| *value *= sign);
            }
        }
    }

    /// The numbers of an interval.
    fn at(&mut self, interval: usize) -> &[f64] {
        let n_lanes = self.realizations.len();
        let n = self.n_components * n_lanes;
        let n_kept = self.n_kept;
        let chunk = interval / n_kept;
        if self.chunk != chunk {
            let mut values = std::mem::take(&mut self.values);
            values.resize(n_kept * n, 0.0);
            if n > 0 {
                for (at, values) in values.chunks_exact_mut(n).enumerate() {
                    let step = self.first_step.wrapping_add((chunk * n_kept + at) as u32);
                    self.draw(step, Purpose::Innovation, values);
                }
            }
            self.values = values;
            self.chunk = chunk;
        }
        &self.values[(interval % n_kept) * n..][..n]
    }
}

impl Disturbances for ShapedNoise {
    fn slots(&self) -> &[usize] {
        &self.slots
    }

    fn block<'s>(
        &'s self,
        experiment: usize,
        first: usize,
        n_lanes: usize,
        points: std::ops::Range<usize>,
    ) -> Vec<Box<dyn LaneDisturbances + 's>> {
        let (realizations, signs) = (first..first + n_lanes)
            .map(|at| {
                if self.is_antithetic {
                    (at as u32 / 2, if at % 2 == 0 { 1.0 } else { -1.0 })
                } else {
                    (at as u32, 1.0)
                }
            })
            .unzip();
        let n_components = self.points.first().map_or(0, |process| process.n_components());
        let innovations = Rc::new(RefCell::new(Innovations {
            key: key(self.seed),
            experiment: experiment as u32,
            realizations,
            signs,
            n_components,
            first_step: self.first_step,
            n_kept: if points.len() > 1 { CHUNK } else { 1 },
            chunk: usize::MAX,
            values: Vec::new(),
        }));
        points
            .map(|point| {
                let process = &*self.points[point];
                Box::new(NoiseLanes::new(process, innovations.clone(), self.interpolation, n_lanes))
                    as Box<dyn LaneDisturbances + 's>
            })
            .collect()
    }
}

/// A row of lanes and what it is multiplied by.
#[derive(Clone, Copy, Debug)]
struct Term {
    weight: f64,
    /// Which of the sources it is in.
    source: usize,
    row: usize,
}

/// A row of lanes as a sum of others.
#[derive(Clone, Debug)]
struct RowSum {
    target: usize,
    terms: Vec<Term>,
}

impl RowSum {
    fn new(target: usize) -> Self {
        Self { target, terms: Vec::new() }
    }

    fn push(&mut self, weight: f64, source: usize, row: usize) {
        if weight != 0.0 {
            self.terms.push(Term { weight, source, row });
        }
    }

    /// Adds up from the first to the last, lane by lane.
    #[inline(always)]
    fn write(&self, sources: &[&[f64]], n_lanes: usize, target: &mut [f64]) {
        let row = |term: &Term| &sources[term.source][term.row * n_lanes..][..n_lanes];
        // Few rows are added in one pass, which is the rule; the order of additions is the same.
        match &self.terms[..] {
            [] => target.fill(0.0),
            [x] => target.iter_mut().zip(row(x)).for_each(|(sum, a)| *sum = x.weight * a),
            [x, y] => {
                let rows = row(x).iter().zip(row(y));
                target.iter_mut().zip(rows).for_each(|(sum, (a, b))| *sum = x.weight * a + y.weight * b);
            }
            [x, y, z, rest @ ..] => {
                let rows = row(x).iter().zip(row(y)).zip(row(z));
                let three = |a: &f64, b: &f64, c: &f64| x.weight * a + y.weight * b + z.weight * c;
                match rest {
                    [] => target.iter_mut().zip(rows).for_each(|(sum, ((a, b), c))| *sum = three(a, b, c)),
                    [w, rest @ ..] => {
                        let rows = rows.zip(row(w));
                        target.iter_mut().zip(rows).for_each(|(sum, (((a, b), c), d))| {
                            *sum = three(a, b, c) + w.weight * d;
                        });
                        for term in rest {
                            target.iter_mut().zip(row(term)).for_each(|(sum, a)| *sum += term.weight * a);
                        }
                    }
                }
            }
        }
    }
}

/// Sums of rows, with the instructions this machine has.
struct WriteSums<'s> {
    sums: &'s [RowSum],
    sources: &'s [&'s [f64]],
    n_lanes: usize,
    target: &'s mut [f64],
}

impl pulp::WithSimd for WriteSums<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        for sum in self.sums {
            let target = &mut self.target[sum.target * self.n_lanes..][..self.n_lanes];
            sum.write(self.sources, self.n_lanes, target);
        }
    }
}

fn write_sums(sums: &[RowSum], sources: &[&[f64]], n_lanes: usize, target: &mut [f64]) {
    pulp::Arch::new().dispatch(WriteSums { sums, sources, n_lanes, target });
}

/// `target = begin + fraction * (end - begin)`, with the instructions this machine has.
struct Interpolate<'s> {
    begin: &'s [f64],
    end: &'s [f64],
    fraction: f64,
    target: &'s mut [f64],
}

impl pulp::WithSimd for Interpolate<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, _simd: S) {
        for ((target, begin), end) in self.target.iter_mut().zip(self.begin).zip(self.end) {
            *target = begin + self.fraction * (end - begin);
        }
    }
}

/// Components of all channels, with derivatives: `[direction + 1][component][lane]`.
type Components = Vec<f64>;

/// An output, or its derivative along a direction, at both ends of an interval.
struct OutputRow {
    output: usize,
    direction: Option<usize>,
    sum: RowSum,
    begin: Vec<f64>,
    end: Vec<f64>,
}

/// One block at one point of parameters.
struct NoiseLanes<'p> {
    process: &'p DiscreteProcess,
    innovations: Rc<RefCell<Innovations>>,
    interpolation: Interpolation,
    n_lanes: usize,
    n_components: usize,
    /// Directions that change the dynamics of some channel.
    n_moving: usize,
    interval: usize,
    /// The components at the end of an interval from those at its begin and the random numbers.
    transition: Vec<RowSum>,
    begin: Components,
    end: Components,
    /// Output rows that were asked for.
    rows: Vec<OutputRow>,
    /// Components inside the interval, by number in the tree.
    inside: FxHashMap<u32, Components>,
}

impl<'p> NoiseLanes<'p> {
    fn new(
        process: &'p DiscreteProcess,
        innovations: Rc<RefCell<Innovations>>,
        interpolation: Interpolation,
        n_lanes: usize,
    ) -> Self {
        let n_components = process.n_components();
        // Derivatives are kept for all directions or none; filters are small.
        let moves = process.channels.iter().any(|channel| channel.varies.iter().any(|varies| *varies));
        let n_moving = if moves { process.n_directions } else { 0 };
        let size = (1 + n_moving) * n_components * n_lanes;
        let mut lanes = Self {
            process,
            innovations,
            interpolation,
            n_lanes,
            n_components,
            n_moving,
            interval: usize::MAX,
            transition: Vec::new(),
            begin: vec![0.0; size],
            end: vec![0.0; size],
            rows: Vec::new(),
            inside: FxHashMap::default(),
        };
        let mut at = 0;
        for channel in &process.channels {
            lanes.transition.extend(lanes.sums(&[&channel.transition], Some(&channel.factor), at, channel.order));
            at += channel.order;
        }
        lanes.start();
        lanes
    }

    /// Components at the start go to `end`, whence the first interval takes them.
    fn start(&mut self) {
        let mut numbers = vec![0.0; self.n_components * self.n_lanes];
        self.innovations.borrow().draw(0, Purpose::Start, &mut numbers);
        let zero = vec![0.0; self.end.len()];
        let mut target = std::mem::take(&mut self.end);
        let mut at = 0;
        for channel in &self.process.channels {
            if let Some(factor) = &channel.start {
                write_sums(&self.sums(&[], Some(factor), at, channel.order), &[&numbers], self.n_lanes, &mut target);
            } else {
                let n = self.n_lanes;
                for block in 0..=self.n_moving {
                    let from = (block * self.n_components + at) * n;
                    target[from..from + channel.order * n].copy_from_slice(&zero[..channel.order * n]);
                }
            }
            at += channel.order;
        }
        self.end = target;
    }

    /// `target = sum of matrix * source + factor * numbers` for the components `at..at + order` of a channel, with derivatives; the
    /// numbers are the last of the sources.
    fn sums(&self, matrices: &[&JetMatrix], factor: Option<&JetMatrix>, at: usize, order: usize) -> Vec<RowSum> {
        let mut sums = Vec::new();
        for i in 0..order {
            for direction in 0..=self.n_moving {
                let row = |direction: usize, component: usize| direction * self.n_components + at + component;
                let mut sum = RowSum::new(row(direction, i));
                for (source, matrix) in matrices.iter().enumerate() {
                    for j in 0..order {
                        sum.push(matrix.value[(i, j)], source, row(direction, j));
                        if direction > 0 {
                            sum.push(matrix.derivatives[direction - 1][(i, j)], source, row(0, j));
                        }
                    }
                }
                if let Some(factor) = factor {
                    let matrix = if direction == 0 { &factor.value } else { &factor.derivatives[direction - 1] };
                    for j in 0..=i {
                        sum.push(matrix[(i, j)], matrices.len(), at + j);
                    }
                }
                sums.push(sum);
            }
        }
        sums
    }

    /// An output, or its derivative along a direction, from the components.
    fn output(&self, output: usize, direction: Option<usize>) -> RowSum {
        let mut sum = RowSum::new(0);
        let mut at = 0;
        for (readout, channel) in self.process.outputs[output].channels.iter().zip(&self.process.channels) {
            if let Some(readout) = readout {
                for component in 0..channel.order {
                    let row = |block: usize| block * self.n_components + at + component;
                    match direction {
                        None => sum.push(readout.weights[component], 0, row(0)),
                        Some(direction) => {
                            sum.push(readout.derivatives[direction][component], 0, row(0));
                            if self.n_moving > 0 {
                                sum.push(readout.weights[component], 0, row(1 + direction));
                            }
                        }
                    }
                }
            }
            at += channel.order;
        }
        sum
    }

    /// Components at a fraction of the interval, by halving.
    fn between(&mut self, fraction: f64) -> Components {
        let (mut left, mut right) = (0.0f64, 1.0f64);
        let mut left_components = self.begin.clone();
        let mut right_components = self.end.clone();
        let mut node = 1u32;
        for level in 0..MAX_DEPTH {
            if fraction <= left {
                return left_components;
            }
            if fraction >= right {
                return right_components;
            }
            let middle = 0.5 * (left + right);
            let components = self.middle(node, level, &left_components, &right_components);
            if fraction < middle {
                (right, right_components, node) = (middle, components, 2 * node);
            } else {
                (left, left_components, node) = (middle, components, 2 * node + 1);
            }
        }
        let share = (fraction - left) / (right - left);
        left_components.iter().zip(&right_components).map(|(a, b)| a + share * (b - a)).collect()
    }

    fn middle(&mut self, node: u32, level: usize, left: &[f64], right: &[f64]) -> Components {
        if let Some(known) = self.inside.get(&node) {
            return known.clone();
        }
        let mut numbers = vec![0.0; self.n_components * self.n_lanes];
        {
            let innovations = self.innovations.borrow();
            let step = innovations.first_step.wrapping_add(self.interval as u32);
            innovations.draw(step, Purpose::Between(node), &mut numbers);
        }
        let mut components = vec![0.0; left.len()];
        let mut at = 0;
        for (channel, levels) in self.process.channels.iter().zip(&self.process.bridges) {
            let bridge = &levels[level];
            let sums = self.sums(&[&bridge.left, &bridge.right], Some(&bridge.factor), at, channel.order);
            write_sums(&sums, &[left, right, &numbers], self.n_lanes, &mut components);
            at += channel.order;
        }
        self.inside.insert(node, components.clone());
        components
    }
}

impl LaneDisturbances for NoiseLanes<'_> {
    fn advance(&mut self, interval: usize) {
        if self.interval == interval {
            return;
        }
        self.interval = interval;
        std::mem::swap(&mut self.begin, &mut self.end);
        self.inside.clear();
        {
            let mut innovations = self.innovations.borrow_mut();
            let numbers = innovations.at(interval);
            write_sums(&self.transition, &[&self.begin, numbers], self.n_lanes, &mut self.end);
        }
        for row in &mut self.rows {
            std::mem::swap(&mut row.begin, &mut row.end);
            write_sums(std::slice::from_ref(&row.sum), &[&self.end], self.n_lanes, &mut row.end);
        }
    }

    fn fill(&mut self, fraction: f64, rows: &[DisturbanceRow], stride: usize, values: &mut [f64]) {
        let n = self.n_lanes;
        let is_inside = fraction > 0.0 && fraction < 1.0;
        if self.interpolation == Interpolation::Exact && is_inside {
            let components = self.between(fraction);
            for row in rows {
                let sum = self.output(row.signal, row.direction);
                write_sums(&[sum], &[&components], n, &mut values[row.row * stride..][..n]);
            }
            return;
        }
        for row in rows {
            let is_it = |known: &OutputRow| known.output == row.signal && known.direction == row.direction;
            let at = self.rows.iter().position(is_it).unwrap_or_else(|| {
                let (mut begin, mut end) = (vec![0.0; n], vec![0.0; n]);
                let sum = self.output(row.signal, row.direction);
                write_sums(std::slice::from_ref(&sum), &[&self.begin], n, &mut begin);
                write_sums(std::slice::from_ref(&sum), &[&self.end], n, &mut end);
                self.rows.push(OutputRow { output: row.signal, direction: row.direction, sum, begin, end });
                self.rows.len() - 1
            });
            let OutputRow { begin, end, .. } = &self.rows[at];
            let target = &mut values[row.row * stride..][..n];
            if fraction == 1.0 {
                target.copy_from_slice(end);
            } else {
                pulp::Arch::new().dispatch(Interpolate { begin, end, fraction, target });
            }
        }
    }
}
