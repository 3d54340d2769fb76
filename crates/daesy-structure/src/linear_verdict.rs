//! What matrices say about a linear model: index, and for singular models which equations are redundant and which
//! variables free.

use daesy_graph::Span;
use daesy_graph::finding::Finding;
use daesy_graph::flat::FlatDae;
use daesy_pencil::{
    DescriptorSystem, InputRole, KroneckerStructure, PencilError, PencilOptions, RankDecision, RedundantEquations,
    StrangenessFree, StrangenessOptions, kronecker_structure, largest_dense, standard_form, strangeness_free,
};

use crate::RankRow;
use crate::array_verdict::StructuralClaim;
use crate::linearize::{LinearKind, LinearModel};
use crate::straighten::special_start;
use crate::words::enumerate;

/// The verdict of matrices.
#[derive(Clone, Debug)]
pub struct LinearVerdict {
    /// Whether the solution exists and is unique.
    pub is_regular: bool,
    /// Number of differentiations that make an ordinary differential equation; `None` for singular models.
    pub differentiation_index: Option<usize>,
    /// Strangeness index.
    pub strangeness_index: usize,
    /// Differential equations.
    pub d: usize,
    /// Algebraic equations.
    pub a: usize,
    /// Redundant equations.
    pub v: usize,
    /// Whether structure says the same.
    pub agrees_with_structure: bool,
    /// Equations that may be left out.
    pub redundant_equations: Vec<String>,
    /// Variables that may be chosen freely.
    pub free_variables: Vec<String>,
    /// Ranks and gaps.
    pub rank_decisions: Vec<RankRow>,
    /// What is to be told.
    pub findings: Vec<Finding>,
}

/// Models up to this size are judged by dense matrices.
pub const DENSE: usize = largest_dense(16);

/// How often the solution of a linear model with constant coefficients differentiates each input, in the order of its
/// inputs: the highest k with `D_k != 0` in `z = C x + sum of D_k u^(k)` [@gerdin2007, eq. (11)]. Structure may
/// differentiate more, where derivatives cancel.
#[must_use]
pub fn input_derivatives(model: &LinearModel, time: f64) -> Option<Vec<usize>> {
    if model.kind != LinearKind::Constant || !model.computed.is_empty() || model.n_variables() > DENSE {
        return None;
    }
    let matrices = model.matrices(time);
    let n_inputs = matrices.g.ncols();
    let system = DescriptorSystem::new(matrices.pencil().ok()?).with_input(matrices.g).ok()?;
    let form = standard_form(&system, &PencilOptions::default()).ok()?;
    let needed = form.variables.input_derivatives_needed();
    // An ordinary differential equation has no direct terms at all.
    Some((0..n_inputs).map(|input| needed.get(input).copied().flatten().unwrap_or(0)).collect())
}

/// What matrices add to the verdict of structure and start values: for coefficients that depend on time, which
/// structure and the start values alone cannot judge, and where a model with constant coefficients was not looked at as
/// a pencil. What is computed nonlinearly from the rest may hide that something is free, and is left to arrays. The
/// first of the times is the start. Where a model is singular there, but at none of the others, the start is a special
/// point, which says nothing about the model.
#[must_use]
pub fn complete(flat: &FlatDae, claim: StructuralClaim, times: &[f64]) -> Option<LinearVerdict> {
    if flat.size().unknowns > DENSE {
        return None;
    }
    let model = LinearModel::new(flat).ok()?;
    if model.kind == LinearKind::Constant && !model.computed.is_empty() {
        return None;
    }
    let (&time, beside) = times.split_first()?;
    let mut linear = judge(&model, time).ok()?;
    if !linear.is_regular && model.kind == LinearKind::TimeVarying {
        let beside: Option<Vec<LinearVerdict>> = beside.iter().map(|&time| judge(&model, time).ok()).collect();
        if let Some(beside) = beside.filter(|beside| beside.iter().all(|it| it.is_regular))
            && let Some(generic) = beside.into_iter().next()
        {
            linear = generic;
            linear.findings.push(special_start(flat, time));
        }
    }
    linear.agrees_with_structure =
        linear.differentiation_index == Some(claim.index) && linear.d == claim.degrees_of_freedom;
    if let Some(index) = linear.differentiation_index
        && index < claim.index
        && model.kind == LinearKind::Constant
    {
        let first = flat.equations.first().map_or(Span::NONE, |equation| equation.span);
        let message = format!(
            "structure alone suggests index {}, but with the values of the coefficients the index is {index}: derivatives cancel \
             between equations, which structure cannot see",
            claim.index
        );
        linear.findings.push(Finding::note("index-by-values", first, message));
    }
    Some(linear)
}

/// Judges a linear model at a time.
///
/// # Errors
/// When a coefficient is not finite or ranks change at this time.
pub fn judge(model: &LinearModel, time: f64) -> Result<LinearVerdict, PencilError> {
    let options = StrangenessOptions {
        inputs: InputRole::Given,
        redundant: RedundantEquations::Remove,
        max_differentiations: model.n_variables().clamp(8, 20),
        ..StrangenessOptions::default()
    };
    let form = strangeness_free(model, time, &options)?;
    let n_computed = model.computed.len();
    let is_regular = form.v == 0 && form.d + form.a == model.n_variables();
    let mut verdict = LinearVerdict {
        is_regular,
        differentiation_index: is_regular.then(|| if form.a + n_computed == 0 { 0 } else { form.mu + 1 }),
        strangeness_index: form.mu,
        d: form.d,
        a: form.a + n_computed,
        v: form.v,
        agrees_with_structure: false,
        redundant_equations: Vec::new(),
        free_variables: Vec::new(),
        rank_decisions: form.rank_decisions.iter().map(row).collect(),
        findings: Vec::new(),
    };
    if !is_regular {
        let structure = match model.kind {
            LinearKind::Constant => {
                Some(kronecker_structure(&model.matrices(time).pencil()?, &PencilOptions::default())?)
            }
            LinearKind::TimeVarying => None,
        };
        verdict.name_culprits(model, &form, structure.as_ref());
    }
    Ok(verdict)
}

fn row(decision: &RankDecision) -> RankRow {
    RankRow { what: decision.question.to_string(), rank: decision.rank, gap: decision.gap }
}

impl LinearVerdict {
    fn name_culprits(&mut self, model: &LinearModel, form: &StrangenessFree, structure: Option<&KroneckerStructure>) {
        let n_free = model.n_variables() - (form.d + form.a).min(model.n_variables());
        let (mut left_out, mut involved) = (Vec::new(), form.redundant_equations.clone());
        let (mut free, mut undetermined) = (Vec::new(), Vec::new());
        if let Some(structure) = structure {
            left_out.clone_from(&structure.redundant_equations);
            involved.clone_from(&structure.equations_involved);
            free.clone_from(&structure.free_variables);
            undetermined.clone_from(&structure.undetermined_variables);
        }
        let equation = |&at: &usize| model.equations[at].text.clone();
        let variable = |&at: &usize| model.variables[at].name.clone();
        self.redundant_equations = left_out.iter().map(equation).collect();
        self.free_variables = free.iter().map(variable).collect();
        let mut sentences = Vec::new();
        let listed = |names: &[String]| {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            enumerate(&names, 8)
        };
        if form.v > 0 {
            let count = if form.v == 1 { "one equation is".to_owned() } else { format!("{} equations are", form.v) };
            let texts: Vec<String> = involved.iter().map(equation).collect();
            sentences.push(match self.redundant_equations.is_empty() {
                true => format!("{count} redundant among {}", listed(&texts)),
                false => format!("{count} redundant and can be left out: {}", listed(&self.redundant_equations)),
            });
        }
        if n_free > 0 {
            let count = if n_free == 1 { "one variable is".to_owned() } else { format!("{n_free} variables are") };
            let names: Vec<String> = undetermined.iter().map(variable).collect();
            sentences.push(match self.free_variables.is_empty() {
                true => format!("{count} free"),
                false if names == self.free_variables => format!("{count} free: {}", listed(&names)),
                false => format!(
                    "{count} free, for instance {}, of the undetermined {}",
                    listed(&self.free_variables),
                    listed(&names)
                ),
            });
        }
        let span = involved.first().map_or(Span::NONE, |&at| model.equations[at].span);
        let mut finding = Finding::error("singular-model", span, sentences.join("; "));
        finding.names = undetermined.iter().map(variable).chain(involved.iter().map(equation)).collect();
        for &at in involved.iter().take(8) {
            finding = finding.with_label(model.equations[at].span, model.equations[at].text.clone());
        }
        let help = match (form.v > 0, n_free > 0) {
            (true, true) => "replace a redundant equation by one that determines a free variable",
            (true, false) => "leave the redundant equations out; `daesy regularize` shows what remains",
            _ => "add equations, or make the free variables inputs; `daesy regularize` shows how",
        };
        self.findings.push(finding.with_help(help));
    }
}
