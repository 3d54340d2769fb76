//! Linearly implicit steps for stiff systems at loose tolerances: Rosenbrock methods of order 4 and 5.
//!
//! A step needs one Jacobian, one factorization and as many solutions as it has stages, and no iteration. With R(s, v)
//! the rates of the states, which are states or unknowns themselves, the increments (S_i, V_i) of the stages satisfy
//! [@hairer1996, sec. VI.4]
//!
//! ```text
//! S_i / (gamma h) - R(S_i, V_i)  =  R(s_i, v_i) + (1/h) sum_j c_ij S_j
//! F_s S_i + F_v V_i              = -F(t + alpha_i h, s_i, v_i) - h gamma_i F_t
//! (s_i, v_i) = (s, v) + sum_j a_ij (S_j, V_j)
//! ```
//!
//! As R only picks components, the first line gives S_i from V_i chain by chain, and what is left is a system with the
//! matrix dF/dv + sum of (h gamma)^m dF/ds of the implicit stages of module `radau`. The last two points of a step
//! belong to two methods of neighbouring order, both stiffly accurate, so that the last increment is the error
//! estimate.
//!
//! The coefficients are those of the methods Rodas4P [@steinebach1995] and Rodas5P [@steinebach2023], which keep their
//! order for stiff problems whose solution is slow, with their polynomials between step ends. F_t is the derivative
//! along the inputs too, whose rates are taken from a difference.

use daesy_system::Part;

use crate::equations::{StageMatrix, StagePattern, Surroundings};
use crate::error::IntegrateError;
use crate::gauge::Gauge;
use crate::model::{Model, Moment};
use crate::radau::Attempt;

/// Rates of inputs are differences over this part of a step.
const INPUT_DIFFERENCE: f64 = 1e-6;

/// Where within a step its polynomial is compared with the solution: twice, since the polynomial crosses what it
/// misses.
const PROBES: [f64; 2] = [0.3, 0.75];

/// Stages of the longest method: rows of coefficients and of increments are filled up with zeros to this length.
const WIDTH: usize = 8;

/// Coefficients of one method.
#[derive(Debug)]
pub(crate) struct Tableau {
    /// Order of the method, which is one more than that of the error estimate.
    pub(crate) order: f64,
    gamma: f64,
    /// a_ij of the stages whose point is not the last one plus its increment.
    points: &'static [&'static [f64]],
    /// c_ij.
    couplings: &'static [&'static [f64]],
    /// alpha_i; 1 for the stages that are missing.
    nodes: &'static [f64],
    /// gamma_i; 0 for the stages that are missing.
    time_weights: &'static [f64],
    /// Weights of the increments in the polynomial between step ends.
    between: &'static [&'static [f64]],
}

impl Tableau {
    fn n_stages(&self) -> usize {
        self.couplings.len()
    }

    /// The weights of increments in the points of all stages and in the new point.
    fn all_points(&self) -> Vec<[f64; WIDTH]> {
        let mut points: Vec<[f64; WIDTH]> = self.points.iter().map(|row| filled_up(row)).collect();
        for stage in points.len()..=self.n_stages() {
            let mut row = points[stage - 1];
            row[stage - 1] = 1.0;
            points.push(row);
        }
        points
    }
}

fn filled_up(row: &[f64]) -> [f64; WIDTH] {
    let mut full = [0.0; WIDTH];
    full[..row.len()].copy_from_slice(row);
    full
}

fn dot(a: &[f64; WIDTH], b: &[f64; WIDTH]) -> f64 {
    (0..WIDTH).map(|at| a[at] * b[at]).sum()
}

static RODAS_4P: Tableau = Tableau {
    order: 4.0,
    gamma: 0.25,
    points: &[
        &[],
        &[3.0],
        &[1.831036793486759, 0.4955183967433795],
        &[2.304376582692669, -0.05249275245743001, -1.176798761832782],
        &[-7.170454962423024, -4.741636671481785, -16.31002631330971, -1.062004044111401],
    ],
    couplings: &[
        &[],
        &[-12.0],
        &[-8.791795173947035, -2.207865586973518],
        &[10.81793056857153, 6.780270611428266, 19.5348594464241],
        &[34.19095006749676, 15.49671153725963, 54.7476087596413, 14.16005392148534],
        &[34.62605830930532, 15.30084976114473, 56.99955578662667, 18.40807009793095, -5.714285714285717],
    ],
    nodes: &[0.0, 0.75, 0.21, 0.63],
    time_weights: &[0.25, -0.5, -0.023504, -0.0362],
    between: &[
        &[25.09876703708589, 11.62013104361867, 28.49148307714626, -5.664021568594133],
        &[1.638054557396973, -0.7373619806678748, 8.47791821923899, 15.9925314877952, -1.882352941176471],
    ],
};

static RODAS_5P: Tableau = Tableau {
    order: 5.0,
    gamma: 0.21193756319429014,
    points: &[
        &[],
        &[3.0],
        &[2.849394379747939, 0.45842242204463923],
        &[-6.954028509809101, 2.489845061869568, -10.358996098473584],
        &[2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641],
        &[-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946],
    ],
    couplings: &[
        &[],
        &[-14.155112264123755],
        &[-17.97296035885952, -2.859693295451294],
        &[147.12150275711716, -1.41221402718213, 71.68940251302358],
        &[165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306],
        &[24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471],
        &[
            30.91273214028599,
            -3.1208243349937974,
            77.79954646070892,
            34.28646028294783,
            -19.097331116725623,
            -28.087943162872662,
        ],
        &[
            37.80277123390563,
            -3.2571969029072276,
            112.26918849496327,
            66.9347231244047,
            -40.06618937091002,
            -54.66780262877968,
            -9.48861652309627,
        ],
    ],
    nodes: &[0.0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664],
    time_weights: &[
        0.21193756319429014,
        -0.42387512638858027,
        -0.3384627126235924,
        1.8046452872882734,
        2.325825639765069,
    ],
    between: &[
        &[
            25.948786856663858,
            -2.5579724845846235,
            10.433815404888879,
            -2.3679251022685204,
            0.524948541321073,
            1.1241088310450404,
            0.4272876194431874,
            -0.17202221070155493,
        ],
        &[
            -9.91568850695171,
            -0.9689944594115154,
            3.0438037242978453,
            -24.495224566215796,
            20.176138334709044,
            15.98066361424651,
            -6.789040303419874,
            -6.710236069923372,
        ],
        &[
            11.419903575922262,
            2.8879645146136994,
            72.92137995996029,
            80.12511834622643,
            -52.072871366152654,
            -59.78993625266729,
            -0.15582684282751913,
            4.883087185713722,
        ],
    ],
};

/// Memory of the method. Vectors of length n_states + n_unknowns have the states first.
pub(crate) struct Rosenbrock {
    pub(crate) tableau: &'static Tableau,
    points: Vec<[f64; WIDTH]>,
    couplings: Vec<[f64; WIDTH]>,
    between: Vec<[f64; WIDTH]>,
    pattern: StagePattern,
    matrix: StageMatrix<f64>,
    n_states: usize,
    /// Whether dF/dv and dF/ds are those of the point where the step begins.
    has_jacobian: bool,
    /// Whether residuals follow the time or the inputs.
    is_driven: bool,
    /// The point of the stage at hand, in the end the new one.
    point: Vec<f64>,
    /// Increments by stage, for each state and unknown.
    increments: Vec<[f64; WIDTH]>,
    /// The increments of the stage at hand.
    increment: Vec<f64>,
    base: Vec<f64>,
    by_time: Vec<f64>,
    later_inputs: Vec<f64>,
    gauge: Gauge,
}

impl Rosenbrock {
    /// The method for a tolerance; none where higher orders cost less.
    pub(crate) fn suited(rtol: f64) -> Option<&'static Tableau> {
        (rtol > 2e-5).then(|| Self::for_tolerance(rtol))
    }

    /// The better of both methods at a tolerance.
    pub(crate) fn for_tolerance(rtol: f64) -> &'static Tableau {
        if rtol > 5e-4 { &RODAS_4P } else { &RODAS_5P }
    }

    pub(crate) fn new(model: &Model<'_, '_>, tableau: &'static Tableau) -> Result<Self, IntegrateError> {
        let system = model.equations.system;
        let description = system.description();
        let (n_states, n_unknowns) = (description.states.len(), description.unknowns.len());
        let pattern = StagePattern::new(&model.equations);
        let is_driven =
            [Part::ResidualByTime, Part::ResidualByInputs].into_iter().any(|part| system.pattern(part).n_entries() > 0);
        Ok(Self {
            tableau,
            points: tableau.all_points(),
            couplings: tableau.couplings.iter().map(|row| filled_up(row)).collect(),
            between: tableau.between.iter().map(|row| filled_up(row)).collect(),
            matrix: StageMatrix::new(&model.equations, &pattern)?,
            pattern,
            n_states,
            has_jacobian: false,
            is_driven,
            point: vec![0.0; n_states + n_unknowns],
            increments: vec![[0.0; WIDTH]; n_states + n_unknowns],
            increment: vec![0.0; n_states + n_unknowns],
            base: vec![0.0; n_states],
            by_time: vec![0.0; n_unknowns],
            later_inputs: vec![0.0; model.input_values.len()],
            gauge: Gauge::new(n_states, n_unknowns, model.input_values.len()),
        })
    }

    /// Forgets where the last Jacobian was taken: the next step begins elsewhere.
    pub(crate) fn restart(&mut self) {
        self.has_jacobian = false;
    }

    /// The new states after a step.
    pub(crate) fn states(&self) -> &[f64] {
        &self.point[..self.n_states]
    }

    /// The new unknowns after a step, which satisfy their equations only as well as the method is exact.
    pub(crate) fn unknowns(&self) -> &[f64] {
        &self.point[self.n_states..]
    }

    /// dF/dv, dF/ds and F_t where the step begins, with the inputs there.
    fn differentiate(&mut self, model: &mut Model<'_, '_>, old: &Moment, step: f64) -> Result<(), IntegrateError> {
        model.differentiate(old)?;
        if self.is_driven {
            let time = old.time + (INPUT_DIFFERENCE * step).max(1e-12 * old.time.abs());
            model.inputs().fill(time, true, &mut self.later_inputs);
            for (later, now) in self.later_inputs.iter_mut().zip(&model.input_values) {
                *later = (*later - now) / (time - old.time);
            }
            let around = Surroundings {
                time: old.time,
                parameters: &model.parameters,
                inputs: &model.input_values,
                modes: &model.modes,
            };
            let point = around.point(&old.states, &old.unknowns);
            model.equations.residual_rates(&point, &self.later_inputs, &mut self.by_time);
        }
        self.has_jacobian = true;
        Ok(())
    }

    /// (s_i, v_i) = (s, v) + sum_j a_ij (S_j, V_j)
    fn set_point(&mut self, old: &Moment, stage: usize) {
        let row = &self.points[stage];
        let olds = old.states.iter().chain(&old.unknowns);
        for ((value, old), increments) in self.point.iter_mut().zip(olds).zip(&self.increments) {
            *value = old + dot(row, increments);
        }
    }

    /// Tries a step.
    pub(crate) fn try_step(
        &mut self,
        model: &mut Model<'_, '_>,
        old: &Moment,
        step: f64,
        new_time: f64,
        is_at_break: bool,
    ) -> Result<Attempt, IntegrateError> {
        let tableau = self.tableau;
        if !self.has_jacobian {
            self.differentiate(model, old, step)?;
        }
        let eta = step * tableau.gamma;
        let factored = self.matrix.factor(&mut model.equations, &self.pattern, eta);
        factored.map_err(|singular| model.equations.singular(old.time, singular))?;
        self.increments.fill([0.0; WIDTH]);
        for stage in 0..tableau.n_stages() {
            self.set_point(old, stage);
            let (states, unknowns) = self.point.split_at(self.n_states);
            let (state_increments, unknown_increments) = self.increment.split_at_mut(self.n_states);
            // Where the step begins the equations hold.
            unknown_increments.fill(0.0);
            if stage > 0 {
                let node = tableau.nodes.get(stage);
                let time = node.map_or(new_time, |node| old.time + node * step);
                if self.is_driven {
                    model.fill_inputs(time, node.is_some() || !is_at_break);
                }
                let around = Surroundings {
                    time,
                    parameters: &model.parameters,
                    inputs: &model.input_values,
                    modes: &model.modes,
                };
                if !model.equations.residual(&around.point(states, unknowns), unknown_increments) {
                    return Ok(Attempt::Failed { reduction: 0.3 });
                }
            }
            if let (true, Some(weight)) = (self.is_driven, tableau.time_weights.get(stage)) {
                for (residual, rate) in unknown_increments.iter_mut().zip(&self.by_time) {
                    *residual += step * weight * rate;
                }
            }
            let couplings = &self.couplings[stage];
            model.equations.rates(states, unknowns, &mut self.base);
            for (base, increments) in self.base.iter_mut().zip(&self.increments) {
                *base = eta * *base + tableau.gamma * dot(couplings, increments);
            }
            let equations = &mut model.equations;
            equations
                .solve_stage(&mut self.matrix, &self.base, eta, state_increments, unknown_increments)
                .map_err(|singular| equations.singular(old.time, singular))?;
            for (increments, increment) in self.increments.iter_mut().zip(&self.increment) {
                increments[stage] = *increment;
            }
        }
        self.set_point(old, tableau.n_stages());
        let (states, unknowns) = self.increment.split_at(self.n_states);
        let trial = model.size_of_error(states.iter().copied(), self.states(), unknowns);
        if !trial.error.is_finite() {
            return Ok(Attempt::Failed { reduction: 0.3 });
        }
        Ok(Attempt::Solved(trial))
    }

    /// How far the polynomial between the ends is from the solution inside (module `gauge`).
    pub(crate) fn gap(&mut self, model: &mut Model<'_, '_>, old: &Moment, step: f64) -> Result<f64, IntegrateError> {
        let (between, gauge) = (&self.between, &mut self.gauge);
        let (new_states, new_unknowns) = self.point.split_at(self.n_states);
        let (state_increments, unknown_increments) = self.increments.split_at(self.n_states);
        let mut gap = 0.0f64;
        for x in PROBES {
            for (at, increments) in state_increments.iter().enumerate() {
                let (old, new, inner) = (old.states[at], new_states[at], polynomial(between, increments, x));
                gauge.states[at] = mixed(old, new, inner.value, x);
                gauge.slopes[at] = new - old + (1.0 - 2.0 * x) * inner.value + x * (1.0 - x) * inner.slope;
            }
            for (at, increments) in unknown_increments.iter().enumerate() {
                let inner = polynomial(between, increments, x);
                gauge.unknowns[at] = mixed(old.unknowns[at], new_unknowns[at], inner.value, x);
            }
            gap = gap.max(gauge.distance(model, &mut self.matrix, old, step, self.tableau.gamma, x)?);
        }
        Ok(gap)
    }

    /// The states at a fraction `x` of the last step.
    pub(crate) fn between(&self, old: &Moment, x: f64, states: &mut [f64]) {
        for (at, state) in states.iter_mut().enumerate() {
            let inner = polynomial(&self.between, &self.increments[at], x).value;
            *state = mixed(old.states[at], self.point[at], inner, x);
        }
    }
}

/// The value of a polynomial and its derivative.
struct Inner {
    value: f64,
    slope: f64,
}

/// What the increments add to the straight line between the ends of a step, but for the factor x (1 - x).
fn polynomial(rows: &[[f64; WIDTH]], increments: &[f64; WIDTH], x: f64) -> Inner {
    rows.iter().rev().fold(Inner { value: 0.0, slope: 0.0 }, |sum, row| Inner {
        value: dot(row, increments) + x * sum.value,
        slope: sum.value + x * sum.slope,
    })
}

/// (1 - x) old + x new + x (1 - x) inner
fn mixed(old: f64, new: f64, inner: f64, x: f64) -> f64 {
    (1.0 - x) * old + x * (new + (1.0 - x) * inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Step {
        end: f64,
        middle: f64,
    }

    /// One step for a single equation y' = f(t, y), written down without regard to states and unknowns.
    fn step_of(
        tableau: &Tableau,
        rate: impl Fn(f64, f64) -> f64,
        by_value: f64,
        by_time: f64,
        start: f64,
        h: f64,
    ) -> Step {
        let points = tableau.all_points();
        let mut increments = [0.0; WIDTH];
        for stage in 0..tableau.n_stages() {
            let time = h * tableau.nodes.get(stage).copied().unwrap_or(1.0);
            let value = start + dot(&points[stage], &increments);
            let coupled = dot(&filled_up(tableau.couplings[stage]), &increments) / h;
            let drift = h * tableau.time_weights.get(stage).copied().unwrap_or(0.0) * by_time;
            increments[stage] = (rate(time, value) + coupled + drift) / (1.0 / (tableau.gamma * h) - by_value);
        }
        let end = start + dot(&points[tableau.n_stages()], &increments);
        let rows: Vec<[f64; WIDTH]> = tableau.between.iter().map(|row| filled_up(row)).collect();
        Step { end, middle: mixed(start, end, polynomial(&rows, &increments, 0.5).value, 0.5) }
    }

    /// y' = y^2 cos(t) has the solution 1 / (1 / y(0) - sin(t)): errors of one step fall as its order says, also in its
    /// middle.
    #[test]
    fn single_steps_have_their_order() {
        for tableau in [&RODAS_4P, &RODAS_5P] {
            let exact = |time: f64| 1.0 / (1.25 - time.sin());
            let error = |h: f64| {
                let start = exact(0.0);
                // d(y^2 cos t)/dt vanishes at t = 0, where the step begins.
                let step = step_of(tableau, |time, value| value * value * time.cos(), 2.0 * start, 0.0, start, h);
                [(step.end - exact(h)).abs(), (step.middle - exact(0.5 * h)).abs()]
            };
            let (coarse, fine) = (error(0.1), error(0.05));
            let orders = [0, 1].map(|at| (coarse[at] / fine[at]).log2());
            assert!(orders[0] > tableau.order + 0.6, "{}: {orders:?}", tableau.order);
            assert!(orders[1] > tableau.order - 0.4, "{}: {orders:?}", tableau.order);
        }
    }

    /// y' = -1e6 (y - g(t)) + g'(t), whose stiff part an accurate method does not feel, with g' and g'' other than zero
    /// at the start.
    #[test]
    fn stiff_forcing_costs_no_order() {
        let forcing = |time: f64| (1.0 + time).sin();
        let rate = |time: f64, value: f64| -1e6 * (value - forcing(time)) + (1.0 + time).cos();
        let by_time = 1e6 * 1f64.cos() - 1f64.sin();
        for tableau in [&RODAS_4P, &RODAS_5P] {
            let error = |h: f64| (step_of(tableau, rate, -1e6, by_time, forcing(0.0), h).end - forcing(h)).abs();
            assert!(error(0.1) < 1e-9, "{}: {}", tableau.order, error(0.1));
        }
    }
}
