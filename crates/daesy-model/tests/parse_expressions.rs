//! What expressions mean: operators bind as the specification's table 3.1 says.

use daesy_graph::FileId;
use daesy_model::parser;
use daesy_model::syntax::{BinaryOp, ComponentRef, Expr, ExprKind, Iterator as ForIterator, Subscript, UnaryOp};

/// The tree as a list in prefix form.
fn show(expr: &Expr) -> String {
    let list = |head: &str, parts: Vec<String>| {
        if parts.is_empty() { format!("({head})") } else { format!("({head} {})", parts.join(" ")) }
    };
    match &expr.kind {
        ExprKind::Real(value) => format!("{value:?}"),
        ExprKind::Integer(value) => value.to_string(),
        ExprKind::String(text) => format!("{text:?}"),
        ExprKind::Boolean(value) => value.to_string(),
        ExprKind::Ref(reference) => show_ref(reference),
        ExprKind::Unary(op, operand) => {
            let head = match op {
                UnaryOp::Minus => "neg",
                UnaryOp::Plus => "pos",
                UnaryOp::ElementMinus => ".neg",
                UnaryOp::ElementPlus => ".pos",
                UnaryOp::Not => "not",
            };
            list(head, vec![show(operand)])
        }
        ExprKind::Binary(op, left, right) => {
            let head = match op {
                BinaryOp::Add => "+",
                BinaryOp::Sub => "-",
                BinaryOp::Mul => "*",
                BinaryOp::Div => "/",
                BinaryOp::Pow => "^",
                BinaryOp::ElementAdd => ".+",
                BinaryOp::ElementSub => ".-",
                BinaryOp::ElementMul => ".*",
                BinaryOp::ElementDiv => "./",
                BinaryOp::ElementPow => ".^",
                BinaryOp::Less => "<",
                BinaryOp::LessEqual => "<=",
                BinaryOp::Greater => ">",
                BinaryOp::GreaterEqual => ">=",
                BinaryOp::Equal => "==",
                BinaryOp::NotEqual => "<>",
                BinaryOp::And => "and",
                BinaryOp::Or => "or",
            };
            list(head, vec![show(left), show(right)])
        }
        ExprKind::Parenthesized(inner) => list("paren", vec![show(inner)]),
        ExprKind::Range { start, step, stop } => {
            let mut parts = vec![show(start)];
            parts.extend(step.iter().map(|step| show(step)));
            parts.push(show(stop));
            list("range", parts)
        }
        ExprKind::If { branches, otherwise } => {
            let mut parts: Vec<String> =
                branches.iter().flat_map(|branch| [show(&branch.condition), show(&branch.value)]).collect();
            parts.push(show(otherwise));
            list("if", parts)
        }
        ExprKind::Call { function, args, named } => {
            let mut parts = vec![show_ref(function)];
            parts.extend(args.iter().map(show));
            parts.extend(named.iter().map(|arg| format!("{}={}", arg.name.name, show(&arg.value))));
            list("call", parts)
        }
        ExprKind::Comprehension { function, body, iterators } => {
            let head = function.as_ref().map_or_else(|| "array".to_owned(), show_ref);
            let mut parts = vec![show(body)];
            parts.extend(iterators.iter().map(show_iterator));
            list(&format!("for {head}"), parts)
        }
        ExprKind::Array(items) => list("array", items.iter().map(show).collect()),
        ExprKind::Matrix(rows) => {
            list("matrix", rows.iter().map(|row| list("row", row.iter().map(show).collect())).collect())
        }
        ExprKind::Tuple(items) => {
            list("tuple", items.iter().map(|item| item.as_ref().map_or_else(|| "_".to_owned(), show)).collect())
        }
        ExprKind::PartialFunction { function, named } => {
            let mut parts: Vec<String> = function.parts.iter().map(|part| part.name.to_string()).collect();
            parts.extend(named.iter().map(|arg| format!("{}={}", arg.name.name, show(&arg.value))));
            list("function", parts)
        }
        ExprKind::Subscripted { base, subscripts } => format!("{}{}", show(base), show_subscripts(subscripts)),
        ExprKind::End => "end".to_owned(),
        ExprKind::Error => "error".to_owned(),
    }
}

fn show_iterator(iterator: &ForIterator) -> String {
    iterator
        .range
        .as_ref()
        .map_or_else(|| iterator.name.name.to_string(), |range| format!("{}:{}", iterator.name.name, show(range)))
}

fn show_subscripts(subscripts: &[Subscript]) -> String {
    if subscripts.is_empty() {
        return String::new();
    }
    let parts: Vec<String> = subscripts
        .iter()
        .map(|subscript| match subscript {
            Subscript::All(_) => ":".to_owned(),
            Subscript::Expr(expr) => show(expr),
        })
        .collect();
    format!("[{}]", parts.join(","))
}

fn show_ref(reference: &ComponentRef) -> String {
    let parts: Vec<String> =
        reference.parts.iter().map(|part| format!("{}{}", part.name.name, show_subscripts(&part.subscripts))).collect();
    format!("{}{}", if reference.is_global { "." } else { "" }, parts.join("."))
}

fn tree(text: &str) -> String {
    let parsed = parser::parse_expression(FileId(0), text, 0);
    assert!(parsed.findings.is_empty(), "{text}: {:?}", parsed.findings);
    let whole = parsed.expr.span;
    assert_eq!(&text[whole.start as usize..whole.end as usize], text.trim(), "the span is the whole expression");
    show(&parsed.expr)
}

#[test]
fn operators_bind_as_specified() {
    for (text, expected) in [
        ("-a^2", "(neg (^ a 2))"),
        ("-a*b", "(neg (* a b))"),
        ("-a+b", "(+ (neg a) b)"),
        ("-a*b - c", "(- (neg (* a b)) c)"),
        ("+a .- b", "(.- (pos a) b)"),
        (".-a", "(.neg a)"),
        ("a - b - c", "(- (- a b) c)"),
        ("a / b * c", "(* (/ a b) c)"),
        ("a + b*c^d", "(+ a (* b (^ c d)))"),
        ("a .* b ./ c .^ d .+ e", "(.+ (./ (.* a b) (.^ c d)) e)"),
        ("(a^b)^c", "(^ (paren (^ a b)) c)"),
        ("a*(-b)", "(* a (paren (neg b)))"),
        ("not a < b", "(not (< a b))"),
        ("not a and b or c", "(or (and (not a) b) c)"),
        ("a or b and not c == d + 1", "(or a (and b (not (== c (+ d 1)))))"),
        ("a + 1 <> -b", "(<> (+ a 1) (neg b))"),
        ("a and b and c", "(and (and a b) c)"),
        ("1:n+1", "(range 1 (+ n 1))"),
        ("1:2:n", "(range 1 2 n)"),
        ("a or b:c", "(range (or a b) c)"),
        ("-1:1", "(range (neg 1) 1)"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn primaries_of_all_kinds() {
    for (text, expected) in [
        ("if a then b elseif c then d else e", "(if a b c d e)"),
        ("if a then b else if c then d else e", "(if a b (if c d e))"),
        ("if a then 1:2 else x + 1", "(if a (range 1 2) (+ x 1))"),
        ("der(x)", "(call der x)"),
        ("initial()", "(call initial)"),
        ("pure(f(x))", "(call pure (call f x))"),
        (".A.B.f(x, y, c = d)", "(call .A.B.f x y c=d)"),
        ("f(a = if b then c else d)", "(call f a=(if b c d))"),
        ("sum(x[i] for i in 1:3)", "(for sum x[i] i:(range 1 3))"),
        ("{i*j for i, j in {1, 2}}", "(for array (* i j) i j:(array 1 2))"),
        ("f(function g(a = 1), 2)", "(call f (function g a=1) 2)"),
        ("f(h = function A.g())", "(call f h=(function A g))"),
        ("{1, {2, 3}}", "(array 1 (array 2 3))"),
        ("{}", "(array)"),
        ("[1, 2; 3, 4]", "(matrix (row 1 2) (row 3 4))"),
        ("[1:3, x]", "(matrix (row (range 1 3) x))"),
        ("x[end, :, 1:end-1].y[n]", "x[end,:,(range 1 (- end 1))].y[n]"),
        ("x[f(end)]", "x[(call f end)]"),
        ("(a, , b)", "(tuple a _ b)"),
        ("(, a)", "(tuple _ a)"),
        ("()", "(tuple)"),
        ("(f(x))[2]", "(paren (call f x))[2]"),
        ("a.'b c'.d", "a.'b c'.d"),
        ("'a\\'b'", "'a\\'b'"),
        ("true and false", "(and true false)"),
        ("a /* comment */ + // another\n b", "(+ a b)"),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn numbers_and_strings_have_their_values() {
    for (text, expected) in [
        ("12", "12"),
        ("1.", "1.0"),
        ("1.5e-3", "0.0015"),
        ("1e5", "100000.0"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "9.223372036854776e18"),
        ("2./x", "(/ 2.0 x)"),
        ("2 ./ x", "(./ 2 x)"),
        ("\"a\\\"b\\n\\\\\"", "\"a\\\"b\\n\\\\\""),
        ("\"two\nlines\"", "\"two\\nlines\""),
        ("\"größe\"", "\"größe\""),
    ] {
        assert_eq!(tree(text), expected, "{text}");
    }
}

#[test]
fn mistakes_in_expressions_are_named_and_read_as_meant() {
    for (text, code, expected) in [
        ("a && b || c", "foreign-operator", "(or (and a b) c)"),
        ("a != b", "foreign-operator", "(<> a b)"),
        ("!a", "foreign-operator", "(not a)"),
        ("a < b < c", "chained-relation", "(< (< a b) c)"),
        ("a^b^c", "chained-power", "(^ (^ a b) c)"),
        ("a * -b", "operator-order", "(* a (neg b))"),
        ("2^-1", "operator-order", "(^ 2 (neg 1))"),
        ("a + -b", "operator-order", "(+ a (neg b))"),
        ("--a", "operator-order", "(neg (neg a))"),
        ("a == not b", "operator-order", "(== a (not b))"),
        ("1 + if a then b else c", "operator-order", "(+ 1 (if a b c))"),
        (".5", "leading-point", "0.5"),
        ("f(a = 1, 2)", "argument-order", "(call f 2 a=1)"),
        ("if a = 1 then b else c", "equals-in-condition", "(if 1 b c)"),
        ("größe + 1", "foreign-letter", "(+ größe 1)"),
        ("1e999", "number-range", "inf"),
        ("a ** b", "foreign-operator", "error"),
        ("f(x)[1]", "index-of-value", "error"),
        ("f(x).y", "member-of-value", "error"),
        ("end + 1", "end-outside-subscript", "error"),
        ("if a then b", "missing-else", "error"),
        ("(a + b", "unclosed-bracket", "error"),
        ("x[1, 2", "unclosed-bracket", "error"),
        ("a +", "unexpected-token", "error"),
        ("", "unexpected-token", "error"),
        ("f(a, )", "unexpected-token", "error"),
        ("flow + 1", "keyword-as-name", "error"),
        ("a b", "unexpected-token", "a"),
        ("\"abc", "unterminated-string", "error"),
        ("a + /* b", "unterminated-comment", "error"),
    ] {
        let parsed = parser::parse_expression(FileId(0), text, 0);
        assert_eq!(parsed.findings.first().map(|finding| finding.code), Some(code), "{text}: {:?}", parsed.findings);
        assert_eq!(show(&parsed.expr), expected, "{text}");
    }
}

#[test]
fn spans_count_from_the_given_offset() {
    let parsed = parser::parse_expression(FileId(3), "a + b*c", 100);
    assert!(parsed.findings.is_empty());
    let ExprKind::Binary(_, left, right) = parsed.expr.kind else { panic!("a sum") };
    assert_eq!((left.span.start, left.span.end), (100, 101));
    assert_eq!((right.span.start, right.span.end), (104, 107));
    assert_eq!(right.span.file, FileId(3));
    let parsed = parser::parse_expression(FileId(3), "a + &", 100);
    assert!(parsed.findings.iter().all(|finding| (100..=105).contains(&finding.span.start)));
}
