//! What large libraries do that small models seldom need, each with its result worked out by hand.

mod support;

use support::*;

fn value(flat: &daesy_graph::FlatDae, name: &str) -> String {
    let wanted = format!("{name} = ");
    let all = equations(flat);
    let found: Vec<&String> = all.iter().filter(|one| one.starts_with(&wanted)).collect();
    assert_eq!(found.len(), 1, "{name} in {all:?}");
    found[0][wanted.len()..].to_owned()
}

#[test]
fn a_leading_dot_means_the_built_in_function() {
    let text = "package P function sin input Real u; output Real y; algorithm y := .sin(u) + 1; end sin;
                  model M Real y = sin(time); Real z = .sum({1, 2})*time; end M; end P;";
    let flat = flat(text, "P.M");
    assert_eq!(value(&flat, "y"), "(sin(time) + 1)");
    assert_eq!(value(&flat, "z"), "(3 * time)");
}

#[test]
fn branches_that_the_sizes_rule_out_are_not_looked_at() {
    let text = "function f input Integer m; output Real y[m]; algorithm
                  if m == 2 then y[1] := 0; y[2] := 1; else y := {10*i for i in 1:m}; end if; end f;
                model M parameter Integer m = 1; parameter Real a[m] = f(m); end M;";
    assert_eq!(binding(&flat(text, "M"), "a[1]"), "10");
}

#[test]
fn evaluate_breaks_a_cycle_of_parameters() {
    let text = "model M parameter Boolean by_t = true annotation(Evaluate = true);
                  parameter Real t = if by_t then 300 else h/4200; parameter Real h = if by_t then 4200*t else 1e6;
                  parameter Integer n = if h > 1 then 2 else 1; Real x[n] = fill(time, n); end M;";
    let flat = flat(text, "M");
    assert_eq!((binding(&flat, "t").as_str(), binding(&flat, "h").as_str()), ("300", "(4200 * t)"));
    assert_balanced(&flat, 2);
}

#[test]
fn inherited_declarations_may_differ_in_their_description() {
    let text = "package P package Q constant Real c = 2; end Q;
                model A parameter Real k = 1 \"gain\"; replaceable package N = Q \"one\"; end A;
                model B parameter Real k = 1 \"the gain\" annotation(Evaluate = false); replaceable package N = Q; end B;
                model C extends A; extends B; Real y = k*N.c*time; end C;
                model D parameter Real k = 2; end D; model E extends A; extends D; end E; end P;";
    assert_eq!(value(&flat(text, "P.C"), "y"), "((k * 2) * time)");
    refused_at(text, "P.E", "duplicate-name", 5);
}

#[test]
fn of_two_inherited_declarations_the_one_that_says_more_counts() {
    let text = "model A Real x(min = 0); end A; model B Real x(min = 0, start = 3); end B;
                model C extends A; extends B; equation x = time; end C;";
    let flat = flat(text, "C");
    assert_eq!(start(&flat, "x"), "3");
    assert!(flat.findings.iter().any(|finding| finding.code == "duplicate-name"), "{:?}", flat.findings);
}

#[test]
fn a_protected_input_is_no_source() {
    let text = "connector RI = input Real; connector RO = output Real;
                block S RI f; RO y; protected RI f_internal; equation connect(f, f_internal); y = 2*f_internal; end S;
                model M S s; equation s.f = time; end M;
                block T RI f; RI g; RO y; equation connect(f, g); y = f; end T;";
    assert_balanced(&flat(text, "M"), 3);
    refused_at(text, "T", "two-sources", 4);
}

#[test]
fn sizes_may_come_from_the_value_itself() {
    let text = "package P
                function f input Real A[:, size(A, 1)]; output Real y; algorithm y := A[2, 1]; end f;
                function g input Integer n; output Real c[n]; protected Real d[size(c, 1)]; Real e[0, 2]; algorithm
                  for i in 1:n loop d[i] := i; end for; c := d*(1 + sum(e)); end g;
                record R parameter Integer nc = 2; Real b[nc]; end R;
                function h input Real x; output Real y; protected R r = R(nc = 3, b = {1, 2, 3}); R s(b = {5, 6}); algorithm
                  y := r.b[3]*x + s.b[2]; end h;
                model M Real y = f([1, 2; 3, 4])*time; Real z = sum(g(3))*time; Real w = h(time); end M; end P;";
    let flat = flat(text, "P.M");
    assert_eq!(value(&flat, "y"), "(3 * time)");
    assert_eq!(value(&flat, "z"), "(6 * time)");
    assert_eq!(value(&flat, "w"), "((3 * time) + 6)");
    let wrong = text.replace("[1, 2; 3, 4]", "[1, 2, 3; 4, 5, 6]");
    assert!(refused(&wrong, "P.M").findings.iter().any(|finding| finding.code == "wrong-size"));
}

#[test]
fn semi_linear_runs_over_arrays() {
    let flat = flat("model M Real y[2] = semiLinear(time, {3, 5}, 7); end M;", "M");
    assert_eq!(value(&flat, "y[2]"), "smooth(0, (if (time >= 0) then (5 * time) else (7 * time)))");
}

#[test]
fn assertions_of_called_functions_hold_in_their_branch_only() {
    let text = "package P
                function fail input String s; algorithm assert(false, s); end fail;
                function f input Real x; output Real y; protected Real k; algorithm
                  if x < 0 then fail(\"negative \" + String(x)); end if;
                  y := x; k := 1; while k < 10*x loop k := 2*k; y := y + 1; end while; end f;
                function root input Real x; output Real y; algorithm assert(x > 0, \"low\"); y := sqrt(x); end root;
                model M Real y = f(2 + time); Real z = if time > 1 then root(time - 1) else 0; end M; end P;";
    let flat = flat(text, "P.M");
    let conditions: Vec<String> = flat.assertions.iter().map(|one| show(&flat, one.condition)).collect();
    assert_eq!(conditions, ["(not((time > 1)) or ((time - 1) > 0))"]);
    let mut evaluator = daesy_graph::Evaluator::new();
    let call = |evaluator: &mut daesy_graph::Evaluator, x: f64| {
        let function = flat.graph.functions().iter().position(|one| one.name == "P.f").unwrap();
        evaluator.call_checked(&flat.graph, daesy_graph::FunctionId(function as u32), &[x])
    };
    // k = 1, 2, 4, 8, 16, 32: five passes.
    assert_eq!(call(&mut evaluator, 2.0), Ok(vec![7.0]));
    assert!(call(&mut evaluator, -1.0).is_err());
}

#[test]
fn a_type_may_hold_functions() {
    let text =
        "package P type B = Real[2]; type Q extends B; function twice input Q q; output Q r; algorithm r := 2*q; end twice; end Q;
                model M Q q = {1, time}; Q r = Q.twice(q); end M; end P;";
    assert_eq!(value(&flat(text, "P.M"), "r[2]"), "(2 * q[2])");
}

#[test]
fn a_field_that_no_branch_gives_is_missed_only_where_it_is_used() {
    let text = "package P record R Real a; Real b; end R;
                function f input Real x; output R r; algorithm r.a := x; end f;
                model M R r; equation r.a = f(time).a; r.b = 1; end M;
                model N R r = f(time); end N; end P;"
        .replace("f(time).a", "g(time)")
        .replace(
            "model M",
            "function g input Real x; output Real y; protected R r; algorithm r := f(x); y := r.a; end g; model M",
        );
    assert_balanced(&flat(&text, "P.M"), 2);
    assert!(refused(&text, "P.N").findings.iter().any(|finding| finding.code == "unset-variable"));
}

/// Angles as cosine and sine: two numbers with one degree of freedom.
const FRAMES: &str = "
    record R Real c; Real s;
      function equalityConstraint input R a; input R b; output Real residue[1]; algorithm
        residue := {a.s*b.c - a.c*b.s}; end equalityConstraint; end R;
    connector P R r; flow Real t; end P;
    model World P p; Boolean is_root = Connections.isRoot(p.r); equation
      Connections.root(p.r); p.r.c = 1; p.r.s = 0; end World;
    model Bar P a; P b; parameter Real k = 0; Real side = if rooted(a.r) then 1 else 2; equation
      Connections.branch(a.r, b.r); b.r.c = a.r.c; b.r.s = a.r.s; a.t + b.t = 0; end Bar;
    model Body P p; parameter Integer level = 0; Real free; equation
      Connections.potentialRoot(p.r, level);
      if Connections.isRoot(p.r) then p.r.c = cos(free); p.r.s = sin(free); free = time; else free = 0; p.t = 0; end if;
    end Body;";

#[test]
fn a_loop_of_overconstrained_connectors_is_broken_once() {
    let text = format!(
        "package Q {FRAMES} model M World w; Bar one; Bar two; equation
           connect(w.p, one.a); connect(two.b, w.p); connect(one.b, two.a); end M; end Q;"
    );
    let flat = flat(&text, "Q.M");
    let all = equations(&flat);
    // 15 variables of connectors and three more; two of the three connections stay.
    assert_balanced(&flat, 18);
    let residue = all.iter().filter(|one| one.ends_with(" = 0") && one.contains('*')).collect::<Vec<_>>();
    assert_eq!(residue, ["((one.b.r.s * two.a.r.c) - (one.b.r.c * two.a.r.s)) = 0"]);
    assert_eq!(value(&flat, "w.is_root"), "1");
    // The way from the world goes in at `a` of the first bar and at `b` of the second.
    assert_eq!((value(&flat, "one.side").as_str(), value(&flat, "two.side").as_str()), ("1", "2"));
}

#[test]
fn an_overdetermined_type_that_is_an_array_is_one_element() {
    let text = "package Q
         type Base = Real[2];
         type R extends Base;
           function equalityConstraint input R a; input R b; output Real residue[1]; algorithm
             residue := {a[2]*b[1] - a[1]*b[2]}; end equalityConstraint; end R;
         connector P R r; flow Real t; end P;
         connector C = R;
         model World P p; equation Connections.root(p.r); p.r = {1, 0}; end World;
         model Bar P a; P b; equation Connections.branch(a.r, b.r); b.r = a.r; a.t + b.t = 0; end Bar;
         model M World w; Bar one; Bar two; equation
           connect(w.p, one.a); connect(two.b, w.p); connect(one.b, two.a); end M;
         model N C a; C b; C c; equation Connections.root(a); a = {cos(time), sin(time)};
           connect(a, b); connect(b, c); connect(c, a); end N;
         model Row R r[2]; C c; equation Connections.root(c); c = {1, 0}; connect(r[1], c); end Row; end Q;";
    let residues = |class: &str| -> Vec<String> {
        let all = equations(&flat(text, class));
        all.into_iter().filter(|one| one.ends_with(" = 0") && one.contains('*')).collect()
    };
    assert_balanced(&flat(text, "Q.M"), 15);
    assert_eq!(residues("Q.M"), ["((one.b.r[2] * two.a.r[1]) - (one.b.r[1] * two.a.r[2])) = 0"]);
    // Two connections stay, each with two equations, and the third has one residue more than there are unknowns.
    assert_eq!(residues("Q.N"), ["((c[2] * a[1]) - (c[1] * a[2])) = 0"]);
    assert_eq!(flat(text, "Q.N").equations.len(), 7);
    let error = refused(text, "Q.Row");
    assert_eq!(error.findings[0].code, "unsupported", "{error}");
}

#[test]
fn the_potential_root_of_the_lowest_priority_is_taken() {
    let text = format!(
        "package Q {FRAMES} model M Body left(level = 3); Bar bar; Body right(level = 2); equation
           connect(left.p, bar.a); connect(bar.b, right.p); end M;
         model N Bar one; Bar two; equation connect(one.b, two.a); end N;
         model T World v; World w; Bar bar; equation Connections.branch(v.p.r, w.p.r);
           connect(v.p, bar.a); end T; end Q;"
    );
    let flat = flat(&text, "Q.M");
    assert_eq!((value(&flat, "left.free").as_str(), value(&flat, "right.free").as_str()), ("0", "time"));
    assert_eq!(value(&flat, "bar.side"), "2");
    for (class, code) in [("Q.N", "no-root"), ("Q.T", "two-roots")] {
        let error = refused(&text, class);
        assert!(error.findings.iter().any(|finding| finding.code == code), "{class}: {error}");
    }
}

#[test]
fn a_bus_in_a_bus_carries_its_members_on() {
    let text = "package P connector RI = input Real; connector RO = output Real;
                expandable connector Sub end Sub; expandable connector Bus end Bus;
                model Source RO y; Bus bus; Sub sub; equation y = time; connect(y, sub.speed); connect(sub, bus.sub); end Source;
                model Sink RI u; Sub sub; equation connect(u, sub.speed); end Sink;
                model M Source a; Sink b; Bus bus; equation connect(a.bus, bus); connect(bus.sub, b.sub); end M; end P;";
    let flat = flat(text, "P.M");
    let size = flat.size();
    assert_eq!(size.equations, size.unknowns, "{:?}", equations(&flat));
    assert!(flat.find("bus.sub.speed").is_some());
}
