//! Every rule of the grammar for classes, elements, equations and statements.

use daesy_graph::FileId;
use daesy_model::parser;
use daesy_model::print::{print_component_ref, print_equation, print_expression, print_path};
use daesy_model::syntax::{
    Argument, BreakTarget, Causality, ClassBody, ClassDef, ClassKind, ComponentDecl, ConnectorPrefix, Element,
    ElementKind, EquationKind, Import, ModificationValue, Purity, StatementKind, StoredDefinition, VariabilityPrefix,
};

fn read(text: &str) -> StoredDefinition {
    let parsed = parser::parse(FileId(0), text);
    assert!(parsed.findings.is_empty(), "{text}: {:#?}", parsed.findings);
    parsed.definition
}

fn class(text: &str) -> ClassDef {
    let definition = read(text);
    assert_eq!(definition.classes.len(), 1);
    (*definition.classes[0]).clone()
}

fn elements(class: &ClassDef) -> &[Element] {
    let ClassBody::Long { composition, .. } = &class.body else { panic!("a long class") };
    &composition.elements
}

fn components(class: &ClassDef) -> Vec<&ComponentDecl> {
    elements(class)
        .iter()
        .filter_map(|element| match &element.kind {
            ElementKind::Component { component, .. } => Some(&**component),
            _ => None,
        })
        .collect()
}

#[test]
fn files_have_within_and_classes() {
    let definition = read("\u{feff}within A.B;\nfinal model M end M;\nencapsulated partial package P end P;");
    assert_eq!(definition.within.as_ref().map(print_path), Some("A.B".into()));
    assert!(definition.classes[0].is_final);
    assert!(definition.classes[1].is_encapsulated && definition.classes[1].is_partial);
    assert!(read("within ;").within.is_some_and(|path| path.parts.is_empty()));
    assert!(read("// only a comment").within.is_none());
}

#[test]
fn classes_of_all_kinds() {
    for (text, kind) in [
        ("class", ClassKind::Class),
        ("model", ClassKind::Model),
        ("block", ClassKind::Block),
        ("connector", ClassKind::Connector),
        ("expandable connector", ClassKind::ExpandableConnector),
        ("record", ClassKind::Record),
        ("operator record", ClassKind::OperatorRecord),
        ("type", ClassKind::Type),
        ("package", ClassKind::Package),
        ("function", ClassKind::Function),
        ("operator function", ClassKind::OperatorFunction),
        ("operator", ClassKind::Operator),
    ] {
        assert_eq!(class(&format!("{text} A \"text\" end A;")).kind, kind);
        assert_eq!(class(&format!("{text} A = B;")).kind, kind);
    }
    assert_eq!(class("impure function f end f;").purity, Some(Purity::Impure));
    assert_eq!(class("pure operator function f end f;").purity, Some(Purity::Pure));
    assert_eq!(class("operator '+' end '+';").name.name.text(), "'+'");
}

#[test]
fn short_classes_enumerations_and_derivatives() {
    let short = class("connector C = input .A.B[3, :](each start = 1) \"one\" + \" two\" annotation(Evaluate = true);");
    assert_eq!(short.description.as_deref(), Some("one two"));
    assert_eq!(short.annotation.map(|annotation| annotation.args.len()), Some(1));
    let ClassBody::Short { causality, base, subscripts, modification } = short.body else { panic!("a short class") };
    assert_eq!(causality, Some(Causality::Input));
    assert_eq!(print_path(&base), ".A.B");
    assert_eq!(subscripts.len(), 2);
    let modification = modification.expect("there is one");
    assert!(matches!(&modification.args[..], [Argument::Modify { is_each: true, is_final: false, .. }]));

    let ClassBody::Enumeration(Some(literals)) =
        class("type E = enumeration(a \"first\", b annotation(x = 1), c);").body
    else {
        panic!("an enumeration")
    };
    assert_eq!(literals.len(), 3);
    assert_eq!(literals[0].description.as_deref(), Some("first"));
    assert!(literals[1].annotation.is_some());
    assert!(matches!(class("type E = enumeration(:) \"any\";").body, ClassBody::Enumeration(None)));

    let ClassBody::Derivative { function, with_respect_to } = class("function d = der(A.f, x, y);").body else {
        panic!("a derivative")
    };
    assert_eq!(print_path(&function), "A.f");
    assert_eq!(with_respect_to.len(), 2);
}

#[test]
fn class_extends() {
    let outer = class("model A redeclare model extends B(x = 1) \"text\" Real y; end B; end A;");
    let ElementKind::Class { prefixes, class, .. } = &elements(&outer)[0].kind else { panic!("a class") };
    assert!(prefixes.is_redeclare);
    assert_eq!(class.name.name.text(), "B");
    let ClassBody::Long { extends: Some(extends), composition } = &class.body else { panic!("class extends") };
    assert_eq!((extends.args.len(), composition.elements.len()), (1, 1));
}

#[test]
fn imports_and_extends() {
    let text = "model A import B.C; import D = B.C \"why\"; import B.*; import B.{C, D}; import .B.C;
        protected extends B.C(x = 1, break y, break connect(a.b, c[1])) annotation(z = 1); end A;";
    let class = class(text);
    let kinds: Vec<&ElementKind> = elements(&class).iter().map(|element| &element.kind).collect();
    let [
        ElementKind::Import(Import::Qualified(_)),
        ElementKind::Import(Import::Renamed { name, path }),
        ElementKind::Import(Import::Unqualified(_)),
        ElementKind::Import(Import::Listed { names, .. }),
        ElementKind::Import(Import::Qualified(global)),
        ElementKind::Extends { modification: Some(modification), annotation: Some(_), is_protected: true, .. },
    ] = kinds[..]
    else {
        panic!("{kinds:?}")
    };
    assert_eq!((name.name.text(), print_path(path).as_str(), names.len()), ("D", "B.C", 2));
    assert!(global.is_global);
    assert!(matches!(
        &modification.args[..],
        [
            Argument::Modify { .. },
            Argument::Break { what: BreakTarget::Name(_), .. },
            Argument::Break { what: BreakTarget::Connect(..), .. }
        ]
    ));
}

#[test]
fn components_with_everything() {
    let text = "model A
        flow Real[2] x, y[3](start = 1) = z if a > b \"text\" annotation(Placement());
        final inner outer replaceable parameter input A.B c(d(final e = 1), f = break) constrainedby D(e = 2) \"why\" annotation(g);
        stream constant Real s;
        discrete output Integer k = if a then 1 else 2;
      end A;";
    let class = class(text);
    let components = components(&class);
    let [x, y, c, s, k] = components[..] else { panic!("five components") };
    assert_eq!(x.connector_prefix, Some(ConnectorPrefix::Flow));
    assert_eq!((x.type_subscripts.len(), x.subscripts.len()), (1, 0));
    assert_eq!((y.type_subscripts.len(), y.subscripts.len()), (1, 1));
    assert_eq!(y.condition.as_deref().map(print_expression).as_deref(), Some("a > b"));
    assert_eq!(y.description.as_deref(), Some("text"));
    assert!(y.annotation.is_some());
    assert_eq!((c.variability, c.causality), (Some(VariabilityPrefix::Parameter), Some(Causality::Input)));
    assert_eq!(s.variability, Some(VariabilityPrefix::Constant));
    assert_eq!(k.causality, Some(Causality::Output));
    assert!(matches!(&k.modification.as_ref().expect("a value").value, Some(ModificationValue::Expr(_))));
    let ElementKind::Component { prefixes, constraint: Some(constraint), .. } = &elements(&class)[2].kind else {
        panic!("a constrained component")
    };
    assert!(prefixes.is_final && prefixes.is_inner && prefixes.is_outer && prefixes.is_replaceable);
    assert_eq!(constraint.description.as_deref(), Some("why"));
    // The span of a declaration begins with its name, that of its element with its prefixes.
    assert!(text[y.span.start as usize..].starts_with("y[3]"));
    assert!(text[elements(&class)[1].span.start as usize..].starts_with("flow"));
}

#[test]
fn redeclarations_in_modifications() {
    let class = class(
        "model A B b(redeclare each final replaceable model M = N(x = 1) constrainedby O \"why\", redeclare C c = 2,
            replaceable package P = Q, each final d.e(f = 1) = 3 \"text\"); end A;",
    );
    let modification = components(&class)[0].modification.as_ref().expect("there is one");
    let [
        Argument::Redeclare { is_redeclare: true, is_each: true, element: model },
        Argument::Redeclare { is_redeclare: true, is_each: false, element: component },
        Argument::Redeclare { is_redeclare: false, element: package, .. },
        Argument::Modify { is_each: true, is_final: true, name, description: Some(_), .. },
    ] = &modification.args[..]
    else {
        panic!("{modification:?}")
    };
    assert!(matches!(&model.kind, ElementKind::Class { prefixes, constraint: Some(_), .. }
        if prefixes.is_final && prefixes.is_replaceable));
    assert!(matches!(&component.kind, ElementKind::Component { .. }));
    assert!(matches!(&package.kind, ElementKind::Class { prefixes, .. } if prefixes.is_replaceable));
    assert_eq!(name.parts.len(), 2);
}

#[test]
fn equations_of_all_kinds() {
    let class = class(
        "model A equation
            a = b \"text\" annotation(x);
            (c, , d) = f(e);
            connect(p.n[1], q);
            if a then b = 1; elseif c then d = 2; else e = 3; end if;
            for i in 1:n, j loop x[i] = j; end for;
            when {a, initial()} then reinit(x, -x); elsewhen b then c = pre(d); end when;
            assert(a < b, \"text\");
            1:2 = x;
            Connections.root(a.R);
          initial equation der(x) = 0;
          public Real y;
          equation
          end A;",
    );
    let ClassBody::Long { composition, .. } = &class.body else { panic!("a long class") };
    let sections: Vec<(bool, usize)> =
        composition.equations.iter().map(|section| (section.is_initial, section.equations.len())).collect();
    assert_eq!(sections, [(false, 9), (true, 1), (false, 0)]);
    let equations = &composition.equations[0].equations;
    assert!(matches!(equations[0].kind, EquationKind::Equality(..)));
    assert_eq!(equations[0].description.as_deref(), Some("text"));
    assert!(matches!(&equations[2].kind, EquationKind::Connect(left, _) if print_component_ref(left) == "p.n[1]"));
    assert!(matches!(&equations[3].kind, EquationKind::If { branches, otherwise: Some(_) } if branches.len() == 2));
    assert!(matches!(&equations[4].kind, EquationKind::For { iterators, .. } if iterators.len() == 2));
    assert!(matches!(&equations[5].kind, EquationKind::When(branches) if branches.len() == 2));
    assert!(matches!(&equations[6].kind, EquationKind::Call(_)));
    assert_eq!(print_equation(&equations[7]), "1:2 = x");
    assert_eq!(composition.elements.len(), 1);
}

#[test]
fn statements_of_all_kinds() {
    let class = class(
        "function f
          protected Real x;
          initial algorithm x := 1;
          algorithm
            x[1].y := if a then b else c \"text\";
            (x, , y) := g(z);
            g(x);
            if a then x := 1; elseif b then break; else return; end if;
            for i in 1:3 loop x := i; end for;
            while a < b loop a := a + 1; end while;
            when a then x := 1; elsewhen b then x := 2; end when;
          annotation(Inline = true);
          end f;",
    );
    let ClassBody::Long { composition, .. } = &class.body else { panic!("a long class") };
    let statements = &composition.algorithms[1].statements;
    assert!(composition.algorithms[0].is_initial);
    assert_eq!(statements.len(), 7);
    assert!(matches!(&statements[0].kind, StatementKind::Assign { .. }));
    assert!(matches!(&statements[1].kind, StatementKind::AssignTuple { targets, .. } if targets.len() == 3));
    assert!(matches!(&statements[3].kind, StatementKind::If { branches, otherwise: Some(_) } if branches.len() == 2));
    assert!(matches!(&statements[5].kind, StatementKind::While(_)));
    assert!(matches!(&statements[6].kind, StatementKind::When(branches) if branches.len() == 2));
    assert!(class.annotation.is_some());
}

#[test]
fn external_functions() {
    let external = |text: &str| {
        let class = class(&format!("function f input Real x; {text} end f;"));
        let ClassBody::Long { composition, .. } = class.body else { panic!("a long class") };
        (*composition.external.expect("there is one"), class.annotation.is_some())
    };
    let (full, has_annotation) =
        external("external \"C\" y.z = g(x, size(x, 1)) annotation(Library = \"m\"); annotation(Inline = false);");
    assert_eq!(full.language.as_deref(), Some("C"));
    assert_eq!(full.result.as_ref().map(print_component_ref).as_deref(), Some("y.z"));
    assert_eq!((full.args.len(), full.annotation.is_some(), has_annotation), (2, true, true));
    let (plain, _) = external("external;");
    assert!(plain.language.is_none() && plain.function.is_none());
    let (call, _) = external("external \"FORTRAN 77\" g();");
    assert!(call.result.is_none() && call.function.is_some());
}

#[test]
fn annotations_in_several_places_are_one() {
    let class = class("model A annotation(a = 1); Real x; annotation(b = 2); end A;");
    assert_eq!(class.annotation.expect("there is one").args.len(), 2);
}

#[test]
fn base_modelica_is_read() {
    let definition = read(
        "//! base 0.1.0
        package 'M'
          function 'f' input Real 'x'; output Real 'y'; algorithm 'y' := 2*'x'; end 'f';
          record 'R' Real 'a.b'; end 'R';
          model 'M' \"text\"
            parameter Real 'a.b[1]'(unit = \"m\", fixed = true) = 1.0;
            Real 'x'(start = 0.0);
            parameter equation guess('x') = 1.0;
          initial equation
            'x' = 0.0;
          equation
            der('x') = -'a.b[1]' * 'x';
            annotation(experiment(StopTime = 1.0));
          end 'M';
        end 'M';",
    );
    let class = &definition.classes[0];
    let ElementKind::Class { class: model, .. } = &elements(class)[2].kind else { panic!("the model") };
    let ClassBody::Long { composition, .. } = &model.body else { panic!("a long class") };
    assert_eq!(components(model)[0].name.name.text(), "'a.b[1]'");
    assert_eq!(composition.equations.iter().filter(|section| section.is_initial).count(), 2);
}

#[test]
fn old_spellings_are_read_with_a_warning() {
    for text in [
        "model A Real x := 1; end A;",
        "model A replaceable model B = C extends D; end A;",
        "model A input parameter Real x; end A;",
        "model A B b(final each x = 1); end A;",
        "model A Real x;; end A;;",
        "model A Real x = .5; end A;",
        "model A equation x = 1; annotation(a = 1); y = 2; end A;",
    ] {
        let parsed = parser::parse(FileId(0), text);
        assert!(!parsed.findings.is_empty(), "{text}");
        assert!(parsed.findings.iter().all(|finding| finding.level == daesy_graph::Level::Warning), "{text}");
    }
}
