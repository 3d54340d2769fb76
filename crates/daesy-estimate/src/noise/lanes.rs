//! Realizations for blocks of lanes: what the ensemble integrator asks for.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use daesy_integrate::ensemble::{CHUNK, DisturbanceRow, Disturbances, LaneDisturbances};
use rustc_hash::FxHashMap;

use super::bridge::MAX_DEPTH;
use super::channel::Channel;
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
    /// Whether some realization is the mirror image of another.
    mirrors: bool,
    n_components: usize,
    first_step: u32,
    /// Intervals whose numbers are kept: a chunk if several filters read them, else few. A power of 2.
    n_kept: usize,
    /// The intervals that `values` holds, in units of so many.
    chunk: usize,
    /// `[step][component][lane]`
    values: Vec<f64>,
}

impl Innovations {
    /// Numbers of so many steps as fit, `[step][component][lane]`.
    fn draw(&self, first_step: u32, purpose: Purpose, values: &mut [f64]) {
        let n_lanes = self.realizations.len();
        let of = |step: usize, pair: usize| Draw {
            key: self.key,
            step: first_step.wrapping_add(step as u32),
            pair: experiment_and_pair(self.experiment, pair as u32),
            purpose: purpose.word(),
        };
        let n_pairs = self.n_components / 2;
        if self.n_components.is_multiple_of(2) {
            fill(|at| of(at / n_pairs, at % n_pairs), &self.realizations, values);
        } else {
            // The second half of the last pair is not needed.
            let mut last = vec![0.0; 2 * n_lanes];
            for (step, values) in values.chunks_exact_mut(self.n_components * n_lanes).enumerate() {
                let (pairs, rest) = values.split_at_mut(2 * n_pairs * n_lanes);
                fill(|pair| of(step, pair), &self.realizations, pairs);
                fill(|_| of(step, n_pairs), &self.realizations, &mut last);
                rest.copy_from_slice(&last[..n_lanes]);
            }
        }
        if self.mirrors {
            for row in values.chunks_mut(n_lanes) {
                row.iter_mut().zip(&self.signs).for_each(|(value, sign)| *value *= sign);
            }
        }
    }

    /// The numbers of `n` intervals from one on; they must be of one chunk.
    fn at(&mut self, interval: usize, n: usize) -> &[f64] {
        let size = self.n_components * self.realizations.len();
        let n_kept = self.n_kept;
        let chunk = interval >> n_kept.trailing_zeros();
        if self.chunk != chunk {
            let mut values = std::mem::take(&mut self.values);
            values.resize(n_kept * size, 0.0);
            self.draw(self.first_step.wrapping_add((chunk * n_kept) as u32), Purpose::Innovation, &mut values);
            self.values = values;
            self.chunk = chunk;
        }
        &self.values[(interval & (n_kept - 1)) * size..][..n * size]
    }
}

/// Intervals that are computed at once when nobody shares them; a power of 2, and small, since what they leave has to
/// stay next to the processor.
const FEW: usize = 4;

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
        let (realizations, signs): (Vec<u32>, Vec<f64>) = (first..first + n_lanes)
            .map(|at| {
                if self.is_antithetic {
                    (at as u32 / 2, if at % 2 == 0 { 1.0 } else { -1.0 })
                } else {
                    (at as u32, 1.0)
                }
            })
            .unzip();
        let n_components = self.points.first().map_or(0, |process| process.n_components());
        // Points whose filters are the same read the same rows.
        let mut groups: Vec<Vec<usize>> = Vec::new();
        for point in points.clone() {
            let channels = &self.points[point].channels;
            let is_same = |group: &Vec<usize>| self.points[group[0]].channels == *channels;
            match groups.iter_mut().find(|group| self.interpolation == Interpolation::Linear && is_same(group)) {
                Some(group) => group.push(point),
                None => groups.push(vec![point]),
            }
        }
        let innovations = Rc::new(RefCell::new(Innovations {
            key: key(self.seed),
            experiment: experiment as u32,
            realizations,
            mirrors: signs.iter().any(|sign| *sign < 0.0),
            signs,
            n_components,
            first_step: self.first_step,
            n_kept: if groups.len() > 1 { CHUNK } else { FEW },
            chunk: usize::MAX,
            values: Vec::new(),
        }));
        let paths: Vec<Rc<RefCell<Paths<'s>>>> = groups
            .iter()
            .map(|group| {
                let n_kept = match self.interpolation {
                    _ if group.len() > 1 => CHUNK,
                    Interpolation::Linear => FEW,
                    // Components at both ends of an interval have to be at hand.
                    Interpolation::Exact => 1,
                };
                let channels = &self.points[group[0]].channels;
                Rc::new(RefCell::new(Paths::new(channels, innovations.clone(), n_lanes, n_kept)))
            })
            .collect();
        let of = |point: usize| groups.iter().position(|group| group.contains(&point)).unwrap_or(0);
        points
            .map(|point| {
                Box::new(NoiseLanes::new(&self.points[point], paths[of(point)].clone(), self.interpolation))
                    as Box<dyn LaneDisturbances + 's>
            })
            .collect()
    }
}

/// A row of lanes and what it is multiplied by.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Term {
    weight: f64,
    /// Which of the sources it is in.
    source: usize,
    row: usize,
}

/// A row of lanes as a sum of others.
#[derive(Clone, PartialEq, Debug)]
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
    fn write<S: pulp::Simd>(&self, simd: S, sources: &[&[f64]], n_lanes: usize, target: &mut [f64]) {
        let row = |term: &Term| &sources[term.source][term.row * n_lanes..][..n_lanes];
        // Few rows are added in one pass, which is the rule; the order of additions is the same.
        match &self.terms[..] {
            [] => target.fill(0.0),
            [x] => write_few(simd, [x.weight], [row(x)], target),
            [x, y] => write_few(simd, [x.weight, y.weight], [row(x), row(y)], target),
            [x, y, z] => write_few(simd, [x.weight, y.weight, z.weight], [row(x), row(y), row(z)], target),
            [x, y, z, w, rest @ ..] => {
                let weights = [x.weight, y.weight, z.weight, w.weight];
                write_few(simd, weights, [row(x), row(y), row(z), row(w)], target);
                for term in rest {
                    target.iter_mut().zip(row(term)).for_each(|(sum, a)| *sum += term.weight * a);
                }
            }
        }
    }
}

/// A sum of N rows in one pass.
#[inline(always)]
fn write_few<S: pulp::Simd, const N: usize>(simd: S, weights: [f64; N], rows: [&[f64]; N], target: &mut [f64]) {
    let (groups, rest) = S::as_mut_simd_f64s(target);
    let n = groups.len();
    let (row_groups, row_rests) =
        (rows.map(|row| &S::as_simd_f64s(row).0[..n]), rows.map(|row| S::as_simd_f64s(row).1));
    let wide = weights.map(|weight| simd.splat_f64s(weight));
    for (at, group) in groups.iter_mut().enumerate() {
        let mut sum = simd.mul_f64s(wide[0], row_groups[0][at]);
        for k in 1..N {
            sum = simd.add_f64s(sum, simd.mul_f64s(wide[k], row_groups[k][at]));
        }
        *group = sum;
    }
    for (lane, target) in rest.iter_mut().enumerate() {
        *target = (1..N).fold(weights[0] * row_rests[0][lane], |sum, k| sum + weights[k] * row_rests[k][lane]);
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
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        for sum in self.sums {
            let target = &mut self.target[sum.target * self.n_lanes..][..self.n_lanes];
            sum.write(simd, self.sources, self.n_lanes, target);
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

/// A sum of components at the grid points of a chunk.
struct PathRow {
    sum: RowSum,
    /// A ring of rows of lanes, for two chunks.
    values: Vec<f64>,
}

/// The components of all channels, and sums of them, chunk by chunk of the grid. Points of parameters with the same
/// filters share them.
struct Paths<'p> {
    channels: &'p [Channel],
    innovations: Rc<RefCell<Innovations>>,
    n_lanes: usize,
    n_components: usize,
    /// Directions that change the dynamics of some channel.
    n_moving: usize,
    /// Intervals of a chunk, a power of 2.
    n_kept: usize,
    /// Chunks that were computed.
    n_done: usize,
    /// The components at the end of an interval from those at its begin and the random numbers.
    transition: Vec<RowSum>,
    /// Components at the begin of the last chunk, and at its end.
    begin: Components,
    end: Components,
    spare: Components,
    rows: Vec<PathRow>,
    /// Sums that were asked for are written with the instructions of this machine.
    arch: pulp::Arch,
}

/// Some intervals of the grid: the components at their ends, and the sums of them that were asked for.
struct Cross<'s> {
    transition: &'s [RowSum],
    /// `[interval][component][lane]`
    numbers: &'s [f64],
    n_intervals: usize,
    /// Components at the begin of the first interval, none if they are in `end`.
    begin: Option<&'s [f64]>,
    end: &'s mut Components,
    spare: &'s mut Components,
    rows: &'s mut [PathRow],
    n_lanes: usize,
    /// Grid point at the end of the first interval.
    point: usize,
    /// Rows of a ring, a power of 2.
    n_places: usize,
}

impl pulp::WithSimd for Cross<'_> {
    type Output = ();
    #[inline(always)]
    fn with_simd<S: pulp::Simd>(self, simd: S) {
        let Self { transition, numbers, n_intervals, mut begin, end, spare, rows, n_lanes: n, point, n_places } = self;
        let size = numbers.len() / n_intervals;
        for at in 0..n_intervals {
            let numbers = &numbers[at * size..][..size];
            let from: &[f64] = match begin.take() {
                Some(begin) => begin,
                None => {
                    std::mem::swap(end, spare);
                    &*spare
                }
            };
            for sum in transition {
                sum.write(simd, &[from, numbers], n, &mut end[sum.target * n..][..n]);
            }
            let place = (point + at) & (n_places - 1);
            for row in &mut *rows {
                row.sum.write(simd, &[end], n, &mut row.values[place * n..][..n]);
            }
        }
    }
}

impl<'p> Paths<'p> {
    fn new(channels: &'p [Channel], innovations: Rc<RefCell<Innovations>>, n_lanes: usize, n_kept: usize) -> Self {
        let n_components = channels.iter().map(|channel| channel.order).sum();
        // Derivatives are kept for all directions or none; filters are small.
        let moves = channels.iter().any(|channel| channel.varies.iter().any(|varies| *varies));
        let n_moving = if moves { channels[0].varies.len() } else { 0 };
        let zero = vec![0.0; (1 + n_moving) * n_components * n_lanes];
        let mut paths = Self {
            channels,
            innovations,
            n_lanes,
            n_components,
            n_moving,
            n_kept,
            n_done: 0,
            transition: Vec::new(),
            begin: zero.clone(),
            end: zero.clone(),
            spare: zero,
            rows: Vec::new(),
            arch: pulp::Arch::new(),
        };
        let mut at = 0;
        for channel in channels {
            paths.transition.extend(paths.sums(&[&channel.transition], Some(&channel.factor), at, channel.order));
            at += channel.order;
        }
        paths.start();
        paths
    }

    /// Components at the start go to `end`, whence the first interval takes them.
    fn start(&mut self) {
        let mut numbers = vec![0.0; self.n_components * self.n_lanes];
        self.innovations.borrow().draw(0, Purpose::Start, &mut numbers);
        let mut at = 0;
        for channel in self.channels {
            if let Some(factor) = &channel.start {
                let sums = self.sums(&[], Some(factor), at, channel.order);
                write_sums(&sums, &[&numbers], self.n_lanes, &mut self.end);
            }
            at += channel.order;
        }
    }

    /// Computes a chunk from the components at its begin.
    fn cross(&mut self, chunk: usize) {
        let Self { begin, end, spare, transition, rows, arch, n_lanes, n_kept, .. } = self;
        let mut innovations = self.innovations.borrow_mut();
        let n_intervals = (*n_kept).min(FEW);
        for at in (0..*n_kept).step_by(n_intervals) {
            let interval = chunk * *n_kept + at;
            arch.dispatch(Cross {
                transition,
                numbers: innovations.at(interval, n_intervals),
                n_intervals,
                begin: (at == 0).then_some(begin),
                end,
                spare,
                rows,
                n_lanes: *n_lanes,
                point: interval + 1,
                n_places: 2 * *n_kept,
            });
        }
    }

    /// Where a sum is found, from now on.
    fn row(&mut self, sum: RowSum) -> usize {
        if let Some(known) = self.rows.iter().position(|row| row.sum == sum) {
            return known;
        }
        let n = self.n_lanes;
        let mut values = vec![0.0; 2 * self.n_kept * n];
        let chunk = self.n_done.saturating_sub(1);
        let components = if self.n_done == 0 { &self.end } else { &self.begin };
        let place = self.place(chunk * self.n_kept);
        write_sums(std::slice::from_ref(&sum), &[components], n, &mut values[place * n..][..n]);
        self.rows.push(PathRow { sum, values });
        if self.n_done > 0 {
            self.cross(chunk);
        }
        self.rows.len() - 1
    }

    /// Place of a grid point in the rings.
    fn place(&self, point: usize) -> usize {
        point & (2 * self.n_kept - 1)
    }

    /// A row at a grid point of the last chunk.
    fn at(&self, row: usize, point: usize) -> &[f64] {
        &self.rows[row].values[self.place(point) * self.n_lanes..][..self.n_lanes]
    }

    /// Goes on to the chunk of an interval.
    fn reach(&mut self, interval: usize) {
        let chunk = interval >> self.n_kept.trailing_zeros();
        while self.n_done <= chunk {
            std::mem::swap(&mut self.begin, &mut self.end);
            self.cross(self.n_done);
            self.n_done += 1;
        }
    }

    /// `target = sum of matrix * source + factor * numbers` for the components `at..at + order` of a channel, with
    /// derivatives; the numbers are the last of the sources.
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
}

/// A row that was asked for.
struct KnownRow {
    signal: usize,
    direction: Option<usize>,
    /// Where it is among the rows of the paths.
    at: usize,
}

/// One block at one point of parameters.
struct NoiseLanes<'p> {
    process: &'p DiscreteProcess,
    paths: Rc<RefCell<Paths<'p>>>,
    interpolation: Interpolation,
    interval: usize,
    /// Whether the paths are known over the interval.
    is_reached: bool,
    rows: Vec<KnownRow>,
    /// Components inside the interval, by number in the tree.
    inside: FxHashMap<u32, Components>,
}

impl<'p> NoiseLanes<'p> {
    fn new(process: &'p DiscreteProcess, paths: Rc<RefCell<Paths<'p>>>, interpolation: Interpolation) -> Self {
        Self {
            process,
            paths,
            interpolation,
            interval: usize::MAX,
            is_reached: false,
            rows: Vec::new(),
            inside: FxHashMap::default(),
        }
    }

    /// Has an output computed from now on, or its derivative along a direction.
    fn ask(&mut self, signal: usize, direction: Option<usize>) -> usize {
        let sum = self.output(signal, direction);
        let at = self.paths.borrow_mut().row(sum);
        self.rows.push(KnownRow { signal, direction, at });
        at
    }

    /// An output, or its derivative along a direction, from the components.
    fn output(&self, output: usize, direction: Option<usize>) -> RowSum {
        let Paths { n_components, n_moving, .. } = *self.paths.borrow();
        let mut sum = RowSum::new(0);
        let mut at = 0;
        for (readout, channel) in self.process.outputs[output].channels.iter().zip(&self.process.channels) {
            if let Some(readout) = readout {
                for component in 0..channel.order {
                    let row = |block: usize| block * n_components + at + component;
                    match direction {
                        None => sum.push(readout.weights[component], 0, row(0)),
                        Some(direction) => {
                            sum.push(readout.derivatives[direction][component], 0, row(0));
                            if n_moving > 0 {
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
        let (mut left_components, mut right_components) = {
            let paths = self.paths.borrow();
            (paths.begin.clone(), paths.end.clone())
        };
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
        let paths = self.paths.borrow();
        let mut numbers = vec![0.0; paths.n_components * paths.n_lanes];
        {
            let innovations = paths.innovations.borrow();
            let step = innovations.first_step.wrapping_add(self.interval as u32);
            innovations.draw(step, Purpose::Between(node), &mut numbers);
        }
        let mut components = vec![0.0; left.len()];
        let mut at = 0;
        for (channel, levels) in self.process.channels.iter().zip(&self.process.bridges) {
            let bridge = &levels[level];
            let sums = paths.sums(&[&bridge.left, &bridge.right], Some(&bridge.factor), at, channel.order);
            write_sums(&sums, &[left, right, &numbers], paths.n_lanes, &mut components);
            at += channel.order;
        }
        drop(paths);
        self.inside.insert(node, components.clone());
        components
    }
}

impl LaneDisturbances for NoiseLanes<'_> {
    fn advance(&mut self, interval: usize) {
        if self.interval != interval {
            self.interval = interval;
            self.inside.clear();
            self.is_reached = false;
        }
    }

    fn fill(&mut self, fraction: f64, rows: &[DisturbanceRow], stride: usize, values: &mut [f64]) {
        let is_inside = fraction > 0.0 && fraction < 1.0;
        // What all points want at the start is known before the first interval is computed.
        if !self.is_reached && (fraction > 0.0 || self.interval > 0) {
            self.paths.borrow_mut().reach(self.interval);
            self.is_reached = true;
        }
        if self.interpolation == Interpolation::Exact && is_inside {
            let components = self.between(fraction);
            let n = self.paths.borrow().n_lanes;
            for row in rows {
                let sum = self.output(row.signal, row.direction);
                write_sums(&[sum], &[&components], n, &mut values[row.row * stride..][..n]);
            }
            return;
        }
        for row in rows {
            let is_it = |known: &&KnownRow| known.signal == row.signal && known.direction == row.direction;
            let at = match self.rows.iter().find(is_it) {
                Some(known) => known.at,
                None => self.ask(row.signal, row.direction),
            };
            let paths = self.paths.borrow();
            let (begin, end) = (paths.at(at, self.interval), paths.at(at, self.interval + 1));
            let target = &mut values[row.row * stride..][..paths.n_lanes];
            if fraction == 1.0 {
                target.copy_from_slice(end);
            } else if fraction == 0.0 {
                target.copy_from_slice(begin);
            } else {
                paths.arch.dispatch(Interpolate { begin, end, fraction, target });
            }
        }
    }
}
