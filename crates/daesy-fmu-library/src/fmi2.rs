//! Version 2.0 of the interface: all functions of `fmi2Functions.h`.

use std::ffi::{CString, c_char, c_double, c_int, c_uint, c_void};

use daesy_fmu::instance::Role;
use daesy_fmu::running::InstanceError;
use daesy_fmu::variable::ValueType;

use crate::cache::folder_of_uri;
use crate::component::{
    self, Component, DISCARD, ERROR, Logger, Logger2, OK, Order, Telling, Trouble, instantiate, place, read, run,
    state_functions, take_back, text, write,
};

/// `fmi2Component`
pub type Handle = *mut c_void;

/// `fmi2CallbackFunctions`
#[repr(C)]
pub struct Callbacks {
    logger: Option<Logger2>,
    allocate: Option<unsafe extern "C" fn(usize, usize) -> *mut c_void>,
    free: Option<unsafe extern "C" fn(*mut c_void)>,
    finished: Option<unsafe extern "C" fn(*mut c_void, c_int)>,
    environment: *mut c_void,
}

/// `fmi2EventInfo`
#[repr(C)]
pub struct EventInfo {
    discrete_states_needed: c_int,
    terminate: c_int,
    nominals_changed: c_int,
    states_changed: c_int,
    next_event_defined: c_int,
    next_event: c_double,
}

/// Whether a variable can be read as a type of the interface.
fn expect_type(component: &Component, reference: c_uint, fits: fn(&ValueType) -> bool) -> Result<(), Trouble> {
    let variable = component.instance.variable(reference)?;
    if fits(&variable.value_type) { Ok(()) } else { Err(InstanceError::OtherType(variable.name.clone()).into()) }
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

/// `fmi2GetTypesPlatform`
#[unsafe(no_mangle)]
pub extern "C" fn fmi2GetTypesPlatform() -> *const c_char {
    c"default".as_ptr()
}

/// `fmi2GetVersion`
#[unsafe(no_mangle)]
pub extern "C" fn fmi2GetVersion() -> *const c_char {
    c"2.0".as_ptr()
}

/// `fmi2SetDebugLogging`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetDebugLogging(c: Handle, _: c_int, _: usize, _: *const *const c_char) -> c_int {
    // SAFETY: Promised by the caller. Only errors are told, always.
    unsafe { run(c, |_| Ok(())) }
}

/// `fmi2Instantiate`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2Instantiate(
    name: *const c_char,
    kind: c_int,
    guid: *const c_char,
    location: *const c_char,
    callbacks: *const Callbacks,
    _visible: c_int,
    _logging: c_int,
) -> Handle {
    // SAFETY: Promised by the caller.
    let (callbacks, name, guid, location) = unsafe { (callbacks.as_ref(), text(name), text(guid), text(location)) };
    let telling = Telling {
        logger: callbacks.and_then(|callbacks| callbacks.logger).map_or(Logger::None, Logger::Two),
        environment: callbacks.map_or(std::ptr::null_mut(), |callbacks| callbacks.environment),
        name: CString::new(name.replace('\0', " ")).unwrap_or_default(),
    };
    let role = match kind {
        0 => Role::ModelExchange,
        1 => Role::CoSimulation,
        _ => {
            telling.tell(ERROR, "the kind of unit is neither Model Exchange nor Co-Simulation");
            return std::ptr::null_mut();
        }
    };
    let resources = folder_of_uri(&location);
    instantiate(Order { telling, token: &guid, resources, role, may_return_early: false })
}

/// `fmi2FreeInstance`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2FreeInstance(c: Handle) {
    // SAFETY: Promised by the caller.
    unsafe { take_back(c) }
}

/// `fmi2SetupExperiment`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetupExperiment(
    c: Handle,
    has_tolerance: c_int,
    tolerance: c_double,
    start: c_double,
    has_stop: c_int,
    stop: c_double,
) -> c_int {
    let (tolerance, stop) = ((has_tolerance != 0).then_some(tolerance), (has_stop != 0).then_some(stop));
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.set_experiment(start, stop, tolerance)?)) }
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
    /// `fmi2EnterInitializationMode`
    fmi2EnterInitializationMode => enter_initialization;
    /// `fmi2ExitInitializationMode`
    fmi2ExitInitializationMode => exit_initialization;
    /// `fmi2Terminate`
    fmi2Terminate => terminate;
    /// `fmi2EnterEventMode`
    fmi2EnterEventMode => enter_event;
    /// `fmi2EnterContinuousTimeMode`
    fmi2EnterContinuousTimeMode => enter_continuous;
}

/// `fmi2Reset`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2Reset(c: Handle) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            component.is_ended = false;
            component.instance.reset();
            Ok(())
        })
    }
}

/// `fmi2GetReal`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetReal(c: Handle, vr: *const c_uint, n: usize, values: *mut c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                expect_type(component, reference, is_real)?;
                *value = component.instance.value(reference)?;
            }
            Ok(())
        })
    }
}

/// `fmi2GetInteger`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetInteger(c: Handle, vr: *const c_uint, n: usize, values: *mut c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                expect_type(component, reference, is_whole)?;
                let number = component.instance.value(reference)?;
                if !(f64::from(c_int::MIN)..=f64::from(c_int::MAX)).contains(&number) {
                    let name = component.instance.variable(reference)?.name.clone();
                    return Err(InstanceError::NotAValue { name, value: number }.into());
                }
                *value = number as c_int;
            }
            Ok(())
        })
    }
}

/// `fmi2GetBoolean`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetBoolean(c: Handle, vr: *const c_uint, n: usize, values: *mut c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                expect_type(component, reference, is_truth)?;
                *value = c_int::from(component.instance.value(reference)? != 0.0);
            }
            Ok(())
        })
    }
}

/// `fmi2GetString`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetString(c: Handle, vr: *const c_uint, n: usize, values: *mut *const c_char) -> c_int {
    // SAFETY: Promised by the caller. Texts live as long as the instance.
    unsafe {
        run(c, |component| {
            for (&reference, value) in read(vr, n)?.iter().zip(write(values, n)?) {
                *value = component.instance.text(reference)?.as_ptr();
            }
            Ok(())
        })
    }
}

/// `fmi2SetReal`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetReal(c: Handle, vr: *const c_uint, n: usize, values: *const c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, &value) in read(vr, n)?.iter().zip(read(values, n)?) {
                expect_type(component, reference, is_real)?;
                component.instance.set_value(reference, value)?;
            }
            Ok(())
        })
    }
}

/// `fmi2SetInteger`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetInteger(c: Handle, vr: *const c_uint, n: usize, values: *const c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, &value) in read(vr, n)?.iter().zip(read(values, n)?) {
                expect_type(component, reference, is_whole)?;
                component.instance.set_value(reference, f64::from(value))?;
            }
            Ok(())
        })
    }
}

/// `fmi2SetBoolean`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetBoolean(c: Handle, vr: *const c_uint, n: usize, values: *const c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            for (&reference, &value) in read(vr, n)?.iter().zip(read(values, n)?) {
                expect_type(component, reference, is_truth)?;
                component.instance.set_value(reference, f64::from(u8::from(value != 0)))?;
            }
            Ok(())
        })
    }
}

/// `fmi2SetString`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetString(c: Handle, vr: *const c_uint, n: usize, _: *const *const c_char) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| match read(vr, n)?.first() {
            None => Ok(()),
            Some(&reference) => {
                let name = component.instance.variable(reference)?.name.clone();
                Err(InstanceError::NotSettable(name).into())
            }
        })
    }
}

state_functions! {
    save => fmi2GetFMUstate;
    restore => fmi2SetFMUstate;
    free => fmi2FreeFMUstate;
    size => fmi2SerializedFMUstateSize;
    serialize => fmi2SerializeFMUstate;
    load => fmi2DeSerializeFMUstate;
}

/// `fmi2GetDirectionalDerivative`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetDirectionalDerivative(
    c: Handle,
    unknowns: *const c_uint,
    n_unknowns: usize,
    knowns: *const c_uint,
    n_knowns: usize,
    seed: *const c_double,
    sensitivity: *mut c_double,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (unknowns, knowns) = (read(unknowns, n_unknowns)?, read(knowns, n_knowns)?);
            let (seed, sensitivity) = (read(seed, n_knowns)?, write(sensitivity, n_unknowns)?);
            Ok(component.instance.directional_derivative(unknowns, knowns, seed, sensitivity)?)
        })
    }
}

/// `fmi2NewDiscreteStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2NewDiscreteStates(c: Handle, info: *mut EventInfo) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let info = place(info)?;
            let update = component.instance.update_discrete()?;
            *info = EventInfo {
                discrete_states_needed: 0,
                terminate: c_int::from(update.is_end),
                nominals_changed: 0,
                states_changed: c_int::from(update.has_new_states),
                next_event_defined: c_int::from(update.next_event.is_some()),
                next_event: update.next_event.unwrap_or(0.0),
            };
            Ok(())
        })
    }
}

/// `fmi2CompletedIntegratorStep`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2CompletedIntegratorStep(
    c: Handle,
    _no_set_prior: c_int,
    wants_event: *mut c_int,
    terminate: *mut c_int,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (wants_event, terminate) = (place(wants_event)?, place(terminate)?);
            let end = component.instance.complete_step()?;
            (*wants_event, *terminate) = (c_int::from(end.wants_event), 0);
            Ok(())
        })
    }
}

/// `fmi2SetTime`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetTime(c: Handle, time: c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.set_time(time)?)) }
}

/// `fmi2SetContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetContinuousStates(c: Handle, states: *const c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.set_states(read(states, n)?)?)) }
}

/// `fmi2GetDerivatives`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetDerivatives(c: Handle, rates: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.rates(write(rates, n)?)?)) }
}

/// `fmi2GetEventIndicators`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetEventIndicators(c: Handle, values: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.event_indicators(write(values, n)?)?)) }
}

/// `fmi2GetContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetContinuousStates(c: Handle, states: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.states(write(states, n)?)?)) }
}

/// `fmi2GetNominalsOfContinuousStates`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetNominalsOfContinuousStates(c: Handle, nominals: *mut c_double, n: usize) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |component| Ok(component.instance.nominals(write(nominals, n)?)?)) }
}

/// `fmi2SetRealInputDerivatives`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2SetRealInputDerivatives(
    c: Handle,
    vr: *const c_uint,
    n: usize,
    orders: *const c_int,
    values: *const c_double,
) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let (references, orders, values) = (read(vr, n)?, read(orders, n)?, read(values, n)?);
            for ((&reference, &order), &value) in references.iter().zip(orders).zip(values) {
                match order {
                    1 => component.instance.set_input_slope(reference, value)?,
                    _ if value == 0.0 => {}
                    _ => return Err(Trouble::Unsupported("an input derivative of order 2 or more")),
                }
            }
            Ok(())
        })
    }
}

/// `fmi2GetRealOutputDerivatives`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetRealOutputDerivatives(
    c: Handle,
    _vr: *const c_uint,
    n: usize,
    _orders: *const c_int,
    _values: *mut c_double,
) -> c_int {
    let supported = if n == 0 { Ok(()) } else { Err(Trouble::Unsupported("a derivative of an output")) };
    // SAFETY: Promised by the caller.
    unsafe { run(c, |_| supported) }
}

/// `fmi2DoStep`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2DoStep(c: Handle, from: c_double, length: c_double, _no_set_prior: c_int) -> c_int {
    // SAFETY: Promised by the caller.
    let status = unsafe {
        run(c, |component| {
            let done = component.instance.step(from, length)?;
            component.is_ended = done.is_end;
            if done.is_end { Err(Trouble::Status(DISCARD)) } else { Ok(()) }
        })
    };
    // SAFETY: Promised by the caller.
    let is_ended = unsafe { c.cast::<Component>().as_ref() }.is_some_and(|component| component.is_ended);
    // A step that the method gave up is no step that the model ended.
    if status == DISCARD && !is_ended { ERROR } else { status }
}

/// `fmi2CancelStep`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2CancelStep(c: Handle) -> c_int {
    // SAFETY: Promised by the caller. No step is ever pending.
    unsafe { run(c, |_| Err(Trouble::Unsupported("a step that goes on by itself"))) }
}

/// `fmi2GetStatus`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetStatus(c: Handle, kind: c_int, value: *mut c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |_| {
            let value = place(value)?;
            if kind != 0 {
                return Err(Trouble::Unsupported("this kind of status"));
            }
            *value = OK;
            Ok(())
        })
    }
}

/// `fmi2GetRealStatus`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetRealStatus(c: Handle, kind: c_int, value: *mut c_double) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let value = place(value)?;
            if kind != 2 {
                return Err(Trouble::Unsupported("this kind of status"));
            }
            *value = component.instance.time();
            Ok(())
        })
    }
}

/// `fmi2GetIntegerStatus`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetIntegerStatus(c: Handle, _: c_int, _: *mut c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |_| Err(Trouble::Unsupported("a whole number as a status"))) }
}

/// `fmi2GetBooleanStatus`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetBooleanStatus(c: Handle, kind: c_int, value: *mut c_int) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe {
        run(c, |component| {
            let value = place(value)?;
            if kind != 3 {
                return Err(Trouble::Unsupported("this kind of status"));
            }
            *value = c_int::from(component.is_ended);
            Ok(())
        })
    }
}

/// `fmi2GetStringStatus`
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fmi2GetStringStatus(c: Handle, _: c_int, _: *mut *const c_char) -> c_int {
    // SAFETY: Promised by the caller.
    unsafe { run(c, |_| Err(Trouble::Unsupported("a text as a status"))) }
}
