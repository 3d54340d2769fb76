//! The syntax tree of Modelica 3.6, as written: every node has its span, nothing is resolved.
//!
//! The grammar is that of the specification's appendix A [@modelica36].

use std::sync::Arc;

use daesy_graph::Span;

use crate::name::Name;

/// An identifier with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ident {
    /// The name.
    pub name: Name,
    /// Its place.
    pub span: Span,
}

/// A stored definition: one file.
#[derive(Clone, PartialEq, Debug)]
pub struct StoredDefinition {
    /// `within A.B;`: `None` without the clause, empty path for `within;`.
    pub within: Option<Path>,
    /// The classes of the file, with `final` noted on each.
    pub classes: Vec<Arc<ClassDef>>,
}

/// A dotted name without subscripts: `.A.B.C`.
#[derive(Clone, PartialEq, Debug)]
pub struct Path {
    /// Begins with a dot: looked up from the root.
    pub is_global: bool,
    /// The parts.
    pub parts: Vec<Ident>,
    /// Its place.
    pub span: Span,
}

/// What kind of class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum ClassKind {
    /// `class`
    Class,
    /// `model`
    Model,
    /// `block`
    Block,
    /// `connector`
    Connector,
    /// `expandable connector`
    ExpandableConnector,
    /// `record`
    Record,
    /// `operator record`
    OperatorRecord,
    /// `type`
    Type,
    /// `package`
    Package,
    /// `function`
    Function,
    /// `operator function`
    OperatorFunction,
    /// `operator`
    Operator,
}

/// `pure` or `impure` in front of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purity {
    /// `pure`
    Pure,
    /// `impure`
    Impure,
}

/// A class definition.
#[derive(Clone, PartialEq, Debug)]
pub struct ClassDef {
    /// Its name.
    pub name: Ident,
    /// Which kind.
    pub kind: ClassKind,
    /// `partial`
    pub is_partial: bool,
    /// `encapsulated`
    pub is_encapsulated: bool,
    /// `final` in front of a class in a stored definition or element.
    pub is_final: bool,
    /// `pure` or `impure`
    pub purity: Option<Purity>,
    /// The comment string.
    pub description: Option<Arc<str>>,
    /// What it consists of.
    pub body: ClassBody,
    /// The class annotation.
    pub annotation: Option<Box<Modification>>,
    /// The whole definition.
    pub span: Span,
}

/// The forms of a class definition.
#[derive(Clone, PartialEq, Debug)]
pub enum ClassBody {
    /// `class A .. end A;` and, with `extends_modification`, `class extends A(..) .. end A;`
    Long {
        /// `Some` for `class extends`.
        extends: Option<Box<Modification>>,
        /// Elements and sections.
        composition: Composition,
    },
    /// `class A = [input|output] B[..](..)`
    Short {
        /// `input`, `output` or neither.
        causality: Option<Causality>,
        /// The class it stands for.
        base: Path,
        /// Array subscripts.
        subscripts: Vec<Subscript>,
        /// `(..)`
        modification: Option<Box<Modification>>,
    },
    /// `type E = enumeration(a, b)`; `None` for `enumeration(:)`.
    Enumeration(Option<Vec<EnumerationLiteral>>),
    /// `class A = der(f, x, y)`
    Derivative {
        /// The function.
        function: Path,
        /// Differentiated with respect to.
        with_respect_to: Vec<Ident>,
    },
}

/// One literal of an enumeration.
#[derive(Clone, PartialEq, Debug)]
pub struct EnumerationLiteral {
    /// Its name.
    pub name: Ident,
    /// Its comment.
    pub description: Option<Arc<str>>,
    /// Its annotation.
    pub annotation: Option<Box<Modification>>,
}

/// The inside of a long class.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Composition {
    /// Declarations in order.
    pub elements: Vec<Element>,
    /// `equation` and `initial equation` sections in order.
    pub equations: Vec<EquationSection>,
    /// `algorithm` and `initial algorithm` sections in order.
    pub algorithms: Vec<AlgorithmSection>,
    /// `external`
    pub external: Option<Box<External>>,
}

/// An equation section.
#[derive(Clone, PartialEq, Debug)]
pub struct EquationSection {
    /// `initial equation`
    pub is_initial: bool,
    /// Its equations.
    pub equations: Vec<Equation>,
}

/// An algorithm section.
#[derive(Clone, PartialEq, Debug)]
pub struct AlgorithmSection {
    /// `initial algorithm`
    pub is_initial: bool,
    /// Its statements.
    pub statements: Vec<Statement>,
    /// The section.
    pub span: Span,
}

/// An external function clause.
#[derive(Clone, PartialEq, Debug)]
pub struct External {
    /// `"C"`
    pub language: Option<Arc<str>>,
    /// The result, in `result = name(args)`.
    pub result: Option<ComponentRef>,
    /// Name of the external function.
    pub function: Option<Ident>,
    /// Arguments.
    pub args: Vec<Expr>,
    /// The annotation.
    pub annotation: Option<Box<Modification>>,
    /// Its place.
    pub span: Span,
}

/// `input` or `output`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Causality {
    /// `input`
    Input,
    /// `output`
    Output,
}

/// `flow` or `stream`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectorPrefix {
    /// `flow`
    Flow,
    /// `stream`
    Stream,
}

/// `discrete`, `parameter` or `constant`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum VariabilityPrefix {
    /// `constant`
    Constant,
    /// `parameter`
    Parameter,
    /// `discrete`
    Discrete,
}

/// Prefixes of an element.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ElementPrefixes {
    /// In a `protected` section.
    pub is_protected: bool,
    /// `redeclare`
    pub is_redeclare: bool,
    /// `final`
    pub is_final: bool,
    /// `inner`
    pub is_inner: bool,
    /// `outer`
    pub is_outer: bool,
    /// `replaceable`
    pub is_replaceable: bool,
}

/// One element of a class.
#[derive(Clone, PartialEq, Debug)]
pub struct Element {
    /// What it declares.
    pub kind: ElementKind,
    /// Its place.
    pub span: Span,
}

/// The kinds of elements.
#[derive(Clone, PartialEq, Debug)]
pub enum ElementKind {
    /// `import ..`
    Import(Import),
    /// `extends A(..) annotation(..)`
    Extends {
        /// The base class.
        base: Path,
        /// `(..)`, `break` modifications included.
        modification: Option<Box<Modification>>,
        /// Its annotation.
        annotation: Option<Box<Modification>>,
        /// In a `protected` section.
        is_protected: bool,
    },
    /// A class.
    Class {
        /// Prefixes.
        prefixes: ElementPrefixes,
        /// The class.
        class: Arc<ClassDef>,
        /// `constrainedby`
        constraint: Option<Box<Constraint>>,
    },
    /// One declared component (`Real x, y;` gives two elements that share prefixes and type).
    Component {
        /// Prefixes.
        prefixes: ElementPrefixes,
        /// The component.
        component: Arc<ComponentDecl>,
        /// `constrainedby`
        constraint: Option<Box<Constraint>>,
    },
}

/// `constrainedby B(..)`
#[derive(Clone, PartialEq, Debug)]
pub struct Constraint {
    /// The constraining class.
    pub base: Path,
    /// `(..)`
    pub modification: Option<Box<Modification>>,
    /// Its comment.
    pub description: Option<Arc<str>>,
    /// Its annotation.
    pub annotation: Option<Box<Modification>>,
}

/// An import clause.
#[derive(Clone, PartialEq, Debug)]
pub enum Import {
    /// `import A.B.C;`
    Qualified(Path),
    /// `import D = A.B.C;`
    Renamed {
        /// The new name.
        name: Ident,
        /// What it stands for.
        path: Path,
    },
    /// `import A.B.*;`
    Unqualified(Path),
    /// `import A.B.{C, D};`
    Listed {
        /// The package.
        path: Path,
        /// The names.
        names: Vec<Ident>,
    },
}

/// A component declaration.
#[derive(Clone, PartialEq, Debug)]
pub struct ComponentDecl {
    /// Its name.
    pub name: Ident,
    /// Its type.
    pub type_name: Path,
    /// Subscripts after the type (`Real[3] x`).
    pub type_subscripts: Vec<Subscript>,
    /// Subscripts after the name (`Real x[3]`); they come before those of the type.
    pub subscripts: Vec<Subscript>,
    /// `flow` or `stream`
    pub connector_prefix: Option<ConnectorPrefix>,
    /// `discrete`, `parameter` or `constant`
    pub variability: Option<VariabilityPrefix>,
    /// `input` or `output`
    pub causality: Option<Causality>,
    /// Arguments and value.
    pub modification: Option<Box<Modification>>,
    /// `if condition`
    pub condition: Option<Box<Expr>>,
    /// Its comment.
    pub description: Option<Arc<str>>,
    /// Its annotation.
    pub annotation: Option<Box<Modification>>,
    /// The declaration without prefixes and type.
    pub span: Span,
}

/// `(a = 1, b(c = 2)) = value`. Annotations have the same form, with arguments only.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Modification {
    /// The arguments.
    pub args: Vec<Argument>,
    /// `= value` (also written `:= value`).
    pub value: Option<ModificationValue>,
    /// Its place.
    pub span: Option<Span>,
}

/// The value of a modification.
#[derive(Clone, PartialEq, Debug)]
pub enum ModificationValue {
    /// `= expression`
    Expr(Expr),
    /// `= break`
    Break(Span),
}

/// One argument of a modification.
#[derive(Clone, PartialEq, Debug)]
pub enum Argument {
    /// `[each] [final] name(..) = value "comment" annotation(..)`
    Modify {
        /// `each`
        is_each: bool,
        /// `final`
        is_final: bool,
        /// What is modified.
        name: Path,
        /// How; `None` when there is a bare name (legal only in annotations).
        modification: Option<Box<Modification>>,
        /// Its comment.
        description: Option<Arc<str>>,
        /// Its annotation.
        annotation: Option<Box<Modification>>,
        /// Its place.
        span: Span,
    },
    /// `[redeclare] [each] [final] [replaceable] class ..` or a component clause.
    Redeclare {
        /// `redeclare` was written (a bare `replaceable` is legal too).
        is_redeclare: bool,
        /// `each`
        is_each: bool,
        /// The element, an [`ElementKind::Class`] or [`ElementKind::Component`], with `is_final` and `is_replaceable`
        /// in its prefixes.
        element: Box<Element>,
    },
    /// `break name` or `break connect(a, b)` in an extends clause.
    Break {
        /// What is left out.
        what: BreakTarget,
        /// Its place.
        span: Span,
    },
}

/// What a `break` leaves out.
#[derive(Clone, PartialEq, Debug)]
pub enum BreakTarget {
    /// A component or class.
    Name(Ident),
    /// A connection.
    Connect(Box<ComponentRef>, Box<ComponentRef>),
}

/// An equation.
#[derive(Clone, PartialEq, Debug)]
pub struct Equation {
    /// What it says.
    pub kind: EquationKind,
    /// Its comment.
    pub description: Option<Arc<str>>,
    /// Its annotation.
    pub annotation: Option<Box<Modification>>,
    /// Its place.
    pub span: Span,
}

/// The kinds of equations.
#[derive(Clone, PartialEq, Debug)]
pub enum EquationKind {
    /// `a = b`
    Equality(Expr, Expr),
    /// `connect(a, b)`
    Connect(ComponentRef, ComponentRef),
    /// `if .. then .. elseif .. else .. end if`
    If {
        /// Conditions with their equations.
        branches: Vec<EquationBranch>,
        /// `else`
        otherwise: Option<Vec<Equation>>,
    },
    /// `for i in .. loop .. end for`
    For {
        /// The iterators.
        iterators: Vec<Iterator>,
        /// The body.
        body: Vec<Equation>,
    },
    /// `when .. then .. elsewhen .. end when`
    When(Vec<EquationBranch>),
    /// A call for its effect: `assert(..)`, `terminate(..)`, `reinit(..)`, ..
    Call(Expr),
}

/// A condition with equations.
#[derive(Clone, PartialEq, Debug)]
pub struct EquationBranch {
    /// The condition.
    pub condition: Expr,
    /// The equations.
    pub body: Vec<Equation>,
}

/// A statement.
#[derive(Clone, PartialEq, Debug)]
pub struct Statement {
    /// What it does.
    pub kind: StatementKind,
    /// Its comment.
    pub description: Option<Arc<str>>,
    /// Its annotation.
    pub annotation: Option<Box<Modification>>,
    /// Its place.
    pub span: Span,
}

/// The kinds of statements.
#[derive(Clone, PartialEq, Debug)]
pub enum StatementKind {
    /// `x := e`
    Assign {
        /// What is assigned.
        target: ComponentRef,
        /// The value.
        value: Expr,
    },
    /// `(a, , b) := f(x)`
    AssignTuple {
        /// What is assigned.
        targets: Vec<Option<ComponentRef>>,
        /// The call.
        call: Expr,
    },
    /// A call for its effect.
    Call(Expr),
    /// `if ..`
    If {
        /// Conditions with their statements.
        branches: Vec<StatementBranch>,
        /// `else`
        otherwise: Option<Vec<Statement>>,
    },
    /// `for ..`
    For {
        /// The iterators.
        iterators: Vec<Iterator>,
        /// The body.
        body: Vec<Statement>,
    },
    /// `while ..`
    While(StatementBranch),
    /// `when ..`
    When(Vec<StatementBranch>),
    /// `break`
    Break,
    /// `return`
    Return,
}

/// A condition with statements.
#[derive(Clone, PartialEq, Debug)]
pub struct StatementBranch {
    /// The condition.
    pub condition: Expr,
    /// The statements.
    pub body: Vec<Statement>,
}

/// `i in range`; without a range it follows from the use of `i`.
#[derive(Clone, PartialEq, Debug)]
pub struct Iterator {
    /// Its name.
    pub name: Ident,
    /// Its range.
    pub range: Option<Expr>,
}

/// A component reference: `.a.b[1].c[:, 2]`.
#[derive(Clone, PartialEq, Debug)]
pub struct ComponentRef {
    /// Begins with a dot.
    pub is_global: bool,
    /// Its parts.
    pub parts: Vec<RefPart>,
    /// Its place.
    pub span: Span,
}

/// One part of a component reference.
#[derive(Clone, PartialEq, Debug)]
pub struct RefPart {
    /// Its name.
    pub name: Ident,
    /// Its subscripts.
    pub subscripts: Vec<Subscript>,
}

/// A subscript.
#[derive(Clone, PartialEq, Debug)]
pub enum Subscript {
    /// `:`
    All(Span),
    /// An index, a range or a vector of indices.
    Expr(Expr),
}

/// An expression.
#[derive(Clone, PartialEq, Debug)]
pub struct Expr {
    /// What it is.
    pub kind: ExprKind,
    /// Its place.
    pub span: Span,
}

/// Unary operators.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UnaryOp {
    /// `-`
    Minus,
    /// `+`
    Plus,
    /// `.-`
    ElementMinus,
    /// `.+`
    ElementPlus,
    /// `not`
    Not,
}

/// Binary operators; those with `Element` are written with a dot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the names say it")]
pub enum BinaryOp {
    Add,
    Sub,
    Mul,
    Div,
    Pow,
    ElementAdd,
    ElementSub,
    ElementMul,
    ElementDiv,
    ElementPow,
    Less,
    LessEqual,
    Greater,
    GreaterEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

/// The kinds of expressions.
#[derive(Clone, PartialEq, Debug)]
pub enum ExprKind {
    /// `1.5`, by value; the spelling is in the source.
    Real(f64),
    /// `12`; literals beyond 64 bits are read as reals.
    Integer(i64),
    /// `"text"` with escapes resolved.
    String(Arc<str>),
    /// `true` or `false`
    Boolean(bool),
    /// A variable, constant, enumeration literal, or function name.
    Ref(ComponentRef),
    /// `op a`
    Unary(UnaryOp, Box<Expr>),
    /// `a op b`
    Binary(BinaryOp, Box<Expr>, Box<Expr>),
    /// `(e)`: kept, because parentheses make a scalar of `end` and a tuple of one.
    Parenthesized(Box<Expr>),
    /// `start : step : stop`
    Range {
        /// First.
        start: Box<Expr>,
        /// Step.
        step: Option<Box<Expr>>,
        /// Last.
        stop: Box<Expr>,
    },
    /// `if c then a elseif d then b else e`
    If {
        /// Conditions and values.
        branches: Vec<ExprBranch>,
        /// `else`
        otherwise: Box<Expr>,
    },
    /// `f(a, b, c = d)`; `der`, `initial`, `pure` calls too.
    Call {
        /// The function's name.
        function: ComponentRef,
        /// Positional arguments.
        args: Vec<Expr>,
        /// Named arguments.
        named: Vec<NamedArg>,
    },
    /// `sum(e for i in 1:3)`; without a function name: `{e for i in 1:3}`.
    Comprehension {
        /// `sum`, `product`, `min`, `max` or `array`; `None` for braces.
        function: Option<ComponentRef>,
        /// The body.
        body: Box<Expr>,
        /// The iterators.
        iterators: Vec<Iterator>,
    },
    /// `{a, b}`
    Array(Vec<Expr>),
    /// `[a, b; c, d]`
    Matrix(Vec<Vec<Expr>>),
    /// `(a, , b)` on the left of a call, or `()`.
    Tuple(Vec<Option<Expr>>),
    /// `function f(x = 1)` as an argument.
    PartialFunction {
        /// The function.
        function: Path,
        /// Bound arguments.
        named: Vec<NamedArg>,
    },
    /// `(e)[i]`: an indexed expression; the base is parenthesized.
    Subscripted {
        /// What is indexed.
        base: Box<Expr>,
        /// The subscripts.
        subscripts: Vec<Subscript>,
    },
    /// `end` in a subscript.
    End,
    /// What could not be read; a finding has been made.
    Error,
}

/// A condition with a value.
#[derive(Clone, PartialEq, Debug)]
pub struct ExprBranch {
    /// The condition.
    pub condition: Expr,
    /// The value.
    pub value: Expr,
}

/// `name = value` in a call.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedArg {
    /// The name.
    pub name: Ident,
    /// The value.
    pub value: Expr,
}
