//! Prints a syntax tree as Modelica text.
//!
//! Reading the text again gives the same tree, up to spans: `parse(print(parse(s))) = parse(s)`. Parentheses that the
//! tree needs but does not have (trees made by a program) are added.

use std::fmt::Write as _;

use crate::syntax::{
    Argument, BinaryOp, BreakTarget, Causality, ClassBody, ClassDef, ClassKind, ComponentDecl, ComponentRef,
    Composition, ConnectorPrefix, Constraint, Element, ElementKind, ElementPrefixes, Equation, EquationBranch,
    EquationKind, Expr, ExprKind, External, Ident, Import, Iterator as ForIterator, Modification, ModificationValue,
    NamedArg, Path, Purity, Statement, StatementBranch, StatementKind, StoredDefinition, Subscript, UnaryOp,
    VariabilityPrefix,
};

/// The text of a file.
#[must_use]
pub fn print(definition: &StoredDefinition) -> String {
    let mut printer = Printer::default();
    if let Some(within) = &definition.within {
        printer.text("within");
        if !within.parts.is_empty() {
            printer.text(" ");
            printer.path(within);
        }
        printer.text(";\n");
    }
    for class in &definition.classes {
        if class.is_final {
            printer.text("final ");
        }
        printer.class(class);
        printer.text(";\n");
    }
    printer.out
}

/// The text of an expression.
#[must_use]
pub fn print_expression(expr: &Expr) -> String {
    let mut printer = Printer::default();
    printer.expr(expr);
    printer.out
}

/// The text of a component reference.
#[must_use]
pub fn print_component_ref(reference: &ComponentRef) -> String {
    let mut printer = Printer::default();
    printer.component_ref(reference);
    printer.out
}

/// The text of a dotted name.
#[must_use]
pub fn print_path(path: &Path) -> String {
    let mut printer = Printer::default();
    printer.path(path);
    printer.out
}

/// The text of an equation, without `;`.
#[must_use]
pub fn print_equation(equation: &Equation) -> String {
    let mut printer = Printer::default();
    printer.equation(equation);
    printer.out
}

/// How tightly an expression holds together; see the levels of the parser.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    If,
    Range,
    Or,
    And,
    Not,
    Relation,
    Sum,
    Product,
    Power,
    Primary,
}

impl Level {
    const fn of_operator(op: BinaryOp) -> Self {
        match op {
            BinaryOp::Or => Self::Or,
            BinaryOp::And => Self::And,
            BinaryOp::Less
            | BinaryOp::LessEqual
            | BinaryOp::Greater
            | BinaryOp::GreaterEqual
            | BinaryOp::Equal
            | BinaryOp::NotEqual => Self::Relation,
            BinaryOp::Add | BinaryOp::Sub | BinaryOp::ElementAdd | BinaryOp::ElementSub => Self::Sum,
            BinaryOp::Mul | BinaryOp::Div | BinaryOp::ElementMul | BinaryOp::ElementDiv => Self::Product,
            BinaryOp::Pow | BinaryOp::ElementPow => Self::Power,
        }
    }

    const fn of(expr: &Expr) -> Self {
        match &expr.kind {
            ExprKind::If { .. } => Self::If,
            ExprKind::Range { .. } => Self::Range,
            ExprKind::Binary(op, ..) => Self::of_operator(*op),
            ExprKind::Unary(UnaryOp::Not, _) => Self::Not,
            ExprKind::Unary(..) => Self::Sum,
            ExprKind::Integer(value) if *value < 0 => Self::Sum,
            ExprKind::Real(value) if value.is_sign_negative() => Self::Sum,
            _ => Self::Primary,
        }
    }

    /// The level the left and right operand must have to stand without parentheses.
    const fn operands(self) -> (Self, Self) {
        match self {
            Self::If | Self::Range => (Self::Or, Self::Or),
            Self::Or => (Self::Or, Self::And),
            Self::And => (Self::And, Self::Not),
            Self::Not => (Self::Relation, Self::Relation),
            Self::Relation => (Self::Sum, Self::Sum),
            Self::Sum => (Self::Sum, Self::Product),
            Self::Product => (Self::Product, Self::Power),
            Self::Power | Self::Primary => (Self::Primary, Self::Primary),
        }
    }
}

const fn operator_text(op: BinaryOp) -> &'static str {
    match op {
        BinaryOp::Add => " + ",
        BinaryOp::Sub => " - ",
        BinaryOp::Mul => " * ",
        BinaryOp::Div => " / ",
        BinaryOp::Pow => " ^ ",
        BinaryOp::ElementAdd => " .+ ",
        BinaryOp::ElementSub => " .- ",
        BinaryOp::ElementMul => " .* ",
        BinaryOp::ElementDiv => " ./ ",
        BinaryOp::ElementPow => " .^ ",
        BinaryOp::Less => " < ",
        BinaryOp::LessEqual => " <= ",
        BinaryOp::Greater => " > ",
        BinaryOp::GreaterEqual => " >= ",
        BinaryOp::Equal => " == ",
        BinaryOp::NotEqual => " <> ",
        BinaryOp::And => " and ",
        BinaryOp::Or => " or ",
    }
}

const fn kind_text(kind: ClassKind) -> &'static str {
    match kind {
        ClassKind::Class => "class ",
        ClassKind::Model => "model ",
        ClassKind::Block => "block ",
        ClassKind::Connector => "connector ",
        ClassKind::ExpandableConnector => "expandable connector ",
        ClassKind::Record => "record ",
        ClassKind::OperatorRecord => "operator record ",
        ClassKind::Type => "type ",
        ClassKind::Package => "package ",
        ClassKind::Function => "function ",
        ClassKind::OperatorFunction => "operator function ",
        ClassKind::Operator => "operator ",
    }
}

#[derive(Default)]
struct Printer {
    out: String,
    indent: usize,
}

impl Printer {
    fn text(&mut self, text: &str) {
        self.out.push_str(text);
    }

    fn flag(&mut self, is_set: bool, text: &str) {
        if is_set {
            self.text(text);
        }
    }

    fn new_line(&mut self) {
        self.out.push('\n');
        for _ in 0..self.indent {
            self.out.push_str("  ");
        }
    }

    /// Items with `, ` between them.
    fn list<T>(&mut self, items: &[T], mut print: impl FnMut(&mut Self, &T)) {
        for (position, item) in items.iter().enumerate() {
            if position > 0 {
                self.text(", ");
            }
            print(self, item);
        }
    }

    fn ident(&mut self, ident: &Ident) {
        self.text(ident.name.text());
    }

    fn path(&mut self, path: &Path) {
        self.flag(path.is_global, ".");
        for (position, part) in path.parts.iter().enumerate() {
            self.flag(position > 0, ".");
            self.ident(part);
        }
    }

    fn string(&mut self, text: &str) {
        self.out.push('"');
        let mut rest = text;
        while let Some(at) = rest.find(['"', '\\']) {
            self.text(&rest[..at]);
            self.out.push('\\');
            self.text(&rest[at..=at]);
            rest = &rest[at + 1..];
        }
        self.text(rest);
        self.out.push('"');
    }

    fn description(&mut self, description: Option<&str>) {
        if let Some(text) = description {
            self.text(" ");
            self.string(text);
        }
    }

    fn annotation(&mut self, annotation: Option<&Modification>) {
        if let Some(annotation) = annotation {
            self.text(" annotation");
            self.arguments(&annotation.args);
        }
    }

    // Classes.

    fn class(&mut self, class: &ClassDef) {
        self.flag(class.is_encapsulated, "encapsulated ");
        self.flag(class.is_partial, "partial ");
        match class.purity {
            Some(Purity::Pure) => self.text("pure "),
            Some(Purity::Impure) => self.text("impure "),
            None => {}
        }
        self.text(kind_text(class.kind));
        match &class.body {
            ClassBody::Long { extends, composition } => {
                self.flag(extends.is_some(), "extends ");
                self.ident(&class.name);
                if let Some(extends) = extends
                    && !extends.args.is_empty()
                {
                    self.arguments(&extends.args);
                }
                self.description(class.description.as_deref());
                self.composition(composition);
                if let Some(annotation) = &class.annotation {
                    self.indent += 1;
                    self.new_line();
                    self.indent -= 1;
                    self.text("annotation");
                    self.arguments(&annotation.args);
                    self.text(";");
                }
                self.new_line();
                self.text("end ");
                self.ident(&class.name);
                return;
            }
            ClassBody::Short { causality, base, subscripts, modification } => {
                self.ident(&class.name);
                self.text(" = ");
                self.causality(*causality);
                self.path(base);
                self.subscripts(subscripts);
                self.optional_modification(modification.as_deref());
            }
            ClassBody::Enumeration(literals) => {
                self.ident(&class.name);
                self.text(" = enumeration(");
                match literals {
                    None => self.text(":"),
                    Some(literals) => self.list(literals, |printer, literal| {
                        printer.ident(&literal.name);
                        printer.description(literal.description.as_deref());
                        printer.annotation(literal.annotation.as_deref());
                    }),
                }
                self.text(")");
            }
            ClassBody::Derivative { function, with_respect_to } => {
                self.ident(&class.name);
                self.text(" = der(");
                self.path(function);
                self.text(", ");
                self.list(with_respect_to, Self::ident);
                self.text(")");
            }
        }
        self.description(class.description.as_deref());
        self.annotation(class.annotation.as_deref());
    }

    fn composition(&mut self, composition: &Composition) {
        let mut is_protected = false;
        for element in &composition.elements {
            let wants_protected = match &element.kind {
                ElementKind::Import(_) => is_protected,
                ElementKind::Extends { is_protected, .. } => *is_protected,
                ElementKind::Class { prefixes, .. } | ElementKind::Component { prefixes, .. } => prefixes.is_protected,
            };
            if wants_protected != is_protected {
                is_protected = wants_protected;
                self.new_line();
                self.text(if is_protected { "protected" } else { "public" });
            }
            self.indent += 1;
            self.new_line();
            self.element(element);
            self.text(";");
            self.indent -= 1;
        }
        for section in &composition.equations {
            self.new_line();
            self.text(if section.is_initial { "initial equation" } else { "equation" });
            self.equations(&section.equations);
        }
        for section in &composition.algorithms {
            self.new_line();
            self.text(if section.is_initial { "initial algorithm" } else { "algorithm" });
            self.statements(&section.statements);
        }
        if let Some(external) = &composition.external {
            self.indent += 1;
            self.new_line();
            self.external(external);
            self.text(";");
            self.indent -= 1;
        }
    }

    fn external(&mut self, external: &External) {
        self.text("external");
        self.description(external.language.as_deref());
        if let Some(function) = &external.function {
            self.text(" ");
            if let Some(result) = &external.result {
                self.component_ref(result);
                self.text(" = ");
            }
            self.ident(function);
            self.text("(");
            self.list(&external.args, Self::expr);
            self.text(")");
        }
        self.annotation(external.annotation.as_deref());
    }

    fn element(&mut self, element: &Element) {
        match &element.kind {
            ElementKind::Import(import) => {
                self.text("import ");
                match import {
                    Import::Qualified(path) => self.path(path),
                    Import::Renamed { name, path } => {
                        self.ident(name);
                        self.text(" = ");
                        self.path(path);
                    }
                    Import::Unqualified(path) => {
                        self.path(path);
                        self.text(".*");
                    }
                    Import::Listed { path, names } => {
                        self.path(path);
                        self.text(".{");
                        self.list(names, Self::ident);
                        self.text("}");
                    }
                }
            }
            ElementKind::Extends { base, modification, annotation, .. } => {
                self.text("extends ");
                self.path(base);
                self.optional_modification(modification.as_deref());
                self.annotation(annotation.as_deref());
            }
            ElementKind::Class { prefixes, class, constraint } => {
                self.prefixes(*prefixes, false);
                self.class(class);
                self.constraint(constraint.as_deref());
            }
            ElementKind::Component { prefixes, component, constraint } => {
                self.prefixes(*prefixes, false);
                self.component(component);
                self.constraint(constraint.as_deref());
            }
        }
    }

    fn prefixes(&mut self, prefixes: ElementPrefixes, is_each: bool) {
        self.flag(prefixes.is_redeclare, "redeclare ");
        self.flag(is_each, "each ");
        self.flag(prefixes.is_final, "final ");
        self.flag(prefixes.is_inner, "inner ");
        self.flag(prefixes.is_outer, "outer ");
        self.flag(prefixes.is_replaceable, "replaceable ");
    }

    fn constraint(&mut self, constraint: Option<&Constraint>) {
        if let Some(constraint) = constraint {
            self.text(" constrainedby ");
            self.path(&constraint.base);
            self.optional_modification(constraint.modification.as_deref());
            self.description(constraint.description.as_deref());
            self.annotation(constraint.annotation.as_deref());
        }
    }

    fn causality(&mut self, causality: Option<Causality>) {
        match causality {
            Some(Causality::Input) => self.text("input "),
            Some(Causality::Output) => self.text("output "),
            None => {}
        }
    }

    fn component(&mut self, component: &ComponentDecl) {
        match component.connector_prefix {
            Some(ConnectorPrefix::Flow) => self.text("flow "),
            Some(ConnectorPrefix::Stream) => self.text("stream "),
            None => {}
        }
        match component.variability {
            Some(VariabilityPrefix::Constant) => self.text("constant "),
            Some(VariabilityPrefix::Parameter) => self.text("parameter "),
            Some(VariabilityPrefix::Discrete) => self.text("discrete "),
            None => {}
        }
        self.causality(component.causality);
        self.path(&component.type_name);
        self.subscripts(&component.type_subscripts);
        self.text(" ");
        self.ident(&component.name);
        self.subscripts(&component.subscripts);
        self.optional_modification(component.modification.as_deref());
        if let Some(condition) = &component.condition {
            self.text(" if ");
            self.expr(condition);
        }
        self.description(component.description.as_deref());
        self.annotation(component.annotation.as_deref());
    }

    // Modifications.

    fn optional_modification(&mut self, modification: Option<&Modification>) {
        let Some(modification) = modification else { return };
        if !modification.args.is_empty() || modification.value.is_none() {
            self.arguments(&modification.args);
        }
        match &modification.value {
            None => {}
            Some(ModificationValue::Expr(value)) => {
                self.text(" = ");
                self.expr(value);
            }
            Some(ModificationValue::Break(_)) => self.text(" = break"),
        }
    }

    fn arguments(&mut self, args: &[Argument]) {
        self.text("(");
        self.list(args, Self::argument);
        self.text(")");
    }

    fn argument(&mut self, argument: &Argument) {
        match argument {
            Argument::Modify { is_each, is_final, name, modification, description, annotation, span: _ } => {
                self.flag(*is_each, "each ");
                self.flag(*is_final, "final ");
                self.path(name);
                self.optional_modification(modification.as_deref());
                self.description(description.as_deref());
                self.annotation(annotation.as_deref());
            }
            Argument::Redeclare { is_redeclare, is_each, element } => match &element.kind {
                ElementKind::Class { prefixes, class, constraint } => {
                    self.prefixes(ElementPrefixes { is_redeclare: *is_redeclare, ..*prefixes }, *is_each);
                    self.class(class);
                    self.constraint(constraint.as_deref());
                }
                ElementKind::Component { prefixes, component, constraint } => {
                    self.prefixes(ElementPrefixes { is_redeclare: *is_redeclare, ..*prefixes }, *is_each);
                    self.component(component);
                    self.constraint(constraint.as_deref());
                }
                ElementKind::Import(_) | ElementKind::Extends { .. } => self.element(element),
            },
            Argument::Break { what, span: _ } => {
                self.text("break ");
                match what {
                    BreakTarget::Name(name) => self.ident(name),
                    BreakTarget::Connect(left, right) => self.connection(left, right),
                }
            }
        }
    }

    fn connection(&mut self, left: &ComponentRef, right: &ComponentRef) {
        self.text("connect(");
        self.component_ref(left);
        self.text(", ");
        self.component_ref(right);
        self.text(")");
    }

    // Equations and statements.

    fn equations(&mut self, equations: &[Equation]) {
        self.indent += 1;
        for equation in equations {
            self.new_line();
            self.equation(equation);
            self.text(";");
        }
        self.indent -= 1;
    }

    fn equation(&mut self, equation: &Equation) {
        match &equation.kind {
            EquationKind::Equality(left, right) => {
                self.expr_at(left, Level::Range);
                self.text(" = ");
                self.expr(right);
            }
            EquationKind::Connect(left, right) => self.connection(left, right),
            EquationKind::If { branches, otherwise } => {
                for (position, branch) in branches.iter().enumerate() {
                    self.equation_branch(if position == 0 { "if " } else { "elseif " }, branch);
                }
                if let Some(otherwise) = otherwise {
                    self.text("else");
                    self.equations(otherwise);
                    self.new_line();
                }
                self.text("end if");
            }
            EquationKind::For { iterators, body } => {
                self.for_head(iterators);
                self.equations(body);
                self.new_line();
                self.text("end for");
            }
            EquationKind::When(branches) => {
                for (position, branch) in branches.iter().enumerate() {
                    self.equation_branch(if position == 0 { "when " } else { "elsewhen " }, branch);
                }
                self.text("end when");
            }
            EquationKind::Call(call) => self.expr(call),
        }
        self.description(equation.description.as_deref());
        self.annotation(equation.annotation.as_deref());
    }

    fn equation_branch(&mut self, keyword: &str, branch: &EquationBranch) {
        self.text(keyword);
        self.expr(&branch.condition);
        self.text(" then");
        self.equations(&branch.body);
        self.new_line();
    }

    fn for_head(&mut self, iterators: &[ForIterator]) {
        self.text("for ");
        self.iterators(iterators);
        self.text(" loop");
    }

    fn iterators(&mut self, iterators: &[ForIterator]) {
        self.list(iterators, |printer, iterator| {
            printer.ident(&iterator.name);
            if let Some(range) = &iterator.range {
                printer.text(" in ");
                printer.expr(range);
            }
        });
    }

    fn statements(&mut self, statements: &[Statement]) {
        self.indent += 1;
        for statement in statements {
            self.new_line();
            self.statement(statement);
            self.text(";");
        }
        self.indent -= 1;
    }

    fn statement(&mut self, statement: &Statement) {
        match &statement.kind {
            StatementKind::Assign { target, value } => {
                self.component_ref(target);
                self.text(" := ");
                self.expr(value);
            }
            StatementKind::AssignTuple { targets, call } => {
                self.text("(");
                self.list(targets, |printer, target| {
                    if let Some(target) = target {
                        printer.component_ref(target);
                    }
                });
                self.text(") := ");
                self.expr(call);
            }
            StatementKind::Call(call) => self.expr(call),
            StatementKind::If { branches, otherwise } => {
                for (position, branch) in branches.iter().enumerate() {
                    self.statement_branch(if position == 0 { "if " } else { "elseif " }, branch, " then");
                }
                if let Some(otherwise) = otherwise {
                    self.text("else");
                    self.statements(otherwise);
                    self.new_line();
                }
                self.text("end if");
            }
            StatementKind::For { iterators, body } => {
                self.for_head(iterators);
                self.statements(body);
                self.new_line();
                self.text("end for");
            }
            StatementKind::While(branch) => {
                self.statement_branch("while ", branch, " loop");
                self.text("end while");
            }
            StatementKind::When(branches) => {
                for (position, branch) in branches.iter().enumerate() {
                    self.statement_branch(if position == 0 { "when " } else { "elsewhen " }, branch, " then");
                }
                self.text("end when");
            }
            StatementKind::Break => self.text("break"),
            StatementKind::Return => self.text("return"),
        }
        self.description(statement.description.as_deref());
        self.annotation(statement.annotation.as_deref());
    }

    fn statement_branch(&mut self, keyword: &str, branch: &StatementBranch, after: &str) {
        self.text(keyword);
        self.expr(&branch.condition);
        self.text(after);
        self.statements(&branch.body);
        self.new_line();
    }

    // Expressions.

    fn component_ref(&mut self, reference: &ComponentRef) {
        self.flag(reference.is_global, ".");
        for (position, part) in reference.parts.iter().enumerate() {
            self.flag(position > 0, ".");
            self.ident(&part.name);
            self.subscripts(&part.subscripts);
        }
    }

    fn subscripts(&mut self, subscripts: &[Subscript]) {
        if subscripts.is_empty() {
            return;
        }
        self.text("[");
        self.list(subscripts, |printer, subscript| match subscript {
            Subscript::All(_) => printer.text(":"),
            Subscript::Expr(expr) => printer.expr(expr),
        });
        self.text("]");
    }

    /// An expression, in parentheses if it holds together less tightly than asked.
    fn expr_at(&mut self, expr: &Expr, level: Level) {
        if Level::of(expr) < level {
            self.text("(");
            self.expr(expr);
            self.text(")");
        } else {
            self.expr(expr);
        }
    }

    fn expr(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Real(value) => self.real(*value),
            ExprKind::Integer(value) => self.display(value),
            ExprKind::String(text) => self.string(text),
            ExprKind::Boolean(value) => self.display(value),
            ExprKind::Ref(reference) => self.component_ref(reference),
            ExprKind::Unary(op, operand) => {
                let level = match op {
                    UnaryOp::Not => Level::Relation,
                    UnaryOp::Minus | UnaryOp::Plus | UnaryOp::ElementMinus | UnaryOp::ElementPlus => Level::Product,
                };
                self.text(match op {
                    UnaryOp::Minus => "-",
                    UnaryOp::Plus => "+",
                    UnaryOp::ElementMinus => ".-",
                    UnaryOp::ElementPlus => ".+",
                    UnaryOp::Not => "not ",
                });
                self.expr_at(operand, level);
            }
            ExprKind::Binary(..) => self.binary(expr),
            ExprKind::Parenthesized(inner) => {
                self.text("(");
                self.expr(inner);
                self.text(")");
            }
            ExprKind::Range { start, step, stop } => {
                self.expr_at(start, Level::Or);
                if let Some(step) = step {
                    self.text(":");
                    self.expr_at(step, Level::Or);
                }
                self.text(":");
                self.expr_at(stop, Level::Or);
            }
            ExprKind::If { branches, otherwise } => {
                for (position, branch) in branches.iter().enumerate() {
                    self.text(if position == 0 { "if " } else { " elseif " });
                    self.expr(&branch.condition);
                    self.text(" then ");
                    self.expr(&branch.value);
                }
                self.text(" else ");
                self.expr(otherwise);
            }
            ExprKind::Call { function, args, named } => {
                self.component_ref(function);
                self.text("(");
                self.list(args, Self::expr);
                self.flag(!args.is_empty() && !named.is_empty(), ", ");
                self.named_args(named);
                self.text(")");
            }
            ExprKind::Comprehension { function, body, iterators } => {
                if let Some(function) = function {
                    self.component_ref(function);
                }
                self.text(if function.is_some() { "(" } else { "{" });
                self.expr(body);
                self.text(" for ");
                self.iterators(iterators);
                self.text(if function.is_some() { ")" } else { "}" });
            }
            ExprKind::Array(items) => {
                self.text("{");
                self.list(items, Self::expr);
                self.text("}");
            }
            ExprKind::Matrix(rows) => {
                self.text("[");
                for (position, row) in rows.iter().enumerate() {
                    self.flag(position > 0, "; ");
                    self.list(row, Self::expr);
                }
                self.text("]");
            }
            ExprKind::Tuple(items) => {
                self.text("(");
                self.list(items, |printer, item| {
                    if let Some(item) = item {
                        printer.expr(item);
                    }
                });
                self.text(")");
            }
            ExprKind::PartialFunction { function, named } => {
                self.text("function ");
                self.path(function);
                self.text("(");
                self.named_args(named);
                self.text(")");
            }
            ExprKind::Subscripted { base, subscripts } => {
                let is_closed = matches!(base.kind, ExprKind::Parenthesized(_) | ExprKind::Tuple(_));
                self.flag(!is_closed, "(");
                self.expr(base);
                self.flag(!is_closed, ")");
                self.subscripts(subscripts);
            }
            ExprKind::End => self.text("end"),
            ExprKind::Error => self.text("/* unreadable */"),
        }
    }

    /// Goes down the left operands without recursion: `a + b + c + ..` may be long.
    fn binary(&mut self, expr: &Expr) {
        let mut pending = Vec::new();
        let mut leftmost = expr;
        let mut level = Level::If;
        while let ExprKind::Binary(op, left, right) = &leftmost.kind
            && Level::of(leftmost) >= level
        {
            pending.push((*op, right));
            level = Level::of_operator(*op).operands().0;
            leftmost = left;
        }
        self.expr_at(leftmost, level);
        for (op, right) in pending.into_iter().rev() {
            self.text(operator_text(op));
            self.expr_at(right, Level::of_operator(op).operands().1);
        }
    }

    fn named_args(&mut self, named: &[NamedArg]) {
        self.list(named, |printer, arg| {
            printer.ident(&arg.name);
            printer.text(" = ");
            printer.expr(&arg.value);
        });
    }

    fn display(&mut self, value: &impl std::fmt::Display) {
        write!(self.out, "{value}").expect("writing to a string cannot fail");
    }

    /// The shortest text that reads as the same number, always with a point or an exponent.
    fn real(&mut self, value: f64) {
        write!(self.out, "{value:?}").expect("writing to a string cannot fail");
    }
}
