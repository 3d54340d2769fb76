//! FMI 3.0. Blocks of `unsafe` rest on what the parent module promises.

use std::ffi::{CString, c_char, c_void};
use std::ptr;

use libloading::Library;

use super::{Advanced, Binary, Discrete, Done, Failed, Instance, Saved, Stepped, find, judge, logger, not_offered};
use crate::description::{Block, Kind, ScalarType};
use crate::error::ForeignError;

type Handle = *mut c_void;
type Call = unsafe extern "C" fn(Handle) -> i32;
type WithTime = unsafe extern "C" fn(Handle, f64) -> i32;
type WriteReals = unsafe extern "C" fn(Handle, *const f64, usize) -> i32;
type ReadReals = unsafe extern "C" fn(Handle, *mut f64, usize) -> i32;
type Count = unsafe extern "C" fn(Handle, *mut usize) -> i32;
type Set<T> = unsafe extern "C" fn(Handle, *const u32, usize, *const T, usize) -> i32;
type Get<T> = unsafe extern "C" fn(Handle, *const u32, usize, *mut T, usize) -> i32;
type Logger = extern "C" fn(*mut c_void, i32, *const c_char, *const c_char);
type InstantiateExchange =
    unsafe extern "C" fn(*const c_char, *const c_char, *const c_char, bool, bool, *mut c_void, Logger) -> Handle;
type InstantiateStepping = unsafe extern "C" fn(
    *const c_char,
    *const c_char,
    *const c_char,
    bool,
    bool,
    bool,
    bool,
    *const u32,
    usize,
    *mut c_void,
    Logger,
    *const c_void,
) -> Handle;
type EnterInitialization = unsafe extern "C" fn(Handle, bool, f64, f64, bool, f64) -> i32;
type Update = unsafe extern "C" fn(Handle, *mut bool, *mut bool, *mut bool, *mut bool, *mut bool, *mut f64) -> i32;
type Completed = unsafe extern "C" fn(Handle, bool, *mut bool, *mut bool) -> i32;
type Directional =
    unsafe extern "C" fn(Handle, *const u32, usize, *const u32, usize, *const f64, usize, *mut f64, usize) -> i32;
type DoStep = unsafe extern "C" fn(Handle, f64, f64, bool, *mut bool, *mut bool, *mut bool, *mut f64) -> i32;
type StateCall = unsafe extern "C" fn(Handle, *mut *mut c_void) -> i32;
type SetState = unsafe extern "C" fn(Handle, *mut c_void) -> i32;

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
    n_indicators: Option<Count>,
}

enum Instantiate {
    Exchange(InstantiateExchange),
    Stepping(InstantiateStepping),
}

/// Setters and getters of one type.
#[derive(Clone, Copy)]
struct Access<T> {
    set: Set<T>,
    get: Get<T>,
}

impl<T> Access<T> {
    fn find(library: &Library, name: &str) -> Result<Self, ForeignError> {
        Ok(Self { set: find(library, &format!("fmi3Set{name}"))?, get: find(library, &format!("fmi3Get{name}"))? })
    }
}

/// The functions of a library.
pub(crate) struct Functions {
    instantiate: Instantiate,
    free: unsafe extern "C" fn(Handle),
    terminate: Call,
    enter_initialization: EnterInitialization,
    exit_initialization: Call,
    float64: Access<f64>,
    float32: Access<f32>,
    int8: Access<i8>,
    uint8: Access<u8>,
    int16: Access<i16>,
    uint16: Access<u16>,
    int32: Access<i32>,
    uint32: Access<u32>,
    int64: Access<i64>,
    uint64: Access<u64>,
    boolean: Access<u8>,
    directional: Option<Directional>,
    save: Option<StateCall>,
    restore: Option<SetState>,
    forget: Option<StateCall>,
    exchange: Option<Exchange>,
    step: Option<DoStep>,
    /// Unloaded last.
    _library: Library,
}

impl Functions {
    pub(super) fn find(library: Library, kind: Kind) -> Result<Self, ForeignError> {
        let of = &library;
        let exchange = match kind {
            Kind::ModelExchange => Some(Exchange {
                enter_event: find(of, "fmi3EnterEventMode")?,
                update: find(of, "fmi3UpdateDiscreteStates")?,
                enter_continuous: find(of, "fmi3EnterContinuousTimeMode")?,
                completed: find(of, "fmi3CompletedIntegratorStep")?,
                set_time: find(of, "fmi3SetTime")?,
                set_states: find(of, "fmi3SetContinuousStates")?,
                states: find(of, "fmi3GetContinuousStates")?,
                derivatives: find(of, "fmi3GetContinuousStateDerivatives")?,
                indicators: find(of, "fmi3GetEventIndicators")?,
                n_indicators: find(of, "fmi3GetNumberOfEventIndicators").ok(),
            }),
            Kind::CoSimulation => None,
        };
        let instantiate = match kind {
            Kind::ModelExchange => Instantiate::Exchange(find(of, "fmi3InstantiateModelExchange")?),
            Kind::CoSimulation => Instantiate::Stepping(find(of, "fmi3InstantiateCoSimulation")?),
        };
        Ok(Self {
            instantiate,
            free: find(of, "fmi3FreeInstance")?,
            terminate: find(of, "fmi3Terminate")?,
            enter_initialization: find(of, "fmi3EnterInitializationMode")?,
            exit_initialization: find(of, "fmi3ExitInitializationMode")?,
            float64: Access::find(of, "Float64")?,
            float32: Access::find(of, "Float32")?,
            int8: Access::find(of, "Int8")?,
            uint8: Access::find(of, "UInt8")?,
            int16: Access::find(of, "Int16")?,
            uint16: Access::find(of, "UInt16")?,
            int32: Access::find(of, "Int32")?,
            uint32: Access::find(of, "UInt32")?,
            int64: Access::find(of, "Int64")?,
            uint64: Access::find(of, "UInt64")?,
            boolean: Access::find(of, "Boolean")?,
            directional: find(of, "fmi3GetDirectionalDerivative").ok(),
            save: find(of, "fmi3GetFMUState").ok(),
            restore: find(of, "fmi3SetFMUState").ok(),
            forget: find(of, "fmi3FreeFMUState").ok(),
            exchange,
            step: if kind == Kind::CoSimulation { Some(find(of, "fmi3DoStep")?) } else { None },
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
        let (name, token, resources) = (name.as_ptr(), token.as_ptr(), resources.as_ptr());
        let (nothing, log): (*mut c_void, Logger) = (ptr::null_mut(), logger::log_three);
        let handle = match functions.instantiate {
            // SAFETY: the texts live until the call returns.
            Instantiate::Exchange(call) => unsafe { call(name, token, resources, false, false, nothing, log) },
            // SAFETY: the texts live until the call returns; no intermediate variables, no intermediate updates.
            Instantiate::Stepping(call) => unsafe {
                call(name, token, resources, false, false, false, false, ptr::null(), 0, nothing, log, ptr::null())
            },
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

    fn exchange(&self, function: &str) -> Done<&'f Exchange> {
        self.functions.exchange.as_ref().map_or_else(|| not_offered(function), Ok)
    }

    fn read(&mut self, function: &str, call: ReadReals, values: &mut [f64]) -> Done {
        // SAFETY: the values live in a slice of that length.
        let status = unsafe { call(self.handle, values.as_mut_ptr(), values.len()) };
        self.judged(function, status)
    }

    fn set_as<T>(&mut self, access: Access<T>, reference: u32, values: Vec<T>) -> Done {
        // SAFETY: one reference, and as many values as are in the list.
        let status = unsafe { (access.set)(self.handle, &reference, 1, values.as_ptr(), values.len()) };
        self.judged("fmi3Set", status)
    }

    fn get_as<T: Default + Clone>(
        &mut self,
        access: Access<T>,
        reference: u32,
        values: &mut [f64],
        convert: impl Fn(&T) -> f64,
    ) -> Done {
        let mut own = vec![T::default(); values.len()];
        // SAFETY: one reference, and as many values as are in the list.
        let status = unsafe { (access.get)(self.handle, &reference, 1, own.as_mut_ptr(), own.len()) };
        self.judged("fmi3Get", status)?;
        values.iter_mut().zip(&own).for_each(|(value, own)| *value = convert(own));
        Ok(())
    }

    fn get_block(&mut self, block: Block, values: &mut [f64]) -> Done {
        let (f, reference) = (self.functions, block.reference);
        match block.scalar_type {
            ScalarType::Float64 => self.get_as(f.float64, reference, values, |&value| value),
            ScalarType::Float32 => self.get_as(f.float32, reference, values, |&value| f64::from(value)),
            ScalarType::Int8 => self.get_as(f.int8, reference, values, |&value| f64::from(value)),
            ScalarType::UInt8 => self.get_as(f.uint8, reference, values, |&value| f64::from(value)),
            ScalarType::Int16 => self.get_as(f.int16, reference, values, |&value| f64::from(value)),
            ScalarType::UInt16 => self.get_as(f.uint16, reference, values, |&value| f64::from(value)),
            ScalarType::Int32 => self.get_as(f.int32, reference, values, |&value| f64::from(value)),
            ScalarType::UInt32 => self.get_as(f.uint32, reference, values, |&value| f64::from(value)),
            ScalarType::Int64 | ScalarType::Enumeration => {
                self.get_as(f.int64, reference, values, |&value| value as f64)
            }
            ScalarType::UInt64 => self.get_as(f.uint64, reference, values, |&value| value as f64),
            ScalarType::Boolean => self.get_as(f.boolean, reference, values, |&value| f64::from(value != 0)),
            ScalarType::String | ScalarType::Binary | ScalarType::Clock => not_offered("fmi3Get"),
        }
    }
}

impl Instance for Component<'_> {
    fn setup(&mut self, _: f64, _: Option<f64>, _: Option<f64>) -> Done {
        Ok(())
    }

    fn enter_initialization(&mut self, time: f64, stop: Option<f64>, tolerance: Option<f64>) -> Done {
        let (has_stop, stop) = (stop.is_some(), stop.unwrap_or(0.0));
        let (has_tolerance, tolerance) = (tolerance.is_some(), tolerance.unwrap_or(0.0));
        let call = self.functions.enter_initialization;
        // SAFETY: plain numbers.
        let status = unsafe { call(self.handle, has_tolerance, tolerance, time, has_stop, stop) };
        self.judged("fmi3EnterInitializationMode", status)
    }

    fn exit_initialization(&mut self) -> Done {
        // SAFETY: an instance.
        let status = unsafe { (self.functions.exit_initialization)(self.handle) };
        self.is_initialized = true;
        self.judged("fmi3ExitInitializationMode", status)
    }

    fn enter_event_mode(&mut self) -> Done {
        let call = self.exchange("fmi3EnterEventMode")?.enter_event;
        // SAFETY: an instance.
        let status = unsafe { call(self.handle) };
        self.judged("fmi3EnterEventMode", status)
    }

    fn update_discrete(&mut self) -> Done<Discrete> {
        let call = self.exchange("fmi3UpdateDiscreteStates")?.update;
        let [mut needs_update, mut is_over, mut nominals, mut states_changed, mut has_next] = [false; 5];
        let mut next = 0.0;
        // SAFETY: all results live here.
        let status = unsafe {
            call(
                self.handle,
                &mut needs_update,
                &mut is_over,
                &mut nominals,
                &mut states_changed,
                &mut has_next,
                &mut next,
            )
        };
        self.judged("fmi3UpdateDiscreteStates", status)?;
        Ok(Discrete { needs_update, is_over, states_changed, next_time: has_next.then_some(next) })
    }

    fn enter_continuous_mode(&mut self) -> Done {
        let call = self.exchange("fmi3EnterContinuousTimeMode")?.enter_continuous;
        // SAFETY: an instance.
        let status = unsafe { call(self.handle) };
        self.judged("fmi3EnterContinuousTimeMode", status)
    }

    fn completed_step(&mut self) -> Done<Stepped> {
        let call = self.exchange("fmi3CompletedIntegratorStep")?.completed;
        let (mut wants_event, mut is_over) = (false, false);
        // SAFETY: both results live here.
        let status = unsafe { call(self.handle, false, &mut wants_event, &mut is_over) };
        self.judged("fmi3CompletedIntegratorStep", status)?;
        Ok(Stepped { wants_event, is_over })
    }

    fn set_time(&mut self, time: f64) -> Done {
        let call = self.exchange("fmi3SetTime")?.set_time;
        // SAFETY: a plain number.
        let status = unsafe { call(self.handle, time) };
        self.judged("fmi3SetTime", status)
    }

    fn set_states(&mut self, states: &[f64]) -> Done {
        let call = self.exchange("fmi3SetContinuousStates")?.set_states;
        // SAFETY: the states live in a slice of that length.
        let status = unsafe { call(self.handle, states.as_ptr(), states.len()) };
        self.judged("fmi3SetContinuousStates", status)
    }

    fn states(&mut self, states: &mut [f64]) -> Done {
        let call = self.exchange("fmi3GetContinuousStates")?.states;
        self.read("fmi3GetContinuousStates", call, states)
    }

    fn derivatives(&mut self, derivatives: &mut [f64]) -> Done {
        let call = self.exchange("fmi3GetContinuousStateDerivatives")?.derivatives;
        self.read("fmi3GetContinuousStateDerivatives", call, derivatives)
    }

    fn indicators(&mut self, indicators: &mut [f64]) -> Done {
        let call = self.exchange("fmi3GetEventIndicators")?.indicators;
        self.read("fmi3GetEventIndicators", call, indicators)
    }

    fn n_indicators(&mut self) -> Done<Option<usize>> {
        let name = "fmi3GetNumberOfEventIndicators";
        let Some(call) = self.exchange(name)?.n_indicators else { return Ok(None) };
        let mut n = 0;
        // SAFETY: the place for the result lives here.
        let status = unsafe { call(self.handle, &mut n) };
        self.judged(name, status)?;
        Ok(Some(n))
    }

    fn set(&mut self, block: Block, values: &[f64]) -> Done {
        let (f, reference) = (self.functions, block.reference);
        let all = values.iter().map(|value| value.round());
        match block.scalar_type {
            ScalarType::Float64 => self.set_as(f.float64, reference, values.to_vec()),
            ScalarType::Float32 => self.set_as(f.float32, reference, values.iter().map(|&v| v as f32).collect()),
            ScalarType::Int8 => self.set_as(f.int8, reference, all.map(|v| v as i8).collect()),
            ScalarType::UInt8 => self.set_as(f.uint8, reference, all.map(|v| v as u8).collect()),
            ScalarType::Int16 => self.set_as(f.int16, reference, all.map(|v| v as i16).collect()),
            ScalarType::UInt16 => self.set_as(f.uint16, reference, all.map(|v| v as u16).collect()),
            ScalarType::Int32 => self.set_as(f.int32, reference, all.map(|v| v as i32).collect()),
            ScalarType::UInt32 => self.set_as(f.uint32, reference, all.map(|v| v as u32).collect()),
            ScalarType::Int64 | ScalarType::Enumeration => {
                self.set_as(f.int64, reference, all.map(|v| v as i64).collect())
            }
            ScalarType::UInt64 => self.set_as(f.uint64, reference, all.map(|v| v as u64).collect()),
            ScalarType::Boolean => self.set_as(f.boolean, reference, all.map(|v| u8::from(v != 0.0)).collect()),
            ScalarType::String | ScalarType::Binary | ScalarType::Clock => not_offered("fmi3Set"),
        }
    }

    fn get(&mut self, blocks: &[Block], values: &mut [f64]) -> Done {
        let mut rest = values;
        for run in blocks.chunk_by(|a, b| is_plain(a) && is_plain(b)) {
            let n: usize = run.iter().map(|block| block.size as usize).sum();
            let (now, later) = std::mem::take(&mut rest).split_at_mut(n);
            rest = later;
            if is_plain(&run[0]) {
                let references: Vec<u32> = run.iter().map(|block| block.reference).collect();
                let call = self.functions.float64.get;
                // SAFETY: every one of the references has one value.
                let status = unsafe { call(self.handle, references.as_ptr(), n, now.as_mut_ptr(), n) };
                self.judged("fmi3GetFloat64", status)?;
            } else {
                self.get_block(run[0], now)?;
            }
        }
        Ok(())
    }

    fn directional(&mut self, unknowns: &[u32], knowns: &[u32], seed: &[f64], values: &mut [f64]) -> Done {
        let Some(call) = self.functions.directional else { return not_offered("fmi3GetDirectionalDerivative") };
        let (n_unknowns, n_knowns) = (unknowns.len(), knowns.len());
        let (unknowns, knowns) = (unknowns.as_ptr(), knowns.as_ptr());
        // SAFETY: every array has the length beside it.
        let status = unsafe {
            call(
                self.handle,
                unknowns,
                n_unknowns,
                knowns,
                n_knowns,
                seed.as_ptr(),
                seed.len(),
                values.as_mut_ptr(),
                values.len(),
            )
        };
        self.judged("fmi3GetDirectionalDerivative", status)
    }

    fn step(&mut self, time: f64, length: f64) -> Done<Advanced> {
        let Some(call) = self.functions.step else { return not_offered("fmi3DoStep") };
        let [mut wants_event, mut is_over, mut is_early] = [false; 3];
        let mut reached = time + length;
        // SAFETY: all results live here.
        let status = unsafe {
            call(self.handle, time, length, true, &mut wants_event, &mut is_over, &mut is_early, &mut reached)
        };
        self.judged("fmi3DoStep", status)?;
        if is_early && reached < time + length * (1.0 - 1e-9) && !is_over {
            return Err(Failed::Error(ForeignError::Status {
                function: "fmi3DoStep".to_owned(),
                status: "early return, which was not allowed".to_owned(),
                place: String::new(),
                log: logger::words(),
            }));
        }
        Ok(Advanced { time: if is_over { reached } else { time + length }, is_over })
    }

    fn save(&mut self) -> Done<Saved> {
        let Some(call) = self.functions.save else { return not_offered("fmi3GetFMUState") };
        let mut state = ptr::null_mut();
        // SAFETY: the place for the result lives here.
        let status = unsafe { call(self.handle, &mut state) };
        self.judged("fmi3GetFMUState", status)?;
        Ok(Saved(state))
    }

    fn restore(&mut self, saved: &Saved) -> Done {
        let Some(call) = self.functions.restore else { return not_offered("fmi3SetFMUState") };
        // SAFETY: the state was made by this instance and not freed.
        let status = unsafe { call(self.handle, saved.0) };
        self.judged("fmi3SetFMUState", status)
    }

    fn forget(&mut self, saved: Saved) {
        if let Some(call) = self.functions.forget {
            let mut state = saved.0;
            // SAFETY: the state was made by this instance and is given up here.
            let _ = unsafe { call(self.handle, &mut state) };
        }
    }
}

/// Whether values can be read with those of neighbours in one call.
fn is_plain(block: &Block) -> bool {
    block.scalar_type == ScalarType::Float64 && block.size == 1
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
