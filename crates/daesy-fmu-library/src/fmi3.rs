//! Version 3.0 of the interface: all functions of `fmi3Functions.h`.

use std::ffi::{CString, c_char, c_double, c_int, c_void};
use std::path::PathBuf;

use daesy_fmu::instance::Role;
use daesy_fmu::running::InstanceError;
use daesy_fmu::variable::ValueType;

use crate::component::{
    self, Component, DISCARD, ERROR, Logger, Logger3, Order, Telling, Trouble, instantiate, place, read, run,
    state_functions, take_back, text, write,
};

/// `fmi3Instance`
pub type Handle = *mut c_void;

/// `fmi3IntermediateUpdateCallback`
pub type IntermediateUpdate =
    unsafe extern "C" fn(*mut c_void, c_double, bool, bool, bool, bool, *mut bool, *mut c_double);

/// `fmi3GetVersion`
#[unsafe(no_mangle)]
pub extern "C" fn fmi3GetVersion() -> *const c_char {
    c"3.0".as_ptr()
}

/// `fmi3SetDebugLogging`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3SetDebugLogging(c: Handle, _: bool, _: usize, _: *const *const c_char) -> c_int {
    // SAFETY: Promised by the caller. Only errors are told, always.
    unsafe { run(c, |_| Ok(())) }
}

/// Whom to tell.
///
/// # Safety
/// The name is null or a text.
unsafe fn telling(name: *const c_char, environment: *mut c_void, logger: Option<Logger3>) -> Telling {
    // SAFETY: Promised by the caller.
    let name = unsafe { text(name) };
    Telling {
        logger: logger.map_or(Logger::None, Logger::Three),
        environment,
        name: CString::new(name.replace('\0', " ")).unwrap_or_default(),
    }
}

/// `fmi3InstantiateModelExchange`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3InstantiateModelExchange(
    name: *const c_char,
    token: *const c_char,
    resources: *const c_char,
    _visible: bool,
    _logging: bool,
    environment: *mut c_void,
    logger: Option<Logger3>,
) -> Handle {
    // SAFETY: Promised by the caller.
    let (telling, token, resources) = unsafe { (telling(name, environment, logger), text(token), text(resources)) };
    let resources = PathBuf::from(resources.as_ref());
    instantiate(Order { telling, token: &token, resources, role: Role::ModelExchange, may_return_early: false })
}

/// `fmi3InstantiateCoSimulation`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3InstantiateCoSimulation(
    name: *const c_char,
    token: *const c_char,
    resources: *const c_char,
    _visible: bool,
    _logging: bool,
    _event_mode_used: bool,
    may_return_early: bool,
    _intermediate: *const u32,
    _n_intermediate: usize,
    environment: *mut c_void,
    logger: Option<Logger3>,
    _update: Option<IntermediateUpdate>,
) -> Handle {
    // SAFETY: Promised by the caller.
    let (telling, token, resources) = unsafe { (telling(name, environment, logger), text(token), text(resources)) };
    let resources = PathBuf::from(resources.as_ref());
    instantiate(Order { telling, token: &token, resources, role: Role::CoSimulation, may_return_early })
}

/// `fmi3InstantiateScheduledExecution`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3InstantiateScheduledExecution(
    name: *const c_char,
    _token: *const c_char,
    _resources: *const c_char,
    _visible: bool,
    _logging: bool,
    environment: *mut c_void,
    logger: Option<Logger3>,
    _clock_update: Option<unsafe extern "C" fn(*mut c_void)>,
    _lock: Option<unsafe extern "C" fn()>,
    _unlock: Option<unsafe extern "C" fn()>,
) -> Handle {
    // SAFETY: Promised by the caller.
    unsafe { telling(name, environment, logger) }.tell(ERROR, "Scheduled Execution is not supported");
    std::ptr::null_mut()
}

/// `fmi3FreeInstance`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3FreeInstance(c: Handle) {
    // SAFETY: Promised by the caller.
    unsafe { take_back(c) }
}

/// `fmi3EnterInitializationMode`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3EnterInitializationMode(
    c: Handle,
    has_tolerance: bool,
    tolerance: c_double,
    start: c_double,
    has_stop: bool,
    stop: c_double,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (stop, tolerance) = (has_stop.then_some(stop), has_tolerance.then_some(tolerance));
            component.instance.set_experiment(start, stop, tolerance)?;
            Ok(component.instance.enter_initialization()?)
        })
    }
}

/// Functions that take a component and nothing else.
macro_rules! plain {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(c: Handle) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe { run(c, |component| Ok(component.instance.$method()?)) }
        }
    )*};
}

plain! {
    /// `fmi3ExitInitializationMode`
    fmi3ExitInitializationMode => exit_initialization;
    /// `fmi3EnterEventMode`
    fmi3EnterEventMode => enter_event;
    /// `fmi3Terminate`
    fmi3Terminate => terminate;
    /// `fmi3EnterContinuousTimeMode`
    fmi3EnterContinuousTimeMode => enter_continuous;
    /// `fmi3EnterStepMode`
    fmi3EnterStepMode => enter_step;
}

/// `fmi3Reset`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3Reset(c: Handle) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            component.is_ended = false;
            component.instance.reset();
            Ok(())
        })
    }
}

/// Reads variables of a type.
///
/// # Safety
/// As the interface demands of `Get` functions.
unsafe fn get<T>(
    c: Handle,
    vr: *const u32,
    n: usize,
    values: *mut T,
    n_values: usize,
    fits: fn(&ValueType) -> bool,
    convert: fn(f64) -> T,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            if n != n_values {
                return Err(InstanceError::OtherLength { given: n_values, expected: n }.into());
            }
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                expect_type(component, reference, fits)?;
                *value = convert(component.instance.value(reference)?);
            }
            Ok(())
        })
    }
}

/// Sets variables of a type.
///
/// # Safety
/// As the interface demands of `Set` functions.
unsafe fn set<T: Copy>(
    c: Handle,
    vr: *const u32,
    n: usize,
    values: *const T,
    n_values: usize,
    fits: fn(&ValueType) -> bool,
    convert: fn(T) -> f64,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            if n != n_values {
                return Err(InstanceError::OtherLength { given: n_values, expected: n }.into());
            }
            for (&reference, &value) in read(vr, n)?.iter().zip(read(values, n)?) {
                expect_type(component, reference, fits)?;
                component.instance.set_value(reference, convert(value))?;
            }
            Ok(())
        })
    }
}

fn expect_type(component: &Component, reference: u32, fits: fn(&ValueType) -> bool) -> Result<(), Trouble> {
    let variable = component.instance.variable(reference)?;
    if fits(&variable.value_type) { Ok(()) } else { Err(InstanceError::OtherType(variable.name.clone()).into()) }
}

/// A getter and a setter of a type of the interface.
macro_rules! access {
    ($($kind:ty, $get:ident, $set:ident, $fits:expr, $out:expr, $in:expr;)*) => {$(
        #[doc = concat!("`", stringify!($get), "`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $get(c: Handle, vr: *const u32, n: usize, values: *mut $kind, n_values: usize) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe { get(c, vr, n, values, n_values, $fits, $out) }
        }

        #[doc = concat!("`", stringify!($set), "`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $set(c: Handle, vr: *const u32, n: usize, values: *const $kind, n_values: usize) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe { set(c, vr, n, values, n_values, $fits, $in) }
        }
    )*};
}

fn is_real(value_type: &ValueType) -> bool {
    *value_type == ValueType::Real
}

fn is_whole(value_type: &ValueType) -> bool {
    matches!(value_type, ValueType::Integer | ValueType::Enumeration(_))
}

fn is_truth(value_type: &ValueType) -> bool {
    *value_type == ValueType::Boolean
}

/// No variable of these units has such a type.
fn is_never(_: &ValueType) -> bool {
    false
}

access! {
    f64, fmi3GetFloat64, fmi3SetFloat64, is_real, |value| value, |value| value;
    i64, fmi3GetInt64, fmi3SetInt64, is_whole, |value| value as i64, |value| value as f64;
    bool, fmi3GetBoolean, fmi3SetBoolean, is_truth, |value| value != 0.0, |value| f64::from(u8::from(value));
    f32, fmi3GetFloat32, fmi3SetFloat32, is_never, |value| value as f32, f64::from;
    i8, fmi3GetInt8, fmi3SetInt8, is_never, |value| value as i8, f64::from;
    u8, fmi3GetUInt8, fmi3SetUInt8, is_never, |value| value as u8, f64::from;
    i16, fmi3GetInt16, fmi3SetInt16, is_never, |value| value as i16, f64::from;
    u16, fmi3GetUInt16, fmi3SetUInt16, is_never, |value| value as u16, f64::from;
    i32, fmi3GetInt32, fmi3SetInt32, is_never, |value| value as i32, f64::from;
    u32, fmi3GetUInt32, fmi3SetUInt32, is_never, |value| value as u32, f64::from;
    u64, fmi3GetUInt64, fmi3SetUInt64, is_never, |value| value as u64, |value| value as f64;
}

/// `fmi3GetString`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetString(
    c: Handle,
    vr: *const u32,
    n: usize,
    values: *mut *const c_char,
    n_values: usize,
) -> c_int {
    // SAFETY: Promised by the caller. Texts live as long as the instance.
    unsafe {
        run(c, |component| {
            if n != n_values {
                return Err(InstanceError::OtherLength { given: n_values, expected: n }.into());
            }
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                *value = component.instance.text(reference)?.as_ptr();
            }
            Ok(())
        })
    }
}

/// Refuses to set, or to ask for, variables that these units do not have.
///
/// # Safety
/// As the interface demands.
unsafe fn refuse(c: Handle, n: usize, what: &'static str) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |_| if n == 0 { Ok(()) } else { Err(Trouble::Unsupported(what)) }) }
}

/// `fmi3SetString`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3SetString(c: Handle, _: *const u32, n: usize, _: *const *const c_char, _: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, n, "setting a text") }
}

/// `fmi3GetBinary`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetBinary(
    c: Handle,
    _: *const u32,
    n: usize,
    _: *mut usize,
    _: *mut *const u8,
    _: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, n, "a binary variable") }
}

/// `fmi3SetBinary`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3SetBinary(
    c: Handle,
    _: *const u32,
    n: usize,
    _: *const usize,
    _: *const *const u8,
    _: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, n, "a binary variable") }
}

/// Functions of clocks, which these units do not have.
macro_rules! clocks {
    ($($name:ident($($kind:ty),*);)*) => {$(
        #[doc = concat!("`", stringify!($name), "`")]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(c: Handle, _: *const u32, n: usize, $(_: $kind),*) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe { refuse(c, n, "a clock") }
        }
    )*};
}

clocks! {
    fmi3GetClock(*mut bool);
    fmi3SetClock(*const bool);
    fmi3GetIntervalDecimal(*mut f64, *mut c_int);
    fmi3GetIntervalFraction(*mut u64, *mut u64, *mut c_int);
    fmi3GetShiftDecimal(*mut f64);
    fmi3GetShiftFraction(*mut u64, *mut u64);
    fmi3SetIntervalDecimal(*const f64);
    fmi3SetIntervalFraction(*const u64, *const u64);
    fmi3SetShiftDecimal(*const f64);
    fmi3SetShiftFraction(*const u64, *const u64);
}

/// `fmi3GetNumberOfVariableDependencies`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetNumberOfVariableDependencies(c: Handle, _: u32, _: *mut usize) -> c_int {
    // SAFETY: Promised by the caller. Dependencies stand in the description.
    unsafe { refuse(c, 1, "asking for dependencies while running") }
}

/// `fmi3GetVariableDependencies`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetVariableDependencies(
    c: Handle,
    _: u32,
    _: *mut usize,
    _: *mut u32,
    _: *mut usize,
    _: *mut c_int,
    _: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, 1, "asking for dependencies while running") }
}

state_functions! {
    save => fmi3GetFMUState;
    restore => fmi3SetFMUState;
    free => fmi3FreeFMUState;
    size => fmi3SerializedFMUStateSize;
    serialize => fmi3SerializeFMUState;
    load => fmi3DeserializeFMUState;
}

/// Products of the partial derivatives with a seed, from either side.
macro_rules! derivatives {
    ($($(#[$doc:meta])* $name:ident => $method:ident;)*) => {$(
        $(#[$doc])*
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            c: Handle,
            unknowns: *const u32,
            n_unknowns: usize,
            knowns: *const u32,
            n_knowns: usize,
            seed: *const c_double,
            n_seed: usize,
            sensitivity: *mut c_double,
            n_sensitivity: usize,
        ) -> c_int {
            // SAFETY: Promised by the caller.
            unsafe {
                run(c, |component| {
                    let (unknowns, knowns) = (read(unknowns, n_unknowns)?, read(knowns, n_knowns)?);
                    let (seed, sensitivity) = (read(seed, n_seed)?, write(sensitivity, n_sensitivity)?);
                    Ok(component.instance.$method(unknowns, knowns, seed, sensitivity)?)
                })
            }
        }
    )*};
}

derivatives! {
    /// `fmi3GetDirectionalDerivative`
    fmi3GetDirectionalDerivative => directional_derivative;
    /// `fmi3GetAdjointDerivative`
    fmi3GetAdjointDerivative => adjoint_derivative;
}

/// `fmi3EnterConfigurationMode`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3EnterConfigurationMode(c: Handle) -> c_int {
    // SAFETY: Promised by the caller. There are no structural parameters to configure.
    unsafe { run(c, |_| Ok(())) }
}

/// `fmi3ExitConfigurationMode`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3ExitConfigurationMode(c: Handle) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |_| Ok(())) }
}

/// `fmi3EvaluateDiscreteStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3EvaluateDiscreteStates(c: Handle) -> c_int {
    // SAFETY: Promised by the caller. Values are always up to date.
    unsafe { run(c, |_| Ok(())) }
}

/// `fmi3UpdateDiscreteStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3UpdateDiscreteStates(
    c: Handle,
    needs_update: *mut bool,
    terminate: *mut bool,
    nominals_changed: *mut bool,
    states_changed: *mut bool,
    next_event_defined: *mut bool,
    next_event: *mut c_double,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (needs_update, terminate) = (place(needs_update)?, place(terminate)?);
            let (nominals, states) = (place(nominals_changed)?, place(states_changed)?);
            let (is_defined, next_event) = (place(next_event_defined)?, place(next_event)?);
            let update = component.instance.update_discrete()?;
            (*needs_update, *terminate) = (false, update.is_end);
            (*nominals, *states) = (false, update.has_new_states);
            (*is_defined, *next_event) = (update.next_event.is_some(), update.next_event.unwrap_or(0.0));
            Ok(())
        })
    }
}

/// `fmi3CompletedIntegratorStep`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3CompletedIntegratorStep(
    c: Handle,
    _no_set_prior: bool,
    wants_event: *mut bool,
    terminate: *mut bool,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (wants_event, terminate) = (place(wants_event)?, place(terminate)?);
            let end = component.instance.complete_step()?;
            (*wants_event, *terminate) = (end.wants_event, false);
            Ok(())
        })
    }
}

/// `fmi3SetTime`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3SetTime(c: Handle, time: c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.set_time(time)?)) }
}

/// `fmi3SetContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3SetContinuousStates(c: Handle, states: *const c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.set_states(read(states, n)?)?)) }
}

/// `fmi3GetContinuousStateDerivatives`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetContinuousStateDerivatives(c: Handle, rates: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.rates(write(rates, n)?)?)) }
}

/// `fmi3GetEventIndicators`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetEventIndicators(c: Handle, values: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.event_indicators(write(values, n)?)?)) }
}

/// `fmi3GetContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetContinuousStates(c: Handle, states: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.states(write(states, n)?)?)) }
}

/// `fmi3GetNominalsOfContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetNominalsOfContinuousStates(c: Handle, nominals: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.nominals(write(nominals, n)?)?)) }
}

/// `fmi3GetNumberOfEventIndicators`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetNumberOfEventIndicators(c: Handle, n: *mut usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            *place(n)? = component.instance.n_indicators();
            Ok(())
        })
    }
}

/// `fmi3GetNumberOfContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetNumberOfContinuousStates(c: Handle, n: *mut usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            *place(n)? = component.instance.n_states();
            Ok(())
        })
    }
}

/// `fmi3GetOutputDerivatives`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3GetOutputDerivatives(
    c: Handle,
    _: *const u32,
    n: usize,
    _: *const i32,
    _: *mut c_double,
    _: usize,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, n, "a derivative of an output") }
}

/// `fmi3DoStep`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3DoStep(
    c: Handle,
    from: c_double,
    length: c_double,
    _no_set_prior: bool,
    needs_event: *mut bool,
    terminate: *mut bool,
    is_early: *mut bool,
    reached: *mut c_double,
) -> c_int {
    // SAFETY: Promised by the caller.
    let status = unsafe {
        run(c, |component| {
            let (needs_event, terminate) = (place(needs_event)?, place(terminate)?);
            let (is_early, reached) = (place(is_early)?, place(reached)?);
            (*needs_event, *terminate, *is_early) = (false, false, false);
            *reached = component.instance.time();
            let done = component.instance.step(from, length)?;
            (*terminate, *is_early, *reached) = (done.is_end, done.is_early, done.time);
            component.is_ended = done.is_end;
            Ok(())
        })
    };
    if status == DISCARD { ERROR } else { status }
}

/// `fmi3ActivateModelPartition`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi3ActivateModelPartition(c: Handle, _: u32, _: c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { refuse(c, 1, "Scheduled Execution") }
}
