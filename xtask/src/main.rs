//! Developer commands of daesy: `cargo xtask test | tidy | book | miri | bench NAME | study NAME`.
#![forbid(unsafe_code)]

mod book;
mod browser;
mod conformance;
mod dependencies;
mod memory;
mod problem;
mod process;
mod programs;
mod python;
mod suite;
mod tidy;
mod wheel;
mod workspace;

use std::process::ExitCode;

use programs::Shelf;
use workspace::Workspace;

const OVERVIEW: &str = "\
Developer commands of daesy.

    cargo xtask test [STEP..]     everything that must hold before a commit
    cargo xtask tidy              the rules of the house that no compiler checks
    cargo xtask book              build the book and run every command in it
    cargo xtask miri              the portable path of compiled code under Miri
    cargo xtask bench [NAME ..]   a benchmark against peers; without a name, the list
    cargo xtask study [NAME ..]   a long study; without a name, the list
    cargo xtask conformance ..    the examples of a library against its reference results
    cargo xtask wheel [OPTION ..] the Python package with the program inside, as one file

`cargo xtask COMMAND --help` says more.";

const TEST_HELP: &str = "\
cargo xtask test [STEP..]

Runs, in this order, every check that applies to the tree: formatting, tidy, dependencies
(licences, advisories, yanked versions), clippy with warnings denied, Rust tests and doc tests,
machine code and memory under valgrind, rustdoc with warnings denied, packages as a registry would
get them, the demo, Python tests, notebooks, the book, and the pages in a browser. Python tests and
notebooks appear once the tree has some.

With STEP names only those steps run. A check whose tool is missing is skipped and named; with
CI=true in the environment it fails instead. The exit status is 0 when nothing failed.";

const WHEEL_HELP: &str = "\
cargo xtask wheel [OPTION ..]

Builds target/wheels/daesy-VERSION-cp310-abi3-PLATFORM.whl with maturin, which it installs into an
environment of its own under target. The wheel serves every Python from 3.10 on and holds the program
`daesy`. It is then installed into an empty environment and run there. OPTIONs go to `maturin build`,
such as `--target aarch64-apple-darwin`.";

const TIDY_HELP: &str = "\
cargo xtask tidy

Checks what no compiler checks: which crate may use which, that cited keys are in references.bib,
forbidden names and words, machine paths, `forbid(unsafe_code)`, opening doc sentences, input and
output outside the facade, links between documents, file sizes, and that the documents name what
exists. Prints one line per problem, with its place.";

const BOOK_HELP: &str = "\
cargo xtask book [--no-run]

Builds book/src into book/output (self-contained pages) and runs what the chapters show:

    ```sh                     runs; must exit 0 (every shell block is run, there is no way around)
    ```sh,fails               must not exit 0; `fails=1` demands that status
    ```text,output            is what the shell block above it prints; a line `...` stands for any lines
    ```modelica,check         goes through `daesy flatten`
    ```LANGUAGE,file=NAME     is written to NAME for the shell blocks that follow

Each chapter runs in a folder of its own that starts as a copy of book/examples, with the
repository's `problems` beside it, and finds the freshly built `daesy` on its PATH.
`--no-run` only builds the pages.";

const MIRI_HELP: &str = "\
cargo xtask miri

Runs the tests of the crate that holds `unsafe` under Miri, on its portable path: Miri knows neither
vector instructions nor machine code. Needs a nightly toolchain with the component miri, and says so
where there is none. It takes minutes and is no part of `cargo xtask test`.";

const BENCH_HELP: &str = "\
cargo xtask bench [NAME [ARGUMENTS..]]

Runs the benchmark NAME in release mode. Benchmarks are bench/src/bin/NAME.rs (a package of its
own, where peers may be dependencies) and crates/*/benches/NAME.rs. If bench/requirements/NAME.txt
exists, a Python environment with those packages is made in the target folder and its interpreter
is handed over in DAESY_BENCH_PYTHON; peers that are built from C find cmake and libclang there.
A benchmark whose name is a feature of bench/Cargo.toml is built with it. `large` takes the folder
of a package of models that grow. Without a name, lists what there is.";

const STUDY_HELP: &str = "\
cargo xtask study [NAME [ARGUMENTS..]]

Runs the study NAME in release mode. Studies take minutes to hours and are no part of the tests;
they are crates/*/examples/study_NAME.rs or bench/src/bin/study_NAME.rs. A study of the book writes
book/studies/NAME: numbers, pictures, a comparison with a paper; chapters show them by a line
`{{study NAME}}`. Its pictures are also written as PNG, beside the SVG, by the package in raster/;
these are not kept in the repository. Without a name, lists what there is.";

const CONFORMANCE_HELP: &str = "\
cargo xtask conformance LIBRARY REFERENCES [OPTIONS]

Simulates the examples of a Modelica library and compares them with reference results in the layout
of the Modelica Association: a folder for each class with comparisonSignals.txt, creation.txt and a
table NAME.csv. LIBRARY is the folder that holds the packages. Neither is part of the project. Prints
a line for each example, a table by package, reasons of refusal by count, and the ten slowest. The
exit status is 0 when no example differs from its reference or crashes.

    --first FOLDER    libraries that are looked in first, such as the `ModelicaServices` of the tool that made the
                      references
    --only PARTS      examples whose name has one of the PARTS in it, with commas between; the others keep what
                      became of them earlier
    --limit SECONDS   of processor time for one example (60)
    --output FILE     where results go (target/conformance/results.tsv)
    --earlier FILE    results of an earlier run: says what got better and what broke
    --program FILE    the program; without it, it is built in release mode
    --page FILE       also writes a page of the book: the table, and those that do not agree with their reasons";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some((command, rest)) = arguments.split_first() else {
        println!("{OVERVIEW}");
        return ExitCode::from(2);
    };
    let wants_help = rest.first().is_some_and(|a| a == "--help" || a == "-h");
    let help = match command.as_str() {
        "--help" | "-h" | "help" => {
            println!("{OVERVIEW}");
            return ExitCode::SUCCESS;
        }
        "test" => TEST_HELP,
        "tidy" => TIDY_HELP,
        "book" => BOOK_HELP,
        "miri" => MIRI_HELP,
        "bench" => BENCH_HELP,
        "study" => STUDY_HELP,
        "conformance" => CONFORMANCE_HELP,
        "wheel" => WHEEL_HELP,
        other => {
            eprintln!("no command `{other}`\n\n{OVERVIEW}");
            return ExitCode::from(2);
        }
    };
    if wants_help {
        println!("{help}");
        return ExitCode::SUCCESS;
    }
    let workspace = match Workspace::discover() {
        Ok(workspace) => workspace,
        Err(message) => {
            eprintln!("{message}");
            return ExitCode::FAILURE;
        }
    };
    let is_success = match command.as_str() {
        "test" => suite::run(&workspace, rest),
        "tidy" => tidy::run(&workspace),
        "book" => book::run(&workspace, !rest.iter().any(|a| a == "--no-run")),
        "conformance" => conformance::run(&workspace, rest),
        "wheel" => wheel::run(&workspace, rest),
        "miri" => memory::miri(&workspace),
        "bench" => programs::run(&workspace, Shelf::Benchmarks, rest),
        _ => programs::run(&workspace, Shelf::Studies, rest),
    };
    if is_success { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
