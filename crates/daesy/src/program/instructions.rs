//! Which vector instructions the process may use: the environment variable `DAESY_INSTRUCTIONS`.
//!
//! Results do not depend on them where lanes are concerned. The variable is there to show that, and to compare speeds.

use daesy_compile::Backend;
use daesy_estimate::noise::normal::Instructions;

use crate::diagnostic::Diagnostic;

/// The name of the variable.
const NAME: &str = "DAESY_INSTRUCTIONS";

/// Its values.
const VALUES: [(&str, Backend, Instructions); 4] = [
    ("portable", Backend::Portable, Instructions::Portable),
    ("avx2-interpreter", Backend::Avx2, Instructions::Avx2),
    ("avx2", Backend::Native, Instructions::Avx2),
    ("avx512", Backend::Native512, Instructions::Avx512),
];

/// Limits instructions as the environment says. What is asked for and not there is left out, as without the variable.
///
/// # Errors
/// What is wrong with the variable.
pub(super) fn limit() -> Result<(), Box<Diagnostic>> {
    let Some(asked) = std::env::var_os(NAME) else { return Ok(()) };
    match VALUES.iter().find(|(name, ..)| asked == *name) {
        Some((_, backend, instructions)) => {
            backend.limit_to();
            instructions.limit_to();
            Ok(())
        }
        None => {
            let names: Vec<&str> = VALUES.iter().map(|(name, ..)| *name).collect();
            let message = format!("the environment variable {NAME} is `{}`", asked.to_string_lossy());
            let help = format!("it may be {}; without it the widest are used that the processor has", names.join(", "));
            Err(Box::new(Diagnostic::error("usage", message).with_help(help)))
        }
    }
}
