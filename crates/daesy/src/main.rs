//! The program `daesy`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    daesy::program::keep_memory();
    // Whatever its file is called, workers for units of other tools are this program.
    if let Ok(own) = std::env::current_exe() {
        daesy::program::set_program(vec![own.into_os_string()]);
    }
    std::process::ExitCode::from(daesy::program::run(std::env::args_os()) as u8)
}
