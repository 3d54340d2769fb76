//! Prints the chapter of the book that lists all options: `cargo run --example option_chapter > book/src/options.md`.

fn main() {
    print!("{}", daesy::program::option_chapter());
}
