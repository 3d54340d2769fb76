//! What units say, kept until they are asked for.

use std::cell::RefCell;
use std::ffi::{CStr, c_char, c_void};

/// Most messages that are kept, and most characters of one.
const MOST_MESSAGES: usize = 8;
const MOST_CHARACTERS: usize = 500;

thread_local! {
    static MESSAGES: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

fn keep(message: String) {
    MESSAGES.with_borrow_mut(|messages| {
        let message: String = message.trim().chars().take(MOST_CHARACTERS).collect();
        if !message.is_empty() && messages.last() != Some(&message) {
            if messages.len() == MOST_MESSAGES {
                messages.remove(0);
            }
            messages.push(message);
        }
    });
}

/// What was said, to be put after a message; nobody hears it again.
pub(super) fn words() -> String {
    let messages = MESSAGES.take();
    if messages.is_empty() { String::new() } else { format!("; it says: {}", messages.join(" | ")) }
}

/// Forgets what was said about calls that went well.
pub(super) fn clear() {
    MESSAGES.with_borrow_mut(Vec::clear);
}

/// A text of the library, empty where there is none.
fn text(pointer: *const c_char) -> String {
    if pointer.is_null() {
        return String::new();
    }
    // SAFETY: the library promises a text that ends in a zero byte; see the head of the parent module.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned()
}

/// The first conversion of a format, with what is before and after it.
fn conversion(format: &str) -> Option<(&str, char, &str)> {
    let at = format.find('%')?;
    let rest = &format[at + 1..];
    let end = rest.find(|character: char| character.is_ascii_alphabetic())?;
    let kind = rest[end..].chars().next()?;
    Some((&format[..at], kind, &rest[end + 1..]))
}

/// The logger of FMI 2.0. It has a variable number of arguments, which stable Rust cannot declare; on the platforms
/// below the first of these is passed like the sixth of a function with six, in a register that can always be read. It
/// is looked at only where the format begins with a conversion to a text or a whole number.
pub(super) extern "C" fn log_two(
    _environment: *mut c_void,
    _instance: *const c_char,
    status: i32,
    _category: *const c_char,
    message: *const c_char,
    first: usize,
) {
    let format = text(message);
    let is_passed_so =
        cfg!(all(unix, target_arch = "x86_64")) || cfg!(all(target_os = "linux", target_arch = "aarch64"));
    let said = match conversion(&format) {
        Some((before, 's', after)) if is_passed_so => format!("{before}{}{after}", text(first as *const c_char)),
        Some((before, 'd' | 'i', after)) if is_passed_so => format!("{before}{}{after}", first as i32),
        _ => format,
    };
    if status > 0 {
        keep(said);
    }
}

/// The logger of FMI 3.0.
pub(super) extern "C" fn log_three(
    _environment: *mut c_void,
    status: i32,
    _category: *const c_char,
    message: *const c_char,
) {
    if status > 0 {
        keep(text(message));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_conversion_of_a_format_is_filled_in() {
        let (format, word) = (c"no licence for %s at all", c"Model");
        log_two(std::ptr::null_mut(), std::ptr::null(), 3, std::ptr::null(), format.as_ptr(), word.as_ptr() as usize);
        assert_eq!(words(), "; it says: no licence for Model at all");
        assert_eq!(words(), "");
        log_three(std::ptr::null_mut(), 3, std::ptr::null(), std::ptr::null());
        assert_eq!(words(), "");
    }
}
