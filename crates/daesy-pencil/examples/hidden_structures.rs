//! Recovers hidden structures many times and reports how often all integers are right:
//! `hidden_structures [draws] [largest n] [first seed] [hard]`, where `hard` takes condition 1e4 and scaling 1e8 every
//! time. Every miss is printed with the rank decisions behind it.

#[path = "../tests/hidden/mod.rs"]
mod hidden;

use daesy_pencil::{PencilError, PencilOptions, RankDecision, split_finite_infinite};

#[derive(Default)]
struct Tally {
    wrong: usize,
    unflagged: usize,
    doubtful: usize,
    worst_error: f64,
}

impl Tally {
    fn miss(&mut self, seed: u64, draw: &hidden::Draw, what: &str, decisions: &[RankDecision]) {
        let is_flagged = decisions.iter().any(|d| d.is_doubtful);
        self.wrong += 1;
        self.unflagged += usize::from(!is_flagged);
        println!(
            "seed {seed} n {} condition {:.1e} scaling {:.1e} flagged {is_flagged}: {what}, hidden {:?}",
            draw.pencil.n_variables(),
            draw.disguise.condition,
            draw.disguise.scaling,
            draw.structure,
        );
        for d in decisions {
            println!(
                "    {}: rank {} of {} x {}, kept {:.2e}, dropped {:.2e}, gap {:.1e}",
                d.question, d.rank, d.rows, d.cols, d.smallest_kept, d.largest_dropped, d.gap
            );
        }
    }
}

fn main() {
    let argument = |k: usize, default: u64| std::env::args().nth(k).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (draws, n_max, first) = (argument(1, 10_000), argument(2, 200) as usize, argument(3, 1));
    let is_hard = std::env::args().nth(4).is_some_and(|a| a == "hard");
    let options = PencilOptions::default();
    let mut tally = Tally::default();
    for seed in first..first + draws {
        let draw = if is_hard { hidden::hard_draw(seed, n_max) } else { hidden::random_draw(seed, n_max) };
        match split_finite_infinite(&draw.pencil, &options) {
            Ok(split) => {
                let is_right = split.n_finite == draw.structure.n_finite
                    && split.infinite_block_sizes == draw.structure.infinite_block_sizes;
                if is_right {
                    tally.doubtful += usize::from(split.is_doubtful());
                } else {
                    let what = format!("found finite {} and blocks {:?}", split.n_finite, split.infinite_block_sizes);
                    tally.miss(seed, &draw, &what, &split.rank_decisions);
                }
                let e = split.backward_errors();
                tally.worst_error = tally.worst_error.max(e.staircase).max(e.decoupling).max(e.canonical);
            }
            Err(PencilError::SingularPencil { structure }) => {
                tally.miss(seed, &draw, "called singular", &structure.rank_decisions);
            }
            Err(error) => tally.miss(seed, &draw, &error.to_string(), &[]),
        }
    }
    println!(
        "draws {draws}, wrong {}, of these not flagged {}, right but doubtful {}, worst backward error {:.1e}",
        tally.wrong, tally.unflagged, tally.doubtful, tally.worst_error
    );
}
