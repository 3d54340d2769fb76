//! Structural algorithms against structure known by construction and against brute force.

mod blocks;
mod culprits;
mod matching;
mod offsets;
mod planted;

use daesy_structure::{Entry, Incidence, IncidenceBuilder};

/// A random pattern of the given shape with entries of orders up to `highest`, each present with probability `density`.
fn random_incidence(
    n_equations: usize,
    n_variables: usize,
    density: f64,
    highest: u8,
    rng: &mut fastrand::Rng,
) -> Incidence {
    let mut builder = IncidenceBuilder::new(n_variables).unwrap();
    for _ in 0..n_equations {
        let mut row = Vec::new();
        for variable in 0..n_variables as u32 {
            if rng.f64() < density {
                row.push(Entry { variable, order: rng.u8(0..=highest) });
            }
        }
        builder.push_equation(row).unwrap();
    }
    builder.finish()
}

/// Structural rank of the chosen equations by plain augmentation one equation at a time.
fn structural_rank(incidence: &Incidence, equations: impl IntoIterator<Item = usize>) -> usize {
    fn augment(incidence: &Incidence, equation: usize, partner: &mut [Option<usize>], seen: &mut [bool]) -> bool {
        for &variable in incidence.variables_of(equation) {
            let variable = variable as usize;
            if !seen[variable] {
                seen[variable] = true;
                if partner[variable].is_none_or(|other| augment(incidence, other, partner, seen)) {
                    partner[variable] = Some(equation);
                    return true;
                }
            }
        }
        false
    }
    let mut partner = vec![None; incidence.n_variables()];
    let mut rank = 0;
    for equation in equations {
        let mut seen = vec![false; incidence.n_variables()];
        rank += usize::from(augment(incidence, equation, &mut partner, &mut seen));
    }
    rank
}
