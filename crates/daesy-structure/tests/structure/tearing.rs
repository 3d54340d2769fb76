//! Tearing: the explicit steps can be carried out in their order, and few variables are torn.

use daesy_structure::{
    Block, Entry, Incidence, IncidenceBuilder, Tearer, TornBlock, block_triangular_form, maximum_matching,
};

use crate::random_incidence;

fn assert_is_executable(incidence: &Incidence, is_solvable: &[bool], block: Block<'_>, torn: &TornBlock) {
    assert_eq!(torn.tearing_variables.len(), torn.residual_equations.len());
    assert_eq!(torn.tearing_variables.len() + torn.assignments.len(), block.size());
    let mut is_known = vec![true; incidence.n_variables()];
    for &variable in block.variables {
        is_known[variable as usize] = false;
    }
    for &variable in &torn.tearing_variables {
        assert!(!is_known[variable as usize]);
        is_known[variable as usize] = true;
    }
    let mut used = torn.residual_equations.clone();
    for step in &torn.assignments {
        used.push(step.equation);
        for entry in incidence.entry_range(step.equation as usize) {
            let variable = incidence.variables()[entry];
            if variable == step.variable {
                assert!(is_solvable[entry] && !is_known[variable as usize]);
            } else {
                assert!(is_known[variable as usize]);
            }
        }
        is_known[step.variable as usize] = true;
    }
    assert!(is_known.iter().all(|&known| known));
    used.sort_unstable();
    let mut equations = block.equations.to_vec();
    equations.sort_unstable();
    assert_eq!(used, equations);
}

#[test]
fn random_loops_are_torn_executably() {
    let mut rng = fastrand::Rng::with_seed(51);
    let mut n_blocks = 0;
    for _ in 0..1500 {
        let n = rng.usize(1..25);
        let incidence = random_incidence(n, n, 2.5 / n as f64, 0, &mut rng);
        let Ok(form) = block_triangular_form(&incidence, &maximum_matching(&incidence)) else { continue };
        let share = rng.f64();
        let is_solvable: Vec<bool> = (0..incidence.n_entries()).map(|_| rng.f64() < share).collect();
        let mut tearer = Tearer::new(&incidence, &is_solvable, &form);
        for (block_idx, block) in form.blocks().enumerate() {
            let torn = tearer.tear(block_idx);
            assert_is_executable(&incidence, &is_solvable, block, &torn);
            n_blocks += 1;
        }
    }
    assert!(n_blocks > 1000);
}

/// Whether guessing the `torn` variables gives all others by equations with one solvable unknown.
fn is_enough(incidence: &Incidence, is_solvable: &[bool], torn: u32) -> bool {
    let n = incidence.n_variables();
    let mut is_known: Vec<bool> = (0..n).map(|variable| torn >> variable & 1 == 1).collect();
    let mut is_used = vec![false; n];
    loop {
        let mut has_progressed = false;
        for (equation, is_used) in is_used.iter_mut().enumerate().filter(|(_, is_used)| !**is_used) {
            let mut unknown = incidence.entry_range(equation).filter(|&e| !is_known[incidence.variables()[e] as usize]);
            let only = unknown.next().filter(|_| unknown.next().is_none());
            if let Some(entry) = only.filter(|&entry| is_solvable[entry]) {
                is_known[incidence.variables()[entry] as usize] = true;
                *is_used = true;
                has_progressed = true;
            }
        }
        if !has_progressed {
            return is_known.iter().all(|&known| known);
        }
    }
}

#[test]
fn the_greedy_choice_is_close_to_the_smallest() {
    let mut rng = fastrand::Rng::with_seed(52);
    let (mut n_torn, mut n_smallest) = (0, 0);
    for _ in 0..800 {
        let n = rng.usize(2..9);
        let incidence = random_incidence(n, n, 0.45, 0, &mut rng);
        let Ok(form) = block_triangular_form(&incidence, &maximum_matching(&incidence)) else { continue };
        if form.n_blocks() != 1 {
            continue;
        }
        let is_solvable: Vec<bool> = (0..incidence.n_entries()).map(|_| rng.f64() < 0.8).collect();
        let torn = Tearer::new(&incidence, &is_solvable, &form).tear(0);
        let smallest = (0u32..1 << n)
            .filter(|&set| is_enough(&incidence, &is_solvable, set))
            .map(|set| set.count_ones() as usize)
            .min()
            .unwrap();
        assert!(torn.tearing_variables.len() >= smallest);
        n_torn += torn.tearing_variables.len();
        n_smallest += smallest;
    }
    assert!(n_torn * 10 <= n_smallest * 12, "{n_torn} torn, {n_smallest} would do");
}

#[test]
fn a_ladder_of_any_length_needs_one_guess() {
    // Tridiagonal: every equation holds its variable and both neighbours.
    let n = 5000u32;
    let mut builder = IncidenceBuilder::new(n as usize).unwrap();
    for i in 0..n {
        let row = i.saturating_sub(1)..=(i + 1).min(n - 1);
        builder.push_equation(row.map(|variable| Entry { variable, order: 0 })).unwrap();
    }
    let incidence = builder.finish();
    let is_solvable = vec![true; incidence.n_entries()];
    let form = block_triangular_form(&incidence, &maximum_matching(&incidence)).unwrap();
    assert_eq!(form.n_blocks(), 1);
    let torn = Tearer::new(&incidence, &is_solvable, &form).tear(0);
    assert_is_executable(&incidence, &is_solvable, form.block(0), &torn);
    assert_eq!(torn.tearing_variables.len(), 1);
}

#[test]
fn without_solvable_entries_everything_is_torn() {
    let incidence = random_incidence(6, 6, 1.0, 0, &mut fastrand::Rng::with_seed(53));
    let form = block_triangular_form(&incidence, &maximum_matching(&incidence)).unwrap();
    let torn = Tearer::new(&incidence, &[], &form).tear(0);
    assert_eq!((torn.tearing_variables.len(), torn.assignments.len()), (6, 0));
}
