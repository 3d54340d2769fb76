//! Block-triangular forms: hidden blocks are recovered, order and irreducibility hold.

use daesy_structure::{BlockTriangularForm, Incidence, block_triangular_form, maximum_matching};

use crate::{planted, random_incidence};

/// Blocks partition the equations, variables of a block do not occur in blocks solved before it.
pub fn assert_is_triangular(incidence: &Incidence, form: &BlockTriangularForm) {
    let n = incidence.n_equations();
    let mut block_of_variable = vec![None; n];
    let mut n_seen = 0;
    for (block_idx, block) in form.blocks().enumerate() {
        assert!(block.size() > 0);
        for (&equation, &variable) in block.equations.iter().zip(block.variables) {
            assert!(incidence.order(equation as usize, variable).is_some());
            assert_eq!(form.block_of_equation(equation as usize), Some(block_idx as u32));
            assert_eq!(block_of_variable[variable as usize].replace(block_idx), None);
            n_seen += 1;
        }
    }
    assert_eq!(n_seen, n);
    for (block_idx, block) in form.blocks().enumerate() {
        for &equation in block.equations {
            for &variable in incidence.variables_of(equation as usize) {
                assert!(block_of_variable[variable as usize].unwrap() <= block_idx);
            }
        }
    }
}

#[test]
fn hidden_blocks_are_recovered() {
    let mut rng = fastrand::Rng::with_seed(21);
    for round in 0..400 {
        let n = 1 + round % 60;
        let hidden = planted::random_blocks(n, 1 + n / 2, 2, 2, &mut rng).hide(&mut rng);
        let form = block_triangular_form(&hidden.incidence, &maximum_matching(&hidden.incidence)).unwrap();
        assert_is_triangular(&hidden.incidence, &form);
        for a in 0..n {
            for b in 0..a {
                let are_together = form.block_of_equation(a) == form.block_of_equation(b);
                assert_eq!(are_together, hidden.block_of_equation[a] == hidden.block_of_equation[b]);
            }
        }
    }
}

#[test]
fn blocks_are_the_classes_of_mutual_reachability() {
    let mut rng = fastrand::Rng::with_seed(22);
    let mut n_checked = 0;
    while n_checked < 300 {
        let n = rng.usize(1..9);
        let density = 0.1 + 0.5 * rng.f64();
        let incidence = random_incidence(n, n, density, 0, &mut rng);
        let matching = maximum_matching(&incidence);
        let Ok(form) = block_triangular_form(&incidence, &matching) else { continue };
        n_checked += 1;
        assert_is_triangular(&incidence, &form);
        let mut needs = vec![vec![false; n]; n];
        for (equation, row) in needs.iter_mut().enumerate() {
            row[equation] = true;
            for &variable in incidence.variables_of(equation) {
                row[matching.equation_of(variable as usize).unwrap() as usize] = true;
            }
        }
        for via in 0..n {
            let reached = needs[via].clone();
            for row in needs.iter_mut().filter(|row| row[via]) {
                row.iter_mut().zip(&reached).for_each(|(own, &further)| *own |= further);
            }
        }
        for (a, row) in needs.iter().enumerate() {
            for (b, &needs_b) in row.iter().enumerate() {
                let are_together = form.block_of_equation(a) == form.block_of_equation(b);
                assert_eq!(are_together, needs_b && needs[b][a]);
            }
        }
    }
}

#[test]
fn a_single_loop_of_many_equations_needs_no_deep_stack() {
    let plain = planted::pendulum_chain(60_000);
    let hidden = plain.hide(&mut fastrand::Rng::with_seed(23));
    let form = block_triangular_form(&hidden.incidence, &maximum_matching(&hidden.incidence)).unwrap();
    assert_eq!((form.n_blocks(), form.largest_block()), (1, 180_000));
}
