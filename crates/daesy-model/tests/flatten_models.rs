//! Whole models with their equations worked out by hand.

mod support;

use daesy_graph::VariableKind;
use daesy_graph::flat::Origin;
use daesy_model::{FlattenOptions, Library, flatten, flatten_text};
use support::*;

const ELECTRICAL: &str = "
connector Pin
  Real v(unit = \"V\");
  flow Real i(unit = \"A\");
end Pin;
connector PositivePin = Pin;
connector NegativePin = Pin;
partial model OnePort
  PositivePin p;
  NegativePin n;
  Real v;
  Real i;
equation
  v = p.v - n.v;
  0 = p.i + n.i;
  i = p.i;
end OnePort;
model Resistor
  extends OnePort;
  parameter Real R = 1;
equation
  v = R * i;
end Resistor;
model Capacitor
  extends OnePort(v(start = 0, fixed = true));
  parameter Real C = 1;
equation
  i = C * der(v);
end Capacitor;
model Inductor
  extends OnePort;
  parameter Real L = 1;
equation
  v = L * der(i);
end Inductor;
model Source
  extends OnePort;
  parameter Real V = 1;
equation
  v = V;
end Source;
model Ground
  Pin p;
equation
  p.v = 0;
end Ground;
";

#[test]
fn cartesian_pendulum() {
    let flat = flat(
        "model Pendulum
           parameter Real g = 9.81;
           parameter Real L = 1;
           Real x(start = L, fixed = true);
           Real y(start = 0);
           Real vx, vy, lambda;
         equation
           der(x) = vx;
           der(y) = vy;
           der(vx) = -lambda * x;
           der(vy) = -lambda * y - g;
           x ^ 2 + y ^ 2 = L ^ 2;
           annotation(experiment(StopTime = 10, Tolerance = 1e-6));
         end Pendulum;",
        "Pendulum",
    );
    assert_eq!(
        equations(&flat),
        [
            "((x ^ 2) + (y ^ 2)) = (L ^ 2)",
            "der(vx) = -(lambda * x)",
            "der(vy) = (-(lambda * y) - g)",
            "der(x) = vx",
            "der(y) = vy",
        ]
    );
    assert_eq!(start(&flat, "x"), "L");
    assert_eq!(variable(&flat, "x").fixed, Some(true));
    assert_eq!(variable(&flat, "y").fixed, None);
    assert_eq!(flat.size().parameters, 2);
    assert_eq!((flat.experiment.stop, flat.experiment.tolerance), (Some(10.0), Some(1e-6)));
}

#[test]
fn series_circuit_with_short_connectors() {
    let text = format!(
        "{ELECTRICAL}
         model Circuit
           Source s(V = 5);
           Resistor r(R = 2);
           Inductor l(L = 0.1);
           Capacitor c(C = 1e-3);
           Ground g;
         equation
           connect(s.p, r.p);
           connect(r.n, l.p);
           connect(l.n, c.p);
           connect(c.n, s.n);
           connect(s.n, g.p);
         end Circuit;"
    );
    let flat = flat(&text, "Circuit");
    // Each one-port has v, i, p.v, p.i, n.v, n.i; ground has two.
    assert_balanced(&flat, 26);
    assert_eq!(
        equations_of(&flat, Origin::FlowSum),
        ["((c.n.i + s.n.i) + g.p.i) = 0", "(l.n.i + c.p.i) = 0", "(r.n.i + l.p.i) = 0", "(s.p.i + r.p.i) = 0",]
    );
    assert_eq!(
        equations_of(&flat, Origin::Connection),
        ["c.n.v = g.p.v", "c.n.v = s.n.v", "l.n.v = c.p.v", "r.n.v = l.p.v", "s.p.v = r.p.v"]
    );
    assert!(equations(&flat).contains(&"c.i = (c.C * der(c.v))".to_owned()));
    assert_eq!(binding(&flat, "s.V"), "5");
    assert_eq!(binding(&flat, "c.C"), "0.001");
    assert_eq!(variable(&flat, "c.v").fixed, Some(true));
    assert_eq!(variable(&flat, "r.p.i").unit.as_ref().map(|unit| &*unit.text), Some("A"));
    assert!(variable(&flat, "r.p.i").is_flow);
}

#[test]
fn motor_gear_spring_inertia_with_an_open_flange() {
    let flat = flat(
        "package Rotational
           connector Flange Real phi; flow Real tau; end Flange;
           model Inertia
             Flange a, b;
             parameter Real J = 1;
             Real phi, w;
           equation
             phi = a.phi; phi = b.phi; w = der(phi); J * der(w) = a.tau + b.tau;
           end Inertia;
           model Spring
             Flange a, b; parameter Real c = 1; Real phi_rel;
           equation
             phi_rel = b.phi - a.phi; b.tau = c * phi_rel; a.tau = -b.tau;
           end Spring;
           model Gear
             Flange a, b; parameter Real ratio = 1;
           equation
             a.phi = ratio * b.phi; 0 = ratio * a.tau + b.tau;
           end Gear;
           model Motor
             Flange b; input Real u; parameter Real k = 0.5;
           equation
             b.tau = -k * u;
           end Motor;
         end Rotational;
         model Drive
           import R = Rotational;
           R.Motor motor(u = sin(time));
           R.Gear gear(ratio = 10);
           R.Spring spring(c = 100);
           R.Inertia inertia(J = 2);
         equation
           connect(motor.b, gear.a);
           connect(gear.b, spring.a);
           connect(spring.b, inertia.a);
         end Drive;",
        "Drive",
    );
    assert_balanced(&flat, 18);
    assert_eq!(equations_of(&flat, Origin::UnconnectedFlow), ["inertia.b.tau = 0"]);
    assert_eq!(equations_of(&flat, Origin::Binding), ["motor.u = sin(time)"]);
    assert_eq!(binding(&flat, "gear.ratio"), "10");
}

#[test]
fn arrays_of_components_with_array_modifiers_and_for_connects() {
    let text = format!(
        "{ELECTRICAL}
         model Ladder
           parameter Integer n = 3;
           Resistor r[n](R = {{1, 2, 3}});
           Capacitor c[n](each C = 0.5, v(start = {{10, 20, 30}}));
           Ground g;
           Source s;
         equation
           connect(s.n, g.p);
           connect(s.p, r[1].p);
           for i in 1:n loop
             connect(r[i].n, c[i].p);
             connect(c[i].n, g.p);
           end for;
           connect(r[1:n - 1].n, r[2:n].p);
         end Ladder;"
    );
    let flat = flat(&text, "Ladder");
    assert_balanced(&flat, 6 * 7 + 2);
    assert_eq!([1, 2, 3].map(|at| binding(&flat, &format!("r[{at}].R"))), ["1", "2", "3"]);
    assert_eq!([1, 2, 3].map(|at| binding(&flat, &format!("c[{at}].C"))), ["0.5", "0.5", "0.5"]);
    assert_eq!([1, 2, 3].map(|at| start(&flat, &format!("c[{at}].v"))), ["10", "20", "30"]);
    assert!(variable(&flat, "n").is_structural);
    let sums = equations_of(&flat, Origin::FlowSum);
    assert!(sums.contains(&"((((s.n.i + g.p.i) + c[1].n.i) + c[2].n.i) + c[3].n.i) = 0".to_owned()), "{sums:?}");
    assert!(sums.contains(&"((r[1].n.i + c[1].p.i) + r[2].p.i) = 0".to_owned()), "{sums:?}");
}

#[test]
fn bouncing_ball() {
    let flat = flat(
        "model Ball
           parameter Real e = 0.7;
           Real h(start = 1), v;
           Integer n(start = 0, fixed = true);
           Boolean flying(start = true);
         equation
           der(h) = v;
           der(v) = if flying then -9.81 else 0;
           flying = not (h <= 0 and v <= 0);
           when {h <= 0, initial()} then
             reinit(v, -e * pre(v));
             n = pre(n) + 1;
           end when;
         end Ball;",
        "Ball",
    );
    assert_balanced(&flat, 4);
    assert_eq!(whens(&flat), ["when (h <= 0), initial(): reinit(v, -(e * pre(v))); n := (pre(n) + 1)"]);
    assert_eq!(variable(&flat, "n").kind, VariableKind::Discrete);
    assert!(equations(&flat).contains(&"der(v) = (if flying then -9.81 else 0)".to_owned()));
}

#[test]
fn switch_by_if_equation() {
    let flat = flat(
        "model Switch
           Real v, i;
           Boolean closed = time > 1;
         equation
           if closed then
             v = 0;
           else
             i = 0;
           end if;
           v + 2 * i = 5;
         end Switch;",
        "Switch",
    );
    assert_balanced(&flat, 3);
    assert!(equations(&flat).contains(&"(if closed then v else i) = 0".to_owned()), "{:?}", equations(&flat));
}

#[test]
fn extends_with_modifiers_and_redeclared_models() {
    let text = format!(
        "{ELECTRICAL}
         model Base
           parameter Real k = 3;
           replaceable Resistor r(R = k) constrainedby OnePort;
           replaceable model Load = Resistor(R = 7) constrainedby OnePort;
           Load load(v(start = 4));
         end Base;
         model Heavy extends Resistor(R = 11); parameter Real extra = 1; end Heavy;
         model Derived
           extends Base(k = 5, redeclare Capacitor r(C = 2 * k), redeclare model Load = Heavy(extra = k));
           parameter Real m = 9;
         end Derived;
         model Top
           Derived d(k = 6, load(extra = 8));
           Base b(redeclare replaceable Inductor r(L = 2), r(L = 3));
         end Top;"
    );
    let error = refused(&text, "Top");
    // `r` is modified twice at the same place: applied or reported, never lost.
    assert!(error.findings.iter().any(|finding| finding.code == "duplicate-modifier"), "{error}");
    let flat = flat(&text.replace(", r(L = 3)", ""), "Top");
    assert_eq!(binding(&flat, "d.k"), "6");
    assert_eq!(binding(&flat, "d.r.C"), "(2 * d.k)");
    assert_eq!(binding(&flat, "d.load.R"), "11");
    assert_eq!(binding(&flat, "d.load.extra"), "8");
    assert_eq!(start(&flat, "d.load.v"), "4");
    assert_eq!(binding(&flat, "b.r.L"), "2");
    assert_eq!(binding(&flat, "b.load.R"), "7");
    assert!(flat.find("d.r.R").is_none());
}

#[test]
fn functions_with_loops_are_run() {
    let flat = flat(
        "function polynomial
           input Real a[:];
           input Real x;
           output Real y = 0;
         algorithm
           for i in size(a, 1):-1:1 loop
             y := y * x + a[i];
           end for;
         end polynomial;
         function root \"Newton's method\"
           input Real a;
           output Real x;
         algorithm
           x := a;
           while abs(x * x - a) > 1e-12 loop
             x := 0.5 * (x + a / x);
           end while;
         end root;
         model M
           Real x = time;
           Real y = polynomial({1, 2, 3}, x);
           Real z = root(2 + x);
           parameter Real p = root(9);
           constant Real c = polynomial({1, 1}, 4);
         end M;",
        "M",
    );
    assert_balanced(&flat, 3);
    assert!(equations(&flat).contains(&"y = ((((3 * x) + 2) * x) + 1)".to_owned()), "{:?}", equations(&flat));
    assert!(equations(&flat).contains(&"z = root#0((2 + x))".to_owned()), "{:?}", equations(&flat));
    assert_eq!(binding(&flat, "c"), "5");
    let p: f64 = binding(&flat, "p").parse().expect("a number");
    assert!((p - 3.0).abs() < 1e-12);
    // The program of `root`, run by the reference evaluator.
    let function = flat.graph.functions().iter().position(|one| one.name == "root").expect("a program");
    let result = daesy_graph::evaluate::Evaluator::new()
        .call_checked(&flat.graph, daesy_graph::FunctionId(function as u32), &[5.0])
        .expect("a value");
    assert!((result[0] - 5f64.sqrt()).abs() < 1e-12);
}

#[test]
fn packages_over_files() {
    let folder = std::env::temp_dir().join(format!("daesy-model-{}", std::process::id()));
    let inner = folder.join("Lib").join("Parts");
    std::fs::create_dir_all(&inner).expect("a folder");
    let write = |path: &std::path::Path, text: &str| std::fs::write(path, text).expect("a file");
    write(&folder.join("Lib/package.mo"), "package Lib constant Real g = 9.81; end Lib;");
    write(&folder.join("Lib/package.order"), "Parts\nTop\n");
    write(&inner.join("package.mo"), "within Lib; package Parts type Gain = Real(min = 0); end Parts;");
    write(
        &inner.join("Block1.mo"),
        "within Lib.Parts; model Block1 parameter Gain k = g; Real y = k * time; end Block1;",
    );
    write(&folder.join("Lib/Top.mo"), "within Lib; model Top Parts.Block1 b(k = 2 * Lib.g); end Top;");
    let mut library = Library::new();
    library.add_search_path(&folder);
    library.add_text("user.mo", "model User extends Lib.Top; Lib.Parts.Block1 c; end User;");
    let result = flatten(&library, "User", &FlattenOptions::default());
    std::fs::remove_dir_all(&folder).expect("cleaned up");
    let flat = result.unwrap_or_else(|error| panic!("{error}"));
    assert_balanced(&flat, 2);
    assert_eq!(binding(&flat, "b.k"), "19.62");
    assert_eq!(binding(&flat, "c.k"), "9.81");
    assert_eq!(variable(&flat, "c.k").min.map(|min| show(&flat, min)), Some("0".to_owned()));
}

#[test]
fn enumerations_and_records_in_packages() {
    let flat = flat(
        "package Types
           type Mode = enumeration(off \"no\", slow, fast);
           record Data
             Real k = 1;
             Mode mode = Mode.slow;
             Real table[2] = {k, 2 * k};
           end Data;
           constant Data standard = Data(k = 4);
         end Types;
         model M
           import Types.*;
           parameter Data d = Data(k = 3, mode = Mode.fast);
           parameter Data e(k = 7);
           Data s = standard;
           Real speed[Mode] = {0, 1, 2};
           Real v = speed[d.mode];
           Integer n = Integer(Mode.fast);
           Real w = sum(speed[m] for m in Mode);
         end M;",
        "M",
    );
    assert_eq!(binding(&flat, "d.k"), "3");
    assert_eq!(binding(&flat, "d.mode"), "3");
    assert_eq!(binding(&flat, "d.table[2]"), "6");
    assert_eq!(binding(&flat, "e.k"), "7");
    assert_eq!(binding(&flat, "e.table[2]"), "(2 * e.k)");
    assert_eq!(binding(&flat, "e.mode"), "2");
    let all = equations(&flat);
    for wanted in ["s.k = 4", "s.mode = 2", "s.table[2] = 8", "n = 3", "v = speed[3]"] {
        assert!(all.contains(&wanted.to_owned()), "{wanted} in {all:?}");
    }
    assert!(all.contains(&"w = ((speed[1] + speed[2]) + speed[3])".to_owned()), "{all:?}");
}

#[test]
fn derivative_of_a_product() {
    let flat = flat("model M Real x, y, z; equation x = time; y = x ^ 2; z = der(x * y); end M;", "M");
    let all = equations(&flat);
    assert!(
        all.contains(&"z = ((der(x) * y) + (x * der(y)))".to_owned())
            || all.contains(&"z = ((x * der(y)) + (der(x) * y))".to_owned())
            || all.contains(&"z = ((y * der(x)) + (x * der(y)))".to_owned()),
        "{all:?}"
    );
}

#[test]
fn inner_and_outer() {
    let flat = flat(
        "model World parameter Real g = 9.81; Real t = time; end World;
         model Body outer World world; Real a = world.g; Real b = world.t; end Body;
         model System Body body; end System;
         model M inner World world(g = 1.62); System system; Body body; end M;",
        "M",
    );
    assert_balanced(&flat, 5);
    let all = equations(&flat);
    assert!(all.contains(&"system.body.a = world.g".to_owned()), "{all:?}");
    assert!(all.contains(&"body.b = world.t".to_owned()), "{all:?}");
    assert_eq!(binding(&flat, "world.g"), "1.62");
}

#[test]
fn conditional_components() {
    let text = format!(
        "{ELECTRICAL}
         model M
           parameter Boolean damped = false;
           parameter Integer n = 2;
           Source s;
           Ground g;
           Resistor r if damped or n > 2;
           Capacitor c if not damped;
         equation
           connect(s.n, g.p);
           connect(s.p, r.p);
           connect(r.n, g.p);
           connect(s.p, c.p);
           connect(c.n, g.p);
         end M;"
    );
    let flat = flat(&text, "M");
    assert!(flat.find("r.R").is_none());
    assert_balanced(&flat, 14);
    let sums = equations_of(&flat, Origin::FlowSum);
    assert_eq!(sums, ["((s.n.i + g.p.i) + c.n.i) = 0", "(s.p.i + c.p.i) = 0"]);
    assert!(variable(&flat, "damped").is_structural);
}

#[test]
fn the_only_whole_model_is_chosen() {
    let text = format!("{ELECTRICAL} model Circuit Source s; Ground g; equation connect(s.p, g.p); end Circuit;");
    let flat = flatten_text("test.mo", &text, None);
    // Resistor, Capacitor and Inductor are not used by anything: there is more than one to choose from.
    let error = flat.expect_err("several candidates");
    assert_eq!(error.findings[0].code, "which-class");
    assert!(error.findings[0].names.contains(&"Circuit".to_owned()));
    let one = flatten_text("test.mo", "model A Real x = 1; end A; model B A a; end B;", None).expect("a model");
    assert_eq!(one.model, "B");
}
