//! Why an integration could not be done.

use thiserror::Error;

/// Why an integration could not be done.
#[derive(Clone, PartialEq, Debug, Error)]
#[non_exhaustive]
pub enum IntegrateError {
    /// No consistent start values were found.
    #[error(
        "no consistent start values found at t = {}: {equation} is off by {residual:.3e}{}{}",
        short(*time),
        also_off(also),
        tried_values(tried)
    )]
    NoConsistentStart {
        /// Start time.
        time: f64,
        /// The equation with the largest residual, in the model's words.
        equation: String,
        /// Where it was written.
        place: String,
        /// Its residual.
        residual: f64,
        /// The next ones with large residuals.
        also: Vec<EquationOff>,
        /// Where the search ended: the variables of these equations.
        tried: Vec<TriedValue>,
    },
    /// An equation has no finite value.
    #[error("{equation} has no finite value at t = {}{}", short(*time), where_it_is(variable, *value))]
    NotFinite {
        /// When.
        time: f64,
        /// Which equation, in the model's words.
        equation: String,
        /// Where it was written.
        place: String,
        /// The variable that keeps it from having one; empty where the equation holds none.
        variable: String,
        /// The value of that variable.
        value: f64,
    },
    /// A quantity that follows from states and unknowns has no finite value.
    #[error("`{variable}` has no finite value at t = {}", short(*time))]
    ObservedNotFinite {
        /// When.
        time: f64,
        /// The quantity.
        variable: String,
    },
    /// An Integer is too large to be exact.
    #[error("the Integer `{variable}` is {value:e} at t = {}: Integers are exact up to 2^53 - 1 only", short(*time))]
    IntegerOverflow {
        /// When.
        time: f64,
        /// The Integer.
        variable: String,
        /// Its value.
        value: f64,
    },
    /// The step size became too small.
    #[error("the step size fell below {step:.3e} at t = {}; the error is largest in `{variable}`{}", short(*time), given_by(equation))]
    StepTooSmall {
        /// When.
        time: f64,
        /// The step size.
        step: f64,
        /// The variable that resists.
        variable: String,
        /// The equation that gives its derivative, in the model's words.
        equation: String,
        /// Where it was written.
        place: String,
    },
    /// An equation has no finite derivative.
    #[error("the slope of `{equation}` by `{variable}` is infinite at t = {}, so that there is no linearization", short(*time))]
    InfiniteSlope {
        /// When.
        time: f64,
        /// The equation, in the model's words.
        equation: String,
        /// What it is differentiated by.
        variable: String,
        /// Where it was written.
        place: String,
    },
    /// The matrix of the equations is singular.
    #[error("the equations cannot be solved for `{variable}` at t = {}: their matrix is singular", short(*time))]
    Singular {
        /// When.
        time: f64,
        /// An unknown that is not determined.
        variable: String,
    },
    /// Newton's method does not converge.
    #[error(
        "the equations cannot be solved for `{variable}` at t = {}: Newton's method does not converge{}{}",
        short(*time),
        worst_of(equation, *residual),
        tried_values(tried)
    )]
    Unsolved {
        /// When.
        time: f64,
        /// The unknown that changes most.
        variable: String,
        /// The equation with the largest residual, in the model's words; empty where none has a value.
        equation: String,
        /// Where it was written.
        place: String,
        /// Its residual.
        residual: f64,
        /// Where the search ended: the variables of this equation.
        tried: Vec<TriedValue>,
    },
    /// The equations have no solution with the relations as they are.
    #[error(
        "the equations cannot be solved for `{variable}` at t = {}: their matrix is singular where {relations}",
        short(*time)
    )]
    SingularMode {
        /// When.
        time: f64,
        /// An unknown that is not determined.
        variable: String,
        /// Relations and whether they hold, in the model's words.
        relations: String,
        /// Where the first of them was written.
        place: String,
    },
    /// The values of relations and discrete variables at an event contradict each other.
    #[error("the event at t = {} does not settle: {}", short(*time), without_end(names))]
    Unsettled {
        /// When.
        time: f64,
        /// Variables and relations that keep changing.
        names: Vec<String>,
        /// Where the first relation among them was written; empty where there is none.
        place: String,
    },
    /// One state is given two values at once, by names that are equal.
    #[error(
        "at t = {} `{variable}` is given the values {} and {} at once by `reinit` of variables that are equal",
        short(*time),
        values[0],
        values[1]
    )]
    ContradictingReinit {
        /// When.
        time: f64,
        /// The state.
        variable: String,
        /// The values.
        values: [f64; 2],
        /// Where the second was written.
        place: String,
    },
    /// Events come faster than anything in the model.
    #[error("events of `{relation}` follow each other without end at t = {}", short(*time))]
    Chattering {
        /// When.
        time: f64,
        /// The relation.
        relation: String,
        /// Where it was written.
        place: String,
    },
    /// Events come ever faster.
    #[error("events of `{relation}` come ever faster and accumulate at t = {}; t = {} was reached", short(*until), short(*time))]
    Accumulating {
        /// The time reached.
        time: f64,
        /// Where infinitely many events would have happened.
        until: f64,
        /// The relation.
        relation: String,
        /// Where it was written.
        place: String,
    },
    /// An assertion does not hold.
    #[error("assertion at t = {}: {message}", short(*time))]
    Assertion {
        /// When.
        time: f64,
        /// What it says.
        message: String,
        /// Where it was written.
        place: String,
    },
    /// The values after a discontinuity do not follow from the equations.
    #[error("the values after the discontinuity at t = {} cannot be found: {reason}", short(*time))]
    NoTransfer {
        /// When.
        time: f64,
        /// Why.
        reason: String,
    },
    /// More steps than allowed.
    #[error("more than {limit} steps; t = {} was reached", short(*time))]
    TooManySteps {
        /// The limit.
        limit: usize,
        /// The time reached.
        time: f64,
    },
    /// Steps so short that the run would have more than allowed.
    #[error("the last {n} steps led from t = {} to t = {} only", short(*since), short(*time))]
    TooShortSteps {
        /// Steps counted.
        n: usize,
        /// Where the count began.
        since: f64,
        /// The time reached.
        time: f64,
    },
    /// A clock that ticks more often than allowed.
    #[error("a clock of `sample` with the interval {interval:e} ticks {n_ticks:.1e} times, but the limit is {limit}")]
    TooManyTicks {
        /// The time between its ticks.
        interval: f64,
        /// How often it would tick.
        n_ticks: f64,
        /// The limit.
        limit: usize,
    },
    /// Sensitivities do not exist beyond an event, or are not computed.
    #[error("sensitivities cannot cross the event at t = {}: {reason}", short(*time))]
    NotDifferentiable {
        /// When.
        time: f64,
        /// Why.
        reason: String,
        /// Where the relation or variable was written.
        place: String,
    },
    /// The caller asked to stop.
    #[error("stopped at t = {}", short(*time))]
    Stopped {
        /// The time reached.
        time: f64,
    },
}

/// An equation that is not satisfied.
#[derive(Clone, PartialEq, Debug)]
pub struct EquationOff {
    /// In the model's words.
    pub equation: String,
    /// Where it was written.
    pub place: String,
    /// Its residual.
    pub residual: f64,
}

/// A variable with the value at which a search ended.
#[derive(Clone, PartialEq, Debug)]
pub struct TriedValue {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: f64,
}

fn tried_values(tried: &[TriedValue]) -> String {
    let values: Vec<String> = tried.iter().map(|one| format!("`{}` = {}", one.name, short(one.value))).collect();
    if values.is_empty() { String::new() } else { format!("; the search ended at {}", values.join(", ")) }
}

fn worst_of(equation: &str, residual: f64) -> String {
    if equation.is_empty() { String::new() } else { format!("; {equation} is off by {residual:.3e}") }
}

fn without_end(names: &[String]) -> String {
    let listed: Vec<String> = names.iter().map(|name| format!("`{name}`")).collect();
    match listed.len() {
        0 => "values change without end".to_owned(),
        1 => format!("{} changes without end", listed[0]),
        _ => format!("{} change without end", listed.join(", ")),
    }
}

fn also_off(also: &[EquationOff]) -> String {
    let mut text = String::new();
    for off in also {
        let place = if off.place.is_empty() { String::new() } else { format!(" ({})", off.place) };
        text.push_str(&format!("; {}{place} by {:.3e}", off.equation, off.residual));
    }
    text
}

fn where_it_is(variable: &str, value: f64) -> String {
    if variable.is_empty() { String::new() } else { format!(", where `{variable}` = {}", short(value)) }
}

fn given_by(equation: &str) -> String {
    if equation.is_empty() { String::new() } else { format!(", whose derivative is given by {equation}") }
}

/// A time as a person writes it: seven digits, and an exponent where zeros would take over.
fn short(time: f64) -> String {
    let rounded: f64 = format!("{time:.6e}").parse().unwrap_or(time);
    let size = rounded.abs();
    if rounded != 0.0 && !(1e-4..1e7).contains(&size) { format!("{rounded:e}") } else { format!("{rounded}") }
}
