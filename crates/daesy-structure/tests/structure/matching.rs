//! Maximum matchings: valid, and as large as one-at-a-time augmentation finds.

use daesy_structure::{Incidence, Matching, maximum_matching};

use crate::{planted, random_incidence, structural_rank};

/// Pairs are entries, and both directions agree.
pub fn assert_is_matching(incidence: &Incidence, matching: &Matching) {
    let mut n_pairs = 0;
    for equation in 0..incidence.n_equations() {
        if let Some(variable) = matching.variable_of(equation) {
            assert!(incidence.order(equation, variable).is_some());
            assert_eq!(matching.equation_of(variable as usize), Some(equation as u32));
            n_pairs += 1;
        }
    }
    assert_eq!(n_pairs, matching.len());
    assert_eq!(matching.unmatched_equations().len(), incidence.n_equations() - n_pairs);
    assert_eq!(matching.unmatched_variables().len(), incidence.n_variables() - n_pairs);
}

#[test]
fn random_rectangular_patterns_are_matched_to_their_rank() {
    let mut rng = fastrand::Rng::with_seed(11);
    for _ in 0..3000 {
        let (n_equations, n_variables) = (rng.usize(0..14), rng.usize(0..14));
        let density = rng.f64() * 0.5;
        let incidence = random_incidence(n_equations, n_variables, density, 0, &mut rng);
        let matching = maximum_matching(&incidence);
        assert_is_matching(&incidence, &matching);
        assert_eq!(matching.len(), structural_rank(&incidence, 0..n_equations));
    }
}

#[test]
fn larger_sparse_patterns_are_matched_to_their_rank() {
    let mut rng = fastrand::Rng::with_seed(12);
    for round in 0..40 {
        let n = 150 + 10 * round;
        let incidence = random_incidence(n, n, (1.0 + 3.0 * rng.f64()) / n as f64, 0, &mut rng);
        let matching = maximum_matching(&incidence);
        assert_is_matching(&incidence, &matching);
        assert_eq!(matching.len(), structural_rank(&incidence, 0..n));
    }
}

#[test]
fn hidden_transversals_are_found() {
    let mut rng = fastrand::Rng::with_seed(13);
    for n in [1, 2, 10, 300, 5000] {
        let hidden = planted::random_blocks(n, n, 3, 2, &mut rng).hide(&mut rng);
        let matching = maximum_matching(&hidden.incidence);
        assert_is_matching(&hidden.incidence, &matching);
        assert!(matching.is_perfect());
    }
}
