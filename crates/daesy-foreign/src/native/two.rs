//! FMI 2.0. Blocks of `unsafe` rest on what the parent module promises.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use libloading::Library;

use super::{Advanced, Binary, Discrete, Done, Instance, Saved, Stepped, find, judge, logger, not_offered};
use crate::description::{Block, Kind, ScalarType};
use crate::error::ForeignError;

type Handle = *mut c_void;
type Call = unsafe extern "C" fn(Handle) -> i32;
type WithTime = unsafe extern "C" fn(Handle, f64) -> i32;
type WriteReals = unsafe extern "C" fn(Handle, *const f64, usize) -> i32;
type ReadReals = unsafe extern "C" fn(Handle, *mut f64, usize) -> i32;
type Set<T> = unsafe extern "C" fn(Handle, *const u32, usize, *const T) -> i32;
type Get<T> = unsafe extern "C" fn(Handle, *const u32, usize, *mut T) -> i32;
type Instantiate =
    unsafe extern "C" fn(*const c_char, i32, *const c_char, *const c_char, *const Callbacks, i32, i32) -> Handle;
type Setup = unsafe extern "C" fn(Handle, i32, f64, f64, i32, f64) -> i32;
type Update = unsafe extern "C" fn(Handle, *mut EventInfo) -> i32;
type Completed = unsafe extern "C" fn(Handle, i32, *mut i32, *mut i32) -> i32;
type Directional = unsafe extern "C" fn(Handle, *const u32, usize, *const u32, usize, *const f64, *mut f64) -> i32;
type DoStep = unsafe extern "C" fn(Handle, f64, f64, i32) -> i32;
type RealStatus = unsafe extern "C" fn(Handle, i32, *mut f64) -> i32;
type BooleanStatus = unsafe extern "C" fn(Handle, i32, *mut i32) -> i32;
type StateCall = unsafe extern "C" fn(Handle, *mut *mut c_void) -> i32;
type SetState = unsafe extern "C" fn(Handle, *mut c_void) -> i32;
type Logger = extern "C" fn(*mut c_void, *const c_char, i32, *const c_char, *const c_char, usize);

/// The status of a step that the unit did not take.
const DISCARD: i32 = 2;
/// The kind of status that says how far the unit came.
const LAST_TIME: i32 = 2;
/// The kind of status that says whether the unit asks for the end.
const TERMINATED: i32 = 3;

#[repr(C)]
struct Callbacks {
    logger: Logger,
    allocate: unsafe extern "C" fn(usize, usize) -> *mut c_void,
    free: unsafe extern "C" fn(*mut c_void),
    step_finished: *const c_void,
    environment: *mut c_void,
}

unsafe extern "C" {
    fn calloc(count: usize, size: usize) -> *mut c_void;
    fn free(pointer: *mut c_void);
}

#[repr(C)]
#[derive(Default)]
struct EventInfo {
    needs_update: i32,
    is_over: i32,
    nominals_changed: i32,
    states_changed: i32,
    has_next: i32,
    next_time: f64,
}

/// Functions of Model Exchange.
struct Exchange {
    enter_event: Call,
    update: Update,
    enter_continuous: Call,
    completed: Completed,
    set_time: WithTime,
    set_states: WriteReals,
    states: ReadReals,
    derivatives: ReadReals,
    indicators: ReadReals,
}

/// The functions of a library.
pub(crate) struct Functions {
    instantiate: Instantiate,
    free: unsafe extern "C" fn(Handle),
    terminate: Call,
    setup: Setup,
    enter_initialization: Call,
    exit_initialization: Call,
    set_real: Set<f64>,
    set_integer: Set<i32>,
    set_boolean: Set<i32>,
    get_real: Get<f64>,
    get_integer: Get<i32>,
    get_boolean: Get<i32>,
    directional: Option<Directional>,
    save: Option<StateCall>,
    restore: Option<SetState>,
    forget: Option<StateCall>,
    exchange: Option<Exchange>,
    step: Option<DoStep>,
    real_status: Option<RealStatus>,
    boolean_status: Option<BooleanStatus>,
    callbacks: Box<Callbacks>,
    /// Unloaded last.
    _library: Library,
}

impl Functions {
    pub(super) fn find(library: Library, kind: Kind) -> Result<Self, ForeignError> {
        let of = &library;
        let exchange = match kind {
            Kind::ModelExchange => Some(Exchange {
                enter_event: find(of, "fmi2EnterEventMode")?,
                update: find(of, "fmi2NewDiscreteStates")?,
                enter_continuous: find(of, "fmi2EnterContinuousTimeMode")?,
                completed: find(of, "fmi2CompletedIntegratorStep")?,
                set_time: find(of, "fmi2SetTime")?,
                set_states: find(of, "fmi2SetContinuousStates")?,
                states: find(of, "fmi2GetContinuousStates")?,
                derivatives: find(of, "fmi2GetDerivatives")?,
                indicators: find(of, "fmi2GetEventIndicators")?,
            }),
            Kind::CoSimulation => None,
        };
        let step = if kind == Kind::CoSimulation { Some(find(of, "fmi2DoStep")?) } else { None };
        let callbacks = Box::new(Callbacks {
            logger: logger::log_two,
            allocate: calloc,
            free,
            step_finished: ptr::null(),
            environment: ptr::null_mut(),
        });
        Ok(Self {
            instantiate: find(of, "fmi2Instantiate")?,
            free: find(of, "fmi2FreeInstance")?,
            terminate: find(of, "fmi2Terminate")?,
            setup: find(of, "fmi2SetupExperiment")?,
            enter_initialization: find(of, "fmi2EnterInitializationMode")?,
            exit_initialization: find(of, "fmi2ExitInitializationMode")?,
            set_real: find(of, "fmi2SetReal")?,
            set_integer: find(of, "fmi2SetInteger")?,
            set_boolean: find(of, "fmi2SetBoolean")?,
            get_real: find(of, "fmi2GetReal")?,
            get_integer: find(of, "fmi2GetInteger")?,
            get_boolean: find(of, "fmi2GetBoolean")?,
            directional: find(of, "fmi2GetDirectionalDerivative").ok(),
            save: find(of, "fmi2GetFMUstate").ok(),
            restore: find(of, "fmi2SetFMUstate").ok(),
            forget: find(of, "fmi2FreeFMUstate").ok(),
            exchange,
            step,
            real_status: find(of, "fmi2GetRealStatus").ok(),
            boolean_status: find(of, "fmi2GetBooleanStatus").ok(),
            callbacks,
            _library: library,
        })
    }
}

// SAFETY: What is in it is written once, before anybody shares it; see the head of the parent module for the calls.
unsafe impl Sync for Functions {}

/// An instance.
pub(crate) struct Component<'f> {
    functions: &'f Functions,
    handle: Handle,
    is_initialized: bool,
    is_broken: bool,
}

// SAFETY: An instance may be called by any thread, one at a time, which `&mut` makes sure of; it holds nothing of a
// thread.
unsafe impl Send for Component<'_> {}

impl<'f> Component<'f> {
    pub(super) fn new(functions: &'f Functions, binary: &Binary) -> Result<Self, ForeignError> {
        logger::clear();
        let text = |text: &str| CString::new(text.replace('\0', "")).unwrap_or_default();
        let (name, token, resources) = (text(&binary.name), text(&binary.token), text(&binary.resources));
        let kind = i32::from(binary.kind == Kind::CoSimulation);
        // SAFETY: texts and callbacks live long enough.
        let handle = unsafe {
            (functions.instantiate)(
                name.as_ptr(),
                kind,
                token.as_ptr(),
                resources.as_ptr(),
                &*functions.callbacks,
                0,
                0,
            )
        };
        if handle.is_null() {
            return Err(ForeignError::NoInstance { log: logger::words() });
        }
        Ok(Self { functions, handle, is_initialized: false, is_broken: false })
    }

    fn judged(&mut self, function: &str, status: i32) -> Done {
        self.is_broken |= status == 4;
        judge(function, status)
    }

    /// Whether a step that was discarded is the end that the unit asks for.
    fn is_terminated(&self) -> bool {
        let Some(call) = self.functions.boolean_status else { return false };
        let mut is_terminated = 0;
        // SAFETY: the place for the result lives here.
        let status = unsafe { call(self.handle, TERMINATED, &mut is_terminated) };
        status == 0 && is_terminated != 0
    }

    /// The time that a step which was not completed reached, if the unit says so.
    fn last_time(&self) -> Option<f64> {
        let call = self.functions.real_status?;
        let mut time = f64::NAN;
        // SAFETY: the place for the result lives here.
        let status = unsafe { call(self.handle, LAST_TIME, &mut time) };
        (status == 0 && time.is_finite()).then_some(time)
    }

    fn exchange(&self, function: &str) -> Done<&'f Exchange> {
        self.functions.exchange.as_ref().map_or_else(|| not_offered(function), Ok)
    }

    fn read(&mut self, function: &str, call: ReadReals, values: &mut [f64]) -> Done {
        // SAFETY: the values live in a slice of that length.
        let status = unsafe { call(self.handle, values.as_mut_ptr(), values.len()) };
        self.judged(function, status)
    }

    /// Values of neighbours of the same type.
    fn get_run(&mut self, kind: ScalarType, references: &[u32], values: &mut [f64]) -> Done {
        let (n, functions) = (references.len(), self.functions);
        if kind.is_real() {
            // SAFETY: both slices have n elements.
            let status = unsafe { (functions.get_real)(self.handle, references.as_ptr(), n, values.as_mut_ptr()) };
            return self.judged("fmi2GetReal", status);
        }
        let mut whole = vec![0i32; n];
        let (name, call) = match kind {
            ScalarType::Boolean => ("fmi2GetBoolean", functions.get_boolean),
            _ => ("fmi2GetInteger", functions.get_integer),
        };
        // SAFETY: both slices have n elements.
        let status = unsafe { call(self.handle, references.as_ptr(), n, whole.as_mut_ptr()) };
        self.judged(name, status)?;
        values.iter_mut().zip(whole).for_each(|(value, whole)| *value = f64::from(whole));
        Ok(())
    }
}

impl Instance for Component<'_> {
    fn setup(&mut self, time: f64, stop: Option<f64>, tolerance: Option<f64>) -> Done {
        let (has_stop, stop) = (i32::from(stop.is_some()), stop.unwrap_or(0.0));
        let (has_tolerance, tolerance) = (i32::from(tolerance.is_some()), tolerance.unwrap_or(0.0));
        // SAFETY: plain numbers.
        let status = unsafe { (self.functions.setup)(self.handle, has_tolerance, tolerance, time, has_stop, stop) };
        self.judged("fmi2SetupExperiment", status)
    }

    fn enter_initialization(&mut self, _: f64, _: Option<f64>, _: Option<f64>) -> Done {
        // SAFETY: an instance.
        let status = unsafe { (self.functions.enter_initialization)(self.handle) };
        self.judged("fmi2EnterInitializationMode", status)
    }

    fn exit_initialization(&mut self) -> Done {
        // SAFETY: an instance.
        let status = unsafe { (self.functions.exit_initialization)(self.handle) };
        self.is_initialized = true;
        self.judged("fmi2ExitInitializationMode", status)
    }

    fn enter_event_mode(&mut self) -> Done {
        let call = self.exchange("fmi2EnterEventMode")?.enter_event;
        // SAFETY: an instance.
        let status = unsafe { call(self.handle) };
        self.judged("fmi2EnterEventMode", status)
    }

    fn update_discrete(&mut self) -> Done<Discrete> {
        let call = self.exchange("fmi2NewDiscreteStates")?.update;
        let mut info = EventInfo::default();
        // SAFETY: the structure is that of the header.
        let status = unsafe { call(self.handle, &mut info) };
        self.judged("fmi2NewDiscreteStates", status)?;
        Ok(Discrete {
            needs_update: info.needs_update != 0,
            is_over: info.is_over != 0,
            states_changed: info.states_changed != 0,
            next_time: (info.has_next != 0).then_some(info.next_time),
        })
    }

    fn enter_continuous_mode(&mut self) -> Done {
        let call = self.exchange("fmi2EnterContinuousTimeMode")?.enter_continuous;
        // SAFETY: an instance.
        let status = unsafe { call(self.handle) };
        self.judged("fmi2EnterContinuousTimeMode", status)
    }

    fn completed_step(&mut self) -> Done<Stepped> {
        let call = self.exchange("fmi2CompletedIntegratorStep")?.completed;
        let (mut wants_event, mut is_over) = (0, 0);
        // SAFETY: both results live here.
        let status = unsafe { call(self.handle, 0, &mut wants_event, &mut is_over) };
        self.judged("fmi2CompletedIntegratorStep", status)?;
        Ok(Stepped { wants_event: wants_event != 0, is_over: is_over != 0 })
    }

    fn set_time(&mut self, time: f64) -> Done {
        let call = self.exchange("fmi2SetTime")?.set_time;
        // SAFETY: a plain number.
        let status = unsafe { call(self.handle, time) };
        self.judged("fmi2SetTime", status)
    }

    fn set_states(&mut self, states: &[f64]) -> Done {
        let call = self.exchange("fmi2SetContinuousStates")?.set_states;
        // SAFETY: the states live in a slice of that length.
        let status = unsafe { call(self.handle, states.as_ptr(), states.len()) };
        self.judged("fmi2SetContinuousStates", status)
    }

    fn states(&mut self, states: &mut [f64]) -> Done {
        let call = self.exchange("fmi2GetContinuousStates")?.states;
        self.read("fmi2GetContinuousStates", call, states)
    }

    fn derivatives(&mut self, derivatives: &mut [f64]) -> Done {
        let call = self.exchange("fmi2GetDerivatives")?.derivatives;
        self.read("fmi2GetDerivatives", call, derivatives)
    }

    fn indicators(&mut self, indicators: &mut [f64]) -> Done {
        let call = self.exchange("fmi2GetEventIndicators")?.indicators;
        self.read("fmi2GetEventIndicators", call, indicators)
    }

    fn n_indicators(&mut self) -> Done<Option<usize>> {
        // This version has no count; a unit that is asked for none though it has some may say so.
        self.indicators(&mut []).map(|()| None)
    }

    fn set(&mut self, block: Block, values: &[f64]) -> Done {
        let (handle, reference) = (self.handle, &raw const block.reference);
        let value = values.first().copied().unwrap_or(0.0);
        match block.scalar_type {
            ScalarType::Float64 => {
                // SAFETY: one reference, one value.
                let status = unsafe { (self.functions.set_real)(handle, reference, 1, &value) };
                self.judged("fmi2SetReal", status)
            }
            ScalarType::Boolean => {
                let whole = i32::from(value != 0.0);
                // SAFETY: one reference, one value.
                let status = unsafe { (self.functions.set_boolean)(handle, reference, 1, &whole) };
                self.judged("fmi2SetBoolean", status)
            }
            _ => {
                let whole = value.round() as i32;
                // SAFETY: one reference, one value.
                let status = unsafe { (self.functions.set_integer)(handle, reference, 1, &whole) };
                self.judged("fmi2SetInteger", status)
            }
        }
    }

    fn get(&mut self, blocks: &[Block], values: &mut [f64]) -> Done {
        let group = |block: &Block| (block.scalar_type.is_real(), block.scalar_type == ScalarType::Boolean);
        let mut rest = values;
        for run in blocks.chunk_by(|a, b| group(a) == group(b)) {
            let references: Vec<u32> = run.iter().map(|block| block.reference).collect();
            let (now, later) = std::mem::take(&mut rest).split_at_mut(run.len());
            self.get_run(run[0].scalar_type, &references, now)?;
            rest = later;
        }
        Ok(())
    }

    fn directional(&mut self, unknowns: &[u32], knowns: &[u32], seed: &[f64], values: &mut [f64]) -> Done {
        let Some(call) = self.functions.directional else { return not_offered("fmi2GetDirectionalDerivative") };
        let (n_unknowns, n_knowns) = (unknowns.len().min(values.len()), knowns.len().min(seed.len()));
        let (unknowns, knowns) = (unknowns.as_ptr(), knowns.as_ptr());
        // SAFETY: the lengths are the shorter ones of what belongs together.
        let status =
            unsafe { call(self.handle, unknowns, n_unknowns, knowns, n_knowns, seed.as_ptr(), values.as_mut_ptr()) };
        self.judged("fmi2GetDirectionalDerivative", status)
    }

    fn step(&mut self, time: f64, length: f64) -> Done<Advanced> {
        let Some(call) = self.functions.step else { return not_offered("fmi2DoStep") };
        // SAFETY: plain numbers.
        let status = unsafe { call(self.handle, time, length, 1) };
        if status == DISCARD && self.is_terminated() {
            return Ok(Advanced { time: self.last_time().unwrap_or(time + length), is_over: true });
        }
        self.judged("fmi2DoStep", status)?;
        Ok(Advanced { time: time + length, is_over: false })
    }

    fn save(&mut self) -> Done<Saved> {
        let Some(call) = self.functions.save else { return not_offered("fmi2GetFMUstate") };
        let mut state = ptr::null_mut();
        // SAFETY: the place for the result lives here.
        let status = unsafe { call(self.handle, &mut state) };
        self.judged("fmi2GetFMUstate", status)?;
        Ok(Saved(state))
    }

    fn restore(&mut self, saved: &Saved) -> Done {
        let Some(call) = self.functions.restore else { return not_offered("fmi2SetFMUstate") };
        // SAFETY: the state was made by this instance and not freed.
        let status = unsafe { call(self.handle, saved.0) };
        self.judged("fmi2SetFMUstate", status)
    }

    fn forget(&mut self, saved: Saved) {
        if let Some(call) = self.functions.forget {
            let mut state = saved.0;
            // SAFETY: the state was made by this instance and is given up here.
            let _ = unsafe { call(self.handle, &mut state) };
        }
    }
}

impl Drop for Component<'_> {
    fn drop(&mut self) {
        // After a fatal status no function may be called.
        if self.is_broken {
            return;
        }
        if self.is_initialized {
            // SAFETY: an instance that was initialized.
            let _ = unsafe { (self.functions.terminate)(self.handle) };
        }
        // SAFETY: the instance is given up here.
        unsafe { (self.functions.free)(self.handle) };
    }
}
