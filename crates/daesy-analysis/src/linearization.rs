//! `daesy linearize`: a model to first order around a point, as x' = A x + B u, y = C x + D u.

mod show;

use daesy_graph::finding::nearest;
use daesy_graph::flat::{FlatDae, StateSelect, VariableKind};
use daesy_graph::regular::{Derivative, RegularDae};
use daesy_graph::{Node, VarId};
use daesy_integrate::{EndPoint, Linearization};
use daesy_structure::straighten::ADDED;
use daesy_study::initial::{StartRule, start_at};
use daesy_system::{DaeSystem as _, Description, Part, Point, Rate};
use faer::prelude::Solve as _;
use faer::{Mat, c64};

use crate::simulate::{options, trace_prepared};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;
use daesy_study::prepare::{Prepared, Purpose, prepare};

/// A column below this part of the largest entry is rounding.
const ROUNDING: f64 = 1e-13;

/// A rate below this part of a state's size, per unit of time, counts as none.
const AT_REST: f64 = 1e-8;

/// One word about the point: `TIME`, `rest` or `NAME=VALUE`.
#[derive(Clone, PartialEq, Debug)]
pub enum At {
    /// The point of the trajectory at this time.
    Time(f64),
    /// The point at which no variable changes.
    Rest,
    /// The value of a parameter, an input or a variable at the point.
    Value(String, f64),
}

impl At {
    /// Reads `TIME`, `rest` or `NAME=VALUE`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let number = |text: &str| text.trim().parse::<f64>().ok().filter(|value| value.is_finite());
        match (text, text.split_once('='), number(text)) {
            ("rest", ..) => Ok(Self::Rest),
            (_, Some((name, value)), _) => {
                let value = number(value).ok_or_else(|| format!("`{}` is not a finite number", value.trim()))?;
                if name.trim() == "time" {
                    Ok(Self::Time(value))
                } else {
                    Ok(Self::Value(name.trim().to_owned(), value))
                }
            }
            (_, None, Some(time)) => Ok(Self::Time(time)),
            _ => Err("write a time, `rest`, or name=value".to_owned()),
        }
    }
}

/// What is asked for.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct LinearizeOptions {
    /// The point; the start of the simulation where nothing is said.
    pub at: Vec<At>,
    /// Inputs; all of the model where left out.
    pub inputs: Option<Vec<String>>,
    /// Outputs; those of the model where left out, or what the study measures, or the states.
    pub outputs: Option<Vec<String>>,
}

/// A column of B and D.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct InputColumn {
    /// `u`, or `der(u)` where the input acts through its derivative.
    pub name: String,
    /// Position of the input among those asked for.
    pub input: usize,
    /// How often it is differentiated.
    pub order: u16,
}

/// A named value at the point.
#[derive(Clone, PartialEq, Debug)]
pub struct NamedValue {
    /// The name.
    pub name: String,
    /// The value.
    pub value: f64,
    /// Its unit, as the model writes it.
    pub unit: String,
}

/// A model to first order around a point: changes from it follow x' = A x + B u, y = C x + D u.
#[derive(Clone, Debug)]
pub struct LinearForm {
    /// Full name of the model.
    pub model: String,
    /// Time of the point.
    pub time: f64,
    /// The states x with their values at the point.
    pub states: Vec<NamedValue>,
    /// Their rates at the point.
    pub rates: Vec<f64>,
    /// Inputs with their values at the point.
    pub inputs: Vec<NamedValue>,
    /// Columns of B and D.
    pub columns: Vec<InputColumn>,
    /// Outputs y with their values at the point.
    pub outputs: Vec<NamedValue>,
    /// n x n
    pub a: Mat<f64>,
    /// n x m
    pub b: Mat<f64>,
    /// q x n
    pub c: Mat<f64>,
    /// q x m
    pub d: Mat<f64>,
    /// Eigenvalues of A, by size.
    pub poles: Vec<c64>,
    /// What is to be told about it.
    pub diagnostics: Vec<Diagnostic>,
}

/// Linearizes a model.
///
/// # Errors
/// When the model is at fault, a name is unknown, or there is no such point.
pub fn linearize(loaded: &Loaded, options: &LinearizeOptions) -> Result<LinearForm, Failure> {
    let mut loaded = loaded.clone();
    let time = go_to(&mut loaded, &options.at)?;
    let prepared = prepare(&loaded, Purpose::TRAJECTORY)?;
    let point = reach(&loaded, &prepared, time)?;
    Linearizer { loaded: &loaded, prepared: &prepared, point }.linearize(options)
}

/// Writes the point that is asked for into the model, and gives its time where one is said.
fn go_to(loaded: &mut Loaded, at: &[At]) -> Result<Option<f64>, Failure> {
    let usage = |message: String| Failure::Usage(vec![Diagnostic::error("usage", message)]);
    let times: Vec<f64> = at.iter().filter_map(|at| if let At::Time(time) = at { Some(*time) } else { None }).collect();
    if times.len() > 1 {
        return Err(usage("--at: say one time".to_owned()));
    }
    let mut values = Vec::new();
    for (name, value) in
        at.iter().filter_map(|at| if let At::Value(name, value) = at { Some((name, *value)) } else { None })
    {
        let Some(var) = loaded.flat.find(name) else { return Err(unknown(&loaded.flat, "--at", name, |_| true)) };
        match loaded.flat.variables[var.index()].kind {
            VariableKind::Continuous => values.push((var, value)),
            VariableKind::Input => {
                let start = loaded.flat.graph.number(value);
                loaded.flat.variables[var.index()].start = Some(start);
                if let Some(study) = &mut loaded.study {
                    study.inputs.retain(|input| input.name != *name);
                }
            }
            VariableKind::Parameter | VariableKind::Constant => {
                return Err(usage(format!("--at: `{name}` is a parameter; write `--set {name}={value}`")));
            }
            VariableKind::Discrete => return Err(usage(format!("--at: the value of `{name}` is made by events"))),
        }
    }
    let is_rest = at.contains(&At::Rest);
    if is_rest || !values.is_empty() {
        start_at(&mut loaded.flat, &values, if is_rest { StartRule::Rest } else { StartRule::Guesses });
    }
    if (is_rest || !values.is_empty()) && !times.is_empty() {
        // The values are those of the point itself: nothing is simulated.
        if let Some(study) = &mut loaded.study {
            study.simulate.start = None;
        }
        loaded.flat.experiment.start = times.first().copied();
    }
    Ok(times.first().copied())
}

/// A name that the model does not have.
fn unknown(flat: &FlatDae, option: &str, name: &str, is_meant: impl Fn(VariableKind) -> bool) -> Failure {
    let known = flat.variables.iter().filter(|variable| is_meant(variable.kind)).map(|variable| variable.name.as_str());
    let mut diagnostic = Diagnostic::error("unknown-name", format!("{option}: there is no `{name}`"));
    diagnostic.names = vec![name.to_owned()];
    let help = match nearest(name, known) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "`daesy describe` lists all names of the model".to_owned(),
    };
    Failure::Input(vec![diagnostic.with_help(help)])
}

/// The point of the trajectory at a time.
fn reach(loaded: &Loaded, prepared: &Prepared, time: Option<f64>) -> Result<EndPoint, Failure> {
    let mut options = options(loaded, prepared)?;
    let time = time.unwrap_or(options.start);
    if time < options.start {
        let message = format!("--at {time}: the simulation starts at t = {}", options.start);
        return Err(Failure::Usage(vec![Diagnostic::error("usage", message)]));
    }
    options.stop = time;
    options.output_times = vec![time];
    let traced = trace_prepared(prepared, &loaded.flat, &options)?;
    traced.simulation.end.filter(|end| end.time == time).ok_or_else(|| {
        let message = format!("--at {time}: the model ends the simulation before");
        Failure::Input(vec![Diagnostic::error("terminated", message)])
    })
}

struct Linearizer<'a> {
    loaded: &'a Loaded,
    prepared: &'a Prepared,
    point: EndPoint,
}

impl Linearizer<'_> {
    fn description(&self) -> &Description {
        self.prepared.system.description()
    }

    fn point(&self) -> Point<'_> {
        Point {
            time: self.point.time,
            states: &self.point.states,
            unknowns: &self.point.unknowns,
            parameters: &self.point.parameters,
            inputs: &self.point.inputs,
            modes: &self.point.modes,
        }
    }

    fn linearize(&self, options: &LinearizeOptions) -> Result<LinearForm, Failure> {
        let description = self.description();
        let regular = self.prepared.system.regular();
        let asked = self.asked_inputs(options.inputs.as_deref())?;
        let named = self.asked_outputs(options.outputs.as_deref())?;
        let observed: Vec<usize> = named.iter().flatten().copied().collect();
        let reluctance: Vec<i32> = regular.states.iter().map(|state| reluctance(regular, *state)).collect();
        let linear = daesy_integrate::linearize(&self.prepared.system, &self.point(), &observed, &reluctance)
            .map_err(|error| self.prepared.failure(&error))?;
        let mut row = vec![0.0; description.observed.len()];
        self.prepared.system.evaluator().evaluate(Part::Observed, &self.point(), &mut row);
        let states: Vec<NamedValue> = (linear.states.iter())
            .map(|&at| self.named(&state_name(regular, regular.states[at]), self.point.states[at]))
            .collect();
        let rates = linear.states.iter().map(|&at| match description.rates[at] {
            Rate::State(state) => self.point.states[state as usize],
            Rate::Unknown(unknown) => self.point.unknowns[unknown as usize],
        });
        let rates: Vec<f64> = rates.collect();
        let outputs = match &named {
            Some(named) => named.iter().map(|&at| self.named(&description.observed[at], row[at])).collect(),
            None => states.clone(),
        };
        let (columns, places) = self.columns(&linear, &asked);
        let pick =
            |matrix: &Mat<f64>| Mat::from_fn(matrix.nrows(), places.len(), |row, column| matrix[(row, places[column])]);
        let n = states.len();
        let (c, d) = match &named {
            Some(_) => (linear.c.clone(), pick(&linear.d)),
            None => (Mat::identity(n, n), Mat::zeros(n, places.len())),
        };
        let poles = poles(&linear.a);
        let mut form = LinearForm {
            model: self.loaded.flat.model.clone(),
            time: self.point.time,
            rates,
            inputs: asked.iter().map(|&at| self.named(&description.inputs[at].name, self.input_value(at))).collect(),
            columns,
            outputs,
            b: pick(&linear.b),
            a: linear.a,
            c,
            d,
            poles,
            states,
            diagnostics: self.diagnostics(),
        };
        form.note_derivatives();
        form.note_motion();
        Ok(form)
    }

    fn input_value(&self, at: usize) -> f64 {
        self.point.inputs[self.description().inputs[at].start]
    }

    fn named(&self, name: &str, value: f64) -> NamedValue {
        let flat = &self.loaded.flat;
        let unit = flat.find(name).and_then(|var| flat.variables[var.index()].unit.as_ref());
        NamedValue { name: name.to_owned(), value, unit: unit.map_or_else(String::new, |unit| unit.text.to_string()) }
    }

    fn asked_inputs(&self, names: Option<&[String]>) -> Result<Vec<usize>, Failure> {
        let inputs = &self.description().inputs;
        let Some(names) = names else { return Ok((0..inputs.len()).collect()) };
        let find = |name: &String| {
            let at = inputs.iter().position(|input| input.name == *name);
            at.ok_or_else(|| unknown(&self.loaded.flat, "--inputs", name, |kind| kind == VariableKind::Input))
        };
        names.iter().map(find).collect()
    }

    /// Positions among the observed quantities; none where the states are asked for.
    fn asked_outputs(&self, names: Option<&[String]>) -> Result<Option<Vec<usize>>, Failure> {
        let flat = &self.loaded.flat;
        let find = |name: &str| {
            let at = self.description().observed.iter().position(|known| known == name);
            at.ok_or_else(|| unknown(flat, "--outputs", name, |kind| kind == VariableKind::Continuous))
        };
        if let Some(names) = names {
            return names.iter().map(|name| find(name)).collect::<Result<_, _>>().map(Some);
        }
        let is_output =
            |variable: &&daesy_graph::flat::Variable| variable.is_output && variable.kind == VariableKind::Continuous;
        let declared: Vec<&str> = flat.variables.iter().filter(is_output).map(|one| one.name.as_str()).collect();
        let measured =
            self.loaded.study.iter().flat_map(|study| study.measurements.iter().map(|one| one.name.as_str()));
        let names = if declared.is_empty() { measured.collect() } else { declared };
        if names.is_empty() {
            return Ok(None);
        }
        names.into_iter().map(find).collect::<Result<_, _>>().map(Some)
    }

    /// The columns of B and D that are asked for, and where they stand among all; derivatives of inputs only where they
    /// have an effect.
    fn columns(&self, linear: &Linearization, asked: &[usize]) -> (Vec<InputColumn>, Vec<usize>) {
        let entries = |place: usize| linear.b.col(place).iter().chain(linear.d.col(place).iter());
        let size = |place: usize| entries(place).fold(0.0, |size: f64, entry| size.max(entry.abs()));
        let description = self.description();
        let largest = (0..description.n_inputs).map(size).fold(0.0, f64::max);
        let mut columns = Vec::new();
        let mut places = Vec::new();
        for (input, &at) in asked.iter().enumerate() {
            let known = &description.inputs[at];
            for order in 0..=known.derivatives_needed {
                let place = known.start + usize::from(order);
                if order == 0 || size(place) > ROUNDING * largest {
                    let name = (0..order).fold(known.name.clone(), |name, _| format!("der({name})"));
                    columns.push(InputColumn { name, input, order });
                    places.push(place);
                }
            }
        }
        (columns, places)
    }

    fn diagnostics(&self) -> Vec<Diagnostic> {
        let flat = &self.loaded.flat;
        let mut diagnostics: Vec<Diagnostic> =
            self.prepared.rewritten.iter().map(|finding| Diagnostic::resolve(finding, &flat.sources)).collect();
        if !self.prepared.system.regular().discrete.is_empty() {
            let message =
                "discrete variables are held at their values: what clocks and events do later is not in the matrices";
            diagnostics.push(Diagnostic::new(daesy_graph::finding::Level::Note, "discrete-held", message));
        }
        diagnostics
    }
}

/// How much a state should not be chosen as free: what the model says of it, then whether it is a derivative without a
/// name of its own.
fn reluctance(regular: &RegularDae, state: Derivative) -> i32 {
    let variable = &regular.flat.variables[state.var.index()];
    let wish = match variable.state_select {
        StateSelect::Never => 20,
        StateSelect::Avoid => 10,
        StateSelect::Default => 0,
        StateSelect::Prefer => -10,
        StateSelect::Always => -20,
    };
    let is_nameless = state_name(regular, state).starts_with("der(");
    wish + i32::from(is_nameless) + if variable.name.starts_with(ADDED) { 100 } else { 0 }
}

/// The name of a state: that of a variable that is nothing else, or `der(x)`.
fn state_name(regular: &RegularDae, state: Derivative) -> String {
    let flat = &regular.flat;
    let name = |var: VarId| flat.variables[var.index()].name.clone();
    if state.order == 0 {
        return name(state.var);
    }
    let leaf = Node::Var { var: state.var, order: state.order };
    let same = regular.eliminated.iter().find(|eliminated| flat.graph.node(eliminated.value) == leaf);
    same.map_or_else(|| (0..state.order).fold(name(state.var), |name, _| format!("der({name})")), |one| name(one.var))
}

/// Eigenvalues by size, after rows and columns are scaled by powers of two until their sizes are alike [@osborne1960].
fn poles(a: &Mat<f64>) -> Vec<c64> {
    let n = a.nrows();
    if n == 0 {
        return Vec::new();
    }
    let mut scaled = a.clone();
    for _ in 0..20 {
        for at in 0..n {
            let others = || (0..n).filter(|&other| other != at);
            let row: f64 = others().map(|other| scaled[(at, other)].abs()).sum();
            let column: f64 = others().map(|other| scaled[(other, at)].abs()).sum();
            if row > 0.0 && column > 0.0 {
                let factor = (0.5 * (row / column).log2()).round().exp2();
                (0..n).for_each(|other| scaled[(at, other)] /= factor);
                (0..n).for_each(|other| scaled[(other, at)] *= factor);
            }
        }
    }
    let mut poles = scaled.eigenvalues().unwrap_or_default();
    for pole in &mut poles {
        // A part that is rounding is no damping and no oscillation.
        let rounding = 4.0 * n as f64 * f64::EPSILON * pole.re.hypot(pole.im);
        let rounded = |part: f64| if part.abs() <= rounding { 0.0 } else { part };
        *pole = c64::new(rounded(pole.re), rounded(pole.im));
    }
    poles.sort_by(|p, q| {
        let key = |pole: &c64| (pole.re.hypot(pole.im), pole.re, -pole.im);
        let (p, q) = (key(p), key(q));
        p.0.total_cmp(&q.0).then(p.1.total_cmp(&q.1)).then(p.2.total_cmp(&q.2))
    });
    poles
}

impl LinearForm {
    fn note_derivatives(&mut self) {
        let derivatives: Vec<String> =
            self.columns.iter().filter(|column| column.order > 0).map(|column| column.name.clone()).collect();
        if derivatives.is_empty() {
            return;
        }
        let listed: Vec<String> = derivatives.iter().map(|name| format!("`{name}`")).collect();
        let message =
            format!("inputs act through their derivatives: {} have columns of their own in B and D", listed.join(", "));
        let note = Diagnostic::new(daesy_graph::finding::Level::Note, "input-derivative", message);
        let help = "a transfer function from `u` is the one of `u` plus s times that of `der(u)`";
        self.diagnostics.push(Diagnostic { names: derivatives, ..note.with_help(help) });
    }

    fn note_motion(&mut self) {
        let Some(at) = self.moving_state() else { return };
        let message = format!(
            "the point is not at rest: `{}` changes by {} per unit of time; the matrices hold for small changes of this motion",
            self.states[at].name, self.rates[at]
        );
        let note = Diagnostic::new(daesy_graph::finding::Level::Note, "not-at-rest", message);
        let help = "`--at rest` linearizes where no variable changes";
        self.diagnostics.push(Diagnostic { names: vec![self.states[at].name.clone()], ..note.with_help(help) });
    }

    /// The state that changes fastest against its size, where one does.
    fn moving_state(&self) -> Option<usize> {
        let pace = |at: usize| self.rates[at].abs() / self.states[at].value.abs().max(1.0);
        let fastest = (0..self.states.len()).max_by(|&i, &j| pace(i).total_cmp(&pace(j)))?;
        (pace(fastest) > AT_REST).then_some(fastest)
    }

    /// Whether no state changes at the point.
    #[must_use]
    pub fn is_at_rest(&self) -> bool {
        self.moving_state().is_none()
    }

    /// The transfer matrix, outputs by inputs, at an angular frequency:
    ///
    /// ```text
    /// G(s) = C (s I - A)^-1 (B_0 + s B_1 + ..) + D_0 + s D_1 + ..        s = i w
    /// ```
    #[must_use]
    pub fn transfer(&self, frequency: f64) -> Mat<c64> {
        let (n, n_inputs) = (self.a.nrows(), self.inputs.len());
        let s = c64::new(0.0, frequency);
        let power = |order: u16| (0..order).fold(c64::new(1.0, 0.0), |power, _| power * s);
        let gather = |matrix: &Mat<f64>| {
            let mut sum = Mat::<c64>::zeros(matrix.nrows(), n_inputs);
            for (at, column) in self.columns.iter().enumerate() {
                for row in 0..matrix.nrows() {
                    sum[(row, column.input)] += power(column.order) * matrix[(row, at)];
                }
            }
            sum
        };
        let (drive, direct) = (gather(&self.b), gather(&self.d));
        if n == 0 {
            return direct;
        }
        let pencil = Mat::from_fn(n, n, |row, column| {
            let diagonal = if row == column { s } else { c64::new(0.0, 0.0) };
            diagonal - c64::new(self.a[(row, column)], 0.0)
        });
        let states = pencil.partial_piv_lu().solve(&drive);
        let c = Mat::from_fn(self.c.nrows(), n, |row, column| c64::new(self.c[(row, column)], 0.0));
        c * states + direct
    }
}
