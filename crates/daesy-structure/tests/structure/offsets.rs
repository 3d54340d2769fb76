//! The Sigma-method against structure known by construction and against brute force.

use daesy_structure::{Incidence, OffsetsError, SigmaAnalysis, maximum_matching, sigma_analysis};

use crate::blocks::assert_is_triangular;
use crate::matching::assert_is_matching;
use crate::{planted, random_incidence};

/// The definition of valid offsets with their transversal, and what is derived from them.
fn assert_is_consistent(incidence: &Incidence, analysis: &SigmaAnalysis) {
    let n = incidence.n_equations();
    let (c, d) = (&analysis.equation_offsets, &analysis.variable_offsets);
    assert!(analysis.transversal.is_perfect());
    for (equation, &offset) in c.iter().enumerate() {
        for entry in incidence.entries_of(equation) {
            assert!(d[entry.variable as usize] >= offset + u32::from(entry.order));
        }
        let variable = analysis.transversal.variable_of(equation).unwrap();
        let order = incidence.order(equation, variable).unwrap();
        assert_eq!(d[variable as usize], offset + u32::from(order));
    }
    let value: u64 =
        (0..n).map(|e| u64::from(incidence.order(e, analysis.transversal.variable_of(e).unwrap()).unwrap())).sum();
    assert_eq!(analysis.degrees_of_freedom, value);
    assert_is_triangular(incidence, &analysis.coarse_blocks);
    assert_is_triangular(&analysis.system_jacobian(incidence), &analysis.fine_blocks);
    assert!(analysis.related_index <= analysis.structural_index);
    assert!(analysis.structural_index <= analysis.related_index + 1);
    // Fine blocks refine the coarse ones.
    for block in analysis.fine_blocks.blocks() {
        let first = analysis.coarse_blocks.block_of_equation(block.equations[0] as usize);
        for &equation in block.equations {
            assert_eq!(analysis.coarse_blocks.block_of_equation(equation as usize), first);
        }
    }
}

fn assert_recovers(plain: &planted::Plain, rng: &mut fastrand::Rng) -> SigmaAnalysis {
    let hidden = plain.hide(rng);
    let analysis = sigma_analysis(&hidden.incidence).unwrap();
    assert_is_consistent(&hidden.incidence, &analysis);
    assert_eq!(analysis.equation_offsets, hidden.equation_offsets);
    assert_eq!(analysis.variable_offsets, hidden.variable_offsets);
    analysis
}

#[test]
fn random_blocks_with_demanded_offsets_are_recovered() {
    let mut rng = fastrand::Rng::with_seed(31);
    for round in 0..600 {
        let n = 1 + round % 80;
        let (largest, highest, n_extra) = (rng.usize(1..=n), rng.u32(0..5), rng.usize(0..4));
        assert_recovers(&planted::random_blocks(n, largest, highest, n_extra, &mut rng), &mut rng);
    }
    for n in [3000, 40_000] {
        assert_recovers(&planted::random_blocks(n, n, 3, 3, &mut rng), &mut rng);
    }
}

#[test]
fn a_chain_of_pendulums_keeps_index_three() {
    for n_units in [1, 2, 7, 20_000] {
        let analysis = assert_recovers(&planted::pendulum_chain(n_units), &mut fastrand::Rng::with_seed(32));
        assert_eq!((analysis.structural_index, analysis.related_index), (3, 3));
        assert_eq!(analysis.degrees_of_freedom, 2 * n_units as u64);
        assert_eq!(analysis.coarse_blocks.n_blocks(), 1);
    }
}

#[test]
fn a_gear_train_has_two_degrees_of_freedom() {
    for n_inertias in [2, 3, 20_000] {
        let analysis = assert_recovers(&planted::gear_train(n_inertias), &mut fastrand::Rng::with_seed(33));
        assert_eq!((analysis.structural_index, analysis.degrees_of_freedom), (3, 2));
    }
}

#[test]
fn a_cascade_of_differentiators_has_the_index_of_its_length() {
    for n in [1, 2, 30_000] {
        let analysis = assert_recovers(&planted::differentiator_cascade(n), &mut fastrand::Rng::with_seed(34));
        assert_eq!((analysis.structural_index, analysis.degrees_of_freedom), (n as u32, 0));
        assert_eq!(analysis.coarse_blocks.n_blocks(), n);
    }
}

#[test]
fn offsets_that_rise_and_fall_along_a_ring_are_recovered() {
    for (n, highest) in [(1, 1), (2, 1), (5, 3), (41, 7), (4000, 60), (4000, 2000)] {
        let analysis = assert_recovers(&planted::sawtooth_ring(n, highest), &mut fastrand::Rng::with_seed(37));
        assert_eq!(analysis.coarse_blocks.n_blocks(), 1);
    }
}

#[test]
fn a_large_shuffled_singular_system_is_refused_with_a_matching_of_its_own_numbers() {
    let mut plain = planted::pendulum_chain(20_000);
    plain.rows[77].clear();
    let hidden = plain.hide(&mut fastrand::Rng::with_seed(38));
    let Err(OffsetsError::StructurallySingular { matching, .. }) = sigma_analysis(&hidden.incidence) else {
        panic!("a system with an empty equation is singular");
    };
    assert_is_matching(&hidden.incidence, &matching);
    assert_eq!(matching.len(), 60_000 - 1);
    assert_eq!(hidden.incidence.entries_of(matching.unmatched_equations()[0] as usize).len(), 0);
}

#[test]
fn grids_are_recovered() {
    let mut rng = fastrand::Rng::with_seed(35);
    for side in [2, 3, 12, 40] {
        let plain = planted::circuit_grid(side, &mut rng);
        let analysis = assert_recovers(&plain, &mut rng);
        assert_eq!((analysis.structural_index, analysis.n_constraints), (1, 0));
        let analysis = assert_recovers(&planted::rod_grid(side), &mut rng);
        assert_eq!(analysis.structural_index, 3);
        assert_eq!(analysis.degrees_of_freedom as usize, 4 * side * side - 2 * side * (side - 1));
        assert_eq!(analysis.coarse_blocks.n_blocks(), 1);
    }
}

/// Every permutation of 0..n in turn (Heap's algorithm).
fn for_each_permutation(n: usize, mut visit: impl FnMut(&[usize])) {
    let mut order: Vec<usize> = (0..n).collect();
    let mut counters = vec![0; n];
    visit(&order);
    let mut at = 1;
    while at < n {
        if counters[at] < at {
            order.swap(if at % 2 == 0 { 0 } else { counters[at] }, at);
            visit(&order);
            counters[at] += 1;
            at = 1;
        } else {
            counters[at] = 0;
            at += 1;
        }
    }
}

#[test]
fn small_random_matrices_agree_with_enumeration_and_plain_iteration() {
    let mut rng = fastrand::Rng::with_seed(36);
    let mut n_regular = 0;
    for _ in 0..6000 {
        let n = rng.usize(1..7);
        let density = 0.2 + 0.6 * rng.f64();
        let highest = rng.u8(0..5);
        let incidence = random_incidence(n, n, density, highest, &mut rng);
        let sigma: Vec<Vec<Option<i64>>> =
            (0..n).map(|i| (0..n).map(|j| incidence.order(i, j as u32).map(i64::from)).collect()).collect();
        let mut best: Option<(i64, Vec<usize>)> = None;
        for_each_permutation(n, |order| {
            let value: Option<i64> = (0..n).map(|i| sigma[i][order[i]]).sum();
            if let Some(value) = value
                && best.as_ref().is_none_or(|(highest, _)| value > *highest)
            {
                best = Some((value, order.to_vec()));
            }
        });
        let analysis = sigma_analysis(&incidence);
        let Some((value, transversal)) = best else {
            assert!(analysis.is_err());
            assert!(!maximum_matching(&incidence).is_perfect());
            continue;
        };
        n_regular += 1;
        let analysis = analysis.unwrap();
        assert_is_consistent(&incidence, &analysis);
        assert_eq!(analysis.degrees_of_freedom as i64, value);
        // The fixed point of d_j = max_i (sigma_ij + c_i), c_i = d_j - sigma_ij on the transversal, from c = 0.
        let mut c = vec![0i64; n];
        loop {
            let d: Vec<i64> =
                (0..n).map(|j| (0..n).filter_map(|i| sigma[i][j].map(|s| s + c[i])).max().unwrap()).collect();
            let next: Vec<i64> = (0..n).map(|i| d[transversal[i]] - sigma[i][transversal[i]].unwrap()).collect();
            if next == c {
                let d: Vec<u32> = d.iter().map(|&offset| offset as u32).collect();
                assert_eq!(analysis.variable_offsets, d);
                break;
            }
            c = next;
        }
        let c: Vec<u32> = c.iter().map(|&offset| offset as u32).collect();
        assert_eq!(analysis.equation_offsets, c);
        let index = c.iter().max().unwrap() + u32::from(analysis.variable_offsets.contains(&0));
        assert_eq!(analysis.structural_index, index);
    }
    assert!(n_regular > 1500);
}
