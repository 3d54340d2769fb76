//! Tables at breaks of inputs, at the ends, and for every kind of variable.

use crate::session::Session;

/// x' = u, y = u with a step of u at t = 0.55, between two output rows.
#[test]
fn a_jump_has_a_row_before_and_a_row_after() {
    let session = Session::with_model(
        "model M input Real u; Real x(start=0, fixed=true), y; equation der(x) = u; y = 2*u; end M;",
    )
    .with(
        "study.toml",
        "[model]\nfile = \"model.mo\"\n[inputs]\nu = { expression = \"if time < 0.55 then 1 else 3\" }\n\
             [simulate]\nstop = 1.0\nstep = 0.1\n",
    );
    let table = session.run(&["simulate", "study.toml"]).table();
    let times = table.column("t");
    assert_eq!(times.len(), 13);
    let at = times.iter().position(|&time| time == 0.55).unwrap();
    assert_eq!(&times[at..at + 2], [0.55, 0.55]);
    assert_eq!(&table.column("u")[at..at + 2], [1.0, 3.0]);
    assert_eq!(&table.column("y")[at..at + 2], [2.0, 6.0]);
    assert_eq!(&table.column("der(x)")[at..at + 2], [1.0, 3.0]);
    let x = table.column("x");
    assert!((x[at] - 0.55).abs() < 1e-9 && x[at] == x[at + 1]);
    assert!((x[12] - (0.55 + 3.0 * 0.45)).abs() < 1e-9);
    // On the output grid the row that is there is the one before.
    let session = session.with(
        "grid.toml",
        "[model]\nfile = \"model.mo\"\n[inputs]\nu = { expression = \"if time < 0.5 then 1 else 3\" }\n\
         [simulate]\nstop = 1.0\nstep = 0.25\n",
    );
    let table = session.run(&["simulate", "grid.toml"]).table();
    assert_eq!(table.column("t"), [0.0, 0.25, 0.5, 0.5, 0.75, 1.0]);
    assert_eq!(table.column("u"), [1.0, 1.0, 1.0, 3.0, 3.0, 3.0]);
}

/// Held samples jump at each sample, the last one included, as estimation takes it; straight lines and splines do not.
#[test]
fn samples_are_held_as_the_study_says() {
    let study = |hold: &str| {
        format!(
            "[model]\nfile = \"model.mo\"\n[inputs]\nu = {{ column = \"u\", hold = \"{hold}\" }}\n\
             [data]\nfile = \"data.csv\"\n[simulate]\nstep = 0.5\n"
        )
    };
    let session = Session::with_model("model M input Real u; Real x(start=0, fixed=true); equation der(x) = u; end M;")
        .with("data.csv", "t,u\n0,1\n1,2\n2,4\n")
        .with("zoh.toml", &study("zoh"))
        .with("foh.toml", &study("foh"))
        .with("cubic.toml", &study("cubic"));
    let table = session.run(&["simulate", "zoh.toml"]).table();
    assert_eq!(table.column("t"), [0.0, 0.5, 1.0, 1.0, 1.5, 2.0, 2.0]);
    assert_eq!(table.column("u"), [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 4.0]);
    assert!((table.column("x")[6] - 3.0).abs() < 1e-9);
    let table = session.run(&["simulate", "foh.toml"]).table();
    assert_eq!(table.column("t"), [0.0, 0.5, 1.0, 1.5, 2.0]);
    assert_eq!(table.column("u"), [1.0, 1.5, 2.0, 3.0, 4.0]);
    // Trapezoids: 1.5 + 3.
    assert!((table.column("x")[4] - 4.5).abs() < 1e-7);
    let table = session.run(&["simulate", "cubic.toml"]).table();
    assert_eq!(table.column("t").len(), 5);
    assert!((table.column("u")[2] - 2.0).abs() < 1e-12);
}

/// Every variable of the flat model, aliases and inputs included, and the derivative of every state; no parameters.
#[test]
fn the_table_holds_all_variables_and_derivatives_of_states() {
    let session = Session::with_model(
        "model M
           input Real u;
           parameter Real p = 2;
           Real x(start=1, fixed=true), same, opposite, known, algebraic;
           output Real y;
           Real v[2];
         equation
           der(x) = -p*x + u;
           same = x;
           opposite = -same;
           known = p + 1;
           algebraic = x*x;
           y = opposite;
           v = {x, 2*x};
         end M;",
    );
    let run = session.run(&["simulate", "model.mo"]);
    let table = run.table();
    let mut names = table.names.clone();
    assert_eq!(names.remove(0), "t");
    names.sort();
    assert_eq!(names, ["algebraic", "der(x)", "known", "opposite", "same", "u", "v[1]", "v[2]", "x", "y"]);
    for row in 0..table.rows.len() {
        let (t, x) = (table.column("t")[row], table.column("x")[row]);
        assert!((x - (-2.0 * t).exp()).abs() < 1e-5);
        assert_eq!(table.column("same")[row], x);
        assert_eq!(table.column("opposite")[row], -x);
        assert_eq!(table.column("y")[row], -x);
        assert_eq!(table.column("known")[row], 3.0);
        assert_eq!(table.column("algebraic")[row], x * x);
        assert!((table.column("der(x)")[row] + 2.0 * x).abs() < 1e-9);
    }
}

/// The same circuit from components and expanded by hand gives the same table.
#[test]
fn eliminated_variables_are_what_a_model_expanded_by_hand_gives() {
    let components = "package P
      connector Pin Real v; flow Real i; end Pin;
      partial model OnePort Pin p; Pin n; Real v; Real i; equation v = p.v - n.v; i = p.i; p.i + n.i = 0; end OnePort;
      model R extends OnePort; parameter Real R; equation v = R*i; end R;
      model C extends OnePort; parameter Real C; equation i = C*der(v); end C;
      model V extends OnePort; equation v = sin(3*time); end V;
      model Ground Pin p; equation p.v = 0; end Ground;
      model Circuit V s; R r(R=2); C c(C=0.5, v(start=0.25, fixed=true)); Ground g;
      equation connect(s.p, r.p); connect(r.n, c.p); connect(c.n, s.n); connect(s.n, g.p); end Circuit;
    end P;";
    let by_hand = "model Hand
      Real v(start=0.25, fixed=true), i, u;
    equation
      u = sin(3*time);
      u - v = 2*i;
      i = 0.5*der(v);
    end Hand;";
    let table = Session::with_model(components).run(&["simulate", "model.mo", "--class", "P.Circuit"]).table();
    let hand = Session::with_model(by_hand).run(&["simulate", "model.mo"]).table();
    let (u, v, i) = (hand.column("u"), hand.column("v"), hand.column("i"));
    let same = |name: &str, expected: &dyn Fn(usize) -> f64| {
        for (row, value) in table.column(name).iter().enumerate() {
            assert!((value - expected(row)).abs() < 2e-5, "{name} row {row}: {value} {}", expected(row));
        }
    };
    for (name, sign) in [
        ("r.i", 1.0),
        ("c.i", 1.0),
        ("s.i", -1.0),
        ("r.p.i", 1.0),
        ("r.n.i", -1.0),
        ("s.p.i", -1.0),
        ("s.n.i", 1.0),
        ("c.n.i", -1.0),
        ("c.p.i", 1.0),
        ("g.p.i", 0.0),
    ] {
        same(name, &|row| sign * i[row]);
    }
    for name in ["s.v", "s.p.v", "r.p.v"] {
        same(name, &|row| u[row]);
    }
    for name in ["c.v", "c.p.v", "r.n.v"] {
        same(name, &|row| v[row]);
    }
    for name in ["s.n.v", "c.n.v", "g.p.v"] {
        same(name, &|_| 0.0);
    }
    same("r.v", &|row| u[row] - v[row]);
    same("der(c.v)", &|row| 2.0 * i[row]);
}

#[test]
fn a_span_of_no_length_gives_one_row() {
    let session = Session::with_model("model M Real x(start=1, fixed=true); equation der(x) = -x; end M;")
        .with("study.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nstart = 2.0\nstop = 2.0\n");
    let table = session.run(&["simulate", "study.toml"]).table();
    assert_eq!(table.rows, [[2.0, 1.0, -1.0]]);
}

#[test]
fn headers_with_commas_are_quoted() {
    let session = Session::with_model("model M Real p[1,2] = {{1, 2}}; end M;");
    let run = session.run(&["simulate", "model.mo"]);
    assert_eq!(run.stdout.lines().next(), Some("t,\"p[1,1]\",\"p[1,2]\""));
}

/// A refused run leaves no file, one that the method gives up on what it has, and a good one no other.
#[test]
fn output_files_are_whole_or_not_there() {
    let session = Session::with_model("model M Real x(start=1, fixed=true); equation der(x) = x^2; end M;")
        .with("bad.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 2.0\n")
        .with("good.toml", "[model]\nfile = \"model.mo\"\n[simulate]\nstop = 0.5\n");
    // x = 1 / (1 - t) ends at t = 1.
    let run = session.run(&["simulate", "bad.toml", "-o", "out.csv", "--report", "out.html"]);
    assert_eq!(run.status, 3, "{}", run.stderr);
    assert_eq!(session.files(), ["bad.toml", "good.toml", "model.mo", "out.csv", "out.html"]);
    for name in ["out.csv", "out.html"] {
        std::fs::remove_file(session.path(name)).unwrap();
    }
    let run = session.run(&["simulate", "good.toml", "-o", "out.csv", "--report", "out.html"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(session.files(), ["bad.toml", "good.toml", "model.mo", "out.csv", "out.html"]);
    let text = std::fs::read_to_string(session.path("out.csv")).unwrap();
    let last: Vec<f64> = text.lines().last().unwrap().split(',').map(|cell| cell.parse().unwrap()).collect();
    assert!((last[1] - 2.0).abs() < 1e-4);
    let run = session.run(&["simulate", "good.toml", "-o", "no/such/folder/out.csv"]);
    assert_eq!(run.status, 1);
    assert!(run.stderr.starts_with("no/such/folder/out.csv:1:1: error"), "{}", run.stderr);
    let run = session.run(&["simulate", "good.toml", "-o", "out.xyz"]);
    assert_eq!(run.status, 2);
}
