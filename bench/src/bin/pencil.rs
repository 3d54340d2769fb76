//! The finite/infinite split of pencils against LAPACK's dgges and dtgsyl: time, and how often the integers are wrong.
//!
//! `cargo xtask bench pencil`
//!
//! The peer does what gerdin2007 (appendix C) says: a generalized Schur form whose finite eigenvalues are moved to the
//! front, then the generalized Sylvester equation that decouples the two parts. It needs a threshold for "infinite"; it
//! gets the one that serves it best, which no user knows.
#![allow(unsafe_code)]

use daesy_bench::clock::best_of;
use daesy_pencil::{FiniteInfiniteSplit, Mat, Pencil, PencilOptions, split_finite_infinite};
use fastrand::Rng;
use libloading::Library;
use std::hint::black_box;

/// Debian's package with the library of the peer.
const PACKAGE: &str = "libopenblas0-pthread";

/// A pencil with a known structure.
struct Hidden {
    pencil: Pencil,
    n_finite: usize,
    index: usize,
}

/// A dense orthogonal transformation of the rows or columns of a matrix by three random reflections.
fn reflect(rng: &mut Rng, a: &mut Mat<f64>, is_left: bool) {
    let n = if is_left { a.nrows() } else { a.ncols() };
    for _ in 0..3 {
        let v: Vec<f64> = (0..n).map(|_| rng.f64() - 0.5).collect();
        let scale = 2.0 / v.iter().map(|x| x * x).sum::<f64>();
        let lines = if is_left { a.ncols() } else { a.nrows() };
        for line in 0..lines {
            let at = |k: usize| if is_left { (k, line) } else { (line, k) };
            let dot: f64 = (0..n).map(|k| v[k] * a[at(k)]).sum();
            for (k, x) in v.iter().enumerate() {
                a[at(k)] -= scale * dot * x;
            }
        }
    }
}

impl Hidden {
    /// `n` variables, Jordan blocks at infinity up to size `index`, transformations of the given condition number.
    fn random(rng: &mut Rng, n: usize, index: usize, condition: f64) -> Self {
        let n_infinite = (n / 2).max(index);
        let n_finite = n - n_infinite;
        let (mut e, mut f) = (Mat::<f64>::zeros(n, n), Mat::<f64>::zeros(n, n));
        // Finite eigenvalues from slow to stiff, as models have them.
        for i in 0..n_finite {
            e[(i, i)] = 1.0;
            f[(i, i)] = -10f64.powf(6.0 * rng.f64() - 2.0);
            if i > 0 {
                f[(i - 1, i)] = f[(i - 1, i - 1)] * (rng.f64() - 0.5);
            }
        }
        let mut at = n_finite;
        let mut size = index;
        while at < n {
            let size_here = size.min(n - at);
            for k in 0..size_here {
                f[(at + k, at + k)] = 1.0;
                if k > 0 {
                    e[(at + k - 1, at + k)] = 1.0;
                }
            }
            at += size_here;
            size = rng.usize(1..=index);
        }
        // P and Q: reflections, a diagonal of the given condition, reflections.
        let grades = |rng: &mut Rng| -> Vec<f64> { (0..n).map(|_| condition.powf(rng.f64() - 0.5)).collect() };
        for is_left in [true, false] {
            let seed = rng.u64(..);
            let grade = grades(rng);
            for a in [&mut e, &mut f] {
                let mut same = Rng::with_seed(seed);
                reflect(&mut same, a, is_left);
                for i in 0..n {
                    for j in 0..n {
                        a[(i, j)] *= grade[if is_left { i } else { j }];
                    }
                }
                reflect(&mut same, a, is_left);
            }
        }
        let pencil = Pencil::new(e, f).expect("both are n x n and finite");
        Self { pencil, n_finite, index }
    }
}

type Select = unsafe extern "C" fn(*const f64, *const f64, *const f64) -> i32;

#[rustfmt::skip]
type Dgges = unsafe extern "C" fn(
    *const u8, *const u8, *const u8, Option<Select>, *const i32, *mut f64, *const i32, *mut f64, *const i32, *mut i32, *mut f64,
    *mut f64, *mut f64, *mut f64, *const i32, *mut f64, *const i32, *mut f64, *const i32, *mut i32, *mut i32,
);

#[rustfmt::skip]
type Dtgsyl = unsafe extern "C" fn(
    *const u8, *const i32, *const i32, *const i32, *const f64, *const i32, *const f64, *const i32, *mut f64, *const i32, *const f64,
    *const i32, *const f64, *const i32, *mut f64, *const i32, *mut f64, *mut f64, *mut f64, *const i32, *mut i32, *mut i32,
);

/// What the selecting function of dgges takes for infinite; it cannot be told otherwise.
static THRESHOLD: std::sync::Mutex<f64> = std::sync::Mutex::new(1e-8);

unsafe extern "C" fn is_finite(alpha_re: *const f64, alpha_im: *const f64, beta: *const f64) -> i32 {
    // SAFETY: dgges hands over three numbers.
    let (re, im, beta) = unsafe { (*alpha_re, *alpha_im, *beta) };
    let threshold = THRESHOLD.lock().map_or(1e-8, |guard| *guard);
    i32::from(beta.abs() > threshold * re.hypot(im))
}

/// The peer.
struct Lapack {
    library: Library,
}

/// Generalized eigenvalues and the number that was moved to the front.
struct Schur {
    /// |beta| / |alpha|.
    ratios: Vec<f64>,
    n_selected: usize,
}

impl Lapack {
    fn open() -> Result<Self, String> {
        // SAFETY: the library's start-up code is Debian's.
        let library = unsafe { Library::new("libopenblas.so.0") }
            .map_err(|error| format!("the peer is missing ({error}); on Debian: apt-get install {PACKAGE}"))?;
        // One thread each: daesy's pencils do not use more.
        // SAFETY: the signature is that of OpenBLAS.
        if let Ok(set) = unsafe { library.get::<unsafe extern "C" fn(i32)>(b"openblas_set_num_threads\0") } {
            unsafe { set(1) };
        }
        Ok(Self { library })
    }

    /// The decoupled form: dgges with the finite eigenvalues first, then dtgsyl.
    fn split(&self, hidden: &Hidden) -> Result<Schur, String> {
        let n = hidden.pencil.n_variables();
        let column_major = |a: &Mat<f64>| -> Vec<f64> { (0..n * n).map(|k| a[(k % n, k / n)]).collect() };
        let (mut a, mut b) = (column_major(hidden.pencil.f()), column_major(hidden.pencil.e()));
        let (mut alpha_re, mut alpha_im, mut beta) = (vec![0.0; n], vec![0.0; n], vec![0.0; n]);
        let (mut vsl, mut vsr) = (vec![0.0; n * n], vec![0.0; n * n]);
        let mut work = vec![0.0; 64 * n + 16 + n * n];
        let mut bwork = vec![0; n];
        let (size, n_work) = (n as i32, work.len() as i32);
        let (mut n_selected, mut info) = (0, 0);
        // SAFETY: the names and signatures are those of LAPACK; all arrays have the sizes it asks for.
        unsafe {
            let dgges = self.library.get::<Dgges>(b"dgges_\0").map_err(|error| error.to_string())?;
            dgges(
                b"V".as_ptr(),
                b"V".as_ptr(),
                b"S".as_ptr(),
                Some(is_finite),
                &size,
                a.as_mut_ptr(),
                &size,
                b.as_mut_ptr(),
                &size,
                &mut n_selected,
                alpha_re.as_mut_ptr(),
                alpha_im.as_mut_ptr(),
                beta.as_mut_ptr(),
                vsl.as_mut_ptr(),
                &size,
                vsr.as_mut_ptr(),
                &size,
                work.as_mut_ptr(),
                &n_work,
                bwork.as_mut_ptr(),
                &mut info,
            );
        }
        // n + 2: the reordering changed which eigenvalues count; the form itself is there.
        if info != 0 && info != size + 2 {
            return Err(format!("dgges: info = {info}"));
        }
        let m = n_selected as usize;
        let ratios = (0..n).map(|k| beta[k].abs() / alpha_re[k].hypot(alpha_im[k])).collect();
        if m > 0 && m < n {
            let k = n - m;
            let (rows, cols) = (m as i32, k as i32);
            let right_block = |a: &[f64]| -> Vec<f64> { (0..m * k).map(|p| -a[(m + p / m) * n + p % m]).collect() };
            let (mut c, mut f) = (right_block(&a), right_block(&b));
            let (mut scale, mut distance, mut info) = (0.0, 0.0, 0);
            let mut work = [0.0; 1];
            let mut iwork = vec![0; n + 6];
            let second = m * n + m;
            // SAFETY: as above; the diagonal blocks begin at 0 and at (m, m).
            unsafe {
                let dtgsyl = self.library.get::<Dtgsyl>(b"dtgsyl_\0").map_err(|error| error.to_string())?;
                dtgsyl(
                    b"N".as_ptr(),
                    &0,
                    &rows,
                    &cols,
                    a.as_ptr(),
                    &size,
                    a[second..].as_ptr(),
                    &size,
                    c.as_mut_ptr(),
                    &rows,
                    b.as_ptr(),
                    &size,
                    b[second..].as_ptr(),
                    &size,
                    f.as_mut_ptr(),
                    &rows,
                    &mut scale,
                    &mut distance,
                    work.as_mut_ptr(),
                    &1,
                    iwork.as_mut_ptr(),
                    &mut info,
                );
            }
            black_box((&c, &f));
            if info < 0 {
                return Err(format!("dtgsyl: info = {info}"));
            }
        }
        black_box((&vsl, &vsr));
        Ok(Schur { ratios, n_selected: m })
    }
}

fn main() -> std::process::ExitCode {
    let lapack = match Lapack::open() {
        Ok(lapack) => lapack,
        Err(message) => {
            eprintln!("{message}");
            return std::process::ExitCode::FAILURE;
        }
    };
    println!(
        "Split of regular pencils, half of the eigenvalues infinite, index 3, condition 10,\nfinite ones between 1e-2 and 1e4. Milliseconds, one thread.\n"
    );
    println!("{:>5} {:>10} {:>16} {:>8}", "n", "daesy", "dgges + dtgsyl", "ratio");
    for (n, n_runs) in [(20, 50), (100, 9), (300, 3)] {
        let hidden = Hidden::random(&mut Rng::with_seed(n as u64), n, 3, 10.0);
        let own = best_of(n_runs, || {
            split_finite_infinite(black_box(&hidden.pencil), &PencilOptions::default()).map(|split| split.n_finite)
        });
        let peer = best_of(n_runs, || lapack.split(black_box(&hidden)).map(|schur| schur.n_selected));
        println!("{n:>5} {:>10.3} {:>16.3} {:>8.2}", own * 1e3, peer * 1e3, peer / own);
    }
    println!("\nratio: how many times faster daesy is. Goal: at least 1 for n = 100 and above.\n");
    println!("Wrong number of infinite eigenvalues (dgges) and wrong number or index (daesy), of 100 draws each:\n");
    println!(
        "{:>5} {:>6} {:>10} {:>6} {:>9} {:>22}",
        "n", "index", "condition", "daesy", "unflagged", "dgges, best threshold"
    );
    for n in [20, 100] {
        for (index, condition) in [(1, 1e2_f64), (2, 1e2), (3, 1e2), (5, 1e2), (1, 1e4), (2, 1e4), (3, 1e4), (5, 1e4)] {
            let n_draws = 100;
            let thresholds: Vec<f64> = (1..=15).map(|k| 10f64.powi(-k)).collect();
            let (mut own_wrong, mut own_silent) = (0, 0);
            let mut peer_wrong = vec![0; thresholds.len()];
            for draw in 0..n_draws {
                let mut rng = Rng::with_seed((n * 1000 + index * 100_000 + draw) as u64 ^ condition.to_bits());
                let hidden = Hidden::random(&mut rng, n, index, condition);
                let split = split_finite_infinite(&hidden.pencil, &PencilOptions::default());
                let is_right =
                    |split: &FiniteInfiniteSplit| split.n_finite == hidden.n_finite && split.index == hidden.index;
                match &split {
                    Ok(split) if is_right(split) => {}
                    Ok(split) if !split.is_doubtful() => (own_wrong, own_silent) = (own_wrong + 1, own_silent + 1),
                    _ => own_wrong += 1,
                }
                let ratios = lapack.split(&hidden).map_or_else(|_| Vec::new(), |schur| schur.ratios);
                for (wrong, threshold) in peer_wrong.iter_mut().zip(&thresholds) {
                    let found = ratios.iter().filter(|&&ratio| ratio > *threshold).count();
                    *wrong += usize::from(found != hidden.n_finite);
                }
            }
            let best = peer_wrong.iter().min().copied().unwrap_or(n_draws);
            println!("{n:>5} {index:>6} {condition:>10.0e} {own_wrong:>6} {own_silent:>9} {best:>22}");
        }
    }
    std::process::ExitCode::SUCCESS
}
