//! Parts of the language, each with its result worked out by hand.

mod support;

use daesy_graph::flat::Origin;
use daesy_graph::whole::Whole;
use daesy_graph::{VarId, VariableKind};
use support::*;

/// The right side of the only equation for a variable.
fn value(flat: &daesy_graph::FlatDae, name: &str) -> String {
    let wanted = format!("{name} = ");
    let all = equations(flat);
    let found: Vec<&String> = all.iter().filter(|one| one.starts_with(&wanted)).collect();
    assert_eq!(found.len(), 1, "{name} in {all:?}");
    found[0][wanted.len()..].to_owned()
}

#[test]
fn outer_modifications_override_inner_ones() {
    let flat = flat(
        "model A parameter Real k = 1; parameter Real m = k; end A;
         model B A a(k = 2, m = 20); end B;
         model C extends B(a(k = 3)); end C;
         model D C c(a.k = 4); C e; B b(a(m(min = 5))); end D;",
        "D",
    );
    assert_eq!(binding(&flat, "c.a.k"), "4");
    assert_eq!(binding(&flat, "c.a.m"), "20");
    assert_eq!(binding(&flat, "e.a.k"), "3");
    assert_eq!(binding(&flat, "b.a.k"), "2");
    assert_eq!(variable(&flat, "b.a.m").min.map(|min| show(&flat, min)).as_deref(), Some("5"));
}

#[test]
fn modifiers_are_read_where_they_are_written() {
    let flat = flat(
        "model A parameter Real k = 1; end A;
         model B parameter Real k = 7; A a(k = 2 * k); end B;
         model C parameter Real k = 9; B b(k = k + 1); end C;",
        "C",
    );
    assert_eq!(binding(&flat, "b.k"), "(k + 1)");
    assert_eq!(binding(&flat, "b.a.k"), "(2 * b.k)");
}

#[test]
fn constraining_modifiers_hold_for_redeclarations() {
    let flat = flat(
        "model A parameter Real k = 1; parameter Real m = 1; end A;
         model B extends A; parameter Real extra = 5; end B;
         model P replaceable A a(m = 8) constrainedby A(k = 3); replaceable model Q = A(k = 4); Q q; end P;
         model M P p(redeclare B a(extra = 6), redeclare model Q = B); P s; end M;",
        "M",
    );
    assert_eq!(binding(&flat, "p.a.k"), "3");
    assert_eq!(binding(&flat, "p.a.m"), "1");
    assert_eq!(binding(&flat, "p.a.extra"), "6");
    assert_eq!(binding(&flat, "p.q.k"), "4");
    assert_eq!(binding(&flat, "s.a.m"), "8");
}

#[test]
fn replaceable_packages_reach_everything_inside() {
    let flat = flat(
        "package Medium constant Real cp = 1; function density input Real T; output Real d; algorithm d := cp * T; end density; end Medium;
         package Water extends Medium(cp = 4.2); end Water;
         package Oil extends Medium(cp = 2);
           redeclare function extends density algorithm d := 10 + T; end density;
         end Oil;
         model Pipe replaceable package M = Medium; Real d = M.density(300); Real c = M.cp; end Pipe;
         model System replaceable package W = Water; Pipe a(redeclare package M = W); Pipe b; end System;
         model Top System s(redeclare package W = Medium(cp = 3)); System t; end Top;",
        "Top",
    );
    assert_eq!(value(&flat, "s.a.c"), "3");
    assert_eq!(value(&flat, "s.a.d"), "900");
    assert_eq!(value(&flat, "t.a.c"), "4.2");
    assert_eq!(value(&flat, "t.b.c"), "1");
}

#[test]
fn array_operations() {
    let flat = flat(
        "model M
           parameter Real A[2, 2] = [1, 2; 3, 4];
           Real x[2] = {time, 2};
           Real y[2] = A * x;
           Real s = x * x;
           Real t[2, 2] = transpose(A);
           Real c[3] = cross({1, 0, 0}, {0, 1, 0});
           Real m = max({1, 3, 2});
           Real f[2, 3] = fill(7, 2, 3);
           Real g[4] = cat(1, x, {5, 6});
           Real h[3] = {i ^ 2 for i in 1:3};
           Real e = x[end];
           Real z[2] = x .* {3, 4};
           Integer n = size(f, 2) + ndims(f);
           Real l[3] = linspace(0, 1, 3);
           Real p = product(1:4);
         end M;",
        "M",
    );
    assert_eq!(value(&flat, "y[1]"), "((A[1,1] * x[1]) + (A[1,2] * x[2]))");
    assert_eq!(value(&flat, "s"), "((x[1] * x[1]) + (x[2] * x[2]))");
    assert_eq!(value(&flat, "t[1,2]"), "A[2,1]");
    assert_eq!((value(&flat, "c[1]"), value(&flat, "c[3]")), ("0".to_owned(), "1".to_owned()));
    assert_eq!(value(&flat, "m"), "3");
    assert_eq!(value(&flat, "g[4]"), "6");
    assert_eq!(value(&flat, "h[3]"), "9");
    assert_eq!(value(&flat, "e"), "x[2]");
    assert_eq!(value(&flat, "z[2]"), "(x[2] * 4)");
    assert_eq!(value(&flat, "n"), "5");
    assert_eq!(value(&flat, "l[2]"), "0.5");
    assert_eq!(value(&flat, "p"), "24");
    assert_eq!(binding(&flat, "A[2,1]"), "3");
}

#[test]
fn sizes_follow_parameters_declared_anywhere() {
    let flat = flat(
        "model A parameter Integer n = 2; Real x[n] = {i * time for i in 1:n}; end A;
         model M A a(n = b.k); A c[a.n]; B b; parameter Real t[:, :] = [1, 2, 3; 4, 5, 6]; Real u[size(t, 2)] = t[1, :]; end M;
         model B parameter Integer k = 3; end B;",
        "M",
    );
    assert!(flat.find("a.x[3]").is_some());
    assert!(flat.find("c[3].x[2]").is_some() && flat.find("c[4].x[1]").is_none());
    assert_eq!(value(&flat, "u[3]"), "t[1,3]");
    for name in ["a.n", "b.k"] {
        assert!(variable(&flat, name).is_structural, "{name}");
    }
    assert!(!variable(&flat, "t[1,1]").is_structural);
}

#[test]
fn algorithm_sections_become_equations() {
    let flat = flat(
        "model M
           Real x, y, z;
           Integer n(start = 0);
           Boolean b;
         algorithm
           x := 2 * time;
           if x > 1 then
             y := x;
             x := x + 1;
           else
             y := -x;
           end if;
           for i in 1:3 loop
             y := y + i;
           end for;
         algorithm
           b := time > 2;
           when {b, time > 3} then
             n := n + 1;
           end when;
           z := n;
         end M;",
        "M",
    );
    assert_balanced(&flat, 5);
    let all = equations_of(&flat, Origin::Algorithm);
    let x = "(if ((2 * time) > 1) then ((2 * time) + 1) else (2 * time))";
    assert!(all.contains(&format!("x = {x}")), "{all:?}");
    assert!(all.contains(&"z = n".to_owned()), "{all:?}");
    assert_eq!(whens(&flat), ["when (time > 2), (time > 3): n := (pre(n) + 1)"]);
}

#[test]
fn later_when_statements_have_the_last_word() {
    let flat = flat(
        "model M Integer n;
         algorithm
           when time > 1 then n := 1; end when;
           when time > 2 then n := 2; end when;
         end M;",
        "M",
    );
    assert_balanced(&flat, 1);
    assert_eq!(whens(&flat), ["when (time > 2): n := 2", "when (time > 1): n := 1"]);
}

#[test]
fn functions_with_branches_records_and_several_results() {
    let flat = flat(
        "record Point Real x; Real y = 0; end Point;
         function polar
           input Point p; output Real r; output Real phi;
         algorithm
           r := sqrt(p.x ^ 2 + p.y ^ 2);
           if r < 1e-6 then phi := 0; return; end if;
           phi := atan2(p.y, p.x);
         end polar;
         function scale input Point p; input Real k = 2; output Point q; algorithm q.x := k * p.x; q.y := k * p.y; end scale;
         function apply input F f; input Real x; output Real y; algorithm y := f(x); end apply;
         partial function F input Real u; output Real v; end F;
         function power extends F; input Real n = 2; algorithm v := u ^ n; end power;
         function fact input Integer n; output Integer f; algorithm f := if n <= 1 then 1 else n * fact(n - 1); end fact;
         model M
           Real r, phi; Point q = scale(Point(time)); Real z = apply(function power(n = 3), time);
           Integer k = fact(5);
           Real v[2] = sin({time, 2});
         equation
           (r, phi) = polar(q);
         end M;",
        "M",
    );
    assert_eq!(value(&flat, "q.x"), "(2 * time)");
    assert_eq!(value(&flat, "q.y"), "0");
    assert_eq!(value(&flat, "z"), "(time ^ 3)");
    assert_eq!(value(&flat, "k"), "120");
    assert_eq!(value(&flat, "v[1]"), "sin(time)");
    let r = "sqrt(((q.x ^ 2) + (q.y ^ 2)))";
    assert_eq!(value(&flat, "phi"), format!("noevent((if ({r} < 0.000001) then 0 else atan2(q.y, q.x)))"));
}

#[test]
fn values_can_be_wished_for() {
    let text = "model M parameter Integer n = 2; parameter Real k[2] = {1, 2}; final parameter Real f = 1; Real x[n] = fill(k[2], n); end M;";
    let wish = |name: &str, value: f64| {
        let mut library = daesy_model::Library::new();
        library.add_text("test.mo", text);
        let mut options = daesy_model::FlattenOptions::default();
        options.values.insert(name.to_owned(), value);
        daesy_model::flatten(&library, "M", &options)
    };
    let flat = wish("n", 4.0).unwrap_or_else(|error| panic!("{error}"));
    assert_balanced(&flat, 4);
    let flat = wish("k[2]", 7.0).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!((binding(&flat, "k[1]"), binding(&flat, "k[2]")), ("1".to_owned(), "7".to_owned()));
    for name in ["f", "m", "x[1]"] {
        assert_eq!(wish(name, 1.0).expect_err("refused").findings[0].code, "unknown-parameter", "{name}");
    }
}

#[test]
fn inputs_outputs_and_states_of_the_top_model() {
    let flat = flat(
        "connector RealInput = input Real; connector RealOutput = output Real;
         block Gain RealInput u; RealOutput y; parameter Real k = 1; equation y = k * u; end Gain;
         model M RealInput u; RealOutput y; Gain a(k = 2), b; equation connect(u, a.u); connect(a.y, b.u); connect(b.y, y); end M;",
        "M",
    );
    let size = flat.size();
    assert_eq!((size.equations, size.unknowns, size.inputs), (5, 5, 1));
    assert_eq!(variable(&flat, "u").kind, VariableKind::Input);
    assert!(variable(&flat, "y").is_output);
    assert_eq!(equations_of(&flat, Origin::Connection), ["a.y = b.u", "b.y = y", "u = a.u"]);
}

#[test]
fn flows_seen_from_outside_count_negatively() {
    let flat = flat(
        "connector P Real v; flow Real i; end P;
         model R P a, b; equation a.v - b.v = a.i; a.i + b.i = 0; end R;
         model Two P a, b; R r, s; equation connect(a, r.a); connect(r.b, s.a); connect(s.b, b); end Two;
         model M Two t; R load; P ground; equation connect(t.a, load.a); connect(t.b, load.b); connect(t.b, ground); ground.v = 0; end M;",
        "M",
    );
    let sums = equations_of(&flat, Origin::FlowSum);
    assert!(
        sums.contains(&"(-t.a.i + t.r.a.i) = 0".to_owned()) || sums.contains(&"(t.r.a.i - t.a.i) = 0".to_owned()),
        "{sums:?}"
    );
    assert!(sums.contains(&"((t.b.i + load.b.i) - ground.i) = 0".to_owned()), "{sums:?}");
    assert_eq!(equations_of(&flat, Origin::UnconnectedFlow), ["ground.i = 0"]);
}

#[test]
fn streams_mix() {
    let flat = flat(
        "connector Port Real p; flow Real m; stream Real h; end Port;
         model Source Port port; parameter Real h = 1; equation port.h = h; port.p = 1; end Source;
         model M Source a(h = 1), b(h = 2); Port c; Real in_a = inStream(a.port.h);
         equation connect(a.port, b.port); end M;",
        "M",
    );
    assert_eq!(value(&flat, "in_a"), "b.port.h");
}

#[test]
fn unit_mismatch_is_a_warning_that_names_both_sides() {
    let flat = flat("model M Real x(unit = \"m\") = 1; Real v(unit = \"m/s\"); equation v = x; end M;", "M");
    let finding = flat.findings.iter().find(|one| one.code == "unit-mismatch").expect("a warning");
    assert!(finding.message.contains('v') && finding.message.contains('x'), "{}", finding.message);
}

#[test]
fn constants_with_units_do_not_lose_them_in_silence() {
    // Folded, a current of one ampere would vanish from the product.
    let flat = flat(
        "model M constant Real one_ampere(unit = \"A\") = 1; constant Real one_second(unit = \"s\") = 1;
         parameter Real r(unit = \"Ohm\") = 2; parameter Real t(unit = \"s\") = 3; parameter Real k(unit = \"1\") = one_second / t;
         Real s(unit = \"1\") = time; Real v(unit = \"V\"); equation v = s * one_ampere * r; end M;",
        "M",
    );
    assert!(flat.findings.is_empty(), "{:?}", flat.findings);
}

#[test]
fn a_class_brought_in_by_a_star_is_suggested() {
    let error = refused("package P model Heater end Heater; end P; model M import P.*; Heatr h; end M;", "M");
    assert_eq!(error.findings[0].help.as_deref(), Some("did you mean `Heater`?"));
}

#[test]
fn parameters_without_value_and_free_parameters() {
    let flat = flat(
        "model M parameter Real p; parameter Real q(start = 3); parameter Real r(fixed = false); Real x(start = 1);
         initial equation r = 2 * x; equation der(x) = -p * x + q + r; end M;",
        "M",
    );
    assert_eq!(binding(&flat, "p"), "none");
    assert_eq!(binding(&flat, "q"), "3");
    assert_eq!(binding(&flat, "r"), "none");
    assert_eq!(flat.initial_equations.len(), 1);
    let codes: Vec<_> = flat.findings.iter().map(|one| (one.code, one.names.clone())).collect();
    assert_eq!(codes.len(), 2, "{codes:?}");
}

#[test]
fn inner_outer_components_are_two() {
    let flat = flat(
        "model Leaf outer Real t; Real x = t; end Leaf;
         model Middle inner outer Real t = 2 * s; Real s = time; Real y = t; Leaf leaf; end Middle;
         model M inner Real t = 5; Middle middle; end M;",
        "M",
    );
    assert_eq!(value(&flat, "middle.y"), "t");
    assert_eq!(value(&flat, "middle.leaf.x"), "middle.t");
    assert_eq!(value(&flat, "middle.t"), "(2 * middle.s)");
}

#[test]
fn members_of_expandable_connectors_come_by_connecting() {
    let flat = flat(
        "expandable connector Bus Real unused; end Bus;
         connector RealOutput = output Real; connector RealInput = input Real;
         model Sensor RealOutput y = time; Bus bus; equation connect(y, bus.speed); end Sensor;
         model User RealInput u; Real z = 2 * u; end User;
         model M Sensor s; Bus bus; User u; equation connect(s.bus, bus); connect(bus.speed, u.u); end M;",
        "M",
    );
    assert_balanced(&flat, 5);
    assert!(flat.find("bus.unused").is_none());
    assert!(flat.find("s.bus.speed").is_some() && flat.find("bus.speed").is_some());
}

#[test]
fn arguments_of_functions_keep_their_events() {
    let text = "function twice input Real a; output Real y; algorithm y := 2 * a; end twice;
         function clip input Real a; output Real y; algorithm y := if a > 1 then 1 else a; end clip;
         model M Real s = time; Real x = twice(if s > 0.5 then 3 else 1); Real y = clip(if s > 0.5 then 3 else 1);
           Real z = noEvent(clip(if s > 0.5 then 3 else 1)); Real w = twice(clip(if s > 0.5 then 3 else 1)); end M;";
    let flat = flat(text, "M");
    // A body without relations leaves no trace; one with relations makes none, but does not silence its argument.
    assert_eq!(value(&flat, "x"), "(2 * (if (s > 0.5) then 3 else 1))");
    let rhs = |name: &str| {
        let var = flat.find(name).expect("declared above");
        let lhs = |one: &&daesy_graph::Equation| flat.graph.node(one.lhs) == daesy_graph::Node::Var { var, order: 0 };
        flat.equations.iter().find(lhs).map(|one| one.rhs).expect("every variable has an equation")
    };
    for name in ["x", "y", "w"] {
        assert!(flat.graph.may_make_events(rhs(name)), "{name}");
    }
    assert!(!flat.graph.has_own_events(rhs("y")));
    assert!(!flat.graph.may_make_events(rhs("z")), "noEvent that was written reaches everything");
}

#[test]
fn the_last_iterator_of_an_array_is_its_first_dimension() {
    let flat = flat(
        "model M Real a[2, 3] = {10 * i + j for i in 1:3, j in 1:2}; Real s = sum(10 * i + j for i in 1:3, j in 1:2);
           Real b[2] = {i * size(fill(0, k), 1) for k in 3:3, i in 1:2} * {1}; end M;",
        "M",
    );
    assert_eq!(value(&flat, "a[1,2]"), "21");
    assert_eq!(value(&flat, "a[2,1]"), "12");
    assert_eq!(value(&flat, "s"), "129");
    assert_eq!(value(&flat, "b[2]"), "6");
}

#[test]
fn string_heeds_its_options() {
    let cases = [
        ("12, minimumLength = 4", "12  "),
        ("12, minimumLength = 4, leftJustified = false", "  12"),
        ("3.14159265", "3.14159"),
        ("3.14159265, significantDigits = 3", "3.14"),
        ("3.14159265, format = \".2f\"", "3.14"),
        ("-3.14159265, format = \"8.1e\"", "-3.1e+00"),
        ("42, format = \"05d\"", "00042"),
        ("true, minimumLength = 6", "true  "),
        ("E.two", "two"),
        ("1e10", "1e+10"),
    ];
    for (argument, expected) in cases {
        let text =
            format!("type E = enumeration(one, two);\nmodel M\n  parameter String s = String({argument});\nend M;");
        assert_eq!(variable(&flat(&text, "M"), "s").text.as_deref(), Some(expected), "{argument}");
    }
    refused_at("model M\n  parameter String s = String(1.5, format = \"d\");\nend M;", "M", "wrong-arguments", 2);
    refused_at("model M\n  parameter String s = String(true, format = \"d\");\nend M;", "M", "wrong-type", 2);
    refused_at("model M\n  parameter String s = String(1, significant = 3);\nend M;", "M", "wrong-arguments", 2);
}

#[test]
fn outer_classes_are_the_inner_ones_around() {
    let text = "package P
           model A Real x = 1; end A; model B Real x = 2; parameter Real k = 0; end B;
           model C outer model M = A; outer function f = g; M m; Real y = f(3); end C;
           function g input Real u; output Real y; algorithm y := u; end g;
           function h input Real u; output Real y; algorithm y := 10 * u; end h;
           model D C c; end D;
           model Top parameter Real k = 7; inner model M = B(k = k); inner function f = h; D d; end Top;
           model Alone C c; end Alone;
         end P;";
    let top = flat(text, "P.Top");
    assert_eq!(value(&top, "d.c.m.x"), "2");
    assert_eq!(value(&top, "d.c.y"), "30");
    assert_eq!(binding(&top, "d.c.m.k"), "k");
    let alone = flat(text, "P.Alone");
    assert_eq!(value(&alone, "c.m.x"), "1");
    assert!(alone.findings.iter().any(|one| one.code == "missing-inner"), "{:?}", alone.findings);
}

#[test]
fn connectors_out_of_which_nothing_flows_are_not_in_the_mixture() {
    let text = |bound: &str| {
        format!(
            "connector F Real p; flow Real m; stream Real h; end F;
             model Source F f; equation f.p = 1; f.h = 8; end Source;
             model Sensor F f(m({bound})); Real seen = inStream(f.h); equation f.m = 0; f.h = 0; end Sensor;
             model User F f; Real seen = inStream(f.h); equation f.p = 0; f.h = 3; end User;
             model M parameter Boolean reverse = false; Source s; User u; Sensor t;
               equation connect(s.f, u.f); connect(s.f, t.f); end M;"
        )
    };
    for bound in ["min = 0", "min = 1", "min = 2 - 2"] {
        assert_eq!(value(&flat(&text(bound), "M"), "u.seen"), "s.f.h", "{bound}");
    }
    assert!(value(&flat(&text("min = -1"), "M"), "u.seen").contains("t.f.h"));
    assert!(value(&flat(&text("max = 0"), "M"), "u.seen").contains("t.f.h"));
    // What nothing can flow into keeps its own value.
    let lonely = "connector F Real p; flow Real m; stream Real h; end F;
         model S F f(m(min = 0)); Real seen = inStream(f.h); equation f.m = 0; f.h = 5; end S;
         model M S a, b, c; equation connect(a.f, b.f); connect(b.f, c.f); end M;";
    assert_eq!(value(&flat(lonely, "M"), "a.seen"), "a.f.h");
}

#[test]
fn a_redeclaration_brings_the_modifications_of_its_own_constraint() {
    let text = "model A replaceable Real x constrainedby Real(start = 1, min = -1); equation der(x) = 0; end A;
         model B A a(redeclare replaceable Real x constrainedby Real(start = 2)); end B;
         model C B b(a(redeclare Real x)); end C;
         model P parameter Real k = 0; end P;
         model Q replaceable model T = P constrainedby P(k = 1); T t; end Q;
         model R Q q(redeclare replaceable model T = P constrainedby P(k = 2)); end R;
         model S R r(q(redeclare model T = P)); end S;
         model Top B b; C c; R r; S s; end Top;";
    let flat = flat(text, "Top");
    assert_eq!(start(&flat, "b.a.x"), "2");
    assert_eq!(start(&flat, "c.b.a.x"), "2");
    assert_eq!(variable(&flat, "b.a.x").min.map(|min| show(&flat, min)).as_deref(), Some("-1"));
    assert_eq!(binding(&flat, "r.q.t.k"), "2");
    assert_eq!(binding(&flat, "s.r.q.t.k"), "2");
}

#[test]
fn whole_numbers_of_what_varies_are_discrete() {
    let flat = flat(
        "model M Integer i = integer(3 * time); Integer j = integer(floor(time)); Integer k = div(integer(time), 2);
         Boolean b = time > 1; discrete Real c = ceil(time); end M;",
        "M",
    );
    assert_balanced(&flat, 5);
    refused_at("model M\n  Boolean b = noEvent(time > 1);\nend M;", "M", "variability", 2);
    refused_at("model M\n  Integer i = noEvent(integer(time));\nend M;", "M", "variability", 2);
}

#[test]
fn the_smallest_of_nothing_fits_its_type() {
    let flat = flat(
        "model M Boolean b[0] = fill(true, 0); Boolean c = min(b); Boolean d = max(b); Integer n = max(fill(1, 0)); end M;",
        "M",
    );
    assert_eq!((value(&flat, "c"), value(&flat, "d")), ("1".to_owned(), "0".to_owned()));
    let wholes: Vec<Whole> = flat.equations.iter().filter_map(|equation| flat.graph.as_whole(equation.rhs)).collect();
    assert_eq!(wholes, [Whole::Constant(i64::MIN)]);
}

#[test]
fn arrays_without_elements_are_assigned() {
    let empty = flat("model M Real r[0]; Real y = time; algorithm r := fill(1.0, 0); end M;", "M");
    assert_balanced(&empty, 1);
}

#[test]
fn records_are_made_element_by_element_of_arrays() {
    let flat = flat(
        "record R Real a; Real b[2]; end R; function f input Real u; input Real k; output Real y; algorithm y := k * u; end f;
         model M R r[2] = R({1, 2}, [3, 4; 5, 6]); R s[2] = R(a = {1, 2}, b = {7, 8}); Real y[2] = f(u = {1, 2}, k = 3); end M;",
        "M",
    );
    assert_eq!((value(&flat, "r[2].a"), value(&flat, "r[2].b[1]")), ("2".to_owned(), "5".to_owned()));
    assert_eq!((value(&flat, "s[2].a"), value(&flat, "s[1].b[2]")), ("2".to_owned(), "8".to_owned()));
    assert_eq!(value(&flat, "y[2]"), "6");
    refused_at(
        "record R\n  constant Real c = 3;\n  Real m;\nend R;\nmodel M\n  R r = R(c = 4, m = 2);\nend M;",
        "M",
        "wrong-arguments",
        6,
    );
}

#[test]
fn sizes_and_fields_in_functions_use_what_is_declared_beside_them() {
    let flat = flat(
        "function trace input Real A[:, size(A, 1)]; output Real y; algorithm y := A[1, 1] + A[2, 2]; end trace;
         record S Real p; Real T; end S;
         function g input Real p; output Real y; protected Real q = s.p + s.T; S s(p = p, T = 0); algorithm y := q; end g;
         model M Real z = trace([1, 2; 3, time]); Real w = g(time); end M;",
        "M",
    );
    assert_eq!((value(&flat, "z"), value(&flat, "w")), ("(1 + time)".to_owned(), "time".to_owned()));
    let text = "function f input Real A[:, size(A, 1)]; output Real y; algorithm y := A[1, 1]; end f;\nmodel M\n  Real z = f([1, 2]);\nend M;";
    refused_at(text, "M", "wrong-size", 3);
}

#[test]
fn a_when_statement_sees_what_was_before_its_section() {
    let flat = flat(
        "model M Integer s(start = 0); Integer n(start = 0); equation n = 1;
         algorithm when s == 0 and time > 0.4 then s := 1; end when; when s == 1 then s := 2; end when; end M;",
        "M",
    );
    // The first reads what was before, the second what the first has made of it.
    assert!(
        whens(&flat).iter().any(|one| one.starts_with("when ((pre(s) == 0) and (time > 0.4))")),
        "{:?}",
        whens(&flat)
    );
    let second = "when ((if (@when2 <> pre(@when2)) then 1 else pre(s)) == 1)";
    assert!(whens(&flat).iter().any(|one| one.starts_with(second)), "{:?}", whens(&flat));
}

#[test]
fn loops_whose_range_changes_are_programs_where_they_make_no_events() {
    let text = |body: &str| {
        format!(
            "model M\n  Integer n(start = 1);\n  Real s, x = time;\nalgorithm\n  when sample(0, 0.1) then\n    n := pre(n) + 1;\n  \
             end when;\n  s := 0;\n  for i in 1:n loop\n    s := s + {body};\n  end for;\nend M;"
        )
    };
    let flat = flat(&text("i*x"), "M");
    let [function] = flat.graph.functions() else { panic!("one program") };
    assert_eq!((function.n_inputs, function.outputs.len()), (2, 1));
    let error = refused(&text("(if x > i then 1 else 0)"), "M");
    let names: Vec<_> = error.findings.iter().map(|one| (one.code, one.names.clone())).collect();
    assert_eq!(names, [("unsupported", vec!["for".to_owned()])]);
}

#[test]
fn a_derivative_that_only_a_when_clause_uses_is_determined() {
    let flat = flat(
        "model M Real x(start = 0, fixed = true), y; Integer n(start = 0, fixed = true);
         equation der(x) = 1; y = 2 * sin(3 * x); when der(y) < 0 then n = pre(n) + 1; end when; end M;",
        "M",
    );
    assert!(equations(&flat).contains(&"$der(y) = der(y)".to_owned()), "{:?}", equations(&flat));
    assert!(!equations(&flat).iter().any(|one| one.contains("$der(x)")));
}

#[test]
fn parameters_may_need_each_other_in_branches_that_are_not_taken() {
    let text = |b: &str| {
        format!(
            "model M parameter Boolean b = {b}; parameter Real p1 = if b then p2 else 0;
             parameter Real p2 = if b then 3 else p1; Real x = p1; end M;"
        )
    };
    for (b, p1, p2) in [("true", "p2", "3"), ("false", "0", "p1")] {
        let flat = flat(&text(b), "M");
        assert_eq!((binding(&flat, "p1"), binding(&flat, "p2")), (p1.to_owned(), p2.to_owned()));
        assert!(variable(&flat, "b").is_structural);
    }
    let error =
        refused("model M\n  parameter Real p = q;\n  parameter Real q = if time > 1 then p else 1;\nend M;", "M");
    assert!(!error.findings.is_empty());
    refused_at("model M\n  parameter Real p = 2 * q;\n  parameter Real q = p;\nend M;", "M", "cyclic-parameters", 2);
}

#[test]
fn subscripts_of_a_field_do_not_choose_records() {
    // Two records whose fields are the rows of a matrix: `p.y[2]` is its second column.
    let types = "record X Real x; end X; record P Real y[2]; X q[2]; end P; record W P p[2]; end W;";
    let data = "{P({1, 2}, {X(5), X(6)}), P({3, 4}, {X(7), X(8)})}";
    for (part, wanted) in [
        ("p.y[2]", ["2", "4"]),
        ("p[:].y[2]", ["2", "4"]),
        ("p[1:2].y[1]", ["1", "3"]),
        ("p.q[1].x", ["5", "7"]),
        ("p.q[2].x", ["6", "8"]),
        ("p[2].y", ["3", "4"]),
        ("w.p.y[2]", ["2", "4"]),
    ] {
        // Run symbolically, and as a program because of the loop that depends on data.
        for loops in ["", "k := 0; while k < n loop k := k + 1; end while;"] {
            let flat = flat(
                &format!(
                    "{types}
                     function f input P p[:]; input Integer n; output Real t[2]; protected Integer k; W w;
                     algorithm {loops} w.p := p; t := {part}; end f;
                     model M parameter Integer n = 1; Real a[2] = f({data}, n); end M;"
                ),
                "M",
            );
            let values = [0, 1].map(|at| {
                let equation = &flat.equations[at];
                let mut evaluator = daesy_graph::evaluate::Evaluator::default();
                evaluator.evaluate_one(&flat.graph, equation.rhs, &|_: VarId, _: u16| 1.0).to_string()
            });
            assert_eq!(values, wanted, "{part} {loops}");
        }
    }
}

#[test]
fn an_integer_can_be_found_from_integers_and_give_reals() {
    let flat = flat(
        "model M Integer k; Integer j = integer(3 * time); Integer i; Real x; Real y; Boolean b = time > 1;
         parameter Real p(fixed = false);
         initial equation p = j;
         equation k + 2 = 2 * j; i = if b then 1 else div(j, 2); x = j; 2 * y = i + 1; end M;",
        "M",
    );
    assert_balanced(&flat, 6);
}

#[test]
fn matrices_are_raised_to_parameters() {
    // [1, 1; 0, 1]^3 = [1, 3; 0, 1]
    let flat = flat(
        "function f input Real a[:, :]; input Integer n; output Real b[size(a, 1), size(a, 2)]; algorithm b := a^n; end f;
         model M parameter Integer n = 3; Real a[2, 2] = [1, 1; 0, 1]^n; Real b[2, 2] = f([1, 1; 0, 1], n); end M;",
        "M",
    );
    for name in ["a", "b"] {
        assert_eq!([value(&flat, &format!("{name}[1,2]")), value(&flat, &format!("{name}[2,1]"))], ["3", "0"]);
    }
}

#[test]
fn defaults_of_inputs_use_later_inputs() {
    let function = "function f input Real n = 2 * v; input Real v = 3; output Real y; algorithm y := n + v; end f;";
    let flat = flat(&format!("{function} model M Real a = f(); Real b = f(v = 5); Real c = f(1); end M;"), "M");
    assert_eq!(["a", "b", "c"].map(|name| value(&flat, name)), ["9", "15", "4"]);
}
