//! Mistakes that people make in models, studies and data: each is told with its place, its cause and a remedy, and the
//! remedy, followed to the letter, works.

use crate::session::{Run, Session};

/// One mistake, with what must be said and what mends it.
struct Mistake<'a> {
    verb: &'a str,
    files: Vec<(&'a str, String)>,
    /// The file that is named on the command line.
    file: &'a str,
}

impl<'a> Mistake<'a> {
    fn model(text: &str) -> Self {
        Self { verb: "simulate", files: vec![("model.mo", text.to_owned())], file: "model.mo" }
    }

    /// A study of [`MODEL`] and [`DATA`].
    fn study(text: &str) -> Self {
        let files = vec![("model.mo", MODEL.to_owned()), ("data.csv", data()), ("study.toml", text.to_owned())];
        Self { verb: "identify", files, file: "study.toml" }
    }

    fn run(&self) -> Run {
        self.run_with(&[])
    }

    fn run_with(&self, options: &[&str]) -> Run {
        let session = self.files.iter().fold(Session::new(), |session, (name, text)| session.with(name, text));
        let mut arguments = vec![self.verb, self.file];
        if self.verb == "simulate" {
            arguments.extend(["-o", "out.csv"]);
        }
        arguments.extend(options);
        session.run(&arguments)
    }

    /// Checks that the first words on standard error hold the place and all of these.
    fn tells(self, place: &str, words: &[&str]) -> Self {
        let run = self.run();
        assert!(run.stderr.contains(place), "no `{place}` in:\n{}", run.stderr);
        for word in words {
            assert!(run.stderr.contains(word), "no `{word}` in:\n{}", run.stderr);
        }
        self
    }

    /// Checks that nothing but the one error is told.
    fn alone(self) -> Self {
        let run = self.run();
        assert_eq!(run.stderr.matches("error[").count(), 1, "{}", run.stderr);
        self
    }

    /// Checks that the run fails with this status.
    fn fails(self, status: i32) -> Self {
        let run = self.run();
        assert_eq!(run.status, status, "{}\n{}", run.stdout, run.stderr);
        self
    }

    /// Follows the remedy: one text of the named file in the place of another. The run must pass.
    fn mended(mut self, file: &str, wrong: &str, right: &str) {
        let Some((_, text)) = self.files.iter_mut().find(|(name, _)| *name == file) else { panic!("no file {file}") };
        assert!(text.contains(wrong), "no `{wrong}` in {text}");
        *text = text.replace(wrong, right);
        let run = self.run();
        assert_eq!(run.status, 0, "{}", run.stderr);
        assert!(!run.stderr.contains("error["), "{}", run.stderr);
    }
}

const MODEL: &str = "model M
  parameter Real k = 2;
  parameter Real c = 1;
  input Real u;
  input Real w;
  Real x(start = 1, fixed = true);
  output Real y = c*x;
equation
  der(x) = -k*x + u + w;
end M;
";

const STUDY: &str = "[model]
file = \"model.mo\"
[unknown]
k = { start = 1.0, min = 0.1, max = 10 }
[inputs]
u = { column = \"u\", hold = \"zoh\" }
[measurements]
y = { column = \"y\", std = 0.01 }
[data]
file = \"data.csv\"
";

/// x' = -2 x + u from 1, with the input on in every other second and small errors.
fn data() -> String {
    let mut text = "t,u,y\n".to_owned();
    let mut x = 1.0f64;
    for row in 0..60u32 {
        let u = f64::from(row / 10 % 2);
        let error = 0.01 * f64::from((row * 7 + 3) % 11).mul_add(0.2, -1.0);
        text.push_str(&format!("{:.1},{u},{:.5}\n", 0.1 * f64::from(row), x + error));
        x = x.mul_add((-0.2f64).exp(), u * (1.0 - (-0.2f64).exp()) / 2.0);
    }
    text
}

fn changed(from: &str, to: &str) -> String {
    assert!(STUDY.contains(from), "no `{from}` in the study");
    STUDY.replace(from, to)
}

const CIRCUIT: &str = "model A
  Modelica.Electrical.Analog.Sources.ConstantVoltage s(V = 1);
  Modelica.Electrical.Analog.Basic.Resistor r(R = 1);
  Modelica.Electrical.Analog.Basic.Ground g;
equation
  connect(s.p, r.p);
  connect(s.n, r.n);
  connect(s.n, g.p);
end A;
";

#[test]
fn the_models_and_the_study_are_right_before_mistakes_are_made() {
    assert_eq!(Mistake::model(CIRCUIT).run().status, 0);
    assert_eq!(Mistake::study(STUDY).run().status, 0, "{}", Mistake::study(STUDY).run().stderr);
}

#[test]
fn a_missing_semicolon_is_at_the_end_of_its_line() {
    Mistake::model("model A\n  Real x(start = 1, fixed = true)\nequation\n  der(x) = -x;\nend A;\n")
        .tells("model.mo:2:33", &["`;`"])
        .fails(1)
        .alone()
        .mended("model.mo", "true)", "true);");
}

#[test]
fn misspelt_names_come_with_the_nearest_one() {
    let circuit = |from, to| Mistake::model(&CIRCUIT.replace(from, to));
    circuit("Resistor", "Resistr")
        .tells("model.mo:3:36", &["did you mean `Resistor`"])
        .fails(1)
        .mended("model.mo", "Resistr", "Resistor");
    circuit("r(R", "r(Rr").tells("model.mo:3:47", &["did you mean `R`"]).fails(1).mended("model.mo", "Rr", "R");
    circuit("r.p)", "r.q)").tells("model.mo:6:18", &["`q`"]).fails(1).mended("model.mo", "r.q", "r.p");
    Mistake::model(&MODEL.replace("(start", "(strat"))
        .tells("model.mo:6:10", &["did you mean `start`"])
        .fails(1)
        .mended("model.mo", "strat", "start");
    Mistake::model(&MODEL.replace("-k*x", "-kk*x"))
        .tells("model.mo:9", &["`kk`"])
        .fails(1)
        .mended("model.mo", "kk", "k");
}

#[test]
fn misspelt_keywords_are_one_error_with_the_keyword() {
    for (wrong, right, place) in [
        ("modle M", "model M", "model.mo:1:1"),
        ("paramter Real k", "parameter Real k", "model.mo:2:3"),
        ("Parameter Real k", "parameter Real k", "model.mo:2:3"),
        ("imput Real u", "input Real u", "model.mo:4:3"),
        ("equations\n", "equation\n", "model.mo:8:1"),
    ] {
        let word = right.split([' ', '\n']).next().unwrap();
        Mistake::model(&MODEL.replace(right, wrong))
            .tells(place, &["misspelt-keyword", &format!("did you mean `{word}`")])
            .fails(1)
            .alone()
            .mended("model.mo", wrong, right);
    }
}

#[test]
fn modifiers_in_brackets_are_one_error() {
    Mistake::model(&CIRCUIT.replace("r(R = 1)", "r[R = 1]"))
        .tells("model.mo:3:46", &["array", "parentheses", "`r(..)`"])
        .fails(1)
        .alone()
        .mended("model.mo", "r[R = 1]", "r(R = 1)");
}

#[test]
fn equations_and_assignments_are_told_apart() {
    let model = "model A\n  Real x;\n  Real y;\nequation\n  x := 2*time;\nalgorithm\n  y := 3;\nend A;\n";
    Mistake::model(model).tells("model.mo:5:5", &["write `=`"]).fails(1).mended("model.mo", "x :=", "x =");
    let model = model.replace("x :=", "x =").replace("y :=", "y =");
    Mistake::model(&model).tells("model.mo:7:5", &["write `:=`"]).fails(1).mended("model.mo", "y =", "y :=");
}

#[test]
fn connectors_of_different_types_are_named_with_their_types() {
    let model = CIRCUIT
        .replace("equation", "  Modelica.Mechanics.Rotational.Components.Inertia j(J = 1);\nequation")
        .replace("connect(s.n, g.p)", "connect(s.n, g.p);\n  connect(r.p, j.flange_a)");
    Mistake::model(&model)
        .tells("model.mo:10:3", &["Analog.Interfaces.", "Rotational.Interfaces.Flange_a", "same type"])
        .fails(1)
        .mended("model.mo", "  connect(r.p, j.flange_a);\n", "");
}

#[test]
fn a_circuit_without_ground_is_told_which_component_gives_one() {
    let model =
        CIRCUIT.replace("  Modelica.Electrical.Analog.Basic.Ground g;\n", "").replace("  connect(s.n, g.p);\n", "");
    Mistake::model(&model)
        .tells("model.mo:", &["no-reference", "Modelica.Electrical.Analog.Basic.Ground", "connect one"])
        .fails(1)
        .mended(
            "model.mo",
            "equation\n",
            "  Modelica.Electrical.Analog.Basic.Ground g;\nequation\n  connect(g.p, s.n);\n",
        );
}

/// Heat flows into a rod and out of it, and nothing says how warm it is: flows of sources depend on temperature by a
/// coefficient, which is zero.
const ROD: &str = "model Rod
  Modelica.Thermal.HeatTransfer.Sources.FixedHeatFlow q(Q_flow = 5);
  Modelica.Thermal.HeatTransfer.Components.ThermalConductor a(G = 2);
  Modelica.Thermal.HeatTransfer.Components.ThermalConductor b(G = 3);
  Modelica.Thermal.HeatTransfer.Sources.FixedHeatFlow out(Q_flow = -5);
equation
  connect(q.port, a.port_a);
  connect(a.port_b, b.port_a);
  connect(b.port_b, out.port);
end Rod;
";

#[test]
fn heat_without_a_fixed_temperature_is_told_which_component_gives_one() {
    let fixed = "Modelica.Thermal.HeatTransfer.Sources.FixedTemperature";
    for verb in ["check", "simulate"] {
        let mistake = Mistake { verb, ..Mistake::model(ROD) };
        mistake.tells("model.mo:", &["no-reference", fixed, "connect one"]).fails(1).mended(
            "model.mo",
            "equation\n",
            &format!("  {fixed} room(T = 293.15);\nequation\n  connect(room.port, b.port_b);\n"),
        );
    }
    // A coefficient that is not zero fixes the level; so does a parameter of a study that may become so.
    let warm =
        ROD.replace("q(Q_flow = 5)", "q(Q_flow = 5, alpha = -0.01)").replace("out(Q_flow = -5)", "out(Q_flow = -4)");
    assert_eq!(Mistake::model(&warm).run().status, 0, "{}", Mistake::model(&warm).run().stderr);
    // The same without coefficients, where structure shows it.
    let bare = ROD.replace("Sources.FixedHeatFlow q(Q_flow = 5)", "Components.ThermalConductor q(G = 1)");
    let bare = bare.replace("Sources.FixedHeatFlow out(Q_flow = -5)", "Components.ThermalConductor out(G = 1)");
    let bare =
        bare.replace("q.port,", "q.port_b,").replace("out.port);", "out.port_a);\n  connect(out.port_b, q.port_a);");
    Mistake::model(&bare).tells("model.mo:", &["no-reference", fixed]).fails(1);
}

#[test]
fn an_open_pin_is_warned_about() {
    let model = CIRCUIT
        .replace("equation", "  Modelica.Electrical.Analog.Basic.Capacitor c(C = 1);\nequation\n  connect(c.p, r.p);");
    Mistake::model(&model).tells("model.mo:", &["warning[unconnected]", "`c.n`", "connect(c.n, ..)"]).fails(0).mended(
        "model.mo",
        "connect(c.p, r.p);",
        "connect(c.p, r.p);\n  connect(c.n, g.p);",
    );
    let run = Mistake::model(&model.replace("connect(c.p, r.p);", "connect(c.p, r.p);\n connect(c.n, g.p);")).run();
    assert!(!run.stderr.contains("unconnected"), "{}", run.stderr);
    // A whole component of any kind, at its declaration.
    let model = "model A\n  Modelica.Mechanics.Rotational.Components.Inertia j(J = 1);\n  Modelica.Mechanics.Rotational.Components.Inertia left(J = 1);\n  Modelica.Mechanics.Rotational.Sources.ConstantTorque t(tau_constant = 1);\nequation\n  connect(t.flange, j.flange_a);\nend A;\n";
    Mistake::model(model)
        .tells("model.mo:3:52", &["warning[unconnected]", "`left.flange_a`", "connect(left.flange_a, ..)"])
        .fails(0)
        .mended("model.mo", "j.flange_a);", "j.flange_a);\n  connect(left.flange_a, j.flange_b);");
    // An input of a block.
    let model = "model A\n  Modelica.Blocks.Continuous.FirstOrder f(T = 1, k = 1);\n  Modelica.Blocks.Sources.Constant c(k = 1);\nend A;\n";
    Mistake::model(model).tells("too-few-equations", &["`f.u`", "connect(f.u, ..)"]).fails(1).mended(
        "model.mo",
        "end A",
        "equation\n  connect(f.u, c.y);\nend A",
    );
}

#[test]
fn equations_that_are_too_many_or_too_few_are_listed() {
    Mistake::model("model A\n  Real x;\n  Real y;\nequation\n  x + y = 1;\nend A;\n")
        .tells("model.mo:2:8", &["`x` and `y`", "one equation", "parameter or an input"])
        .fails(1)
        .mended("model.mo", "x + y = 1;", "x + y = 1;\n  x = 3;");
    Mistake::model("model A\n  Real x;\n  Real y;\nequation\n  x + y = 1;\n  x - y = 2;\n  x = 3*y;\nend A;\n")
        .tells("model.mo:5:3", &["3 equations", "2 unknowns", "remove it", "into an unknown"])
        .fails(1)
        .mended("model.mo", "  x = 3*y;\n", "");
}

#[test]
fn terms_of_different_units_are_named() {
    Mistake::model("model A\n  Real f(unit = \"N\") = 3;\n  Real s(unit = \"m\") = 2;\n  Real q(unit = \"N\");\nequation\n  q = f + s;\nend A;\n")
        .tells("model.mo:6:3", &["unit-mismatch", "`f`", "`s` in m"])
        .mended("model.mo", "f + s", "f + f");
}

#[test]
fn temperatures_of_different_zero_points_are_named() {
    Mistake::model("model A\n  Real a(unit = \"degC\") = 20;\n  Real b(unit = \"K\") = 2;\n  Real c(unit = \"K\");\nequation\n  c = a + b;\nend A;\n")
        .tells("model.mo:6:3", &["unit-mismatch", "`c`", "`a + b` is in degC", "273.15"])
        .mended("model.mo", "c = a + b", "c = a + 273.15 + b");
    // Wherever they meet: under a factor, in a relation; and units of other sizes are told too.
    let model = |unit: &str, equation: &str| {
        format!(
            "model A\n  Real a(unit = \"{unit}\") = 20;\n  Real b(unit = \"K\") = 2;\n  Real c;\nequation\n  c = {equation};\nend A;\n"
        )
    };
    for (wrong, right) in
        [("3*(a - b)", "3*(a + 273.15 - b)"), ("if a > b then 1 else 2", "if a + 273.15 > b then 1 else 2")]
    {
        Mistake::model(&model("degC", wrong))
            .tells("model.mo:6:3", &["unit-mismatch", "273.15"])
            .mended("model.mo", wrong, right);
        let run = Mistake::model(&model("degC", right)).run();
        assert!(!run.stderr.contains("unit-mismatch"), "{}", run.stderr);
    }
    Mistake::model(&model("mK", "3*(a - b)")).tells("model.mo:6:3", &["mK and K", "one K is 1000 mK"]).mended(
        "model.mo",
        "a - b",
        "a - 1000*b",
    );
    // A difference added to a temperature is one, and so is the difference of two.
    for right in ["degC\");\nequation\n  c = a + b", "K\");\nequation\n  c = a - a + b"] {
        let model = format!(
            "model A\n  Real a(unit = \"degC\") = 20;\n  Real b(unit = \"K\") = 2;\n  Real c(unit = \"{right};\nend A;\n"
        );
        assert!(!Mistake::model(&model).run().stderr.contains("unit-mismatch"), "{right}");
    }
}

#[test]
fn events_without_end_are_told_with_their_relation() {
    Mistake::model("model A\n  Real T(start = 20.5, fixed = true);\n  Boolean heating(start = false, fixed = true);\nequation\n  when T < 20 then\n    heating = true;\n  elsewhen T >= 20 then\n    heating = false;\n  end when;\n  der(T) = if heating then 1 else -1;\n  annotation(experiment(StopTime = 3));\nend A;\n")
        .tells("model.mo:5:3", &["chattering", "`T < 20`", "t = 0.5", "hysteresis"])
        .fails(3)
        .mended("model.mo", "T >= 20", "T >= 21");
}

#[test]
fn a_hysteresis_that_is_too_narrow_is_chattering() {
    Mistake::model("model A\n  Real T(start = 20.5, fixed = true);\n  Boolean heating(start = false, fixed = true);\nequation\n  heating = T < 20 or pre(heating) and T < 20 + 1e-9;\n  der(T) = if heating then 1 else -1;\n  annotation(experiment(StopTime = 3));\nend A;\n")
        .tells("model.mo:5:3", &["chattering", "T < 20", "hysteresis"])
        .fails(3)
        .mended("model.mo", "20 + 1e-9", "21");
}

#[test]
fn values_that_never_settle_are_told_with_the_variable() {
    Mistake::model("model A\n  Boolean b(start = false, fixed = true);\nequation\n  b = not pre(b);\nend A;\n")
        .tells("model.mo:2:11", &["event-unsettled", "`b` changes without end", "when"])
        .fails(1)
        .mended("model.mo", "b = not pre(b);", "when time > 0.5 then\n    b = not pre(b);\n  end when;");
}

#[test]
fn keys_that_the_chosen_method_does_not_use_are_refused() {
    for (method, key) in [
        ("ml", "realizations = 100"),
        ("output-error", "realizations = 100"),
        ("output-error", "noise_step = 0.01"),
        ("ml", "weighting = \"std\""),
        ("output-error", "interpolation = \"exact\""),
    ] {
        let study = changed("[data]", &format!("[identify]\nmethod = \"{method}\"\n{key}\n[data]"));
        let name = key.split(' ').next().unwrap();
        let told = format!("no use for `{name}`");
        Mistake::study(&study)
            .tells("study.toml:11:", &["unused-option", &told, "`[identify]`"])
            .fails(1)
            .alone()
            .mended("study.toml", &format!("{key}\n"), "");
    }
    // Where the method is left to daesy, or uses the key for models that are not linear, it is a note.
    let linear = Mistake::study(&changed("[data]", "[identify]\nmethod = \"ml\"\nnoise_step = 0.01\n[data]"));
    assert!(linear.fails(0).run().stderr.contains("note[unused-option]"));
    let left = Mistake::study(&changed("[data]", "[identify]\nrealizations = 100\n[data]"));
    let run = left.fails(0).run();
    assert!(run.stderr.contains("note[unused-option]"), "{}", run.stderr);
    let bootstrap = Mistake::study(&changed("[data]", "[identify]\nbootstrap = 10\n[data]"));
    bootstrap.tells("study.toml:10:13", &["no use for `bootstrap`"]).fails(2).mended(
        "study.toml",
        "bootstrap = 10\n",
        "",
    );
}

#[test]
fn what_a_method_cannot_do_is_named_with_one_that_can() {
    let nonlinear = MODEL.replace("-k*x", "-k*x*abs(x)");
    assert_ne!(nonlinear, MODEL);
    let mistake = |study: &str| Mistake {
        verb: "identify",
        files: vec![("model.mo", nonlinear.clone()), ("data.csv", data()), ("study.toml", study.to_owned())],
        file: "study.toml",
    };
    let study = changed("[data]", "[identify]\nmethod = \"pem\"\n[data]");
    let run = mistake(&study).run_with(&["--profile"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert!(run.stderr.contains("no use for `--profile`") && run.stderr.contains("leave it out"), "{}", run.stderr);
}

#[test]
fn a_series_of_a_model_that_switches_is_refused_at_the_method() {
    let switching =
        MODEL.replace("-k*x", "(if b then -k else -2*k)*x").replace("equation\n", "  Boolean b = x > 0.5;\nequation\n");
    let study = "[model]\nfile = \"model.mo\"\n[random]\nk = { uniform = { mean = 2, relative = 0.2 } }\n[uq]\n\
                 degree = 2\nmethod = \"galerkin\"\n[simulate]\nstop = 1\n";
    let files = vec![("model.mo", switching), ("study.toml", study.to_owned())];
    Mistake { verb: "uq", files, file: "study.toml" }
        .tells("study.toml:7:10", &["not-expandable", "say `method = \"collocation\"` in `[uq]`"])
        .fails(1)
        .alone()
        .mended("study.toml", "method = \"galerkin\"", "method = \"collocation\"");
}

#[test]
fn a_parameter_without_value_is_told_where_to_give_it() {
    Mistake::model(
        "model A\n  parameter Real k;\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = -k*x;\nend A;\n",
    )
    .tells("model.mo:2:18", &["`k` has no value", "--set k=", "[parameters]"])
    .mended("model.mo", "Real k;", "Real k = 1;");
}

#[test]
fn values_that_do_not_exist_are_told_with_the_variable() {
    let model = |start: &str, right: &str| {
        format!(
            "model A\n  Real x(start = {start}, fixed = true);\n  Real y;\nequation\n  der(x) = 1;\n  y = {right};\nend A;\n"
        )
    };
    Mistake::model(&model("0", "1/x"))
        .tells("model.mo:6:3", &["y = 1/x", "t = 0", "`x` = 0", "start"])
        .fails(3)
        .mended("model.mo", "start = 0", "start = 1");
    for logarithm in ["log(x)", "x*log(x)", "log10(x)"] {
        Mistake::model(&model("0", logarithm))
            .tells("model.mo:6:3", &["`x` = 0", "t = 0", "give `x` a `start`"])
            .fails(3)
            .mended("model.mo", "start = 0", "start = 1");
    }
    let by_parameter =
        "model A\n  parameter Real a = 0;\n  Real x(start = 1, fixed = true);\nequation\n  der(x) = 1/a;\nend A;\n";
    Mistake::model(by_parameter)
        .tells("model.mo:5:3", &["`a` = 0", "the parameter `a`"])
        .fails(3)
        .mended("model.mo", "a = 0", "a = 1");
    // On the way no start value helps.
    let emptied = "model A\n  Real h(start = 1, fixed = true);\nequation\n  der(h) = -2*sqrt(h);\n  annotation(experiment(StopTime = 2));\nend A;\n";
    Mistake::model(emptied).tells("model.mo:4:3", &["`h` = ", "max(h, 1e-9)"]).fails(3).mended(
        "model.mo",
        "sqrt(h)",
        "sqrt(max(h, 1e-9))",
    );
    Mistake::model(&model("-1", "sqrt(x)")).tells("model.mo:6:3", &["sqrt(x)", "`x` = -1"]).fails(3).mended(
        "model.mo",
        "start = -1",
        "start = 1",
    );
}

#[test]
fn contradictory_start_values_are_named_together() {
    Mistake::model("model A\n  Real x(start = 1, fixed = true);\n  Real y(start = 3, fixed = true);\nequation\n  der(x) = -x;\n  y = 2*x;\nend A;\n")
        .tells("model.mo:", &["x = 1", "y = 3", "take back `fixed = true`"])
        .fails(1)
        .mended("model.mo", "3, fixed = true", "3");
}

#[test]
fn a_loop_without_a_solution_is_told_with_its_equation() {
    Mistake::model("model A\n  Real x;\n  Real y;\nequation\n  x*x + y*y = -1;\n  x - y = 0.1*time;\nend A;\n")
        .tells("model.mo:5:3", &["x*x + y*y = -1", "off by", "the search ended at", "`x` = "])
        .fails(3)
        .mended("model.mo", "= -1", "= 1");
}

#[test]
fn equations_that_lose_their_solution_are_told_with_the_values_tried() {
    Mistake::model("model A\n  Real x(start = 1);\n  Real y;\nequation\n  x^2 = 1 - 2*time;\n  y = x + 1;\nend A;\n")
        .tells("model.mo:5:3", &["`x` at t = 0.5", "is off by", "the search ended at `x` = "])
        .fails(3)
        .mended("model.mo", "2*time", "0.5*time");
}

#[test]
fn an_absent_class_of_the_standard_library_is_told_how_to_get_it() {
    Mistake::model("model A\n  Modelica.Fluid.Vessels.ClosedVolume v;\nend A;\n")
        .tells("model.mo:2:12", &["Fluid", "MODELICAPATH", "github.com/modelica/ModelicaStandardLibrary"])
        .fails(1);
    // A library that MODELICAPATH leads to is found.
    let session = Session::new().with("model.mo", "model A\n  Modelica.Fluid.Tank v;\nend A;\n");
    let library = session.path("libraries").join("Modelica");
    std::fs::create_dir_all(library.join("Fluid")).unwrap();
    std::fs::write(library.join("package.mo"), "package Modelica\nend Modelica;\n").unwrap();
    let fluid = "within Modelica;\npackage Fluid\n  model Tank\n    Real h = 1;\n  end Tank;\nend Fluid;\n";
    std::fs::write(library.join("Fluid/package.mo"), fluid).unwrap();
    let run = session.run_in(&[("MODELICAPATH", "libraries")], &["check", "model.mo"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
}

#[test]
fn what_is_not_supported_is_named_with_its_section() {
    Mistake::model("model A\n  Real x;\nequation\n  x = timeInState();\nend A;\n")
        .tells("model.mo:4:7", &["state machines", "section 17"])
        .fails(1);
}

#[test]
fn several_models_are_listed_with_the_option() {
    let two = Mistake::model("model A\n  Real x = 1;\nend A;\nmodel B\n  Real x = 1;\nend B;\n")
        .tells("model.mo", &["A, B", "--class A"])
        .fails(1);
    assert_eq!(two.run_with(&["--class", "A"]).status, 0);
}

#[test]
fn misspelt_sections_and_keys_come_with_the_nearest_one() {
    Mistake::study(&changed("[measurements]", "[measurement]"))
        .tells("study.toml:7:2", &["did you mean `measurements`"])
        .fails(1)
        .mended("study.toml", "[measurement]", "[measurements]");
    Mistake::study(&changed("hold =", "hodl =")).tells("study.toml:6:21", &["did you mean `hold`"]).fails(1).mended(
        "study.toml",
        "hodl",
        "hold",
    );
}

#[test]
fn a_dotted_name_without_quotes_is_told_to_be_quoted() {
    let model = CIRCUIT.to_owned();
    let study = "[model]\nfile = \"model.mo\"\n[parameters]\nr.R = 2\n[simulate]\nstop = 1\n".to_owned();
    Mistake { verb: "simulate", files: vec![("model.mo", model), ("study.toml", study)], file: "study.toml" }
        .tells("study.toml:4:1", &["\"r.R\" ="])
        .fails(1)
        .alone()
        .mended("study.toml", "r.R", "\"r.R\"");
    let study = "[model]\nfile = \"model.mo\"\n[unknown]\nr.R = { start = 2 }\n".to_owned();
    let files = vec![("model.mo", CIRCUIT.to_owned()), ("study.toml", study)];
    Mistake { verb: "check", files, file: "study.toml" }.tells("study.toml:4:1", &["\"r.R\" ="]).fails(1).alone();
    // A dotted key of TOML that says what is meant stays one.
    assert_eq!(Mistake::study(&changed("k = { start = 1.0, min = 0.1, max = 10 }", "k.start = 1.0")).run().status, 0);
}

#[test]
fn an_unknown_that_is_no_parameter_comes_with_the_nearest_one() {
    Mistake::study(&changed("k = {", "kk = {"))
        .tells("study.toml:4:1", &["`kk`", "did you mean the parameter `k`"])
        .fails(1)
        .mended("study.toml", "kk = {", "k = {");
    let model = MODEL.replace("Real c = 1;", "Real c = 1;\n  parameter Real idle = 1;");
    let mut mistake = Mistake::study(&changed("[inputs]", "idle = { start = 1.0 }\n[inputs]"));
    mistake.files[0].1 = model;
    mistake.tells("study.toml:5:1", &["`idle`", "take it out of `[unknown]`"]).fails(1).mended(
        "study.toml",
        "idle = { start = 1.0 }\n",
        "",
    );
}

#[test]
fn bounds_that_make_no_sense_are_told() {
    Mistake::study(&changed("min = 0.1, max = 10", "min = 10, max = 0.1"))
        .tells("study.toml:4:1", &["10 > 0.1", "`min`", "`max`"])
        .fails(1)
        .mended("study.toml", "min = 10, max = 0.1", "min = 0.1, max = 10");
    Mistake::study(&changed("start = 1.0", "start = 0.01"))
        .tells("study.toml:4:1", &["0.01 is not in [0.1, 10]"])
        .fails(1)
        .mended("study.toml", "start = 0.01", "start = 0.1");
}

#[test]
fn inputs_and_disturbances_are_told_apart() {
    Mistake::study(STUDY).tells("study.toml", &["`w` at 0", "[inputs]"]).fails(0).mended(
        "study.toml",
        "[measurements]",
        "w = { expression = 0 }\n[measurements]",
    );
    let disturbed = |name: &str| changed("[data]", &format!("[disturbances]\n{name} = {{ white = 0.01 }}\n[data]"));
    Mistake::study(&disturbed("x")).tells("study.toml:10:1", &["`x`", "u, w"]).fails(1).mended(
        "study.toml",
        "x = { white",
        "w = { white",
    );
    // A parameter may drift, but not as white noise.
    Mistake::study(&disturbed("k")).tells("study.toml:10:1", &["`k`", "`num` and `den`"]).fails(1).mended(
        "study.toml",
        "k = { white = 0.01 }",
        "k = { num = [0.01], den = [1, 1] }",
    );
}

#[test]
fn accuracies_that_make_no_sense_are_told() {
    Mistake::study(&changed(", std = 0.01", "")).tells("study.toml:8:1", &["`std`"]).fails(1).mended(
        "study.toml",
        "column = \"y\"",
        "column = \"y\", std = 0.01",
    );
    for (wrong, right) in [("std = -0.01", "std = 0.01"), ("variance = -1e-4", "variance = 0.0001")] {
        Mistake::study(&changed("std = 0.01", wrong))
            .tells("study.toml:8:", &["negative", &format!("write `{right}`")])
            .fails(1)
            .mended("study.toml", wrong, right);
    }
    Mistake::study(&changed("std = 0.01", "std = 0"))
        .tells("study.toml:8:1", &["without error", "`std`"])
        .fails(1)
        .mended("study.toml", "std = 0", "std = 0.01");
    // Sizes that the data contradict come with the one that they say.
    for wrong in ["std = 0.0001", "std = 1.0"] {
        let mistake = Mistake::study(&changed("std = 0.01", wrong)).fails(0);
        let told = mistake.run().stderr;
        let help = told.split("noise-size").nth(1).and_then(|rest| rest.split("help: ").nth(1)).unwrap_or_default();
        let asked: Vec<&str> = help.split('`').skip(1).step_by(2).collect();
        let unknown = |symbol: &str, line: &str| {
            changed("std = 0.01", symbol).replace("[unknown]\n", &format!("[unknown]\n{line}\n"))
        };
        let mendings = match asked[..] {
            [size, "y", symbol, "[unknown]", line] => vec![changed("std = 0.01", size), unknown(symbol, line)],
            [symbol, "y", "[unknown]", line] => vec![unknown(symbol, line)],
            _ => panic!("no remedy: {told}"),
        };
        for mended in mendings {
            let run = Mistake::study(&mended).run();
            assert!(run.status == 0 && !run.stderr.contains("noise-size"), "{mended}: {}", run.stderr);
        }
    }
}

#[test]
fn the_time_is_called_time() {
    Mistake::study(&changed("{ column = \"u\", hold = \"zoh\" }", "{ expression = \"sin(t)\" }"))
        .tells("study.toml:6:25", &["`time`"])
        .fails(1)
        .mended("study.toml", "sin(t)", "sin(time)");
}

#[test]
fn files_that_are_not_there_are_told_with_where_they_were_looked_for() {
    Mistake::study(&changed("model.mo", "modell.mo"))
        .tells("study.toml:2:8", &["`modell.mo`", "relative", "looked for /"])
        .fails(1)
        .mended("study.toml", "modell.mo", "model.mo");
    Mistake::study(&changed("data.csv", "dat.csv"))
        .tells("study.toml:10:8", &["`dat.csv`", "relative", "looked for /"])
        .fails(1)
        .mended("study.toml", "dat.csv", "data.csv");
}

#[test]
fn steps_of_disturbances_that_make_no_sense_are_told() {
    let study = |step: &str| {
        let more = format!(
            "[disturbances]\nw = {{ std = 0.1, time_constant = 1 }}\n[identify]\nmethod = \"pem\"\nrealizations = 4\n\
             noise_step = {step}\n[data]"
        );
        changed("[data]", &more)
    };
    Mistake::study(&study("5"))
        .tells("study.toml:14:14", &["distance 1.000000e-1", "noise_step = 1.0e-2"])
        .fails(1)
        .mended("study.toml", "noise_step = 5", "noise_step = 1.0e-2");
    let tiny = Mistake::study(&study("1e-12")).tells("study.toml:14:14", &["limit", "or more"]).fails(1);
    let told = tiny.run().stderr;
    let asked = told.split("help: ").nth(1).and_then(|help| help.split('`').find(|part| part.contains("noise_step")));
    assert!(asked.is_some() || told.contains("or more"), "{told}");
    tiny.mended("study.toml", "noise_step = 1e-12", "noise_step = 0.01");
}

#[test]
fn records_that_are_too_short_are_told() {
    Mistake::study(&changed("[data]", "[identify]\ntransient = 50\n[data]"))
        .tells("data.csv", &["transient"])
        .fails(1)
        .mended("study.toml", "transient = 50", "transient = 1");
    let short: String = data().lines().take(2).map(|line| format!("{line}\n")).collect();
    let two_unknowns = changed("[inputs]", "c = { start = 1.0, min = 0.1, max = 10 }\n[inputs]");
    let files = vec![("model.mo", MODEL.to_owned()), ("data.csv", short), ("study.toml", two_unknowns)];
    Mistake { verb: "identify", files, file: "study.toml" }
        .tells("study.toml", &["1 value counts, but 2 unknowns", "[parameters]"])
        .fails(1)
        .mended("study.toml", "c = { start = 1.0, min = 0.1, max = 10 }\n", "");
    Mistake::study(&changed("column = \"y\"", "column = \"yy\""))
        .tells("study.toml:8:1", &["did you mean `y`"])
        .fails(1)
        .mended("study.toml", "\"yy\"", "\"y\"");
}

#[test]
fn very_long_lines_are_cut_around_the_place() {
    let long = format!("model A\n  Real x = {}qq{};\nend A;\n", "1 + ".repeat(2000), " + 1".repeat(2000));
    let run = Mistake::model(&long).tells("model.mo:2:", &["`qq`"]).run();
    assert!(run.stderr.lines().all(|line| line.chars().count() < 300), "{}", run.stderr.len());
    assert!(run.stderr.lines().any(|line| line.contains("qq") && line.contains('…')), "{}", run.stderr);
}

#[test]
fn outputs_never_replace_inputs_and_are_refused_before_the_work() {
    let mistake = Mistake::study(STUDY);
    for options in [["-o", "data.csv"], ["-o", "no/such/table.csv"], ["--report", "page.txt"]] {
        let run = mistake.run_with(&options);
        assert_ne!(run.status, 0, "{options:?}");
        assert!(
            run.stdout.is_empty() && run.stderr.contains("output-file") && run.stderr.contains("help:"),
            "{}",
            run.stderr
        );
    }
    let run = mistake.run_with(&["-o", "same.csv", "--report", "./same.csv"]);
    assert_eq!(run.status, 2, "{}", run.stderr);
    assert_eq!(mistake.run_with(&["-o", "table.csv", "--report", "page.html"]).status, 0);
}

#[test]
fn an_experiment_that_starts_before_its_record_is_told() {
    let study = changed("[data]", "[simulate]\nstart = -1.0\n[data]");
    let files = vec![("model.mo", MODEL.to_owned()), ("data.csv", data()), ("study.toml", study)];
    let run = Mistake { verb: "identify", files, file: "study.toml" }.run_with(&["--json"]);
    assert!(run.stdout.contains("input-before-record"), "{}", run.stdout);
}

/// Expressions of inputs have values of their type, by jumps; starts are those of variables that start anywhere.
#[test]
fn expressions_and_starts_that_a_type_or_an_equation_forbids_are_refused() {
    let model = "model M\n  input Integer n;\n  input Boolean b;\n  Real x(start=0, fixed=true);\n  Integer m;\n  Boolean on(start=true, fixed=true);\nequation\n  der(x) = if b and on then n else 0;\n  m = if x > 0.3 then 1 else 2;\n  when x > 0.5 then on = false; end when;\nend M;\n";
    let run = |study: &str| {
        let study = format!("[model]\nfile = \"model.mo\"\n[simulate]\nstop = 2\nstep = 1\n{study}");
        Session::with_model(model).with("study.toml", &study).run(&["simulate", "study.toml"])
    };
    for (study, code, words) in [
        ("[inputs]\nn = { expression = \"1.5\" }\n", "wrong-type", "`n` is an Integer and cannot be 1.5"),
        ("[inputs]\nn = { expression = \"if time < 1 then 1 else 2.5\" }\n", "wrong-type", "cannot be 2.5"),
        ("[inputs]\nn = { expression = \"2*time\" }\n", "wrong-type", "is an Integer"),
        ("[inputs]\nb = { expression = \"3\" }\n", "wrong-type", "`b` is a Boolean"),
        ("[initial]\nm = 1\n", "computed-start", "`m`"),
        ("[initial]\nx = true\n", "wrong-type", "`x` is no Boolean"),
    ] {
        let run = run(study);
        assert_eq!(run.status, 1, "{study}: {}", run.stderr);
        assert!(run.stderr.contains(&format!("[{code}]")) && run.stderr.contains(words), "{study}: {}", run.stderr);
    }
    let inputs = "[inputs]\nn = { expression = \"if time < 1 then 1 else 2\" }\nb = { expression = \"1\" }\n";
    let (on, off) = (run(inputs), run(&format!("{inputs}[initial]\non = false\n")));
    assert_eq!((on.status, off.status), (0, 0), "{}{}", on.stderr, off.stderr);
    assert!((on.table().column("x").pop().unwrap() - 0.5).abs() < 1e-6, "{}", on.stdout);
    assert_eq!(off.table().column("x").pop(), Some(0.0));
}

/// A search or a distribution takes values between those of an Integer, which mean nothing.
#[test]
fn parameters_that_are_no_reals_are_neither_unknown_nor_random_and_starts_have_their_type() {
    let model = "model M\n  parameter Integer n = 2;\n  Real x(start=1, fixed=true);\n  discrete Integer k(start=3, fixed=true);\nequation\n  der(x) = -n*x;\n  when time > 0.5 then k = pre(k) + 1; end when;\nend M;\n";
    for (study, code) in [
        ("[unknown]\nn = { start = 2 }\n[measurements]\nx = { column = \"x\", std = 0.1 }\n", "cannot be unknown"),
        ("[random]\nn = { uniform = { min = 1, max = 3 } }\n", "cannot be random"),
        ("[initial]\nk = 2.5\n", "is an Integer and cannot be 2.5"),
    ] {
        let session = Session::with_model(model).with("study.toml", &format!("[model]\nfile = \"model.mo\"\n{study}"));
        let run = session.run(&["check", "study.toml"]);
        assert_eq!(run.status, 1, "{study}: {}", run.stderr);
        assert!(run.stderr.contains("[wrong-type]") && run.stderr.contains(code), "{study}: {}", run.stderr);
    }
}
