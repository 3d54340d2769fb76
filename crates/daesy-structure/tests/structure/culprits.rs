//! Over- and under-determined parts and their smallest explanations.

use daesy_structure::{CulpritOptions, CulpritSet, Entry, Incidence, IncidenceBuilder, Part, dulmage_mendelsohn};

use crate::{planted, random_incidence, structural_rank};

/// k + 1 rows that hold exactly these k columns and can be paired as soon as any one of them is gone.
fn assert_is_minimal(incidence: &Incidence, rows: &[u32], columns: &[u32]) {
    assert_eq!(rows.len(), columns.len() + 1);
    let mut held: Vec<u32> = rows.iter().flat_map(|&row| incidence.variables_of(row as usize)).copied().collect();
    held.sort_unstable();
    held.dedup();
    assert_eq!(held, columns);
    for left_out in rows {
        let rest = rows.iter().filter(|&row| row != left_out).map(|&row| row as usize);
        assert_eq!(structural_rank(incidence, rest), rows.len() - 1);
    }
}

/// Size of the smallest dependent set of rows, by enumeration.
fn smallest_dependent_set(incidence: &Incidence) -> Option<usize> {
    let n = incidence.n_equations();
    (1u32..1 << n)
        .filter(|set| structural_rank(incidence, (0..n).filter(|i| set >> i & 1 == 1)) < set.count_ones() as usize)
        .map(|set| set.count_ones() as usize)
        .min()
}

#[test]
fn parts_follow_their_definition_and_culprits_are_minimal() {
    let mut rng = fastrand::Rng::with_seed(41);
    let (mut n_cases, mut n_smallest) = (0, 0);
    for _ in 0..1500 {
        let (n_equations, n_variables) = (rng.usize(0..9), rng.usize(0..9));
        let density = 0.05 + 0.4 * rng.f64();
        let incidence = random_incidence(n_equations, n_variables, density, 2, &mut rng);
        let transposed = incidence.transpose();
        let parts = dulmage_mendelsohn(&incidence);
        let rank = structural_rank(&incidence, 0..n_equations);
        for equation in 0..n_equations {
            let rank_without = structural_rank(&incidence, (0..n_equations).filter(|&other| other != equation));
            assert_eq!(parts.equation_parts[equation] == Part::Over, rank_without == rank);
        }
        for variable in 0..n_variables {
            let rank_without = structural_rank(&transposed, (0..n_variables).filter(|&other| other != variable));
            assert_eq!(parts.variable_parts[variable] == Part::Under, rank_without == rank);
        }
        let n_well = parts.equations(Part::Well).len();
        assert_eq!(n_well, parts.variables(Part::Well).len());
        assert_eq!(parts.well_blocks.equations().len(), n_well);
        assert_eq!(parts.equations(Part::Over).len(), parts.variables(Part::Over).len() + n_equations - rank);
        assert_eq!(parts.variables(Part::Under).len(), parts.equations(Part::Under).len() + n_variables - rank);

        let culprits = parts.culprits(&incidence, &CulpritOptions::default());
        assert_eq!(culprits.over_determined.is_empty(), rank == n_equations);
        assert_eq!(culprits.under_determined.is_empty(), rank == n_variables);
        for set in &culprits.over_determined {
            assert_is_minimal(&incidence, &set.equations, &set.variables);
        }
        for set in &culprits.under_determined {
            assert_is_minimal(&transposed, &set.variables, &set.equations);
        }
        if let Some(first) = culprits.over_determined.first() {
            n_cases += 1;
            let smallest = smallest_dependent_set(&incidence).unwrap();
            n_smallest += usize::from(first.equations.len() == smallest);
            if n_equations - rank == 1 {
                assert_eq!(first.equations.len(), smallest);
            }
        }
    }
    // Beyond one excess equation the search is a heuristic, which should hardly ever miss on systems as small as these.
    assert!(n_smallest * 100 >= n_cases * 99, "{n_smallest} of {n_cases}");
}

#[test]
fn planted_faults_in_a_large_model_are_named_exactly() {
    let mut rng = fastrand::Rng::with_seed(42);
    for round in 0..20 {
        let plain = planted::random_blocks(2000, 50, 2, 2, &mut rng);
        // A sound model, then: a triangle of equations in two variables of their own; three variables that only two
        // equations mention, one of which also uses the model.
        let n = plain.rows.len() as u32;
        let mut rows: Vec<Vec<u32>> = plain.rows.iter().map(|row| row.iter().map(|e| e.variable).collect()).collect();
        rows.push(vec![n, n + 1]);
        rows.push(vec![n, n + 1]);
        rows.push(vec![n + 1, n]);
        rows.push(vec![n + 2, n + 3, round]);
        rows.push(vec![n + 3, n + 4, n + 2, n]);
        // A sound equation may look at the contradictory variables without becoming a culprit.
        rows[7].push(n);
        let n_variables = n as usize + 5;
        let mut order: Vec<usize> = (0..rows.len()).collect();
        rng.shuffle(&mut order);
        let mut builder = IncidenceBuilder::new(n_variables).unwrap();
        for &row in &order {
            builder.push_equation(rows[row].iter().map(|&variable| Entry { variable, order: 0 })).unwrap();
        }
        let incidence = builder.finish();
        let parts = dulmage_mendelsohn(&incidence);
        let place = |row: u32| order.iter().position(|&o| o == row as usize).unwrap() as u32;
        let places = |rows: &[u32]| {
            let mut places: Vec<u32> = rows.iter().map(|&row| place(row)).collect();
            places.sort_unstable();
            places
        };
        let culprits = parts.culprits(&incidence, &CulpritOptions::default());
        let over = CulpritSet { equations: places(&[n, n + 1, n + 2]), variables: vec![n, n + 1] };
        let under = CulpritSet { equations: places(&[n + 3, n + 4]), variables: vec![n + 2, n + 3, n + 4] };
        assert_eq!(culprits.over_determined, [over]);
        assert_eq!(culprits.under_determined, [under]);
    }
}
