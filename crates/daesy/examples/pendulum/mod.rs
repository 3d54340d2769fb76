//! The experiment of the pendulum: its known force, its data, its predictions.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use daesy::load::{LoadOptions, Loaded, load_source};
use daesy::prediction_study::PredictionStudy;
use daesy::source::{Place, Source};
use daesy::table::Table;
use daesy_estimate::noise::jet::JetMatrix;
use daesy_estimate::noise::{DiscreteProcess, Interpolation, ShapedNoise, ShapingFilter};
use daesy_integrate::ensemble::{DisturbanceRow, Disturbances};
use daesy_pencil::Mat;

/// Distance of the grid of disturbances.
pub const NOISE_STEP: f64 = 0.01;
/// Grid points per sample.
pub const PER_SAMPLE: usize = 10;
/// The true value of what is sought, length or drag.
pub const TRUTH: f64 = 6.25;

/// Which of the two experiments.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Setting {
    /// As the paper's text says: the length is sought, the force has the scale 0.6, the disturbance 0.2, the errors a
    /// variance of 0.002.
    Printed,
    /// As the authors' program does it: the drag is sought, the force has the scale 0.2, the disturbance 0.6, the
    /// errors a standard deviation of 0.002.
    Programmed,
}

impl Setting {
    /// By the text, or by the program.
    pub const fn new(is_printed: bool) -> Self {
        if is_printed { Self::Printed } else { Self::Programmed }
    }

    /// The study.
    pub fn file(self) -> PathBuf {
        let name = match self {
            Self::Printed => "experiment.toml",
            Self::Programmed => "drag.toml",
        };
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../problems/pendulum").join(name)
    }

    /// The known force at grid points: a realization of the process (9), scaled.
    pub fn force(self, seed: u64, n_points: usize) -> Vec<f64> {
        let scale = match self {
            Self::Printed => 0.6,
            Self::Programmed => 0.2,
        };
        realization(seed, n_points).iter().map(|value| scale * value).collect()
    }
}

/// A realization of the process (9) on the grid.
fn realization(seed: u64, n_points: usize) -> Vec<f64> {
    let constant = |rows: &[&[f64]]| JetMatrix::constant(Mat::from_fn(rows.len(), rows[0].len(), |i, j| rows[i][j]), 0);
    let filter = ShapingFilter {
        dynamics: constant(&[&[0.0, 1.0], &[-16.0, -0.8]]),
        input: constant(&[&[0.0], &[1.0]]),
        output: constant(&[&[1.0, 0.0]]),
        starts_at_zero: true,
        derivatives_needed: vec![0],
    };
    let process = DiscreteProcess::new(&[filter], NOISE_STEP, 0).expect("the process (9) is stable and smooth");
    let noise = ShapedNoise {
        seed,
        is_antithetic: false,
        interpolation: Interpolation::Linear,
        slots: vec![0],
        points: vec![Arc::new(process)],
        first_step: 0,
    };
    let mut lanes = noise.block(0, 0, 1, 0..1).swap_remove(0);
    let rows = [DisturbanceRow { row: 0, signal: 0, direction: None }];
    let mut value = [0.0];
    let mut values = Vec::with_capacity(n_points);
    for interval in 0..n_points {
        lanes.advance(interval);
        lanes.fill(0.0, &rows, 1, &mut value);
        values.push(value[0]);
    }
    values
}

/// A table with the known force at every grid point and the angle at every sample; NaN where there is none yet.
pub fn table(n_samples: usize, force: &[f64], angles: &[f64]) -> Table {
    let n_points = n_samples * PER_SAMPLE + 1;
    let times = (0..n_points).map(|at| at as f64 * NOISE_STEP).collect();
    let mut measured = vec![f64::NAN; n_points];
    for sample in 1..=n_samples {
        measured[sample * PER_SAMPLE] = angles.get(sample - 1).copied().unwrap_or(0.0);
    }
    Table {
        names: ["t", "u", "y"].map(str::to_owned).to_vec(),
        columns: vec![times, force[..n_points].to_vec(), measured],
    }
}

/// The study with a table of data in memory.
pub fn load(setting: Setting, table: Table) -> Loaded {
    let source = Source { place: Place::File(setting.file()), data: vec![table] };
    load_source(&source, &LoadOptions::default()).unwrap_or_else(|errors| panic!("{errors:#?}"))
}

/// The study as a prediction problem, with a transient.
pub fn study(setting: Setting, table: Table, n_realizations: usize, transient: f64, seed: u64) -> PredictionStudy {
    let mut loaded = load(setting, table);
    if let Some(study) = &mut loaded.study {
        study.identify.transient = Some(transient);
        study.identify.realizations = Some(n_realizations as u64);
    }
    PredictionStudy::of(&loaded, seed).unwrap_or_else(|errors| panic!("{errors:#?}"))
}
