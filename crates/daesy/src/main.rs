//! The program `daesy`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    std::process::ExitCode::from(daesy::program::run(std::env::args_os()) as u8)
}
