//! External objects and functions that daesy has itself, called as libraries call them.

mod support;

use support::*;

/// Tables under the names that libraries give their external functions.
const TABLES: &str = "
    package T
      type Smoothness = enumeration(LinearSegments, ContinuousDerivative, ConstantSegments);
      type Extrapolation = enumeration(HoldLastPoint, LastTwoPoints, Periodic, NoExtrapolation);
      type Compare = enumeration(Less, Equal, Greater);
      class Curves extends ExternalObject;
        function constructor input String tableName; input String fileName; input Real table[:, :]; input Integer columns[:];
          input Smoothness smoothness; input Extrapolation extrapolation; output Curves made;
          external \"C\" made = ModelicaStandardTables_CombiTable1D_init3(fileName, tableName, table, size(table, 1),
            size(table, 2), columns, size(columns, 1), smoothness, extrapolation, false, \",\", 0); end constructor;
        function destructor input Curves made;
          external \"C\" ModelicaStandardTables_CombiTable1D_close(made); end destructor;
      end Curves;
      function at input Curves table; input Integer column; input Real u; output Real y;
        external \"C\" y = ModelicaStandardTables_CombiTable1D_getValue(table, column, u); end at;
      function first input Curves table; output Real u;
        external \"C\" u = ModelicaStandardTables_CombiTable1D_minimumAbscissa(table); end first;
      block Table parameter Real table[:, :] = [0, 1; 2, 5]; parameter Integer columns[:] = 2:size(table, 2);
        Real u; Real y[size(columns, 1)]; final parameter Real u_min = first(id);
      protected parameter Curves id = Curves(\"NoName\", \"NoName\", table, columns, Smoothness.LinearSegments,
          Extrapolation.LastTwoPoints);
      equation for i in 1:size(columns, 1) loop y[i] = at(id, i, u); end for; end Table;
      function compare input String a; input String b; output Compare result;
        external \"C\" result = ModelicaStrings_compare(a, b, true); end compare;
      function solve input Real A[:, size(A, 1)]; input Real b[size(A, 1)]; output Real x[size(A, 1)] = b; output Integer info;
      protected Real work[size(A, 1), size(A, 1)] = A; Integer n = size(A, 1); Integer pivots[size(A, 1)];
        external \"FORTRAN 77\" dgesv(n, 1, work, n, pivots, x, n, info); end solve;
      function random input Integer s[2]; output Real r; output Integer t[2];
        external \"C\" ModelicaRandom_xorshift64star(s, t, r); end random;
      function foreign input Real x; output Real y; external \"C\" y = my_own_function(x); end foreign;
    end T;";

fn evaluate(flat: &daesy_graph::FlatDae, name: &str, values: &[(&str, f64)]) -> f64 {
    let equation = flat.equations.iter().find(|one| show(flat, one.lhs) == name).unwrap();
    let env = |var: daesy_graph::VarId, _: u16| {
        let known = values.iter().find(|(name, _)| flat.variables[var.index()].name == *name);
        known.map_or(f64::NAN, |(_, value)| *value)
    };
    daesy_graph::Evaluator::new().evaluate_checked(&flat.graph, equation.rhs, &env).unwrap()
}

#[test]
fn a_table_is_an_external_object_made_at_once() {
    let text = format!(
        "{TABLES} model M T.Table one; T.Table two(table = [-1, 0, 10; 1, 4, 30]); equation one.u = time; two.u = time; end M;"
    );
    let flat = flat(&text, "M");
    assert_balanced(&flat, 5);
    assert_eq!(evaluate(&flat, "one.y[1]", &[("one.u", 0.5)]), 2.0);
    assert_eq!(evaluate(&flat, "one.y[1]", &[("one.u", 3.0)]), 7.0);
    assert_eq!(evaluate(&flat, "two.y[2]", &[("two.u", 0.0)]), 20.0);
    assert_eq!(binding(&flat, "two.u_min"), "-1");
    let wrong = text.replace("[-1, 0, 10; 1, 4, 30]", "[1, 0, 10; 1, 4, 30]");
    assert!(refused(&wrong, "M").findings.iter().any(|finding| finding.code == "table"));
}

#[test]
fn texts_are_compared_and_systems_solved_while_flattening() {
    let text = format!(
        "{TABLES} model M parameter Boolean b = T.compare(\"a\", \"b\") == T.Compare.Less;
           parameter Real x[2] = T.solve([0, 1; 2, 0], {{5, 6}}); Real y = x[1]*time; end M;"
    );
    let flat = flat(&text, "M");
    assert_eq!(binding(&flat, "b"), "1");
    assert_eq!((binding(&flat, "x[1]").as_str(), binding(&flat, "x[2]").as_str()), ("3", "5"));
}

#[test]
fn random_numbers_may_be_drawn_when_the_model_runs() {
    let text = format!(
        "{TABLES} model M Integer s[2](start = {{1, 0}}, each fixed = true); discrete Real r; equation
           when sample(0, 1) then (r, s) = T.random(pre(s)); end when; end M;"
    );
    let flat = flat(&text, "M");
    assert_eq!(flat.size().unknowns, flat.size().equations);
}

#[test]
fn foreign_functions_are_refused_by_name() {
    let text = format!("{TABLES} model M Real y = T.foreign(time); end M;");
    let error = refused(&text, "M");
    assert!(error.to_string().contains("`my_own_function`"), "{error}");
}

#[test]
fn a_loop_may_be_left_under_a_condition_that_changes() {
    // The first i with time < i, at most 3; and how many passes there were.
    let text = "model M Integer found; Integer n; algorithm found := 0; n := 0;
                for i in 1:3 loop n := n + 1; if time < i then found := i; break; end if; n := n + 10; end for; end M;";
    let flat = flat(text, "M");
    struct At(f64);
    impl daesy_graph::Environment for At {
        fn value(&self, _: daesy_graph::VarId, _: u16) -> f64 {
            f64::NAN
        }
        fn time(&self) -> f64 {
            self.0
        }
    }
    let at = |name: &str, time: f64| {
        let equation = flat.equations.iter().find(|one| show(&flat, one.lhs) == name).unwrap();
        daesy_graph::Evaluator::new().evaluate_checked(&flat.graph, equation.rhs, &At(time)).unwrap()
    };
    for (time, found, n) in [(0.5, 1.0, 1.0), (1.5, 2.0, 12.0), (2.5, 3.0, 23.0), (3.5, 0.0, 33.0)] {
        assert_eq!((at("found", time), at("n", time)), (found, n), "{time}");
    }
}

/// Values of a function, written out as a text, at points.
fn written_out(inside: &str, points: &[[f64; 2]], n_inputs: usize) -> Vec<f64> {
    let inputs = ["a", "b"][..n_inputs].join(", ");
    let text = format!(
        "function f\n{inside}end f;\nmodel M input Real a; input Real b; output Real y; equation y = f({inputs}); end M;"
    );
    let flat = flat(&text, "M");
    points.iter().map(|point| evaluate(&flat, "y", &[("a", point[0]), ("b", point[1])])).collect()
}

#[test]
fn tables_written_out_give_the_same_numbers() {
    use daesy_graph::intrinsic::Intrinsic;
    use daesy_graph::table::{
        Extrapolation, Matrix, Smoothness, TableCurve, TableSurface, TimeEvents, TimeTable, TimeTableOptions,
    };
    use std::sync::Arc;
    let mut state = 11u64;
    let mut number = move |from: f64, to: f64| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (to - from) * (state >> 11) as f64 / (1u64 << 53) as f64
    };
    let matrix = |rows: usize, columns: usize, entries: Vec<f64>| Matrix { rows, columns, entries };
    let check = |intrinsic: Intrinsic, points: &[[f64; 2]], n_inputs: usize| {
        let inside = intrinsic.modelica_text().unwrap();
        for (value, point) in written_out(&inside, points, n_inputs).into_iter().zip(points) {
            let mut out = [0.0];
            intrinsic.evaluate(point, &mut out).unwrap();
            assert!(
                (value - out[0]).abs() <= 1e-13 * out[0].abs().max(1.0),
                "{value} {} at {point:?}\n{inside}",
                out[0]
            );
        }
    };
    let kinds = [Smoothness::Linear, Smoothness::Constant, Smoothness::Akima, Smoothness::Steffen];
    for smoothness in kinds {
        for extrapolation in [Extrapolation::Hold, Extrapolation::Line, Extrapolation::Periodic] {
            let table =
                matrix(5, 2, [-2.0, -0.5, 0.0, 1.0, 2.5].iter().flat_map(|x| [*x, number(-3.0, 3.0)]).collect());
            let mut points: Vec<[f64; 2]> = (0..40).map(|_| [number(-5.0, 6.0), 0.0]).collect();
            points.extend([-2.0, -0.5, 1.0, 2.5].map(|x| [x, 0.0]));
            let curve = Arc::new(TableCurve::new(&table, 1, smoothness, extrapolation, true).unwrap());
            for order in 0..2 {
                check(Intrinsic::Curve { curve: curve.clone(), order }, &points, 1);
            }
            if smoothness != Smoothness::Steffen {
                let values = (0..16).map(|at| match at {
                    0 => 0.0,
                    1..=3 => f64::from(at) - 2.5,
                    4 | 8 | 12 => f64::from(at),
                    _ => number(-3.0, 3.0),
                });
                let surface = TableSurface::new(&matrix(4, 4, values.collect()), smoothness, extrapolation).unwrap();
                let points: Vec<[f64; 2]> = (0..40).map(|_| [number(1.0, 16.0), number(-3.0, 2.0)]).collect();
                check(Intrinsic::Surface { surface: Arc::new(surface), orders: [0, 0] }, &points, 2);
            }
            let options =
                TimeTableOptions { start: -0.5, shift: 0.25, smoothness, extrapolation, events: TimeEvents::Always };
            // Lines and steps jump at 1.
            let third = if matches!(smoothness, Smoothness::Linear | Smoothness::Constant) { 1.0 } else { 0.75 };
            let rows = [-1.0, 0.5, third, 1.0, 2.0].iter().flat_map(|x| [*x, number(-3.0, 3.0)]).collect();
            let time = Arc::new(TimeTable::new(&matrix(5, 2, rows), &[1], options).unwrap());
            let times: Vec<f64> = (0..60).map(|_| number(-2.0, 9.0)).chain([-0.75, 0.75, 1.25, 2.25]).collect();
            check(
                Intrinsic::NextEvent { table: time.clone() },
                &times.iter().map(|&t| [t, 0.0]).collect::<Vec<_>>(),
                1,
            );
            let points: Vec<[f64; 2]> = times.iter().map(|&t| [t, time.next_event(t)]).collect();
            check(Intrinsic::Signal { table: time, column: 0, order: 0 }, &points, 2);
        }
    }
}

#[test]
fn an_external_object_that_nothing_reads_is_told() {
    let text = "model M
      class Thing extends ExternalObject;
        function constructor input Real a; output Thing t; external \"C\" t = make(a); end constructor;
        function destructor input Thing t; external \"C\" unmake(t); end destructor;
      end Thing;
      model Part Thing thing = Thing(3); Real x = time; end Part;
      Part part; end M;";
    let flat = flat(text, "M");
    assert_eq!(flat.findings.iter().map(|one| one.code).collect::<Vec<_>>(), ["unread-object"]);
    assert!(flat.findings[0].message.contains("`part.thing`"), "{:?}", flat.findings);
}
