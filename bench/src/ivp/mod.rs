//! Initial value problems of DAEs with reference values, for daesy and for peers that ask for a hand-reduced form.

pub mod diffsol_peer;
pub mod emit;
pub mod ida;
pub mod native;
pub mod race;

/// A variable and its value at the end.
#[derive(Clone, Copy, Debug)]
pub struct Reference {
    /// Its name in the model.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
}

/// A problem of `problems/` with the values at its end.
#[derive(Clone, Copy, Debug)]
pub struct Problem {
    /// The folder in `problems/`, and the file in `bench/peers/models/`.
    pub folder: &'static str,
    /// The class in the folder.
    pub class: &'static str,
    /// The class of the hand-reduced form.
    pub reduced_class: &'static str,
    /// The last time.
    pub stop: f64,
    /// Errors are relative to this plus the value; the absolute tolerance is this times the relative one.
    pub scale: f64,
    /// Values at the end.
    pub reference: &'static [Reference],
    /// Rates of the hand-reduced form at the start where its mass matrix does not give them.
    pub start_rates: &'static [f64],
}

macro_rules! reference {
    ($($name:literal = $value:literal),* $(,)?) => {
        &[$(Reference { name: $name, value: $value }),*]
    };
}

/// The problems, with the values of `problems/*/reference.toml`.
pub const PROBLEMS: &[Problem] = &[
    Problem {
        folder: "pendulum",
        class: "Pendulum",
        reduced_class: "Pendulum",
        stop: 10.0,
        scale: 1.0,
        reference: reference!(
            "x1" = -1.4657894399605595,
            "x2" = -6.075686077942153,
            "x4" = -2.799579616019173,
            "x5" = 0.6754124859063879
        ),
        start_rates: &[],
    },
    Problem {
        folder: "akzo_nobel",
        class: "AkzoNobel",
        reduced_class: "AkzoNobel",
        stop: 180.0,
        scale: 1e-3,
        reference: reference!(
            "y1" = 0.1150794920661702,
            "y2" = 0.001203831471567715,
            "y3" = 0.1611562887407974,
            "y4" = 0.0003656156421249283,
            "y5" = 0.01708010885264404,
            "y6" = 0.004873531310307455
        ),
        start_rates: &[],
    },
    Problem {
        folder: "robertson",
        class: "Robertson",
        reduced_class: "Robertson",
        stop: 1e11,
        scale: 1e-6,
        reference: reference!("y1" = 2.083340149701255e-8, "y2" = 8.333360770334713e-14, "y3" = 0.999999979166505),
        start_rates: &[],
    },
    Problem {
        folder: "transistor_amplifier",
        class: "TransistorAmplifier.Branches",
        reduced_class: "TransistorAmplifier",
        stop: 0.2,
        scale: 1.0,
        reference: reference!(
            "y1" = -0.005562145012262709,
            "y2" = 3.006522471903042,
            "y3" = 2.849958788608128,
            "y4" = 2.926422536206241,
            "y5" = 2.704617865010554,
            "y6" = 2.761837778393145,
            "y7" = 4.770927631616772,
            "y8" = 1.236995868091548
        ),
        start_rates: &[
            51.338775,
            51.338775,
            -166.66666666666666,
            -24.975766646757,
            -24.975766646757,
            -83.33333333333333,
            -10.00564453,
            -10.00564453,
        ],
    },
    Problem {
        folder: "car_axis",
        class: "CarAxis",
        reduced_class: "CarAxis",
        stop: 3.0,
        scale: 1.0,
        reference: reference!(
            "xl" = 0.04934557842754028,
            "yl" = 0.49698946023017115,
            "xr" = 1.0417425248854215,
            "yr" = 0.37391102726536124,
            "vxl" = -0.07705836840409723,
            "vyl" = 0.007446866587237785,
            "vxr" = 0.017556815753723223,
            "vyr" = 0.7703410437792519
        ),
        start_rates: &[],
    },
    Problem {
        folder: "andrews_squeezer",
        class: "AndrewsSqueezer",
        reduced_class: "AndrewsSqueezer",
        stop: 0.03,
        scale: 1.0,
        reference: reference!(
            "q[1]" = 15.81077119629904,
            "q[2]" = -15.75637105984298,
            "q[3]" = 0.04082224013073101,
            "q[4]" = -0.5347301163226948,
            "q[5]" = 0.5244099658805303,
            "q[6]" = 0.5347301163226948,
            "q[7]" = 1.048080741042263
        ),
        start_rates: &[],
    },
];

impl Problem {
    /// The largest mixed error of values found by name.
    pub fn error(&self, value_of: impl Fn(&str) -> Option<f64>) -> f64 {
        let errors = self.reference.iter().map(|reference| {
            let found = value_of(reference.name).unwrap_or(f64::NAN);
            (found - reference.value).abs() / (self.scale + reference.value.abs())
        });
        errors.fold(0.0, |largest: f64, error| if error.is_nan() { f64::NAN } else { largest.max(error) })
    }
}

/// What a solver reached.
#[derive(Clone, Copy, Debug)]
pub struct Reached {
    /// Mixed error at the end.
    pub error: f64,
    /// Steps taken.
    pub n_steps: usize,
}

/// Why a solver reached nothing.
#[derive(Clone, Debug)]
pub struct Unreached {
    /// In words.
    pub reason: String,
}
