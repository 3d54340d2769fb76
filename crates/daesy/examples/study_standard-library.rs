//! Three examples of the Modelica Standard Library, identified: a drive with a clutch and a brake, a cooled mass, and a
//! MultiBody pendulum. Artificial records with known parameters; then the questions a user has after an estimate.
//!
//! `MODELICAPATH=FOLDER cargo xtask study standard-library` writes `book/studies/standard-library`; the library is no
//! part of the repository. Expected time: one minute.
#![forbid(unsafe_code)]

mod study;

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use study::fit::{Fit, with_error};
use study::noise::Noise;
use study::{Record, column, estimates, number_at};

/// A parameter: its name, its value in the example, where the search begins, and its bounds.
struct Unknown {
    name: &'static str,
    truth: f64,
    start: f64,
    bounds: [f64; 2],
}

/// An example with what is measured of it.
struct Example {
    name: &'static str,
    title: &'static str,
    class: &'static str,
    /// The signal, its unit and the standard deviation of its errors.
    signal: &'static str,
    unit: &'static str,
    std: f64,
    /// A signal that is not measured.
    hidden: &'static str,
    stop: f64,
    step: f64,
    unknowns: &'static [Unknown],
}

const EXAMPLES: [Example; 3] = [
    Example {
        name: "drive",
        title: "Drive with clutch and brake",
        class: "Modelica.Mechanics.Rotational.Examples.Friction",
        signal: "inertia3.w",
        unit: "rad/s",
        std: 0.05,
        hidden: "inertia1.w",
        stop: 1.0,
        step: 0.01,
        unknowns: &[
            Unknown { name: "spring.c", truth: 160.0, start: 100.0, bounds: [1.0, 1000.0] },
            Unknown { name: "clutch.fn_max", truth: 160.0, start: 120.0, bounds: [1.0, 1000.0] },
        ],
    },
    Example {
        name: "cooling",
        title: "Mass cooled by a fluid",
        class: "Modelica.Thermal.FluidHeatFlow.Examples.OneMass",
        signal: "heatCapacitor.T",
        unit: "K",
        std: 0.1,
        hidden: "pipe.T",
        stop: 1.0,
        step: 0.01,
        unknowns: &[
            Unknown { name: "thermalConductor.G", truth: 1.0, start: 0.5, bounds: [0.01, 10.0] },
            Unknown { name: "heatCapacitor.C", truth: 0.1, start: 0.2, bounds: [0.001, 10.0] },
        ],
    },
    Example {
        name: "pendulum",
        title: "MultiBody pendulum with a damper",
        class: "Modelica.Mechanics.MultiBody.Examples.Elementary.Pendulum",
        signal: "rev.phi",
        unit: "rad",
        std: 0.02,
        hidden: "rev.w",
        stop: 5.0,
        step: 0.05,
        unknowns: &[Unknown { name: "damper.d", truth: 0.1, start: 0.3, bounds: [0.0, 10.0] }],
    },
];

impl Example {
    /// The model: the example under a name of its own.
    fn model(&self) -> String {
        format!("model Plant \"{}\"\n  extends {};\nend Plant;\n", self.title, self.class)
    }

    /// The study, with the record if there is one.
    fn study(&self, has_data: bool) -> String {
        let Self { name, signal, std, hidden, stop, step, .. } = self;
        let mut text = format!("[model]\nfile = \"{name}.mo\"\n\n[simulate]\nstop = {stop:?}\nstep = {step:?}\n");
        if has_data {
            text.push_str("\n[unknown]\n");
            for Unknown { name, start, bounds: [min, max], .. } in self.unknowns {
                let _ = writeln!(text, "\"{name}\" = {{ start = {start:?}, min = {min:?}, max = {max:?} }}");
            }
            let _ = write!(
                text,
                "\n[measurements]\n\"{signal}\" = {{ column = \"{signal}\", std = {std:?} }}\n\n\
                 [estimate]\nsignals = [\"{hidden}\"]\n\n[data]\nfile = \"{name}.csv\"\n"
            );
        }
        text
    }

    /// The same with the estimates as random parameters.
    fn random_study(&self, found: &[study::Estimated]) -> String {
        let mut text = self.study(false);
        text.push_str("\n[random]\n");
        for of in found {
            let (mean, std) = (study::figure(of.estimate), study::figure(of.std_error));
            let _ = writeln!(text, "\"{}\" = {{ normal = {{ mean = {mean}, std = {std} }} }}", of.name);
        }
        text
    }

    fn run(&self, record: &mut Record, folder: &Path, seed: u64) {
        let write = |file: String, text: &str| {
            let path = folder.join(file);
            std::fs::write(&path, text).expect("the folder can be written");
            path.display().to_string()
        };
        write(format!("{}.mo", self.name), &self.model());
        let truth = write(format!("{}_truth.toml", self.name), &self.study(false));
        let simulated = record.ask_quietly(&format!("simulate {truth}"));
        let Some(table) = simulated.table else {
            eprintln!(
                "study standard-library: `{}` cannot be simulated; is MODELICAPATH the folder of the library? Nothing was written.",
                self.class
            );
            std::process::exit(1);
        };
        let (t, signal) = (column(&table, "t"), column(&table, self.signal));
        let mut noise = Noise::new(seed);
        let mut data = format!("t,{}\n", self.signal);
        let mut next = 0.0;
        for (t, value) in t.iter().zip(signal) {
            // At an event a table has two rows, and one that falls between the samples none.
            if (t - next).abs() < 1e-9 {
                let _ = writeln!(data, "{t},{}", value + self.std * noise.normal());
                next += self.step;
            }
        }
        write(format!("{}.csv", self.name), &data);
        let study = write(format!("{}.toml", self.name), &self.study(true));
        let found = record.must(&format!("identify {study}"));
        let estimated = estimates(&found);
        for (of, known) in estimated.iter().zip(self.unknowns) {
            let off = (of.estimate - known.truth) / of.std_error;
            record.number(&format!("{}: {}, estimate", self.name, of.name), of.estimate);
            record.number(&format!("{}: {}, standard error", self.name, of.name), of.std_error);
            let truth = format!("{} (truth)", known.truth);
            let remark = format!("off by {} standard errors", study::digits(off.abs(), 2));
            record.compare(&of.name, self.class, &truth, &with_error(of.estimate, of.std_error), &remark);
        }
        let whiteness = number_at(&found, &["residuals", self.signal, "whiteness_p"]);
        record.number(&format!("{}: residuals, whiteness p", self.name), whiteness);
        let values: Vec<String> =
            estimated.iter().map(|of| format!("--set {}={}", of.name, study::figure(of.estimate))).collect();
        record.must(&format!("estimate {study} {}", values.join(" ")));
        let random = write(format!("{}_random.toml", self.name), &self.random_study(&estimated));
        let spread = record.must(&format!("uq {random}"));
        if let Some(table) = &spread.table {
            let std = column(table, &format!("{}.std", self.hidden));
            let largest = std.iter().copied().filter(|value| value.is_finite()).fold(0.0, f64::max);
            record.number(&format!("{}: largest standard deviation of {}", self.name, self.hidden), largest);
        }
        for file in ["mo", "toml", "csv"] {
            let file = format!("{}.{file}", self.name);
            let text = std::fs::read_to_string(folder.join(&file)).expect("it was written");
            record.text(&file, &text);
        }
        record.picture(
            self.name,
            &format!("{}: the record and the model as identified.", self.title),
            &Fit::of(&found, self.signal).charts(self.title, self.unit, "modelled"),
        );
    }
}

fn main() {
    let mut record = Record::new("standard-library");
    let folder: PathBuf = std::env::temp_dir().join(format!("daesy-standard-library-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("there is a folder for temporary files");
    for (example, seed) in EXAMPLES.iter().zip(1..) {
        example.run(&mut record, &folder, seed);
    }
    let _ = std::fs::remove_dir_all(&folder);
    record.write();
}
