//! From the regular form to a compiled system: one tape for each part that is asked for.
//!
//! The inputs of every tape are, in this order: time, states, unknowns, parameters, inputs with their derivatives,
//! modes.

use std::sync::atomic::AtomicU32;
use std::sync::{Arc, OnceLock};

use daesy_graph::flat::{StateSelect, ValueType, VariableKind};
use daesy_graph::foreign::Foreign;
use daesy_graph::function::Statement;
use daesy_graph::regular::{Derivative, Rate as RegularRate, RegularDae, RegularEquation};
use daesy_graph::{BinaryOp, Differentiator, ExprId, Graph, Leaf, Node, Reach, UnaryOp, VarId};
use daesy_system::{
    Block, Description, DiscreteVariable, EquationLabel, EventLabel, Events, GivenParameter, GuessRule, Input, Labels,
    ParameterError, Part, Pattern, Persistence, Quantity, Rate, StartOrigin,
};
use rustc_hash::FxHashMap;
use thiserror::Error;

use crate::discrete_start::{DiscreteInitial, split_initial};
use crate::functions::{Program, Stop};
use crate::interpret::Interpreter;
use crate::memory::LaneMemory;
use crate::operation::{Binary, Unary};
use crate::pool::Pool;
use crate::starts::start_rows;
use crate::switches::Switches;
use crate::tape::{LaneFunction, PerLane, Tape, TapeBuilder, TapeError, TapeOptions, Value};

/// Why a model could not be compiled.
#[derive(Clone, Debug, Error)]
#[non_exhaustive]
pub enum CompileError {
    /// An expression holds a variable that the regular form does not determine.
    #[error("the derivative of order {order} of `{name}` is needed but nothing determines it")]
    Undetermined {
        /// The variable.
        name: String,
        /// How often it is differentiated.
        order: u16,
    },
    /// `reinit` of a variable that is no state.
    #[error("`{name}` is not a state: `reinit` cannot give it another value")]
    NotAState {
        /// The variable.
        name: String,
        /// Where `reinit` was written.
        place: String,
    },
    /// An initial equation gives a discrete variable, and something else does too.
    #[error(
        "the start of `{name}` is given twice: by an initial equation, and by another one, its own equation or a fixed start"
    )]
    GivenTwice {
        /// The variable.
        name: String,
        /// Where the second one was written.
        place: String,
    },
    /// A program is too long.
    #[error(transparent)]
    TooLong(#[from] TapeError),
    /// A parameter has no finite value.
    #[error(transparent)]
    Parameter(#[from] ParameterError),
}

/// Where a leaf stands among the inputs of the tapes.
pub(crate) struct Places {
    pub(crate) of_leaf: FxHashMap<(VarId, u16), u32>,
    pub(crate) n_inputs: usize,
    /// The weight of the actual expression of `homotopy`, where it can be other than 1.
    homotopy: Option<usize>,
}

/// A compiled model.
pub struct CompiledSystem {
    pub(crate) description: Description,
    pub(crate) regular: Arc<RegularDae>,
    pub(crate) places: Places,
    /// Graph with everything that the parts need.
    pub(crate) graph: Arc<Graph>,
    pub(crate) rows: PartRows,
    /// The variable that stands for each mode.
    mode_variables: Vec<Option<VarId>>,
    /// What changes with time alone.
    pub(crate) switches: Option<Arc<Switches>>,
    parts: [OnceLock<CompiledPart>; N_PARTS],
    /// The unknowns as one program, where all blocks are linear.
    pub(crate) unknowns: OnceLock<Option<crate::method::UnknownsProgram>>,
    /// Steps of an explicit method as one program, and how often it was asked for in vain.
    pub(crate) explicit: OnceLock<Option<crate::method::ExplicitProgram>>,
    pub(crate) n_explicit_asked: AtomicU32,
    /// Newton's step back to the constraints as one program.
    pub(crate) constraints: OnceLock<Option<crate::method::ConstraintProgram>>,
    /// Memory of evaluators for one trajectory, by part.
    pub(crate) memories: Pool<Box<[Option<LaneMemory>]>>,
    /// Whether relations are evaluated wherever they stand.
    pub(crate) is_literal: bool,
    /// The model with relations held, for its start, where there are any.
    pub(crate) start: OnceLock<Option<Box<CompiledSystem>>>,
}

pub(crate) const N_PARTS: usize = Part::StartByParameters as usize + 1;

pub(crate) struct CompiledPart {
    pub(crate) pattern: Pattern,
    pub(crate) executor: Interpreter,
}

/// The expressions of the vector-valued parts.
#[derive(Default)]
pub(crate) struct PartRows {
    pub(crate) residual: Vec<ExprId>,
    pub(crate) constraint: Vec<ExprId>,
    pub(crate) observed: Vec<ExprId>,
    pub(crate) initial: Vec<ExprId>,
    pub(crate) start: Vec<ExprId>,
    pub(crate) roots: Vec<ExprId>,
    pub(crate) root_rates: Vec<ExprId>,
    pub(crate) modes: Vec<ExprId>,
    pub(crate) modes_before: Vec<ExprId>,
    pub(crate) schedule: Vec<ExprId>,
    pub(crate) actions: Vec<ExprId>,
    pub(crate) assertions: Vec<ExprId>,
}

/// What becomes of relations.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Relations {
    /// They are evaluated wherever they stand.
    Literal,
    /// They keep their values between events.
    Held,
}

/// Compiles a regular form whose relations are evaluated wherever they stand, as lanes need it. Its modes are the
/// discrete variables, which nothing changes.
///
/// # Errors
/// When an expression needs what the regular form does not determine, or a parameter has no value.
pub fn compile(regular: RegularDae) -> Result<CompiledSystem, CompileError> {
    compile_as(regular, Relations::Literal)
}

/// Compiles a regular form whose relations keep their values between events, with all that happens at events, see
/// [`daesy_system::Events`].
///
/// # Errors
/// When an expression needs what the regular form does not determine, a parameter has no value, or `reinit` is about
/// no state.
pub fn compile_with_events(regular: RegularDae) -> Result<CompiledSystem, CompileError> {
    compile_as(regular, Relations::Held)
}

/// The model of a system whose relations are evaluated wherever they stand, compiled for its start: with relations held
/// and `homotopy` followed. `None` where it has neither, or cannot be compiled so.
pub(crate) fn compile_start(system: &CompiledSystem) -> Option<Box<CompiledSystem>> {
    let decides = |node: Node| {
        use BinaryOp::{Greater, GreaterEqual, Homotopy, Less, LessEqual};
        matches!(node, Node::Binary { op: Homotopy | Less | LessEqual | Greater | GreaterEqual, .. })
    };
    if !system.regular.flat.graph.nodes().any(decides) {
        return None;
    }
    let held = compile_with_events((*system.regular).clone()).ok()?;
    let is_needed = held.description.events.has_homotopy || held.description.n_roots > 0;
    is_needed.then(|| Box::new(held))
}

fn compile_as(regular: RegularDae, relations: Relations) -> Result<CompiledSystem, CompileError> {
    let regular = Arc::new(regular);
    let mut graph = regular.flat.graph.clone();
    let mut places = lay_out(&regular);
    let eliminated: FxHashMap<VarId, ExprId> =
        regular.eliminated.iter().map(|eliminated| (eliminated.var, eliminated.value)).collect();
    let variables = &regular.flat.variables;
    let value_of = |graph: &mut Graph, var: VarId| eliminated.get(&var).copied().unwrap_or_else(|| graph.var(var));
    let (observed, observed_names) = observed_rows(&regular, &mut graph, &places, &value_of);
    let discrete_initial = match relations {
        Relations::Held => Some(split_initial(&regular, &mut graph)?),
        Relations::Literal => None,
    };
    let (initial, initial_labels) = initial_rows(&regular, &mut graph, discrete_initial.as_ref(), &value_of);
    let parameters = evaluate_parameters(&regular, &[])?;
    let starts = {
        let mut number = attribute_reader(&regular, &parameters);
        start_rows(&regular, &mut graph, &places, &eliminated, &mut number)
    };
    let mut rows = PartRows {
        start: starts.rows,
        residual: regular.equations.iter().map(|equation| equation.residual).collect(),
        constraint: regular.constraints.iter().map(|equation| equation.residual).collect(),
        observed,
        initial,
        ..PartRows::default()
    };
    let mut description = describe(&regular, &parameters, observed_names, initial_labels);
    let mut switches = Vec::new();
    description.start_conditions = starts.conditions;
    let mut mode_variables: Vec<Option<VarId>> = regular.discrete.iter().map(|&var| Some(var)).collect();
    if let Some(discrete_initial) = &discrete_initial {
        let built = crate::event_code::build(&regular, &mut graph, &mut rows, discrete_initial)?;
        let first_mode = places.n_inputs - regular.discrete.len();
        for &(var, position) in &built.modes {
            places.of_leaf.insert((var, 0), (first_mode + position) as u32);
        }
        mode_variables.resize(built.events.n_modes(), None);
        for &(var, position) in &built.modes {
            mode_variables[position] = Some(var);
        }
        places.n_inputs = first_mode + built.events.n_modes();
        places.homotopy = built.events.has_homotopy.then(|| first_mode + built.events.homotopy());
        description.n_modes = built.events.n_modes();
        description.n_roots = built.events.roots.len();
        description.events = built.events;
        switches = built.switches;
        let kind = |var: VarId| variables.get(var.index()).map_or(VariableKind::Discrete, |variable| variable.kind);
        rows.root_rates = rows.roots.iter().map(|&root| graph.total_time_derivative(root, &kind)).collect();
    }
    // What is not held between events bends where it is evaluated: `max`, `abs`, and relations inside of `noEvent`.
    let evaluated: Vec<ExprId> = rows.residual.iter().chain(&rows.constraint).copied().collect();
    switches.extend(crate::switches::find(&regular, &mut graph, &evaluated));
    // Modes are variables beyond those of the model.
    let is_constant = |var: VarId| {
        variables.get(var.index()).is_none_or(|variable| {
            matches!(variable.kind, VariableKind::Parameter | VariableKind::Constant | VariableKind::Discrete)
        })
    };
    let switches = Switches::new(&graph, &switches, &is_constant).map(Arc::new);
    let system = CompiledSystem {
        description,
        switches,
        places,
        graph: Arc::new(graph),
        rows,
        mode_variables,
        parts: [const { OnceLock::new() }; N_PARTS],
        unknowns: OnceLock::new(),
        explicit: OnceLock::new(),
        constraints: OnceLock::new(),
        n_explicit_asked: AtomicU32::new(0),
        memories: Pool::new(),
        is_literal: relations == Relations::Literal,
        start: OnceLock::new(),
        regular,
    };
    for part in [
        Part::Residual,
        Part::Constraint,
        Part::Observed,
        Part::Initial,
        Part::Start,
        Part::Roots,
        Part::Modes,
        Part::ModesBefore,
        Part::Schedule,
        Part::Actions,
        Part::Assertions,
    ] {
        system.check_leaves(part)?;
        let compiled = system.compile_part(part)?;
        system.parts[part as usize].get_or_init(|| compiled);
    }
    Ok(system)
}

/// Rows of the regular form in the words of the model.
fn labels(regular: &Arc<RegularDae>, rows: fn(&RegularDae) -> &[RegularEquation]) -> Labels {
    let regular = Arc::clone(regular);
    Labels::on_demand(rows(&regular).len(), move |row| {
        let equation = &rows(&regular)[row];
        let flat = &regular.flat;
        let source = &flat.equations[equation.source as usize];
        EquationLabel {
            text: flat.equation_text(source),
            place: flat.sources.place(source.span).map_or(String::new(), |place| place.to_string()),
            differentiated: equation.differentiated,
        }
    })
}

/// What can be looked at, with its names: variables, and derivatives that are determined. `value_of` is what stands for
/// a variable.
fn observed_rows(
    regular: &RegularDae,
    graph: &mut Graph,
    places: &Places,
    value_of: &dyn Fn(&mut Graph, VarId) -> ExprId,
) -> (Vec<ExprId>, Vec<String>) {
    let variables = &regular.flat.variables;
    let mut observed = Vec::new();
    let mut names = Vec::new();
    for var in (0..variables.len() as u32).map(VarId) {
        let variable = &variables[var.index()];
        let is_shown = match variable.kind {
            VariableKind::Continuous | VariableKind::Discrete | VariableKind::Input => true,
            VariableKind::Parameter | VariableKind::Constant => false,
        };
        if is_shown && !variable.is_hidden() && variable.value_type != ValueType::String {
            observed.push(value_of(graph, var));
            names.push(variable.name.clone());
        }
    }
    let (mut reach, mut leaves) = (Reach::new(), Vec::new());
    for &var in regular.differentiated.iter().filter(|var| !variables[var.index()].is_hidden()) {
        let value = value_of(graph, var);
        let rate = graph.total_time_derivative(value, &|var| variables[var.index()].kind);
        // A derivative that only stands where it is multiplied by zero is not determined, and not asked for.
        reach.leaves(graph, &[rate], &mut leaves);
        let is_determined = leaves.iter().all(|leaf| match *leaf {
            Leaf::Var { var, order } => {
                variables[var.index()].kind != VariableKind::Continuous || places.of_leaf.contains_key(&(var, order))
            }
            Leaf::Time => true,
        });
        if is_determined {
            observed.push(rate);
            names.push(format!("der({})", variables[var.index()].name));
        }
    }
    (observed, names)
}

/// What holds at the start, with what it is called: initial equations about continuous variables, and fixed starts.
fn initial_rows(
    regular: &RegularDae,
    graph: &mut Graph,
    discrete: Option<&DiscreteInitial>,
    value_of: &dyn Fn(&mut Graph, VarId) -> ExprId,
) -> (Vec<ExprId>, Vec<EquationLabel>) {
    let is_about_discrete = |source: u32| discrete.is_some_and(|split| split.is_discrete[source as usize]);
    let of_continuous: Vec<&RegularEquation> =
        regular.initial_equations.iter().filter(|equation| !is_about_discrete(equation.source)).collect();
    let variables = &regular.flat.variables;
    let mut initial: Vec<ExprId> = of_continuous.iter().map(|equation| equation.residual).collect();
    let mut labels: Vec<EquationLabel> = of_continuous
        .iter()
        .map(|equation| {
            let source = &regular.flat.initial_equations[equation.source as usize];
            EquationLabel {
                text: regular.flat.equation_text(source),
                place: regular.flat.sources.place(source.span).map_or(String::new(), |place| place.to_string()),
                differentiated: 0,
            }
        })
        .collect();
    for var in (0..variables.len() as u32).map(VarId) {
        let variable = &variables[var.index()];
        if variable.kind == VariableKind::Continuous && variable.fixed == Some(true) {
            let start = variable.start.unwrap_or_else(|| graph.number(0.0));
            let value = value_of(graph, var);
            initial.push(graph.sub(value, start));
            labels.push(EquationLabel {
                text: match variable.start {
                    Some(start) => format!("{} = {}", variable.name, regular.flat.text(start)),
                    None => format!("{} = 0", variable.name),
                },
                place: regular.flat.sources.place(variable.span).map_or(String::new(), |place| place.to_string()),
                differentiated: 0,
            });
        }
    }
    (initial, labels)
}

impl CompiledSystem {
    /// The regular form it was compiled from.
    #[must_use]
    pub fn regular(&self) -> &RegularDae {
        &self.regular
    }

    /// The program of a part. Its inputs are time, states, unknowns, parameters, inputs with their derivatives, modes.
    #[must_use]
    pub fn program(&self, part: Part) -> &Interpreter {
        &self.part(part).executor
    }

    /// The graph that [`CompiledSystem::residual_rows`] and [`CompiledSystem::constraint_rows`] speak of; modes are
    /// variables in it.
    #[must_use]
    pub fn graph(&self) -> &Graph {
        &self.graph
    }

    /// The residuals as expressions.
    #[must_use]
    pub fn residual_rows(&self) -> &[ExprId] {
        &self.rows.residual
    }

    /// The constraints as expressions.
    #[must_use]
    pub fn constraint_rows(&self) -> &[ExprId] {
        &self.rows.constraint
    }

    /// The observed quantities as expressions, in the order of their names.
    #[must_use]
    pub fn observed_rows(&self) -> &[ExprId] {
        &self.rows.observed
    }

    /// The variable that stands for a mode in the expressions.
    #[must_use]
    pub fn mode_variable(&self, position: usize) -> Option<VarId> {
        self.mode_variables.get(position).copied().flatten()
    }

    /// Where a derivative of a variable stands among time, states, unknowns, parameters, inputs and modes.
    #[must_use]
    pub fn leaf_place(&self, var: VarId, order: u16) -> Option<usize> {
        self.places.of_leaf.get(&(var, order)).map(|&place| place as usize)
    }

    fn vector_rows(&self, part: Part) -> &[ExprId] {
        match part {
            Part::Residual
            | Part::ResidualByUnknowns
            | Part::ResidualByStates
            | Part::ResidualByTime
            | Part::ResidualByParameters
            | Part::ResidualByInputs => &self.rows.residual,
            Part::Constraint
            | Part::ConstraintByStates
            | Part::ConstraintByTime
            | Part::ConstraintByParameters
            | Part::ConstraintByInputs => &self.rows.constraint,
            Part::Observed
            | Part::ObservedByUnknowns
            | Part::ObservedByStates
            | Part::ObservedByParameters
            | Part::ObservedByInputs => &self.rows.observed,
            Part::Roots
            | Part::RootsByUnknowns
            | Part::RootsByStates
            | Part::RootsByTime
            | Part::RootsByParameters
            | Part::RootsByInputs => &self.rows.roots,
            Part::RootRates
            | Part::RootRatesByUnknowns
            | Part::RootRatesByStates
            | Part::RootRatesByTime
            | Part::RootRatesByParameters
            | Part::RootRatesByInputs => &self.rows.root_rates,
            Part::Modes => &self.rows.modes,
            Part::ModesBefore => &self.rows.modes_before,
            Part::Schedule | Part::ScheduleByParameters => &self.rows.schedule,
            Part::Actions
            | Part::ActionsByUnknowns
            | Part::ActionsByStates
            | Part::ActionsByTime
            | Part::ActionsByParameters
            | Part::ActionsByBefore => &self.rows.actions,
            Part::Assertions => &self.rows.assertions,
            Part::Initial | Part::InitialByUnknowns | Part::InitialByStates | Part::InitialByParameters => {
                &self.rows.initial
            }
            Part::Start | Part::StartByUnknowns | Part::StartByStates | Part::StartByParameters => &self.rows.start,
        }
    }

    /// What a part differentiates by; `None` for the vector-valued parts.
    fn columns(&self, part: Part) -> Option<Vec<Leaf>> {
        let derivative = |derivative: &Derivative| Leaf::der(derivative.var, derivative.order);
        match part {
            Part::Residual
            | Part::Constraint
            | Part::Observed
            | Part::Roots
            | Part::RootRates
            | Part::Modes
            | Part::ModesBefore
            | Part::Schedule
            | Part::Actions
            | Part::Assertions
            | Part::Initial
            | Part::Start => None,
            Part::ResidualByUnknowns
            | Part::ObservedByUnknowns
            | Part::InitialByUnknowns
            | Part::StartByUnknowns
            | Part::RootsByUnknowns
            | Part::RootRatesByUnknowns
            | Part::ActionsByUnknowns => Some(self.regular.unknowns.iter().map(derivative).collect()),
            Part::ResidualByStates
            | Part::ConstraintByStates
            | Part::ObservedByStates
            | Part::InitialByStates
            | Part::StartByStates
            | Part::RootsByStates
            | Part::RootRatesByStates
            | Part::ActionsByStates => Some(self.regular.states.iter().map(derivative).collect()),
            Part::ActionsByBefore => {
                let events = &self.description.events;
                let before = events.continuous_before()..events.clocks();
                Some(before.filter_map(|at| self.mode_variables.get(at).copied().flatten()).map(Leaf::var).collect())
            }
            Part::ResidualByTime
            | Part::ConstraintByTime
            | Part::RootsByTime
            | Part::RootRatesByTime
            | Part::ActionsByTime => Some(vec![Leaf::Time]),
            Part::ResidualByParameters
            | Part::ConstraintByParameters
            | Part::ObservedByParameters
            | Part::RootsByParameters
            | Part::RootRatesByParameters
            | Part::ActionsByParameters
            | Part::ScheduleByParameters
            | Part::InitialByParameters
            | Part::StartByParameters => Some(self.regular.parameters.iter().map(|&var| Leaf::var(var)).collect()),
            Part::ResidualByInputs
            | Part::ConstraintByInputs
            | Part::ObservedByInputs
            | Part::RootsByInputs
            | Part::RootRatesByInputs => {
                let orders = |input: &daesy_graph::regular::InputUse| {
                    let var = input.var;
                    (0..=input.derivatives_needed).map(move |order| Leaf::der(var, order))
                };
                Some(self.regular.inputs.iter().flat_map(orders).collect())
            }
        }
    }

    fn check_leaves(&self, part: Part) -> Result<(), CompileError> {
        if self.vector_rows(part).is_empty() {
            return Ok(());
        }
        let (mut reach, mut leaves) = (Reach::new(), Vec::new());
        reach.leaves(&self.graph, self.vector_rows(part), &mut leaves);
        for leaf in leaves {
            if let Leaf::Var { var, order } = leaf
                && !self.places.of_leaf.contains_key(&(var, order))
            {
                let name = self.regular.flat.variables.get(var.index()).map(|variable| variable.name.clone());
                return Err(CompileError::Undetermined { name: name.unwrap_or_default(), order });
            }
        }
        Ok(())
    }

    pub(crate) fn part(&self, part: Part) -> &CompiledPart {
        self.parts[part as usize].get_or_init(|| {
            // The values are compiled from the start; their derivatives have a few times as many operations at most.
            self.compile_part(part).expect("2^31 operations do not fit into memory")
        })
    }

    fn compile_part(&self, part: Part) -> Result<CompiledPart, TapeError> {
        let rows = self.vector_rows(part);
        if rows.is_empty() {
            // Nothing is computed, and nothing as large as the model is made for it.
            let n_cols = self.columns(part).map_or(1, |columns| columns.len());
            let pattern = Pattern { n_rows: 0, n_cols, row_starts: vec![0], columns: Vec::new() };
            let executor = Interpreter::new(Tape::of_nothing(self.places.n_inputs));
            return Ok(CompiledPart { pattern, executor });
        }
        let Some(columns) = self.columns(part) else {
            let pattern = Pattern {
                n_rows: rows.len(),
                n_cols: 1,
                row_starts: (0..=rows.len() as u32).collect(),
                columns: vec![0; rows.len()],
            };
            let executor = self.tape(&self.graph, rows, part >= Part::Initial)?;
            return Ok(CompiledPart { pattern, executor });
        };
        let mut graph = (*self.graph).clone();
        let mut differentiator = Differentiator::new(&mut graph, &columns);
        let mut pattern =
            Pattern { n_rows: rows.len(), n_cols: columns.len(), row_starts: vec![0], columns: Vec::new() };
        let mut values = Vec::new();
        for &row in rows {
            for entry in differentiator.gradient(&mut graph, row) {
                pattern.columns.push(entry.column);
                values.push(entry.value);
            }
            pattern.row_starts.push(pattern.columns.len() as u32);
        }
        let executor = self.tape(&graph, &values, part >= Part::Initial)?;
        Ok(CompiledPart { pattern, executor })
    }

    /// A tape for expressions whose leaves have been checked.
    fn tape(&self, graph: &Graph, roots: &[ExprId], is_initial: bool) -> Result<Interpreter, TapeError> {
        let mut builder = TapeBuilder::new(self.places.n_inputs, TapeOptions::default());
        let mut lowering = Lowering::new(&self.places, graph, &self.graph);
        lowering.is_initial = is_initial;
        lowering.bindings = (0..self.places.n_inputs).map(|input| builder.input(input)).collect();
        let order: Vec<ExprId> = Reach::new().below(graph, roots).to_vec();
        builder.reserve(order.len());
        let outputs = lowering.lower(&mut builder, &order, roots);
        Ok(Interpreter::new(builder.finish(&outputs)?))
    }
}

fn lay_out(regular: &RegularDae) -> Places {
    let mut of_leaf = FxHashMap::default();
    let mut n_inputs = 1;
    let mut place = |var: VarId, order: u16| {
        of_leaf.insert((var, order), n_inputs as u32);
        n_inputs += 1;
    };
    for derivative in regular.states.iter().chain(&regular.unknowns) {
        place(derivative.var, derivative.order);
    }
    for &var in &regular.parameters {
        place(var, 0);
    }
    for input in &regular.inputs {
        for order in 0..=input.derivatives_needed {
            place(input.var, order);
        }
    }
    for &var in &regular.discrete {
        place(var, 0);
    }
    Places { of_leaf, n_inputs, homotopy: None }
}

/// Puts expressions of the graph into a program.
pub(crate) struct Lowering<'a> {
    places: &'a Places,
    graph: &'a Graph,
    shared: &'a Arc<Graph>,
    is_initial: bool,
    /// The value of each leaf, by its place.
    pub(crate) bindings: Vec<Value>,
    /// Functions registered with the builder at hand.
    functions: FxHashMap<daesy_graph::FunctionId, crate::tape::FunctionId>,
    /// Tangents of functions, where they will be asked for.
    pub(crate) tangents: FxHashMap<daesy_graph::FunctionId, daesy_graph::FunctionId>,
    values: Vec<Option<Value>>,
}

impl<'a> Lowering<'a> {
    pub(crate) fn new(places: &'a Places, graph: &'a Graph, shared: &'a Arc<Graph>) -> Self {
        Self {
            places,
            graph,
            shared,
            is_initial: false,
            bindings: Vec::new(),
            functions: FxHashMap::default(),
            tangents: FxHashMap::default(),
            values: vec![None; graph.len()],
        }
    }

    /// The values of `roots`, given everything below them in `order`, arguments first.
    pub(crate) fn lower(&mut self, builder: &mut TapeBuilder, order: &[ExprId], roots: &[ExprId]) -> Vec<Value> {
        for &expr in order {
            let value = self.node(builder, expr);
            self.values[expr.index()] = Some(value);
        }
        let values = roots.iter().map(|&root| self.value(root)).collect();
        for &expr in order {
            self.values[expr.index()] = None;
        }
        values
    }

    /// The walk gives arguments before what uses them.
    fn value(&self, expr: ExprId) -> Value {
        self.values[expr.index()].expect("arguments are lowered first")
    }

    fn node(&mut self, builder: &mut TapeBuilder, expr: ExprId) -> Value {
        match self.graph.node(expr) {
            Node::Number(bits) => builder.constant(f64::from_bits(bits)),
            Node::Time => self.bindings[0],
            Node::Var { var, order } => match self.places.of_leaf.get(&(var, order)) {
                Some(&place) => self.bindings[place as usize],
                None => builder.constant(f64::NAN),
            },
            Node::Pre(var) => match self.places.of_leaf.get(&(var, 0)) {
                Some(&place) => self.bindings[place as usize],
                None => builder.constant(f64::NAN),
            },
            Node::Unary { op: UnaryOp::NoEvent | UnaryOp::WithEvents, arg } | Node::Smooth { arg, .. } => {
                self.value(arg)
            }
            Node::Unary { op, arg } => builder.unary(unary(op), self.value(arg)),
            Node::Binary { op: BinaryOp::Homotopy, lhs, rhs } => match self.places.homotopy {
                None => self.value(lhs),
                Some(place) => {
                    let (weight, one) = (self.bindings[place], builder.constant(1.0));
                    let (actual, simplified) = (self.value(lhs), self.value(rhs));
                    let rest = builder.binary(Binary::Sub, one, weight);
                    let (first, second) = (builder.mul(weight, actual), builder.mul(rest, simplified));
                    let mixed = builder.binary(Binary::Add, first, second);
                    let is_actual = builder.binary(Binary::GreaterEqual, weight, one);
                    let zero = builder.constant(0.0);
                    let is_simplified = builder.binary(Binary::LessEqual, weight, zero);
                    // At the ends the other expression need not be defined.
                    let mixed = builder.select(is_simplified, simplified, mixed);
                    builder.select(is_actual, actual, mixed)
                }
            },
            Node::Binary { op: BinaryOp::Pow, lhs, rhs } => {
                let base = self.value(lhs);
                // Small powers by multiplication: the same to rounding, and many times faster.
                match self.graph.as_number(rhs) {
                    Some(2.0) => builder.mul(base, base),
                    Some(3.0) => {
                        let square = builder.mul(base, base);
                        builder.mul(square, base)
                    }
                    Some(4.0) => {
                        let square = builder.mul(base, base);
                        builder.mul(square, square)
                    }
                    _ => builder.binary(Binary::Pow, base, self.value(rhs)),
                }
            }
            Node::Binary { op, lhs, rhs } => builder.binary(binary(op), self.value(lhs), self.value(rhs)),
            Node::Select { condition, then, otherwise } => {
                builder.select(self.value(condition), self.value(then), self.value(otherwise))
            }
            Node::Call { function, output, args } => {
                let args: Vec<Value> = self.graph.args(args).iter().map(|&arg| self.value(arg)).collect();
                let registered = self.registered(builder, function);
                builder.call(registered, &args)[output as usize]
            }
            Node::Initial => builder.constant(if self.is_initial { 1.0 } else { 0.0 }),
            Node::Sample { .. } | Node::Terminal => builder.constant(0.0),
            Node::Local(_) | Node::LocalAt { .. } => builder.constant(f64::NAN),
        }
    }

    /// A user function as the builder knows it, with its tangent where one was made.
    fn registered(&mut self, builder: &mut TapeBuilder, function: daesy_graph::FunctionId) -> crate::tape::FunctionId {
        if let Some(&known) = self.functions.get(&function) {
            return known;
        }
        let n_outputs = self.graph.function(function).outputs.len();
        let registered = builder.register(n_outputs, lane_function(self.graph, self.shared, function));
        if let Some(&tangent) = self.tangents.get(&function) {
            builder.set_tangent(registered, lane_function(self.graph, self.shared, tangent));
        }
        self.functions.insert(function, registered);
        registered
    }
}

/// A user function that could not be inlined runs as a program of its own, lane by lane, or in the reference evaluator
/// where that alone knows how; what cannot be computed is NaN.
fn lane_function(graph: &Graph, shared: &Arc<Graph>, function: daesy_graph::FunctionId) -> LaneFunction {
    if let Some(foreign) = whole_foreign(graph, function) {
        return Arc::new(ForeignCall(foreign));
    }
    // Derivatives of functions exist only in the graph they were made in.
    let is_shared = (function.0 as usize) < shared.functions().len();
    let shared = shared.clone();
    let Some(program) = Program::new(graph, function) else {
        let graph = if is_shared { shared } else { Arc::new(graph.clone()) };
        return Arc::new(move |arguments: &[f64], results: &mut [f64]| refer(&graph, function, arguments, results));
    };
    Arc::new(move |arguments: &[f64], results: &mut [f64]| {
        // The reference evaluator keeps account of functions that do not end, and may not need what is not finite.
        // Without a way out of the loop it takes many arguments at a time.
        let are_finite = arguments.iter().fold(true, |are_finite, argument| are_finite & argument.is_finite());
        let is_plain = shared.endless().is_none() && are_finite;
        match if is_plain { program.call(arguments, results) } else { Err(Stop::Limit) } {
            Ok(()) => {}
            Err(Stop::Limit) if is_shared => refer(&shared, function, arguments, results),
            Err(_) => results.fill(f64::NAN),
        }
    })
}

/// The foreign function that a function is, inputs and outputs in their order.
fn whole_foreign(graph: &Graph, function: daesy_graph::FunctionId) -> Option<Foreign> {
    let foreign = graph.foreign(function)?;
    let function = graph.function(function);
    let [Statement::Intrinsic { args, results, .. }] = function.body.as_slice() else { return None };
    let is_whole = args.iter().copied().eq(0..function.n_inputs) && *results == function.outputs;
    is_whole.then(|| foreign.clone())
}

/// A function of a model that runs elsewhere; what has no value is NaN. Many lanes are one question.
struct ForeignCall(Foreign);

impl PerLane for ForeignCall {
    fn call(&self, arguments: &[f64], results: &mut [f64]) {
        self.call_all(1, arguments, results);
    }

    fn takes_all(&self) -> bool {
        true
    }

    fn call_all(&self, n_lanes: usize, arguments: &[f64], results: &mut [f64]) {
        self.0.evaluate_all(n_lanes, arguments, results);
    }
}

/// Asks the reference evaluator.
fn refer(graph: &Graph, function: daesy_graph::FunctionId, arguments: &[f64], results: &mut [f64]) {
    match daesy_graph::Evaluator::new().call_checked(graph, function, arguments) {
        Ok(values) => results.copy_from_slice(&values),
        Err(_) => results.fill(f64::NAN),
    }
}

const fn unary(op: UnaryOp) -> Unary {
    match op {
        UnaryOp::Neg | UnaryOp::NoEvent | UnaryOp::WithEvents => Unary::Neg,
        UnaryOp::Not => Unary::Not,
        UnaryOp::Abs => Unary::Abs,
        UnaryOp::Sign => Unary::Sign,
        UnaryOp::Sqrt => Unary::Sqrt,
        UnaryOp::Exp => Unary::Exp,
        UnaryOp::Log => Unary::Log,
        UnaryOp::Log10 => Unary::Log10,
        UnaryOp::Sin => Unary::Sin,
        UnaryOp::Cos => Unary::Cos,
        UnaryOp::Tan => Unary::Tan,
        UnaryOp::Asin => Unary::Asin,
        UnaryOp::Acos => Unary::Acos,
        UnaryOp::Atan => Unary::Atan,
        UnaryOp::Sinh => Unary::Sinh,
        UnaryOp::Cosh => Unary::Cosh,
        UnaryOp::Tanh => Unary::Tanh,
        UnaryOp::Ceil => Unary::Ceil,
        UnaryOp::Floor => Unary::Floor,
    }
}

const fn binary(op: BinaryOp) -> Binary {
    match op {
        BinaryOp::Add => Binary::Add,
        BinaryOp::Sub => Binary::Sub,
        BinaryOp::Mul => Binary::Mul,
        BinaryOp::Div => Binary::Div,
        BinaryOp::Pow => Binary::Pow,
        BinaryOp::Atan2 => Binary::Atan2,
        BinaryOp::Min => Binary::Min,
        BinaryOp::Max => Binary::Max,
        BinaryOp::Quotient => Binary::Quotient,
        BinaryOp::Modulo => Binary::Modulo,
        BinaryOp::Remainder => Binary::Remainder,
        BinaryOp::Less => Binary::Less,
        BinaryOp::LessEqual => Binary::LessEqual,
        BinaryOp::Greater => Binary::Greater,
        BinaryOp::GreaterEqual => Binary::GreaterEqual,
        BinaryOp::Equal => Binary::Equal,
        BinaryOp::NotEqual => Binary::NotEqual,
        BinaryOp::And => Binary::And,
        BinaryOp::Or | BinaryOp::Homotopy => Binary::Or,
    }
}

/// The values of all parameters in their order of evaluation.
pub(crate) fn evaluate_parameters(regular: &RegularDae, given: &[GivenParameter]) -> Result<Vec<f64>, ParameterError> {
    let flat = &regular.flat;
    let mut by_variable = vec![f64::NAN; flat.variables.len()];
    let mut overrides = vec![None; regular.parameters.len()];
    for given in given {
        let var = regular.parameters[given.parameter as usize];
        if regular.bound.contains(&var) {
            return Err(ParameterError::FollowsFromStart { name: flat.variables[var.index()].name.clone() });
        }
        overrides[given.parameter as usize] = Some(given.value);
    }
    let mut evaluator = daesy_graph::Evaluator::new();
    let mut values = Vec::with_capacity(regular.parameters.len());
    for (&var, given) in regular.parameters.iter().zip(overrides) {
        let variable = &flat.variables[var.index()];
        let value = match (given, variable.binding.or(variable.start)) {
            (Some(value), _) => value,
            (None, Some(binding)) => {
                let environment = |var: VarId, _: u16| by_variable[var.index()];
                evaluator.evaluate_one(&flat.graph, binding, &environment)
            }
            (None, None) => 0.0,
        };
        if !value.is_finite() {
            return Err(ParameterError::NotFinite { name: variable.name.clone(), value });
        }
        by_variable[var.index()] = value;
        values.push(value);
    }
    Ok(values)
}

/// Gives parameters that are bound to ones which the start determines the values that follow from those.
pub(crate) fn follow_free_parameters(regular: &RegularDae, parameters: &mut [f64]) {
    if regular.bound.is_empty() {
        return;
    }
    let flat = &regular.flat;
    let mut by_variable = vec![f64::NAN; flat.variables.len()];
    for (&var, &value) in regular.parameters.iter().zip(&*parameters) {
        by_variable[var.index()] = value;
    }
    let mut evaluator = daesy_graph::Evaluator::new();
    for &var in &regular.bound {
        if let Some(binding) = flat.variables[var.index()].binding {
            let environment = |var: VarId, _: u16| by_variable[var.index()];
            by_variable[var.index()] = evaluator.evaluate_one(&flat.graph, binding, &environment);
        }
    }
    for (&var, value) in regular.parameters.iter().zip(parameters) {
        *value = by_variable[var.index()];
    }
}

/// The derivatives of all parameters by one, through the expressions that give them.
pub(crate) fn differentiate_parameters(
    regular: &RegularDae,
    given: &[GivenParameter],
    values: &[f64],
    by: u32,
) -> Vec<f64> {
    let flat = &regular.flat;
    let mut graph = flat.graph.clone();
    let mut by_variable = vec![f64::NAN; flat.variables.len()];
    let mut tangent_of = vec![0.0; flat.variables.len()];
    for (&var, &value) in regular.parameters.iter().zip(values) {
        by_variable[var.index()] = value;
    }
    let mut evaluator = daesy_graph::Evaluator::new();
    let mut tangents = Vec::with_capacity(values.len());
    for (at, &var) in regular.parameters.iter().enumerate() {
        let is_given = given.iter().any(|given| given.parameter as usize == at);
        let variable = &flat.variables[var.index()];
        let tangent = match variable.binding.or(variable.start) {
            _ if at == by as usize => 1.0,
            Some(binding) if !is_given => {
                let (mut reach, mut leaves) = (Reach::new(), Vec::new());
                reach.leaves(&graph, &[binding], &mut leaves);
                leaves.retain(|leaf| matches!(leaf, Leaf::Var { var, order: 0 } if tangent_of[var.index()] != 0.0));
                let gradient = if leaves.is_empty() { Vec::new() } else { graph.gradient(binding, &leaves) };
                let environment = |var: VarId, _: u16| by_variable[var.index()];
                gradient
                    .iter()
                    .map(|entry| match leaves[entry.column as usize] {
                        Leaf::Var { var, .. } => {
                            evaluator.evaluate_one(&graph, entry.value, &environment) * tangent_of[var.index()]
                        }
                        Leaf::Time => 0.0,
                    })
                    .sum()
            }
            _ => 0.0,
        };
        tangent_of[var.index()] = tangent;
        tangents.push(tangent);
    }
    tangents
}

/// Reads attributes of variables, which depend on parameters only; `None` where there is none, or no finite value.
fn attribute_reader<'r>(
    regular: &'r RegularDae,
    parameters: &[f64],
) -> impl FnMut(Option<ExprId>) -> Option<f64> + use<'r> {
    let flat = &regular.flat;
    let mut by_variable = vec![0.0; flat.variables.len()];
    for (&var, &value) in regular.parameters.iter().zip(parameters) {
        by_variable[var.index()] = value;
    }
    let mut evaluator = daesy_graph::Evaluator::new();
    move |expr: Option<ExprId>| -> Option<f64> {
        let environment = |var: VarId, _: u16| by_variable[var.index()];
        let value = evaluator.evaluate_one(&flat.graph, expr?, &environment);
        value.is_finite().then_some(value)
    }
}

/// A start value with its origin, seen from the variable that remains.
#[derive(Clone, Copy)]
struct Start {
    value: f64,
    origin: StartOrigin,
}

/// The rules for guesses, by the places of their columns and rows.
fn guesses(regular: &RegularDae) -> Vec<GuessRule> {
    let columns = regular.states.iter().chain(&regular.unknowns).zip(0u32..);
    let columns: FxHashMap<Derivative, u32> = columns.map(|(derivative, at)| (*derivative, at)).collect();
    let rows = regular.equations.iter().chain(&regular.constraints).zip(0u32..);
    let rows: FxHashMap<u32, u32> =
        rows.filter(|(row, _)| row.differentiated == 0).map(|(row, at)| (row.source, at)).collect();
    let place = |rule: &daesy_graph::regular::GuessRule| {
        Some(GuessRule { column: *columns.get(&rule.of)?, row: *rows.get(&rule.source)? })
    };
    regular.guesses.iter().filter_map(place).collect()
}

/// How much states hold on to their values. A variable that a constraint defines as `y = expression` follows, and so do
/// its derivatives and those that have no name, unless `stateSelect` says otherwise.
fn persistence(regular: &RegularDae) -> impl Fn(&Derivative) -> Persistence {
    let flat = &regular.flat;
    let (mut other_names, mut named): (FxHashMap<VarId, Derivative>, FxHashMap<Derivative, StateSelect>) =
        Default::default();
    for eliminated in &regular.eliminated {
        let node = match flat.graph.node(eliminated.value) {
            Node::Unary { op: UnaryOp::Neg, arg } => flat.graph.node(arg),
            node => node,
        };
        let Node::Var { var, order } = node else { continue };
        other_names.insert(eliminated.var, Derivative { var, order });
        let select = flat.variables[eliminated.var.index()].state_select;
        let known = named.entry(Derivative { var, order }).or_insert(select);
        *known = select.max(*known);
    }
    let mut is_defined = vec![false; flat.variables.len()];
    for constraint in regular.constraints.iter().filter(|constraint| constraint.differentiated == 0) {
        let equation = &flat.equations[constraint.source as usize];
        let own = [equation.lhs, equation.rhs].into_iter().find_map(|side| match flat.graph.node(side) {
            Node::Var { var, order: 0 } if flat.variables[var.index()].kind == VariableKind::Continuous => Some(var),
            _ => None,
        });
        let own = own.map(|var| other_names.get(&var).copied().unwrap_or(Derivative { var, order: 0 }));
        if let Some(Derivative { var, order: 0 }) = own {
            is_defined[var.index()] = true;
        }
    }
    let selects: Vec<StateSelect> = flat.variables.iter().map(|variable| variable.state_select).collect();
    move |derivative: &Derivative| {
        let name = named.get(derivative).copied();
        let select = if derivative.order == 0 { Some(selects[derivative.var.index()]) } else { name };
        match select {
            Some(StateSelect::Never) => Persistence::Never,
            Some(StateSelect::Avoid) => Persistence::Avoid,
            Some(StateSelect::Prefer) => Persistence::Prefer,
            Some(StateSelect::Always) => Persistence::Always,
            Some(StateSelect::Default) if !is_defined[derivative.var.index()] => Persistence::Default,
            Some(StateSelect::Default) | None => Persistence::Follows,
        }
    }
}

/// Start values and nominal values of derivatives, by their own names and by those of variables that stand for them.
fn written_starts(
    regular: &RegularDae,
    number: &mut impl FnMut(Option<ExprId>) -> Option<f64>,
) -> (FxHashMap<Derivative, Start>, FxHashMap<Derivative, f64>) {
    let flat = &regular.flat;
    let mut starts: FxHashMap<Derivative, Start> = FxHashMap::default();
    let mut offer = |derivative: Derivative, start: Start| {
        let known = starts.entry(derivative).or_insert(start);
        if start.origin > known.origin {
            *known = start;
        }
    };
    let origin = |fixed: Option<bool>| if fixed == Some(true) { StartOrigin::Fixed } else { StartOrigin::Guess };
    for var in (0..flat.variables.len() as u32).map(VarId) {
        let variable = &flat.variables[var.index()];
        if variable.kind != VariableKind::Continuous {
            continue;
        }
        let start = number(variable.start).map(|value| Start { value, origin: origin(variable.fixed) });
        let guess = variable.guess.map(|value| Start { value, origin: StartOrigin::Default });
        if let Some(start) = start.or(guess) {
            offer(Derivative { var, order: 0 }, start);
        }
    }
    // A derivative that has a name takes the nominal value of that.
    let mut nominals: FxHashMap<Derivative, f64> = FxHashMap::default();
    for eliminated in &regular.eliminated {
        let (of, sign) = match flat.graph.node(eliminated.value) {
            Node::Var { var, order } => (Derivative { var, order }, 1.0),
            Node::Unary { op: UnaryOp::Neg, arg } => match flat.graph.node(arg) {
                Node::Var { var, order } => (Derivative { var, order }, -1.0),
                _ => continue,
            },
            _ => continue,
        };
        let variable = &flat.variables[eliminated.var.index()];
        if of.order > 0
            && let Some(nominal) = number(variable.nominal)
        {
            nominals.entry(of).or_insert(nominal.abs());
        }
        if let Some(value) = number(variable.start) {
            offer(of, Start { value: sign * value, origin: origin(variable.fixed) });
        }
    }
    (starts, nominals)
}

fn discrete_variable(
    regular: &RegularDae,
    var: VarId,
    number: &mut impl FnMut(Option<ExprId>) -> Option<f64>,
) -> DiscreteVariable {
    let variable = &regular.flat.variables[var.index()];
    let first = if matches!(variable.value_type, ValueType::Enumeration(_)) { 1.0 } else { 0.0 };
    DiscreteVariable {
        name: variable.name.clone(),
        start: number(variable.start).unwrap_or(first),
        is_real: variable.value_type == ValueType::Real,
        largest: variable.value_type.largest(),
        before: EventLabel::default(),
    }
}

fn describe(
    regular: &Arc<RegularDae>,
    parameters: &[f64],
    observed: Vec<String>,
    initial: Vec<EquationLabel>,
) -> Description {
    let flat = &regular.flat;
    let mut number = attribute_reader(regular, parameters);
    let (starts, nominals) = written_starts(regular, &mut number);
    let persistence = persistence(regular);
    let mut quantity = |derivative: &Derivative| {
        let variable = &flat.variables[derivative.var.index()];
        let mut name = variable.name.clone();
        for _ in 0..derivative.order {
            name = format!("der({name})");
        }
        let start = starts.get(derivative).copied();
        let start = start.unwrap_or(Start { value: 0.0, origin: StartOrigin::Default });
        let own = number(variable.nominal).map_or(1.0, f64::abs);
        let nominal = nominals.get(derivative).copied().unwrap_or(own);
        Quantity {
            name,
            nominal: if nominal > 0.0 { nominal } else { 1.0 },
            start: start.value,
            start_origin: start.origin,
            min: number(variable.min).filter(|_| derivative.order == 0).unwrap_or(f64::NEG_INFINITY),
            max: number(variable.max).filter(|_| derivative.order == 0).unwrap_or(f64::INFINITY),
            persistence: persistence(derivative),
        }
    };
    let states = regular.states.iter().map(&mut quantity).collect();
    let unknowns = regular.unknowns.iter().map(&mut quantity).collect();
    let mut n_inputs = 0;
    let inputs = regular
        .inputs
        .iter()
        .map(|input| {
            let start = n_inputs;
            n_inputs += 1 + usize::from(input.derivatives_needed);
            let name = flat.variables[input.var.index()].name.clone();
            Input { name, start, derivatives_needed: input.derivatives_needed }
        })
        .collect();
    let is_free = |var: &VarId| {
        let variable = &flat.variables[var.index()];
        variable.kind == VariableKind::Parameter && variable.fixed == Some(false)
    };
    Description {
        model: flat.model.clone(),
        states,
        rates: regular
            .rates
            .iter()
            .map(|rate| match *rate {
                RegularRate::State(state) => Rate::State(state),
                RegularRate::Unknown(unknown) => Rate::Unknown(unknown),
            })
            .collect(),
        unknowns,
        blocks: regular
            .blocks
            .iter()
            .map(|block| Block { start: block.start, len: block.len, is_linear: block.is_linear })
            .collect(),
        residuals: labels(regular, |regular| &regular.equations),
        constraints: labels(regular, |regular| &regular.constraints),
        initial,
        start_conditions: Vec::new(),
        guesses: guesses(regular),
        parameters: regular.parameters.iter().map(|var| flat.variables[var.index()].name.clone()).collect(),
        free_parameters: (0..regular.parameters.len() as u32)
            .filter(|&at| is_free(&regular.parameters[at as usize]))
            .collect(),
        inputs,
        n_inputs,
        observed,
        n_modes: regular.discrete.len(),
        n_roots: 0,
        events: Events {
            discrete: regular.discrete.iter().map(|&var| discrete_variable(regular, var, &mut number)).collect(),
            ..Events::default()
        },
    }
}
