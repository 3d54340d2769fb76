//! What a component is to C: an instance with a way to tell its caller what went wrong.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

use daesy_fmu::instance::Role;
use daesy_fmu::running::{InstanceError, Running, SavedState};

/// The functions that save and restore the state of a component, which only differ in their names.
macro_rules! state_functions {
    (save => $save:ident; restore => $restore:ident; free => $free:ident;
     size => $size:ident; serialize => $serialize:ident; load => $load:ident;) => {
        state_functions!($save => save(state: *mut *mut c_void));
        state_functions!($restore => restore(state: *mut c_void));
        state_functions!($free => free(state: *mut *mut c_void));
        state_functions!($size => size(state: *mut c_void, size: *mut usize));
        state_functions!($serialize => serialize(state: *mut c_void, bytes: *mut u8, n: usize));
        state_functions!($load => load(bytes: *const u8, n: usize, state: *mut *mut c_void));
    };
    ($name:ident => $function:ident($($argument:ident: $type:ty),*)) => {
        #[doc = concat!("`", stringify!($name), "`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(c: Handle, $($argument: $type),*) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe { component::$function(c, $($argument),*) }
        }
    };
}
pub(crate) use state_functions;

/// Statuses of both versions.
pub(crate) const OK: c_int = 0;
pub(crate) const DISCARD: c_int = 2;
pub(crate) const ERROR: c_int = 3;
pub(crate) const FATAL: c_int = 4;

/// The category of all messages.
const CATEGORY: &CStr = c"logStatusError";

/// The logger of version 2.0, whose message is a format.
pub(crate) type Logger2 = unsafe extern "C" fn(*mut c_void, *const c_char, c_int, *const c_char, *const c_char, ...);

/// The logger of version 3.0.
pub(crate) type Logger3 = unsafe extern "C" fn(*mut c_void, c_int, *const c_char, *const c_char);

/// Where messages go.
#[derive(Clone, Copy)]
pub(crate) enum Logger {
    None,
    Two(Logger2),
    Three(Logger3),
}

/// Whom to tell.
pub(crate) struct Telling {
    pub(crate) logger: Logger,
    pub(crate) environment: *mut c_void,
    pub(crate) name: CString,
}

impl Telling {
    pub(crate) fn tell(&self, status: c_int, message: &str) {
        let text = |message: &str| CString::new(message.replace('\0', " ")).unwrap_or_default();
        match self.logger {
            Logger::None => {}
            Logger::Two(logger) => {
                let message = text(&message.replace('%', "%%"));
                // SAFETY: The caller gave this function as one of this type, all texts end with a null and outlive the
                // call, and the format asks for no further arguments.
                unsafe { logger(self.environment, self.name.as_ptr(), status, CATEGORY.as_ptr(), message.as_ptr()) };
            }
            Logger::Three(logger) => {
                let message = text(message);
                // SAFETY: As above.
                unsafe { logger(self.environment, status, CATEGORY.as_ptr(), message.as_ptr()) };
            }
        }
    }
}

/// A component.
pub(crate) struct Component {
    pub(crate) instance: Box<dyn Running>,
    pub(crate) telling: Telling,
    /// The model has ended the simulation.
    pub(crate) is_ended: bool,
}

/// What a call can end with.
pub(crate) enum Trouble {
    /// The instance refused.
    Refused(InstanceError),
    /// A pointer was null.
    Null(&'static str),
    /// The interface has this function, but these units do not support it.
    Unsupported(&'static str),
    /// The caller knows already.
    Status(c_int),
}

impl From<InstanceError> for Trouble {
    fn from(error: InstanceError) -> Self {
        Self::Refused(error)
    }
}

/// No panic is told on the terminal of a foreign program.
pub(crate) fn silence_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| std::panic::set_hook(Box::new(|_| {})));
}

/// Runs a call on a component and gives its status.
///
/// # Safety
/// The pointer is null or a live component that nobody else uses now.
pub(crate) unsafe fn run(component: *mut c_void, call: impl FnOnce(&mut Component) -> Result<(), Trouble>) -> c_int {
    // SAFETY: Promised by the caller; null is told from others.
    let Some(component) = (unsafe { component.cast::<Component>().as_mut() }) else { return ERROR };
    match catch_unwind(AssertUnwindSafe(|| call(component))) {
        Ok(Ok(())) => OK,
        Ok(Err(Trouble::Status(status))) => status,
        Ok(Err(Trouble::Null(what))) => {
            component.telling.tell(ERROR, &format!("{what} is null"));
            ERROR
        }
        Ok(Err(Trouble::Unsupported(what))) => {
            component.telling.tell(ERROR, &format!("{what} is not supported"));
            ERROR
        }
        Ok(Err(Trouble::Refused(error))) => {
            // A point at which the equations have no solution may be left out, others are mistakes.
            let status = if matches!(error, InstanceError::Integration(_)) { DISCARD } else { ERROR };
            component.telling.tell(status, &error.to_string());
            status
        }
        Err(_) => {
            component.telling.tell(FATAL, "an internal error of daesy; the instance cannot be used any more");
            FATAL
        }
    }
}

/// An array that may be read.
///
/// # Safety
/// `n` values can be read at the pointer for as long as the result is used, unless it is null.
pub(crate) unsafe fn read<'a, T>(pointer: *const T, n: usize) -> Result<&'a [T], Trouble> {
    if n == 0 {
        return Ok(&[]);
    }
    if pointer.is_null() {
        return Err(Trouble::Null("an array"));
    }
    // SAFETY: Promised by the caller; not null.
    Ok(unsafe { std::slice::from_raw_parts(pointer, n) })
}

/// An array that may be written.
///
/// # Safety
/// `n` values can be written at the pointer for as long as the result is used, by nobody else, unless it is null.
pub(crate) unsafe fn write<'a, T>(pointer: *mut T, n: usize) -> Result<&'a mut [T], Trouble> {
    if n == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(Trouble::Null("an array"));
    }
    // SAFETY: Promised by the caller; not null.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer, n) })
}

/// A single value that may be written.
///
/// # Safety
/// A value can be written at the pointer, by nobody else, unless it is null.
pub(crate) unsafe fn place<'a, T>(pointer: *mut T) -> Result<&'a mut T, Trouble> {
    // SAFETY: Promised by the caller; null is told from others.
    unsafe { pointer.as_mut() }.ok_or(Trouble::Null("the place of a result"))
}

/// A text; empty where the pointer is null.
///
/// # Safety
/// The pointer is null or a text that ends with a null and lives for as long as the result is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char) -> std::borrow::Cow<'a, str> {
    if pointer.is_null() {
        return "".into();
    }
    // SAFETY: Promised by the caller; not null.
    unsafe { CStr::from_ptr(pointer) }.to_string_lossy()
}

/// Gives a component to C.
pub(crate) fn hand_out(component: Component) -> *mut c_void {
    Box::into_raw(Box::new(component)).cast()
}

/// Takes a component back.
///
/// # Safety
/// The pointer is null or a live component that nobody uses any more.
pub(crate) unsafe fn take_back(component: *mut c_void) {
    if !component.is_null() {
        // SAFETY: It came from `hand_out` and is given back once.
        let component = unsafe { Box::from_raw(component.cast::<Component>()) };
        // What is dropped must not panic into C.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(component)));
    }
}

/// Writes the state of a component into a place that holds null or an older state, which is then used again.
///
/// # Safety
/// As the interface demands of `GetFMUState`.
pub(crate) unsafe fn save(component: *mut c_void, state: *mut *mut c_void) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(component, |component| {
            let place = place(state)?;
            let saved = component.instance.save();
            match place.cast::<SavedState>().as_mut() {
                Some(old) => *old = saved,
                None => *place = Box::into_raw(Box::new(saved)).cast(),
            }
            Ok(())
        })
    }
}

/// Goes on from a saved state.
///
/// # Safety
/// As the interface demands of `SetFMUState`.
pub(crate) unsafe fn restore(component: *mut c_void, state: *mut c_void) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(component, |component| {
            let saved = state.cast::<SavedState>().as_ref().ok_or(Trouble::Null("the saved state"))?;
            component.is_ended = false;
            Ok(component.instance.restore(saved)?)
        })
    }
}

/// Frees a saved state.
///
/// # Safety
/// As the interface demands of `FreeFMUState`.
pub(crate) unsafe fn free(component: *mut c_void, state: *mut *mut c_void) -> c_int {
    // SAFETY: Promised by the caller; a state came from `save` or `load`.
    unsafe {
        run(component, |_| {
            if let Some(place) = state.as_mut()
                && !place.is_null()
            {
                drop(Box::from_raw(place.cast::<SavedState>()));
                *place = std::ptr::null_mut();
            }
            Ok(())
        })
    }
}

/// Says how many bytes a saved state needs.
///
/// # Safety
/// As the interface demands of `SerializedFMUStateSize`.
pub(crate) unsafe fn size(component: *mut c_void, state: *mut c_void, size: *mut usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(component, |_| {
            let saved = state.cast::<SavedState>().as_ref().ok_or(Trouble::Null("the saved state"))?;
            *place(size)? = saved.to_bytes().len();
            Ok(())
        })
    }
}

/// Writes a saved state as bytes.
///
/// # Safety
/// As the interface demands of `SerializeFMUState`.
pub(crate) unsafe fn serialize(component: *mut c_void, state: *mut c_void, bytes: *mut u8, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(component, |_| {
            let saved = state.cast::<SavedState>().as_ref().ok_or(Trouble::Null("the saved state"))?;
            let written = saved.to_bytes();
            if written.len() > n {
                return Err(InstanceError::OtherLength { given: n, expected: written.len() }.into());
            }
            write(bytes, n)?[..written.len()].copy_from_slice(&written);
            Ok(())
        })
    }
}

/// Reads a saved state from bytes.
///
/// # Safety
/// As the interface demands of `DeserializeFMUState`.
pub(crate) unsafe fn load(component: *mut c_void, bytes: *const u8, n: usize, state: *mut *mut c_void) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(component, |_| {
            let saved = SavedState::from_bytes(read(bytes, n)?)?;
            let place = place(state)?;
            match place.cast::<SavedState>().as_mut() {
                Some(old) => *old = saved,
                None => *place = Box::into_raw(Box::new(saved)).cast(),
            }
            Ok(())
        })
    }
}

/// What an instantiation asks for.
pub(crate) struct Order<'a> {
    pub(crate) telling: Telling,
    pub(crate) token: &'a str,
    pub(crate) resources: std::path::PathBuf,
    pub(crate) role: Role,
    pub(crate) may_return_early: bool,
}

/// Makes a component; null where that fails, after telling why.
pub(crate) fn instantiate(order: Order<'_>) -> *mut c_void {
    silence_panics();
    let Order { telling, token, resources, role, may_return_early } = order;
    let made = catch_unwind(AssertUnwindSafe(|| {
        crate::cache::content_of(&resources, token)?.instance(role, may_return_early)
    }));
    match made {
        Ok(Ok(instance)) => hand_out(Component { instance, telling, is_ended: false }),
        Ok(Err(message)) => {
            telling.tell(ERROR, &message);
            std::ptr::null_mut()
        }
        Err(_) => {
            telling.tell(FATAL, "an internal error of daesy");
            std::ptr::null_mut()
        }
    }
}
