//! The component library: every class is described and balanced, and gives the equations that physics asks for.

use std::path::{Path, PathBuf};

use daesy_graph::evaluate::{Environment, Evaluator};
use daesy_graph::flat::FlatDae;
use daesy_graph::{FileId, Level, VarId};
use daesy_model::parser::parse;
use daesy_model::syntax::{ClassBody, ClassDef, ClassKind, ElementKind};
use daesy_model::{FlattenOptions, Library, flatten};

/// A text of the library: its path below the library's folder, and what it says.
struct Text {
    path: String,
    text: String,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read_folder(folder: &Path, prefix: &str, texts: &mut Vec<Text>) {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("it can be listed").path())
        .collect();
    entries.sort();
    for entry in entries {
        let name = entry.file_name().and_then(|name| name.to_str()).expect("names are plain").to_owned();
        if entry.is_dir() {
            read_folder(&entry, &format!("{prefix}{name}/"), texts);
        } else if name.ends_with(".mo") {
            let text = std::fs::read_to_string(&entry).expect("it can be read");
            texts.push(Text { path: format!("{prefix}{name}"), text });
        }
    }
}

fn texts() -> Vec<Text> {
    let mut texts = Vec::new();
    read_folder(&root().join("library"), "", &mut texts);
    texts
}

/// The library as it is embedded in the program.
fn library(texts: &[Text]) -> Library {
    let files: Vec<(&str, &str)> = texts.iter().map(|one| (one.path.as_str(), one.text.as_str())).collect();
    Library::with_embedded(&files)
}

/// A class of the library with its full name.
struct Found {
    name: String,
    class: ClassDef,
}

fn collect(prefix: &str, class: &ClassDef, found: &mut Vec<Found>) {
    let name =
        if prefix.is_empty() { class.name.name.text().to_owned() } else { format!("{prefix}.{}", class.name.name) };
    if let ClassBody::Long { composition, .. } = &class.body {
        for element in &composition.elements {
            if let ElementKind::Class { class, .. } = &element.kind {
                collect(&name, class, found);
            }
        }
    }
    found.push(Found { name, class: class.clone() });
}

fn classes(texts: &[Text]) -> Vec<Found> {
    let mut found = Vec::new();
    for one in texts {
        let parsed = parse(FileId(0), &one.text);
        assert!(parsed.findings.is_empty(), "{}: {:?}", one.path, parsed.findings);
        let within = one.path.rsplit_once('/').map_or("", |(folder, _)| folder).replace('/', ".");
        let within = if one.path.ends_with("/package.mo") {
            within.rsplit_once('.').map_or("", |(outer, _)| outer).to_owned()
        } else {
            within
        };
        for class in &parsed.definition.classes {
            collect(&within, class, &mut found);
        }
    }
    found
}

fn flat(library: &Library, class: &str) -> FlatDae {
    match flatten(library, class, &FlattenOptions::default()) {
        Ok(flat) => flat,
        Err(error) => panic!("{class}:\n{error}"),
    }
}

fn equations(flat: &FlatDae) -> Vec<String> {
    flat.equations.iter().map(|equation| flat.equation_text(equation)).collect()
}

/// Classes that are sound only once a size is given: tables and bundles without elements by themselves.
const NEED_A_SIZE: &[&str] = &["Modelica.Blocks.Math.MinMax", "Modelica.Blocks.Sources.TimeTable"];

#[test]
fn every_class_is_balanced_by_itself() {
    let texts = texts();
    let library = library(&texts);
    let mut wrong = Vec::new();
    let mut n_flattened = 0;
    for found in classes(&texts) {
        let is_component = matches!(found.class.kind, ClassKind::Model | ClassKind::Block);
        if found.class.is_partial || !is_component || NEED_A_SIZE.contains(&found.name.as_str()) {
            continue;
        }
        match flatten(&library, &found.name, &FlattenOptions::default()) {
            Ok(flat) => {
                let size = flat.size();
                n_flattened += 1;
                if size.equations != size.unknowns {
                    wrong.push(format!("{}: {size:?}\n  {}", found.name, equations(&flat).join("\n  ")));
                }
                let is_meant = |code: &str| code == "parameter-without-value";
                for finding in flat.findings.iter().filter(|one| one.level != Level::Note && !is_meant(one.code)) {
                    wrong.push(format!("{}: {}", found.name, finding.message));
                }
            }
            Err(error) => wrong.push(format!("{}:\n{error}", found.name)),
        }
    }
    assert!(wrong.is_empty(), "{} of {n_flattened}\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn every_class_says_what_it_is() {
    let texts = texts();
    let silent: Vec<String> =
        classes(&texts).into_iter().filter(|found| found.class.description.is_none()).map(|found| found.name).collect();
    assert!(silent.is_empty(), "{silent:?}");
}

/// A model that uses the library: its file below `tests/library`, its class, and what is known of it by hand.
struct Use {
    file: &'static str,
    class: &'static str,
    /// Sum of the scalar unknowns of its components.
    unknowns: usize,
    /// Some of its equations.
    equations: &'static [&'static str],
}

const USES: &[Use] = &[
    Use {
        file: "electrical.mo",
        class: "Electrical.HeatedResistor",
        unknowns: 7 + 11 + 2 + 4 + 6 + 2,
        equations: &[
            "resistor.R_actual = resistor.R*(1 + resistor.alpha*(resistor.T_heatPort - resistor.T_ref))",
            "resistor.heatPort.Q_flow = -resistor.LossPower",
            "resistor.heatPort.Q_flow + body.port.Q_flow + loss.port_a.Q_flow = 0",
            "resistor.n.i + source.n.i + ground.p.i = 0",
            "body.C*der(body.T) = body.port.Q_flow",
        ],
    },
    Use {
        file: "electrical.mo",
        class: "Electrical.Rectifier",
        unknowns: 7 + 10 + 8 + 6 + 9 + 2 + 5 + 5,
        equations: &[
            "ideal.v = ideal.s*(if ideal.off then 1 else ideal.Ron) + ideal.Vknee",
            "load.G_actual = load.G/(1 + load.alpha*(load.T_heatPort - load.T_ref))",
            "current.n.i + capacitor.p.i + load.p.i + meter.p.i = 0",
            "capacitor.i = capacitor.C*der(capacitor.v)",
        ],
    },
    Use {
        file: "electrical.mo",
        class: "Electrical.Coupled",
        unknowns: 6 + 2 + 12 + 14 + 12 + 12 + 12 + 9,
        equations: &[
            "transformer.v1 = transformer.L1*der(transformer.i1) + transformer.M*der(transformer.i2)",
            "ideal.v1 = ideal.n*ideal.v2",
            "gyrator.i2 = -gyrator.G1*gyrator.v1",
            "vcc.i2 = vcc.v1*vcc.transConductance",
            "source.v = 5",
        ],
    },
    Use {
        file: "electrical.mo",
        class: "Electrical.Inverting",
        unknowns: 7 + 6 + 9 + 9 + 2 + 3,
        equations: &[
            "amplifier.in_p.v = amplifier.in_n.v",
            "r2.n.i + amplifier.out.i + output_voltage.p.i = 0",
            "source.signalSource.y = source.signalSource.offset + (if time < source.signalSource.startTime then 0 else source.signalSource.height)",
        ],
    },
    Use {
        file: "electrical.mo",
        class: "Electrical.Switched",
        unknowns: 6 + 11 + 6 + 9 + 10 + 2 + 2,
        equations: &["coil.v = coil.L*der(coil.i)", "pulse.y = switch.control"],
    },
    Use {
        file: "mechanics.mo",
        class: "Mechanics.DriveTrain",
        unknowns: 6 + 7 + 9 + 11 + 7 + 2 + 1 + 3,
        equations: &[
            "motor.J*motor.a = motor.flange_a.tau + motor.flange_b.tau",
            "gear.phi_a = gear.ratio*gear.phi_b",
            "gear.support.tau = -gear.flange_a.tau - gear.flange_b.tau",
            "shaft.tau_c = shaft.c*(shaft.phi_rel - shaft.phi_rel0)",
            "torque.support.tau + fixed.flange.tau + gear.support.tau = 0",
            "speed.w = der(speed.flange.phi)",
        ],
    },
    Use {
        file: "mechanics.mo",
        class: "Mechanics.Planetary",
        unknowns: 6 + 3 * 7 + 6 + 6,
        equations: &[
            "(1 + gear.ratio)*gear.carrier.phi = gear.sun.phi + gear.ratio*gear.ring.phi",
            "gear.carrier.tau = -(1 + gear.ratio)*gear.sun.tau",
            "friction.tau = friction.tau_dry*tanh(friction.w/friction.w_small) + friction.d*friction.w",
            "carrier.flange_b.tau = 0",
        ],
    },
    Use {
        file: "mechanics.mo",
        class: "Mechanics.Winch",
        unknowns: 7 + 1 + 16 + 10 + 7 + 4 + 3,
        equations: &[
            "0 = wheel.radius*wheel.flangeT.f + wheel.flangeR.tau",
            "wheel.internalSupportR.tau = -wheel.flangeR.tau",
            "speed.a = (speed.w_ref - speed.w)*speed.w_crit",
            "mass.flange_b.f + wind.flange.f + position.flange.f = 0",
            "wind.f = 0.1",
        ],
    },
    Use {
        file: "mechanics.mo",
        class: "Mechanics.Rods",
        unknowns: 2 + 6 + 7 + 5 + 7 + 5,
        equations: &["rod.flange_b.s = rod.s + rod.L/2", "spring.f = spring.c*(spring.s_rel - spring.s_rel0)"],
    },
    Use {
        file: "mechanics.mo",
        class: "Mechanics.Motor",
        unknowns: 7 + 18 + 9 + 2 + 7 + 4,
        equations: &["emf.k*emf.w = emf.v", "emf.tau = -emf.k*emf.i", "load.tau = 0", "load.flange.tau = -load.tau"],
    },
    Use {
        file: "blocks.mo",
        class: "Blocks.Loop",
        unknowns: 1 + 9 + 3 + 3 + 4,
        equations: &[
            "der(process.yd) = process.w*(process.w*(process.k*process.u - process.y) - 2*process.D*process.yd)",
            "der(controller.xi) = (controller.controlError + (controller.y - controller.v)/(controller.k*controller.Ni))/controller.Ti",
            "der(filter.x[1]) = filter.w_cut*filter.x[2]",
            "noise.w = 0",
        ],
    },
    Use {
        file: "blocks.mo",
        class: "Blocks.Linear",
        unknowns: 1 + 6 + 4 + 3,
        equations: &[
            "der(transfer.x_scaled[2]) = transfer.x_scaled[1]",
            "space.y[1] = space.C[1,1]*space.x[1] + space.C[1,2]*space.x[2] + space.D[1,1]*space.u[1]",
        ],
    },
    Use {
        file: "blocks.mo",
        class: "Blocks.Arithmetic",
        unknowns: 1 + 1 + 2 + 4 + 3 + 3 + 4 + 3 + 4 + 2 + 3 + 5 + 4 + 2 + 2,
        equations: &[
            "add.y = add.k1*add.u1 + add.k2*add.u2 + add.k3*add.u3",
            "sum.y = sum.k[1]*sum.u[1] + sum.k[2]*sum.u[2] + sum.k[3]*sum.u[3]",
            "range.yMin = min(range.u[1], range.u[2])",
            "bundle.y[2] = bundle.u2[1]",
        ],
    },
    Use {
        file: "blocks.mo",
        class: "Blocks.Switching",
        unknowns: 1 + 2 + 2 + 3 + 2 + 4 + 3 + 1 + 5 + 4 + 5,
        equations: &[
            "both.y = both.u1 and both.u2",
            "hold.y = pre(hold.ySample)",
            "integrator.local_set = integrator.y_start",
        ],
    },
    Use { file: "blocks.mo", class: "Blocks.Table", unknowns: 2, equations: &[] },
    Use { file: "blocks.mo", class: "Blocks.OldNames", unknowns: 4, equations: &["v = 3"] },
];

fn with_file(texts: &[Text], path: &Path) -> Library {
    let mut library = library(texts);
    library.add_path(path).expect("the file is there");
    library
}

#[test]
fn models_of_components_have_the_equations_of_physics() {
    let texts = texts();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library");
    let mut wrong = Vec::new();
    for one in USES {
        let flat = flat(&with_file(&texts, &folder.join(one.file)), one.class);
        let size = flat.size();
        if size.equations != one.unknowns || size.unknowns != one.unknowns {
            wrong.push(format!("{}: {size:?} instead of {}", one.class, one.unknowns));
        }
        let all = equations(&flat);
        for expected in one.equations {
            if !all.iter().any(|equation| equation == expected) {
                wrong.push(format!("{}: no `{expected}` in\n  {}", one.class, all.join("\n  ")));
            }
        }
        let loud = flat.findings.iter().filter(|finding| finding.level != Level::Note);
        wrong.extend(loud.map(|finding| format!("{}: {}", one.class, finding.message)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_file_of_a_package_lists_its_models() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../library/Modelica/Electrical/Analog/Basic.mo");
    let mut library = Library::new();
    library.add_path(&file).expect("the file is there");
    let error = daesy_model::flatten_library(&library, None, &FlattenOptions::default()).expect_err("several models");
    assert_eq!(error.findings[0].code, "which-class");
    assert!(error.findings[0].names.iter().any(|name| name == "Modelica.Electrical.Analog.Basic.Resistor"));
    assert!(error.findings[0].names.iter().all(|name| name.starts_with("Modelica.Electrical.Analog.Basic.")));
}

/// A model's values where they follow one from another: parameters and `variable = expression`, at one time.
struct AtTime<'a> {
    flat: &'a FlatDae,
    time: f64,
}

impl Environment for AtTime<'_> {
    fn value(&self, var: VarId, _order: u16) -> f64 {
        let variable = &self.flat.variables[var.index()];
        let by_equation = || {
            let found = self.flat.equations.iter().find(|equation| self.flat.text(equation.lhs) == variable.name);
            found.map(|equation| equation.rhs)
        };
        variable
            .binding
            .or_else(by_equation)
            .map_or(f64::NAN, |expr| Evaluator::new().evaluate_one(&self.flat.graph, expr, self))
    }

    fn time(&self) -> f64 {
        self.time
    }
}

fn value(flat: &FlatDae, name: &str, time: f64) -> f64 {
    AtTime { flat, time }.value(flat.find(name).expect("the variable is there"), 0)
}

#[test]
fn the_table_follows_its_points() {
    let texts = texts();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/library");
    let flat = flat(&with_file(&texts, &folder.join("blocks.mo")), "Blocks.Table");
    // Points (0, 0), (1, 2), (1, 3), (4, 0); the last line goes on.
    for (time, expected) in [(-1.0, 0.0), (0.0, 0.0), (0.5, 1.0), (1.0, 3.0), (2.5, 1.5), (4.0, 0.0), (5.0, -1.0)] {
        let found = value(&flat, "table.y", time);
        assert!((found - expected).abs() < 1e-12, "{found} instead of {expected} at {time}");
    }
}

#[test]
fn functions_and_constants_have_their_values() {
    let texts = texts();
    let mut library = library(&texts);
    library.add_text(
        "values.mo",
        "model Values
           import Modelica.Math.*;
           import Modelica.Units.Conversions;
           parameter Real wrapped = wrapAngle(7) - (7 - 2*Modelica.Constants.pi);
           parameter Real below = wrapAngle(4) - (4 - 2*Modelica.Constants.pi);
           parameter Real inverse = asinh(sinh(1.3)) - 1.3;
           parameter Real length = Vectors.length({3, 4, 12}) - 13;
           parameter Real gas = Modelica.Constants.R - 8.31446261815324;
           parameter Real faraday = Modelica.Constants.F - 96485.33212331;
           parameter Real permittivity = Modelica.Constants.epsilon_0*1e12 - 8.8541878128;
           parameter Real circle = 4*Modelica.Math.atan(1) - Modelica.Constants.pi;
           parameter Real warm = Conversions.from_degC(20) - 293.15;
           parameter Real fever = Conversions.to_degF(310.15) - 98.6;
           parameter Real fast = Conversions.from_rpm(60) - 2*Modelica.Constants.pi;
           parameter Real work = Conversions.to_kWh(7.2e6) - 2;
         end Values;",
    );
    let flat = flat(&library, "Values");
    assert_eq!(flat.variables.len(), 12);
    for variable in &flat.variables {
        let difference = value(&flat, &variable.name, 0.0);
        assert!(difference.abs() < 1e-8, "{}: {difference}", variable.name);
    }
}

#[test]
fn classes_of_the_user_come_before_those_of_the_library() {
    let texts = texts();
    let mut library = library(&texts);
    library.add_text("mine.mo", "package Modelica model Mine Real x = 1; end Mine; end Modelica;");
    assert_eq!(flat(&library, "Modelica.Mine").size().unknowns, 1);
    assert!(flatten(&library, "Modelica.Blocks.Sources.Step", &FlattenOptions::default()).is_err());
}

/// The text after `key = ` in a reference.
fn entry<'a>(reference: &'a str, key: &str) -> &'a str {
    let line = reference.lines().find_map(|line| line.strip_prefix(key)?.trim_start().strip_prefix('='));
    line.unwrap_or_else(|| panic!("no `{key}`")).trim()
}

#[test]
fn problems_are_balanced_and_have_the_equations_that_were_counted() {
    let texts = texts();
    let mut n_references = 0;
    let mut folders: Vec<PathBuf> = std::fs::read_dir(root().join("problems"))
        .expect("the problems are there")
        .map(|entry| entry.expect("they can be listed").path())
        .filter(|path| path.is_dir())
        .collect();
    folders.sort();
    for folder in folders {
        for file in std::fs::read_dir(&folder).expect("the folder is there") {
            let path = file.expect("it can be listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if !name.ends_with("reference.toml") {
                continue;
            }
            n_references += 1;
            let reference = std::fs::read_to_string(&path).expect("it can be read");
            let class = entry(&reference, "class").trim_matches('"');
            let n_equations: usize = entry(&reference, "equations").parse().expect("a number");
            let flat = flat(&with_file(&texts, &folder.join("model.mo")), class);
            let size = flat.size();
            assert_eq!((size.equations, size.unknowns), (n_equations, n_equations), "{class}");
            let loud: Vec<&str> = flat.findings.iter().map(|finding| finding.message.as_str()).collect();
            assert!(loud.is_empty(), "{class}: {loud:?}");
            let names = reference
                .lines()
                .filter_map(|line| line.strip_prefix("values = { \""))
                .flat_map(|line| line.split(", \"").filter_map(|part| part.split_once("\" =").map(|(name, _)| name)));
            for name in names {
                assert!(flat.find(name).is_some(), "{class} has no `{name}`");
            }
        }
    }
    assert!(n_references >= 17, "{n_references}");
}
