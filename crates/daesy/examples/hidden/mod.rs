//! Random descriptor systems whose structure is hidden and whose solutions are known.
//!
//! A system in canonical form, E_0 x' = A_0 x + h(t) with E_0 = diag(I, N), A_0 = diag(J, I) and N nilpotent, has the
//! index of N. With a chosen solution x*(t), h = E_0 x*' - A_0 x*. New variables z with x = phi(t, z) and combinations
//! of the equations by a nonsingular matrix P(t, z) hide the structure: every equation has all derivatives, and only
//! their values tell the index.
// Sums over several arrays at once read best with the index of the formula.
#![allow(clippy::needless_range_loop)]

use std::fmt::Write as _;

/// Random numbers of a seed.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub const fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0x5DEE_CE66_D1CE_4E5B)
    }

    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with two digits between two others.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        ((low + (high - low) * self.unit()) * 100.0).round() / 100.0
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

/// a + b sin(c t + d).
#[derive(Clone, Copy)]
struct Wave {
    a: f64,
    b: f64,
    c: f64,
    d: f64,
}

impl Wave {
    fn random(random: &mut Random, mean: f64, size: f64) -> Self {
        Self {
            a: mean + random.between(-size, size),
            b: random.between(-size, size),
            c: random.between(0.5, 2.0),
            d: random.between(0.0, 1.0),
        }
    }

    fn value(&self, t: f64) -> f64 {
        self.a + self.b * (self.c * t + self.d).sin()
    }

    fn text(&self) -> String {
        format!("({} + ({})*sin({}*time + {}))", self.a, self.b, self.c, self.d)
    }

    fn rate_text(&self) -> String {
        format!("(({})*cos({}*time + {}))", self.b * self.c, self.c, self.d)
    }
}

/// A model with its solution.
pub struct Hidden {
    /// The model, called `Hidden`, with variables z1, z2, ..
    pub text: String,
    /// Its index.
    pub index: usize,
    n: usize,
    solution: Vec<Wave>,
    shape: Shape,
}

enum Shape {
    /// x = Q(t) z, diagonally dominant, row by row.
    Linear(Vec<Vec<Wave>>),
    /// x_1 = z_1, x_i = z_i + a_i sin(z_(i-1)) + b_i z_1 z_(i-1).
    Triangular { a: Vec<f64>, b: Vec<f64> },
}

impl Hidden {
    /// Number of variables.
    pub const fn n(&self) -> usize {
        self.n
    }

    /// The exact values of z at a time.
    pub fn exact(&self, t: f64) -> Vec<f64> {
        let mut z: Vec<f64> = self.solution.iter().map(|wave| wave.value(t)).collect();
        match &self.shape {
            Shape::Linear(q) => {
                let mut rows: Vec<Vec<f64>> = q.iter().map(|row| row.iter().map(|it| it.value(t)).collect()).collect();
                for pivot in 0..self.n {
                    for row in (0..self.n).filter(|&row| row != pivot) {
                        let factor = rows[row][pivot] / rows[pivot][pivot];
                        for column in 0..self.n {
                            rows[row][column] -= factor * rows[pivot][column];
                        }
                        z[row] -= factor * z[pivot];
                    }
                }
                z.iter_mut().enumerate().for_each(|(at, value)| *value /= rows[at][at]);
            }
            Shape::Triangular { a, b } => {
                for row in 1..self.n {
                    z[row] -= a[row] * z[row - 1].sin() + b[row] * z[0] * z[row - 1];
                }
            }
        }
        z
    }
}

/// The canonical form as texts: row `i` says `moving_i = resting_i + h_i(t)`.
struct Canonical {
    index: usize,
    n: usize,
    /// By row: factors of x'.
    e: Vec<Vec<f64>>,
    /// By row: factors of x.
    a: Vec<Vec<f64>>,
}

impl Canonical {
    fn random(random: &mut Random) -> Self {
        let index = 1 + random.below(3);
        let n_slow = 1 + random.below(2);
        let n = n_slow + index;
        let mut e = vec![vec![0.0; n]; n];
        let mut a = vec![vec![0.0; n]; n];
        for row in 0..n_slow {
            e[row][row] = 1.0;
            for column in 0..n_slow {
                a[row][column] = random.between(-1.0, 1.0);
            }
            a[row][row] -= 1.0;
        }
        for row in n_slow..n {
            a[row][row] = 1.0;
            if row + 1 < n {
                e[row][row + 1] = 1.0;
            }
        }
        Self { index, n, e, a }
    }

    /// h = E_0 x*' - A_0 x*.
    fn forcing(&self, row: usize, solution: &[Wave]) -> String {
        let mut text = "0".to_owned();
        for (column, wave) in solution.iter().enumerate() {
            if self.e[row][column] != 0.0 {
                let _ = write!(text, " + ({})*{}", self.e[row][column], wave.rate_text());
            }
            if self.a[row][column] != 0.0 {
                let _ = write!(text, " - ({})*{}", self.a[row][column], wave.text());
            }
        }
        text
    }
}

fn sum(terms: &[String]) -> String {
    if terms.is_empty() { "0".to_owned() } else { terms.join(" + ") }
}

/// A linear system whose coefficients depend on time.
pub fn time_varying(seed: u64) -> Hidden {
    let random = &mut Random::new(seed);
    let canonical = Canonical::random(random);
    let n = canonical.n;
    let solution: Vec<Wave> = (0..n).map(|_| Wave::random(random, 0.0, 1.5)).collect();
    // Diagonally dominant, hence nonsingular for all times: |a| + |b| of the others is at most 0.9 of the diagonal in
    // sum.
    let mut square = || -> Vec<Vec<Wave>> {
        let size = 0.45 / (n as f64 - 1.0);
        let mut wave = |row: usize, column: usize| {
            if row == column { Wave::random(random, 1.2, 0.05) } else { Wave::random(random, 0.0, size) }
        };
        (0..n).map(|row| (0..n).map(|column| wave(row, column)).collect()).collect()
    };
    let (p, q) = (square(), square());
    let mut equations = String::new();
    for row in 0..n {
        let mut terms = Vec::new();
        for column in 0..n {
            let (mut rate, mut value) = (Vec::new(), Vec::new());
            for of in 0..n {
                let left = p[row][of].text();
                for with in 0..n {
                    if canonical.e[of][with] != 0.0 {
                        let factor = format!("({})*{left}", canonical.e[of][with]);
                        rate.push(format!("{factor}*{}", q[with][column].text()));
                        value.push(format!("{factor}*{}", q[with][column].rate_text()));
                    }
                    if canonical.a[of][with] != 0.0 {
                        value.push(format!("({})*{left}*{}", -canonical.a[of][with], q[with][column].text()));
                    }
                }
            }
            terms.push(format!("({})*der(z{})", sum(&rate), column + 1));
            terms.push(format!("({})*z{}", sum(&value), column + 1));
        }
        let forcing: Vec<String> =
            (0..n).map(|of| format!("{}*({})", p[row][of].text(), canonical.forcing(of, &solution))).collect();
        let _ = writeln!(equations, "  {} = {};", sum(&terms), sum(&forcing));
    }
    finish(&canonical, solution, Shape::Linear(q), &equations)
}

/// A nonlinear system.
pub fn nonlinear(seed: u64) -> Hidden {
    let random = &mut Random::new(seed ^ 0xABCD_EF01);
    let canonical = Canonical::random(random);
    let n = canonical.n;
    let solution: Vec<Wave> = (0..n).map(|_| Wave::random(random, 0.0, 1.0)).collect();
    let a: Vec<f64> = (0..n).map(|_| random.between(-0.8, 0.8)).collect();
    let b: Vec<f64> = (0..n).map(|_| random.between(-0.5, 0.5)).collect();
    let x: Vec<String> = (0..n)
        .map(|row| match row {
            0 => "z1".to_owned(),
            _ => format!("(z{} + ({})*sin(z{row}) + ({})*z1*z{row})", row + 1, a[row], b[row]),
        })
        .collect();
    let residuals = residuals(&canonical, &x, &solution);
    let mut equations = String::new();
    for row in 0..n {
        let mut terms = vec![residuals[row].clone()];
        for column in (0..n).filter(|&column| column != row) {
            // Diagonally dominant, hence nonsingular everywhere.
            let size = 0.8 / n as f64;
            let of = 1 + random.below(n);
            terms.push(format!(
                "({})*sin({}*time + ({})*z{of})*{}",
                random.between(-size, size),
                random.between(0.3, 1.5),
                random.between(-1.0, 1.0),
                residuals[column]
            ));
        }
        let _ = writeln!(equations, "  0 = {};", sum(&terms));
    }
    finish(&canonical, solution, Shape::Triangular { a, b }, &equations)
}

/// E_0 x' - A_0 x - h for x as texts.
fn residuals(canonical: &Canonical, x: &[String], solution: &[Wave]) -> Vec<String> {
    (0..canonical.n)
        .map(|row| {
            let mut terms = Vec::new();
            for column in 0..canonical.n {
                if canonical.e[row][column] != 0.0 {
                    terms.push(format!("({})*der({})", canonical.e[row][column], x[column]));
                }
                if canonical.a[row][column] != 0.0 {
                    terms.push(format!("({})*{}", -canonical.a[row][column], x[column]));
                }
            }
            format!("({} - ({}))", sum(&terms), canonical.forcing(row, solution))
        })
        .collect()
}

fn finish(canonical: &Canonical, solution: Vec<Wave>, shape: Shape, equations: &str) -> Hidden {
    let mut hidden = Hidden { text: String::new(), index: canonical.index, n: canonical.n, solution, shape };
    let starts: Vec<String> =
        hidden.exact(0.0).iter().enumerate().map(|(at, value)| format!("z{}(start={value:?})", at + 1)).collect();
    hidden.text = format!(
        "model Hidden\n  Real {};\nequation\n{equations}  \
         annotation (experiment(StopTime=2, Interval=0.25, Tolerance=1e-9));\nend Hidden;\n",
        starts.join(", ")
    );
    hidden
}

/// How a model with a known solution ended.
pub enum Outcome {
    /// The largest error, relative to values of at least one.
    Solved(f64),
    /// Refused, with the codes of what was said.
    Refused(String),
}

/// Compares a table with columns `t` and z1, z2, .. with the solution.
pub fn largest_error(hidden: &Hidden, names: &[String], columns: &[Vec<f64>]) -> f64 {
    let of = |name: &str| names.iter().position(|known| known == name).map(|at| &columns[at]);
    let Some(times) = of("t") else { return f64::INFINITY };
    let mut worst = 0.0f64;
    for (row, &t) in times.iter().enumerate() {
        for (at, exact) in hidden.exact(t).iter().enumerate() {
            let got = of(&format!("z{}", at + 1)).map_or(f64::NAN, |column| column[row]);
            let error = (got - exact).abs() / exact.abs().max(1.0);
            worst = if error.is_nan() { f64::INFINITY } else { worst.max(error) };
        }
    }
    worst
}
