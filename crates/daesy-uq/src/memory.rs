//! How much memory a request would need, said before it is taken.

use daesy_graph::SourceMap;
use daesy_graph::finding::Finding;
use daesy_study::limits::{free_memory, size_text};

use crate::points::Ensemble;
use crate::request::{Method, Request};
use daesy_study::diagnostic::Diagnostic;
use daesy_study::failure::Failure;
use daesy_study::load::Loaded;

/// Memory of an expanded model by unknown: expressions, programs, matrices and factors, as measured on ladders of 1e4
/// to 1e5 unknowns.
const BYTES_PER_UNKNOWN: f64 = 12_000.0;

/// Refuses a basis whose expanded model or coefficients do not fit.
pub(super) fn check_terms(loaded: &Loaded, request: &Request, sources: &SourceMap) -> Result<(), Failure> {
    let n_terms = request.n_terms();
    let n_unknowns = n_terms * loaded.flat.size().unknowns as f64;
    let per_unknown = match request.method {
        Method::Galerkin => BYTES_PER_UNKNOWN,
        // Coefficients over some hundred rows, and the weights of the points.
        _ => 8.0 * 500.0,
    };
    let needed = n_unknowns * per_unknown;
    let room = free_memory();
    if needed <= 0.8 * room && n_terms <= 2e6 {
        return Ok(());
    }
    let message = format!(
        "degree {} in {} random parameters makes {n_terms:.4e} polynomials and {n_unknowns:.4e} coefficients of variables: that would \
         need about {}, and {} are free",
        request.degree,
        request.parameters.len(),
        size_text(needed),
        size_text(room)
    );
    let finding = Finding::error("too-much-memory", request.span, message).with_help(
        "take a lower degree, `basis = \"hyperbolic\"` or \"adaptive\", or `method = \"quasi-monte-carlo\"`",
    );
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, sources)]))
}

/// Memory of a point beside the numbers of its trajectory: itself, twice, and where all that lies.
const BYTES_PER_POINT: f64 = 300.0;

/// Doubles of a point for each polynomial that is fitted to samples: the matrix of the polynomials, its two factors, and
/// weights for the polynomials of the samples and for those of the distributions.
pub(super) const FITTED: f64 = 6.0;

/// Refuses so many points that their trajectories do not fit, and what else a point holds: `per_term` doubles for each
/// polynomial.
pub(super) fn check_points(
    n_points: usize,
    per_term: f64,
    ensemble: &Ensemble,
    request: &Request,
) -> Result<(), Failure> {
    let n_values = ensemble.variables().len() as f64 * ensemble.n_rows() as f64;
    let of_point = 8.0 * (n_values + per_term * request.n_terms()) + BYTES_PER_POINT;
    let needed = n_points as f64 * of_point;
    let room = free_memory();
    if needed <= 0.8 * room {
        return Ok(());
    }
    let message = format!(
        "{n_points} simulations of {} variables at {} rows would need {}, and {} are free",
        ensemble.variables().len(),
        ensemble.n_rows(),
        size_text(needed),
        size_text(room)
    );
    let finding = Finding::error("too-much-memory", request.span, message)
        .with_help("name the variables you need in `[uq] variables`, or take a longer `step` in `[simulate]`");
    let sources = ensemble.loaded().study.as_ref().map(|study| study.sources.clone()).unwrap_or_default();
    Err(Failure::Input(vec![Diagnostic::resolve(&finding, &sources)]))
}
