//! Signature matrices whose structure is known by construction, hidden behind random permutations.

use daesy_structure::{Entry, Incidence, IncidenceBuilder};

/// A signature matrix before it is hidden: equation i is meant to be paired with variable i unless said otherwise.
pub struct Plain {
    /// Entries (variable, order) of each equation.
    pub rows: Vec<Vec<Entry>>,
    /// Canonical offsets of the equations.
    pub equation_offsets: Vec<u32>,
    /// Canonical offsets of the variables.
    pub variable_offsets: Vec<u32>,
    /// Irreducible block of each equation, numbered in an order of solution.
    pub block_of_equation: Vec<u32>,
}

/// A signature matrix with its equations and variables in random order.
pub struct Hidden {
    pub incidence: Incidence,
    pub equation_offsets: Vec<u32>,
    pub variable_offsets: Vec<u32>,
    pub block_of_equation: Vec<u32>,
}

fn entry(variable: usize, order: u32) -> Entry {
    Entry { variable: variable as u32, order: u8::try_from(order).expect("orders of generated entries are small") }
}

impl Plain {
    /// Equations and variables in random order.
    pub fn hide(&self, rng: &mut fastrand::Rng) -> Hidden {
        let n = self.rows.len();
        let mut equation_order: Vec<usize> = (0..n).collect();
        rng.shuffle(&mut equation_order);
        let mut variable_place: Vec<usize> = (0..n).collect();
        rng.shuffle(&mut variable_place);
        self.reorder(&equation_order, &variable_place)
    }

    /// Equations and variables in the order in which they were made, as those of a model are.
    #[allow(dead_code, reason = "only the scaling example needs it")]
    pub fn as_declared(&self) -> Hidden {
        let order: Vec<usize> = (0..self.rows.len()).collect();
        self.reorder(&order, &order)
    }

    fn reorder(&self, equation_order: &[usize], variable_place: &[usize]) -> Hidden {
        let n = self.rows.len();
        let mut builder = IncidenceBuilder::new(n).expect("generated systems are small enough");
        builder.reserve(n, self.rows.iter().map(Vec::len).sum());
        for &equation in equation_order {
            let row = self.rows[equation].iter();
            builder
                .push_equation(
                    row.map(|e| Entry { variable: variable_place[e.variable as usize] as u32, order: e.order }),
                )
                .expect("generated variables exist");
        }
        let mut variable_offsets = vec![0; n];
        for (variable, &place) in variable_place.iter().enumerate() {
            variable_offsets[place] = self.variable_offsets[variable];
        }
        Hidden {
            incidence: builder.finish(),
            equation_offsets: equation_order.iter().map(|&equation| self.equation_offsets[equation]).collect(),
            variable_offsets,
            block_of_equation: equation_order.iter().map(|&equation| self.block_of_equation[equation]).collect(),
        }
    }
}

/// Masses linked by rigid rods one after the other: index 3, one block, 2 degrees of freedom per unit.
///
/// Unit k: x'' = l_k (x_k - x_(k-1)) - l_(k+1) (..), y'' likewise, (x_k - x_(k-1))^2 + (y_k - y_(k-1))^2 = L^2.
pub fn pendulum_chain(n_units: usize) -> Plain {
    let mut plain = Plain::with_capacity(3 * n_units);
    for unit in 0..n_units {
        for coordinate in 0..2 {
            let mut row = vec![entry(3 * unit + coordinate, 2), entry(3 * unit + 2, 0)];
            if unit > 0 {
                row.push(entry(3 * (unit - 1) + coordinate, 0));
            }
            if unit + 1 < n_units {
                row.push(entry(3 * (unit + 1) + coordinate, 0));
                row.push(entry(3 * (unit + 1) + 2, 0));
            }
            plain.push(row, 0, 2, 0);
        }
        let mut row = vec![entry(3 * unit, 0), entry(3 * unit + 1, 0)];
        if unit > 0 {
            row.extend([entry(3 * (unit - 1), 0), entry(3 * (unit - 1) + 1, 0)]);
        }
        plain.push(row, 2, 0, 0);
    }
    plain
}

/// Inertias rigidly coupled by gears: index 3 with 2 degrees of freedom in all, one block.
///
/// phi_k' = w_k, J w_k' = tau_(k-1) - tau_k, phi_k = r phi_(k+1).
pub fn gear_train(n_inertias: usize) -> Plain {
    let mut plain = Plain::with_capacity(3 * n_inertias);
    for k in 0..n_inertias {
        let (phi, omega, torque) = (3 * k, 3 * k + 1, 3 * k + 2);
        plain.push(vec![entry(phi, 1), entry(omega, 0)], 1, 2, 0);
        let mut row = vec![entry(omega, 1)];
        if k > 0 {
            row.push(entry(torque - 3, 0));
        }
        if k + 1 < n_inertias {
            row.push(entry(torque, 0));
        }
        plain.push(row, 0, 1, 0);
        if k + 1 < n_inertias {
            plain.push(vec![entry(phi, 0), entry(phi + 3, 0)], 2, 0, 0);
        }
    }
    plain
}

/// x_1 = u(t), x_(k+1) = x_k': the first equation is differentiated n - 1 times, every block is a single equation.
pub fn differentiator_cascade(n: usize) -> Plain {
    let mut plain = Plain::with_capacity(n);
    for k in 0..n {
        let mut row = vec![entry(k, 0)];
        if k > 0 {
            row.push(entry(k - 1, 1));
        }
        let offset = (n - 1 - k) as u32;
        plain.push(row, offset, offset, k as u32);
    }
    plain
}

/// One ring of n equations, f_k(x_k, x_(k+1)), whose offsets rise by steps of 1 to a peak and fall back to 0, again
/// and again, the peaks running through 1 ..= highest. Orders are at most 2.
///
/// The step from k to k + 1 demands c_(k+1) >= c_k + sigma_(k,k+1) - sigma_(k+1,k+1).
pub fn sawtooth_ring(n: usize, highest: u32) -> Plain {
    let mut profile = Vec::with_capacity(n);
    let mut peak = 0;
    while profile.len() < n {
        peak = peak % highest + 1;
        // The last tooth is cut to what is left.
        let peak = peak.min(((n - profile.len()) / 2) as u32);
        profile.extend(0..peak);
        profile.extend((1..=peak).rev());
        if peak == 0 {
            profile.push(0);
        }
    }
    let own_order = |k: usize| match (profile[k], profile[(k + n - 1) % n]) {
        (0, _) => 2,
        (own, before) if own > before => 0,
        _ => 1,
    };
    let mut plain = Plain::with_capacity(n);
    for k in 0..n {
        let next = (k + 1) % n;
        let demand = u32::from(profile[next] > profile[k]);
        let row = if n > 1 { vec![entry(k, own_order(k)), entry(next, demand)] } else { vec![entry(k, own_order(k))] };
        plain.push(row, profile[k], profile[k] + own_order(k), 0);
    }
    plain
}

/// A square grid of resistors with capacitors to ground at about half of the nodes: index 1, C v' = sum i or 0 = sum
/// i at nodes, R i = v_a - v_b on edges. Its blocks are not known beforehand (numbered 0).
pub fn circuit_grid(side: usize, rng: &mut fastrand::Rng) -> Plain {
    let n_nodes = side * side;
    let horizontal = |row: usize, column: usize| n_nodes + row * (side - 1) + column;
    let vertical = |row: usize, column: usize| n_nodes + side * (side - 1) + row * side + column;
    let mut plain = Plain::with_capacity(n_nodes + 2 * side * (side - 1));
    for row in 0..side {
        for column in 0..side {
            // The last node is one with a capacitor, so that every other owns an edge.
            let has_capacitor = rng.bool() || (row + 1 == side && column + 1 == side);
            let mut entries = Vec::with_capacity(5);
            if has_capacitor {
                entries.push(entry(row * side + column, 1));
            }
            if column > 0 {
                entries.push(entry(horizontal(row, column - 1), 0));
            }
            if column + 1 < side {
                entries.push(entry(horizontal(row, column), 0));
            }
            if row > 0 {
                entries.push(entry(vertical(row - 1, column), 0));
            }
            if row + 1 < side {
                entries.push(entry(vertical(row, column), 0));
            }
            plain.push(entries, 0, u32::from(has_capacitor), 0);
        }
    }
    for row in 0..side {
        for column in 0..side - 1 {
            let (a, b) = (row * side + column, row * side + column + 1);
            plain.push(vec![entry(horizontal(row, column), 0), entry(a, 0), entry(b, 0)], 0, 0, 0);
        }
    }
    for row in 0..side - 1 {
        for column in 0..side {
            let (a, b) = (row * side + column, (row + 1) * side + column);
            plain.push(vec![entry(vertical(row, column), 0), entry(a, 0), entry(b, 0)], 0, 0, 0);
        }
    }
    plain
}

/// A square grid of masses in the plane, rigid rods along the rows, springs along the columns: index 3, one block,
/// 4 degrees of freedom per mass less 2 per rod.
pub fn rod_grid(side: usize) -> Plain {
    let n_masses = side * side;
    let rod = |row: usize, column: usize| 2 * n_masses + row * (side - 1) + column;
    let mut plain = Plain::with_capacity(2 * n_masses + side * (side - 1));
    for row in 0..side {
        for column in 0..side {
            let own = 2 * (row * side + column);
            for coordinate in 0..2 {
                let mut entries = vec![entry(own + coordinate, 2)];
                if row > 0 {
                    entries.extend([entry(own - 2 * side, 0), entry(own - 2 * side + 1, 0)]);
                }
                if row + 1 < side {
                    entries.extend([entry(own + 2 * side, 0), entry(own + 2 * side + 1, 0)]);
                }
                if column > 0 {
                    entries.extend([entry(own - 2 + coordinate, 0), entry(rod(row, column - 1), 0)]);
                }
                if column + 1 < side {
                    entries.extend([entry(own + 2 + coordinate, 0), entry(rod(row, column), 0)]);
                }
                plain.push(entries, 0, 2, 0);
            }
        }
    }
    for row in 0..side {
        for column in 0..side - 1 {
            let own = 2 * (row * side + column);
            plain.push((own..own + 4).map(|variable| entry(variable, 0)).collect(), 2, 0, 0);
        }
    }
    plain
}

/// Random blocks with random offsets up to `highest`, about `n_extra` further entries per equation, and offsets that
/// are the canonical ones because every positive one is demanded by a tight entry.
///
/// Blocks are made from the last solved to the first: equation i of a block has variable i; in a block with ascending
/// offsets the entries (k, k + 1) are tight, and (last, first) closes the ring.
pub fn random_blocks(n: usize, largest_block: usize, highest: u32, n_extra: usize, rng: &mut fastrand::Rng) -> Plain {
    let mut plain = Plain::with_capacity(n);
    let mut block_starts = Vec::new();
    while plain.rows.len() < n {
        let start = plain.rows.len();
        let most = (n - start).min(largest_block);
        let size = if rng.u8(..3) == 0 { rng.usize(1..=most) } else { rng.usize(1..=most.min(4)) };
        let mut offsets: Vec<u32> = (0..size).map(|_| rng.u32(0..=highest)).collect();
        offsets.sort_unstable();
        // The first offset is 0 unless an equation solved later demands more.
        let demander = (start > 0 && rng.bool()).then(|| rng.usize(0..start));
        if demander.is_none() {
            offsets[0] = 0;
        }
        let block = block_starts.len() as u32;
        block_starts.push(start);
        for (k, &offset) in offsets.iter().enumerate() {
            let mut variable_offset = offset + rng.u32(0..=2);
            if k == 0 {
                // The ring closes from the highest offset, and the demander's entry has an order of at least 0.
                variable_offset = variable_offset.max(offsets[size - 1]);
                if let Some(demander) = demander {
                    variable_offset = variable_offset.max(plain.equation_offsets[demander]);
                }
            }
            plain.push(vec![entry(start + k, variable_offset - offset)], offset, variable_offset, block);
        }
        for k in 0..size {
            let next = start + (k + 1) % size;
            if size > 1 {
                let room = plain.variable_offsets[next] - plain.equation_offsets[start + k];
                let order = if k + 1 < size { room } else { rng.u32(0..=room) };
                plain.rows[start + k].push(entry(next, order));
            }
        }
        if let Some(demander) = demander {
            let order = plain.variable_offsets[start] - plain.equation_offsets[demander];
            plain.rows[demander].push(entry(start, order));
        }
    }
    // Equations may use variables of their own block and of those made later, which are solved before.
    for equation in 0..n {
        let block_start = block_starts[plain.block_of_equation[equation] as usize];
        for _ in 0..n_extra {
            let variable = rng.usize(block_start..n);
            if plain.rows[equation].iter().any(|e| e.variable as usize == variable) {
                continue;
            }
            if let Some(room) = plain.variable_offsets[variable].checked_sub(plain.equation_offsets[equation]) {
                plain.rows[equation].push(entry(variable, rng.u32(0..=room)));
            }
        }
    }
    let last = block_starts.len() as u32 - 1;
    for block in &mut plain.block_of_equation {
        *block = last - *block;
    }
    plain
}

impl Plain {
    fn with_capacity(n: usize) -> Self {
        Self {
            rows: Vec::with_capacity(n),
            equation_offsets: Vec::with_capacity(n),
            variable_offsets: Vec::with_capacity(n),
            block_of_equation: Vec::with_capacity(n),
        }
    }

    /// Appends an equation with its offset and block, and the offset of the variable of the same number.
    fn push(&mut self, row: Vec<Entry>, equation_offset: u32, variable_offset: u32, block: u32) {
        self.rows.push(row);
        self.equation_offsets.push(equation_offset);
        self.variable_offsets.push(variable_offset);
        self.block_of_equation.push(block);
    }
}
