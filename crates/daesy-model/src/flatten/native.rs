//! External functions that daesy has itself, by the names that libraries call them: tables, texts, random numbers,
//! dense linear algebra. No foreign code is run; what is not here is refused by name.
//!
//! An external function gets the values of its arguments and says which of them it has written, as a C function does
//! through pointers. Where an argument must be known (a file name, the points of a table), parameters in it become
//! structural.

use std::sync::Arc;

use daesy_graph::intrinsic::{Generator, Intrinsic};
use daesy_graph::table::{
    Extrapolation, Matrix, Smoothness, TableCurve, TableError, TableSurface, TimeEvents, TimeTable, TimeTableOptions,
};
use daesy_graph::{ExprId, Finding, Leaf, Span, VariableKind};

use super::value::{Dims, Scalars, Text, Type, Value, count};
use super::{Flattener, Res};
use crate::library::FileKind;

/// An object that an external constructor made.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Object {
    /// Columns over time.
    Time(Arc<TimeTable>),
    /// Columns over one variable.
    Curves(Vec<Arc<TableCurve>>),
    /// A function of two variables.
    Surface(Arc<TableSurface>),
}

/// What stands for a seed from the clock of the machine.
const AUTOMATIC_SEED: f64 = 67_867_967.0;

/// What an external function did.
#[derive(Default)]
pub(crate) struct Done {
    /// What it returned.
    pub returned: Option<Value>,
    /// What it wrote, by the number of the argument.
    pub written: Vec<(usize, Value)>,
}

impl Done {
    const fn returned(value: Value) -> Self {
        Self { returned: Some(value), written: Vec::new() }
    }
}

/// Whether daesy has an external function of this name.
pub(crate) fn is_known(name: &str) -> bool {
    name.starts_with("ModelicaStandardTables_") && !name.ends_with("_close")
        || matches!(
            name,
            "ModelicaStrings_length"
                | "ModelicaStrings_substring"
                | "ModelicaStrings_compare"
                | "ModelicaStrings_hashString"
                | "ModelicaStrings_skipWhiteSpace"
                | "ModelicaInternal_print"
                | "ModelicaInternal_fullPathName"
                | "ModelicaInternal_stat"
                | "ModelicaInternal_countLines"
                | "ModelicaInternal_readLine"
                | "ModelicaStreams_closeFile"
                | "ModelicaIO_readMatrixSizes"
                | "ModelicaIO_readRealMatrix"
                | "ModelicaRandom_automaticGlobalSeed"
                | "ModelicaStrings_scanInteger"
                | "ModelicaStrings_scanReal"
                | "ModelicaStrings_scanString"
                | "ModelicaStrings_scanIdentifier"
                | "ModelicaInternal_readFile"
                | "ModelicaInternal_removeFile"
                | "ModelicaIO_writeRealMatrix"
                | "ModelicaFFT_kiss_fftr"
                | "ModelicaRandom_setInternalState_xorshift1024star"
                | "ModelicaRandom_impureRandom_xorshift1024star"
                | "ModelicaRandom_xorshift64star"
                | "ModelicaRandom_xorshift128plus"
                | "ModelicaRandom_xorshift1024star"
                | "dgesv"
                | "dgelsy"
        )
}

impl Flattener<'_> {
    /// Runs an external function.
    pub(crate) fn native(&mut self, name: &str, args: &[Value], span: Span) -> Res<Done> {
        if let Some(rest) = name.strip_prefix("ModelicaStandardTables_") {
            return self.table_function(rest, args, span);
        }
        if let Some(rest) = name.strip_prefix("ModelicaStrings_scan") {
            return self.scan(rest, args, span);
        }
        if let Some(rest) = name.strip_prefix("ModelicaStrings_") {
            return self.text_function(rest, args, span);
        }
        match name {
            // Nothing is printed while a model is laid out or run.
            "ModelicaInternal_print" | "ModelicaStreams_closeFile" => Ok(Done::default()),
            "ModelicaRandom_setInternalState_xorshift1024star" => self.set_impure_state(args, span),
            "ModelicaRandom_impureRandom_xorshift1024star" => Ok(self.draw_impure(span)),
            "ModelicaInternal_removeFile" | "ModelicaIO_writeRealMatrix" => {
                let message = "a model does not write or remove files: what this call would write is left out";
                self.report(Finding::note("file-not-written", span, message));
                Ok(Done::returned(self.integer_value(1.0)))
            }
            "ModelicaInternal_readFile" => {
                let lines = self.file_lines(args, span)?;
                let items: Vec<Text> =
                    lines.iter().map(|line| Text { text: Arc::from(line.as_str()), is_known: true }).collect();
                let lines = Value::Texts { dims: Dims::from_slice(&[items.len()]), items };
                Ok(Done { returned: None, written: vec![(1, lines)] })
            }
            "ModelicaFFT_kiss_fftr" => self.fourier(args, span),
            "ModelicaInternal_countLines" => {
                let n_lines = self.file_lines(args, span)?.len();
                Ok(Done::returned(self.integer_value(n_lines as f64)))
            }
            "ModelicaInternal_readLine" => {
                let lines = self.file_lines(args, span)?;
                let at = self.known_scalar(args, 1, span)? as usize;
                let line = at.checked_sub(1).and_then(|at| lines.get(at));
                let is_end = Value::scalar(Type::Boolean, self.graph.truth(line.is_none()));
                let text = Value::text(line.map_or("", String::as_str));
                Ok(Done { returned: Some(text), written: vec![(2, is_end)] })
            }
            "ModelicaIO_readMatrixSizes" | "ModelicaIO_readRealMatrix" => self.read_matrix(name, args, span),
            "ModelicaRandom_automaticGlobalSeed" => {
                let message = "the automatic seed is the same in every run: results can be repeated";
                self.report(Finding::note("automatic-seed", span, message).with_help("give a seed of your own"));
                Ok(Done::returned(self.integer_value(AUTOMATIC_SEED)))
            }
            "ModelicaInternal_fullPathName" => {
                let path = self.known_text(args, 0, span)?;
                let full = self.full_path(&path);
                Ok(Done::returned(Value::text(&full)))
            }
            "ModelicaInternal_stat" => {
                let path = self.known_text(args, 0, span)?;
                let kind = match self.library.file_kind(&path) {
                    FileKind::Nothing => 1.0,
                    FileKind::File => 2.0,
                    FileKind::Folder => 3.0,
                    FileKind::Other => 4.0,
                };
                Ok(Done::returned(self.integer_value(kind)))
            }
            "ModelicaRandom_xorshift64star" => self.random(Generator::Xorshift64Star, args, span),
            "ModelicaRandom_xorshift128plus" => self.random(Generator::Xorshift128Plus, args, span),
            "ModelicaRandom_xorshift1024star" => self.random(Generator::Xorshift1024Star, args, span),
            "dgesv" => self.solve(args, span),
            "dgelsy" => self.least_squares(args, span),
            _ => Err(self.wrong_call(name, span)),
        }
    }

    fn file_lines(&mut self, args: &[Value], span: Span) -> Res<Vec<String>> {
        let file = self.known_text(args, 0, span)?;
        let path = self.full_path(&file);
        match self.library.read_file(&path) {
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).lines().map(str::to_owned).collect()),
            Err(error) => {
                Err(self.error("unreadable-file", span, format!("the file `{path}` cannot be read: {error}")))
            }
        }
    }

    /// A matrix of a file, or its sizes, into argument 2.
    fn read_matrix(&mut self, name: &str, args: &[Value], span: Span) -> Res<Done> {
        let (file, table) = (self.known_text(args, 0, span)?, self.known_text(args, 1, span)?);
        let path = self.full_path(&file);
        let options = super::table_file::CsvOptions::default();
        let matrix = super::table_file::read(self.library, &path, &table, &options)
            .map_err(|error| self.error("table", span, format!("the matrix `{table}` cannot be read: {error}")))?;
        let value = if name.ends_with("Sizes") {
            as_integers(self.real_array(&[matrix.rows as f64, matrix.columns as f64], &[2]))
        } else {
            self.real_array(&matrix.entries, &[matrix.rows, matrix.columns])
        };
        Ok(Done { returned: None, written: vec![(2, value)] })
    }

    pub(crate) fn wrong_call(&mut self, name: &str, span: Span) -> super::Refused {
        let message = format!("the external function `{name}` is not called in the way that daesy knows");
        self.error("wrong-arguments", span, message)
    }

    fn integer_value(&mut self, number: f64) -> Value {
        Value::scalar(Type::Integer, self.graph.number(number))
    }

    fn known_text(&mut self, args: &[Value], at: usize, span: Span) -> Res<String> {
        if let Some(Value::Texts { items, .. }) = args.get(at)
            && let [item] = items.as_slice()
        {
            if item.is_known {
                return Ok(item.text.to_string());
            }
            let message = format!("the text `{}` must be known before the simulation here", item.text);
            return Err(self.not_structural(span, message, None));
        }
        Err(self.error("wrong-arguments", span, "an external function needs a String here"))
    }

    fn known_numbers(&mut self, args: &[Value], at: usize, span: Span) -> Res<Vec<f64>> {
        let Some(Value::Scalars(scalars)) = args.get(at) else {
            return Err(self.error("wrong-arguments", span, "an external function needs numbers here"));
        };
        scalars.items.clone().into_iter().map(|item| self.known_number(item, span)).collect()
    }

    fn known_scalar(&mut self, args: &[Value], at: usize, span: Span) -> Res<f64> {
        let numbers = self.known_numbers(args, at, span)?;
        match numbers.as_slice() {
            [number] => Ok(*number),
            _ => Err(self.error("wrong-size", span, "an external function needs a scalar here")),
        }
    }

    fn known_matrix(&mut self, args: &[Value], at: usize, span: Span) -> Res<Matrix> {
        let entries = self.known_numbers(args, at, span)?;
        match args[at].dims() {
            [rows, columns] => Ok(Matrix { rows: *rows, columns: *columns, entries }),
            _ => Err(self.error("wrong-size", span, "an external function needs a matrix here")),
        }
    }

    fn item(&mut self, args: &[Value], at: usize, span: Span) -> Res<ExprId> {
        match args.get(at) {
            Some(Value::Scalars(scalars)) if scalars.dims.is_empty() => Ok(scalars.items[0]),
            _ => Err(self.error("wrong-arguments", span, "an external function needs a number here")),
        }
    }

    fn table_error(&mut self, error: &TableError, span: Span) -> super::Refused {
        self.error("table", span, error.to_string())
    }

    /// The matrix of a table: given, or read from a file.
    fn table_matrix(&mut self, args: &[Value], csv: Option<usize>, span: Span) -> Res<Matrix> {
        let (file, table) = (self.known_text(args, 0, span)?, self.known_text(args, 1, span)?);
        if file.is_empty() || file == "NoName" {
            if table != "NoName" && !table.is_empty() {
                let message = format!("the table `{table}` is in no file: tables compiled into C are not supported");
                return Err(self.error("table", span, message));
            }
            return self.known_matrix(args, 2, span);
        }
        let options = match csv {
            Some(at) if args.len() > at + 1 => super::table_file::CsvOptions {
                delimiter: self.known_text(args, at, span)?,
                n_header_lines: self.known_scalar(args, at + 1, span)? as usize,
            },
            _ => super::table_file::CsvOptions::default(),
        };
        let path = self.full_path(&file);
        super::table_file::read(self.library, &path, &table, &options)
            .map_err(|error| self.error("table", span, format!("the table `{table}` cannot be read: {error}")))
    }

    fn table_function(&mut self, name: &str, args: &[Value], span: Span) -> Res<Done> {
        if name.contains("_init") {
            return self.make_table(name, args, span);
        }
        let Some(Value::Object(object)) = args.first() else {
            return Err(self.wrong_call(name, span));
        };
        let object = object.clone();
        let (_, what) = name.split_once('_').unwrap_or(("", name));
        match (&*object, what) {
            (Object::Time(table), "minimumTime" | "maximumTime") => {
                let time = if what == "minimumTime" { table.first() } else { table.last() };
                Ok(Done::returned(Value::scalar(Type::Real, self.graph.number(time))))
            }
            (Object::Time(table), "nextTimeEvent") => {
                let time = self.item(args, 1, span)?;
                let intrinsic = Intrinsic::NextEvent { table: table.clone() };
                Ok(Done::returned(Value::scalar(Type::Real, self.graph.call_intrinsic(&intrinsic, 0, &[time]))))
            }
            (Object::Curves(curves), "minimumAbscissa" | "maximumAbscissa") => {
                let Some(curve) = curves.first() else { return Err(self.wrong_call(name, span)) };
                let end = if what == "minimumAbscissa" { curve.first() } else { curve.last() };
                Ok(Done::returned(Value::scalar(Type::Real, self.graph.number(end))))
            }
            (Object::Surface(surface), "minimumAbscissa" | "maximumAbscissa") => {
                let ends = if what == "minimumAbscissa" { surface.first() } else { surface.last() };
                let items = ends.iter().map(|&end| self.graph.number(end)).collect();
                let value = Value::Scalars(Scalars { ty: Type::Real, dims: Dims::from_slice(&[2]), items });
                Ok(Done { returned: None, written: vec![(1, value)] })
            }
            (_, "getValue") => {
                let (intrinsic, inputs) = self.lookup_of(&object, args, span)?;
                let value = self.graph.call_intrinsic(&intrinsic, 0, &inputs);
                Ok(Done::returned(Value::scalar(Type::Real, value)))
            }
            (_, "getDerValue") => {
                let (intrinsic, inputs) = self.lookup_of(&object, args, span)?;
                let first = match &*object {
                    Object::Time(_) => 5,
                    _ => 3,
                };
                let value = self.table_derivative(&intrinsic, &inputs, args, first, span)?;
                Ok(Done::returned(Value::scalar(Type::Real, value)))
            }
            _ => Err(self.wrong_call(name, span)),
        }
    }

    /// The lookup that `getValue` and its derivatives mean, and its inputs.
    fn lookup_of(&mut self, object: &Object, args: &[Value], span: Span) -> Res<(Intrinsic, Vec<ExprId>)> {
        match object {
            Object::Time(table) => {
                let column = self.known_scalar(args, 1, span)? as usize;
                let (time, next) = (self.item(args, 2, span)?, self.item(args, 3, span)?);
                if column == 0 || column > table.n_columns() {
                    return Err(self.error("out-of-bounds", span, format!("the table has no column {column}")));
                }
                let intrinsic = Intrinsic::Signal { table: table.clone(), column: column - 1, order: 0 };
                Ok((intrinsic, vec![time, next]))
            }
            Object::Curves(curves) => {
                let column = self.known_scalar(args, 1, span)? as usize;
                let u = self.item(args, 2, span)?;
                let Some(curve) = column.checked_sub(1).and_then(|at| curves.get(at)) else {
                    return Err(self.error("out-of-bounds", span, format!("the table has no column {column}")));
                };
                Ok((Intrinsic::Curve { curve: curve.clone(), order: 0 }, vec![u]))
            }
            Object::Surface(surface) => {
                let inputs = vec![self.item(args, 1, span)?, self.item(args, 2, span)?];
                Ok((Intrinsic::Surface { surface: surface.clone(), orders: [0, 0] }, inputs))
            }
        }
    }

    /// `sum of (d f / d u_i) der_u_i`; the derivatives of the inputs are arguments from `first` on.
    fn table_derivative(
        &mut self,
        intrinsic: &Intrinsic,
        inputs: &[ExprId],
        args: &[Value],
        first: usize,
        span: Span,
    ) -> Res<ExprId> {
        let mut sum = self.graph.number(0.0);
        let mut at = first;
        for input in 0..inputs.len() {
            let Some(partial) = intrinsic.partial(input) else { continue };
            let slope = self.graph.call_intrinsic(&partial, 0, inputs);
            let change = self.item(args, at, span)?;
            at += 1;
            let product = self.graph.mul(slope, change);
            sum = self.graph.add(sum, product);
        }
        Ok(sum)
    }

    fn make_table(&mut self, name: &str, args: &[Value], span: Span) -> Res<Done> {
        let object = match name.split('_').next() {
            Some("CombiTimeTable") => {
                let table = self.table_matrix(args, Some(13), span)?;
                let columns = self.table_columns(args, 6, span)?;
                let options = TimeTableOptions {
                    start: self.known_scalar(args, 5, span)?,
                    smoothness: self.smoothness(args, 8, span)?,
                    extrapolation: self.extrapolation(args, 9, span)?,
                    shift: self.known_scalar(args, 10, span)?,
                    events: match self.known_scalar(args, 11, span)? as i64 {
                        1 => TimeEvents::Always,
                        2 => TimeEvents::AtJumps,
                        _ => TimeEvents::AtEnds,
                    },
                };
                Object::Time(Arc::new(
                    TimeTable::new(&table, &columns, options).map_err(|error| self.table_error(&error, span))?,
                ))
            }
            Some("CombiTable1D") => {
                let table = self.table_matrix(args, Some(10), span)?;
                let columns = self.table_columns(args, 5, span)?;
                let (smoothness, extrapolation) = (self.smoothness(args, 7, span)?, self.extrapolation(args, 8, span)?);
                let mut curves = Vec::with_capacity(columns.len());
                for column in columns {
                    let curve = TableCurve::new(&table, column, smoothness, extrapolation, false);
                    curves.push(Arc::new(curve.map_err(|error| self.table_error(&error, span))?));
                }
                Object::Curves(curves)
            }
            Some("CombiTable2D") => {
                let table = self.table_matrix(args, Some(8), span)?;
                let (smoothness, extrapolation) = (self.smoothness(args, 5, span)?, self.extrapolation(args, 6, span)?);
                let surface = TableSurface::new(&table, smoothness, extrapolation);
                Object::Surface(Arc::new(surface.map_err(|error| self.table_error(&error, span))?))
            }
            _ => return Err(self.wrong_call(name, span)),
        };
        Ok(Done::returned(Value::Object(Arc::new(object))))
    }

    fn table_columns(&mut self, args: &[Value], at: usize, span: Span) -> Res<Vec<usize>> {
        let numbers = self.known_numbers(args, at, span)?;
        if let Some(bad) = numbers.iter().find(|&&number| number < 1.0) {
            return Err(self.error("out-of-bounds", span, format!("columns of a table count from 1, not {bad}")));
        }
        Ok(numbers.into_iter().map(|number| number as usize - 1).collect())
    }

    fn smoothness(&mut self, args: &[Value], at: usize, span: Span) -> Res<Smoothness> {
        Ok(match self.known_scalar(args, at, span)? as i64 {
            1 => Smoothness::Linear,
            2 => Smoothness::Akima,
            3 => Smoothness::Constant,
            4 => Smoothness::FritschButland,
            5 => Smoothness::Steffen,
            6 => Smoothness::ModifiedAkima,
            other => return Err(self.error("table", span, format!("there is no smoothness {other} of tables"))),
        })
    }

    fn extrapolation(&mut self, args: &[Value], at: usize, span: Span) -> Res<Extrapolation> {
        Ok(match self.known_scalar(args, at, span)? as i64 {
            1 => Extrapolation::Hold,
            2 => Extrapolation::Line,
            3 => Extrapolation::Periodic,
            4 => Extrapolation::Refuse,
            other => return Err(self.error("table", span, format!("there is no extrapolation {other} of tables"))),
        })
    }

    fn text_function(&mut self, name: &str, args: &[Value], span: Span) -> Res<Done> {
        let text = self.known_text(args, 0, span)?;
        Ok(Done::returned(match name {
            "length" => self.integer_value(text.chars().count() as f64),
            "substring" => {
                let (from, to) =
                    (self.known_scalar(args, 1, span)? as usize, self.known_scalar(args, 2, span)? as usize);
                if from == 0 || to > text.chars().count() {
                    let message = format!("\"{text}\" has no letters {from} to {to}");
                    return Err(self.error("out-of-bounds", span, message));
                }
                let part: String = text.chars().skip(from - 1).take((to + 1).saturating_sub(from)).collect();
                Value::text(&part)
            }
            "compare" => {
                let other = self.known_text(args, 1, span)?;
                let is_exact = args.len() < 3 || self.known_scalar(args, 2, span)? != 0.0;
                let order = if is_exact { text.cmp(&other) } else { text.to_lowercase().cmp(&other.to_lowercase()) };
                // An enumeration of less, equal, greater.
                self.integer_value(2.0 + f64::from(order as i8))
            }
            "hashString" => self.integer_value(f64::from(hash(text.as_bytes()))),
            "skipWhiteSpace" => {
                let from = self.known_scalar(args, 1, span)?.max(1.0) as usize;
                let n_skipped = text.chars().skip(from - 1).take_while(|letter| letter.is_whitespace()).count();
                self.integer_value((from + n_skipped) as f64)
            }
            _ => return Err(self.wrong_call(name, span)),
        }))
    }

    /// A step of a generator; the state is argument 0, the new state 1 and the number 2.
    fn random(&mut self, generator: Generator, args: &[Value], span: Span) -> Res<Done> {
        let Some(Value::Scalars(state)) = args.first() else { return Err(self.wrong_call("random", span)) };
        if state.items.len() != generator.n_state() {
            let message = format!("the state has {} integers, not {}", generator.n_state(), state.items.len());
            return Err(self.error("wrong-size", span, message));
        }
        let inputs: Vec<ExprId> = state.items.to_vec();
        let call = |this: &mut Self, at: usize| {
            let value = this.graph.call_intrinsic(&Intrinsic::Random(generator), at as u16, &inputs);
            this.folded(value)
        };
        let number = call(self, 0);
        let items = (1..=inputs.len()).map(|at| call(self, at)).collect();
        let new = Scalars { ty: Type::Integer, dims: Dims::from_slice(&[inputs.len()]), items };
        Ok(Done { returned: None, written: vec![(1, Value::Scalars(new)), (2, Value::scalar(Type::Real, number))] })
    }

    /// `info = fftr(u, n, work, n_work, amplitudes, phases)`: see [`Intrinsic::Fourier`].
    fn fourier(&mut self, args: &[Value], span: Span) -> Res<Done> {
        let Some(Value::Scalars(signal)) = args.first() else { return Err(self.wrong_call("fftr", span)) };
        let n = signal.items.len();
        if n % 2 == 1 || n == 0 {
            return Ok(Done::returned(self.integer_value(1.0)));
        }
        let inputs: Vec<ExprId> = signal.items.to_vec();
        let mut reach = std::mem::take(&mut self.reach);
        let is_continuous = |leaf: Leaf| match leaf {
            Leaf::Time => true,
            Leaf::Var { var, .. } => self.variables[var.index()].kind == VariableKind::Continuous,
        };
        let varies = self.functions.when.is_none()
            && inputs.iter().any(|&input| reach.depends_on(&self.graph, input, is_continuous));
        self.reach = reach;
        if varies {
            return Err(self.unsupported(
                "Fourier transforms",
                span,
                "the transform, outside when-clauses, of signals that vary continuously",
            ));
        }
        let n_out = n / 2 + 1;
        let intrinsic = Intrinsic::Fourier { n };
        let items: Vec<ExprId> = (0..2 * n_out)
            .map(|at| {
                let call = self.graph.call_intrinsic(&intrinsic, at as u16, &inputs);
                self.folded(call)
            })
            .collect();
        let half = |items: &[ExprId]| {
            let items = items.iter().copied().collect();
            Value::Scalars(Scalars { ty: Type::Real, dims: Dims::from_slice(&[n_out]), items })
        };
        let written = vec![(4, half(&items[..n_out])), (5, half(&items[n_out..]))];
        Ok(Done { returned: Some(self.integer_value(0.0)), written })
    }

    /// Reads a token of a text, after spaces: a number, a text in quotes, an identifier. The position after it is
    /// written, or the one at the beginning where there is no such token.
    fn scan(&mut self, what: &str, args: &[Value], span: Span) -> Res<Done> {
        let text = self.known_text(args, 0, span)?;
        let from = self.known_scalar(args, 1, span)?.max(1.0) as usize;
        let rest: Vec<char> = text.chars().skip(from - 1).collect();
        let n_spaces = rest.iter().take_while(|letter| letter.is_whitespace()).count();
        let token = &rest[n_spaces..];
        // Numbers have one more argument: whether a sign is not allowed.
        let is_unsigned = matches!(what, "Integer" | "Real") && self.known_scalar(args, 2, span)? != 0.0;
        let n = match what {
            "Integer" => integer_length(token, is_unsigned),
            "Real" => real_length(token, is_unsigned),
            "String" => quoted_length(token),
            "Identifier" => identifier_length(token),
            _ => return Err(self.wrong_call(what, span)),
        };
        let next = self.integer_value((if n == 0 { from } else { from + n_spaces + n }) as f64);
        let found: String = token[..n].iter().collect();
        let place = if matches!(what, "Integer" | "Real") { 3 } else { 2 };
        let value = match what {
            "Integer" | "Real" => {
                let number = found.parse::<f64>().unwrap_or(0.0);
                if what == "Integer" {
                    self.integer_value(number)
                } else {
                    Value::scalar(Type::Real, self.graph.number(number))
                }
            }
            "String" if n > 0 => Value::text(&found[1..found.len() - 1]),
            _ => Value::text(&found),
        };
        Ok(Done { returned: None, written: vec![(place, next), (place + 1, value)] })
    }

    /// A call of numbers as a number.
    fn folded(&mut self, expr: ExprId) -> ExprId {
        let daesy_graph::Node::Call { args, .. } = self.graph.node(expr) else { return expr };
        if self.graph.args(args).iter().any(|&arg| self.graph.as_number(arg).is_none()) {
            return expr;
        }
        let nothing = |_: daesy_graph::VarId, _: u16| f64::NAN;
        match self.evaluator.evaluate_checked(&self.graph, expr, &nothing) {
            Ok(number) => self.graph.number(number),
            Err(_) => expr,
        }
    }

    /// `dgesv(n, nrhs, A, lda, ipiv, B, ldb, info)`: solves `A X = B`.
    fn solve(&mut self, args: &[Value], span: Span) -> Res<Done> {
        let a = self.known_matrix(args, 2, span)?;
        let mut b = self.known_numbers(args, 5, span)?;
        let n = a.rows;
        let width = b.len().checked_div(n).unwrap_or(0);
        let info = if a.columns == n && width * n == b.len() {
            gauss(a, &mut b, width)
        } else {
            return Err(self.wrong_call("dgesv", span));
        };
        let solution = self.real_array(&b, args[5].dims());
        let (pivots, info) = (vec![0.0; n], self.integer_value(info as f64));
        let pivots = self.real_array(&pivots, &[n]);
        Ok(Done { returned: None, written: vec![(4, as_integers(pivots)), (5, solution), (7, info)] })
    }

    /// `dgelsy(m, n, nrhs, A, lda, B, ldb, jpvt, rcond, rank, work, lwork, info)`: the least of all `x` that minimize
    /// `|A x - b|`.
    fn least_squares(&mut self, args: &[Value], span: Span) -> Res<Done> {
        let a = self.known_matrix(args, 3, span)?;
        let b = self.known_numbers(args, 5, span)?;
        let tolerance = self.known_scalar(args, 8, span)?;
        let columns = match args[5].dims() {
            [_] => 1,
            [_, columns] => *columns,
            _ => return Err(self.wrong_call("dgelsy", span)),
        };
        let height = b.len().checked_div(columns).unwrap_or(0);
        if height < a.rows.max(a.columns) {
            return Err(self.wrong_call("dgelsy", span));
        }
        let mut solution = vec![0.0; b.len()];
        let mut rank = 0;
        for column in 0..columns {
            let right: Vec<f64> = (0..a.rows).map(|row| b[row * columns + column]).collect();
            let found = least_norm(&a, &right, tolerance);
            rank = found.rank;
            for (row, value) in found.x.iter().enumerate() {
                solution[row * columns + column] = *value;
            }
        }
        let x = self.real_array(&solution, args[5].dims());
        let (rank, info) = (self.integer_value(rank as f64), self.integer_value(0.0));
        Ok(Done { returned: None, written: vec![(5, x), (9, rank), (12, info)] })
    }

    fn real_array(&mut self, numbers: &[f64], dims: &[usize]) -> Value {
        debug_assert_eq!(numbers.len(), count(dims));
        let items = numbers.iter().map(|&number| self.graph.number(number)).collect();
        Value::Scalars(Scalars { ty: Type::Real, dims: dims.iter().copied().collect(), items })
    }

    /// The absolute name of a file; `modelica://Package.Sub/rest` is found beside the package.
    pub(crate) fn full_path(&mut self, path: &str) -> String {
        if let Some(rest) = path.strip_prefix("modelica://") {
            let (package, file) = rest.split_once('/').unwrap_or((rest, ""));
            let top = package.split('.').next().unwrap_or(package);
            if let Some(Ok(class)) = self.top_class(crate::name::Name::new(top))
                && let Some(folder) = self.library.folder_of(self.class(class).span())
            {
                return folder.join(file).display().to_string();
            }
        }
        let path = path.strip_prefix("file://").unwrap_or(path);
        std::path::absolute(path).map_or_else(|_| path.to_owned(), |full| full.display().to_string())
    }
}

fn digits(letters: &[char]) -> usize {
    letters.iter().take_while(|letter| letter.is_ascii_digit()).count()
}

/// Letters of an integer at the beginning; none if it goes on as a Real does.
fn integer_length(letters: &[char], is_unsigned: bool) -> usize {
    let sign = usize::from(!is_unsigned && matches!(letters.first(), Some('+' | '-')));
    let n = digits(&letters[sign..]);
    let goes_on = matches!(letters.get(sign + n), Some('.' | 'e' | 'E'));
    if n == 0 || goes_on { 0 } else { sign + n }
}

/// Letters of a number at the beginning.
fn real_length(letters: &[char], is_unsigned: bool) -> usize {
    let sign = usize::from(!is_unsigned && matches!(letters.first(), Some('+' | '-')));
    let mut n = sign + digits(&letters[sign..]);
    let mut n_digits = n - sign;
    if letters.get(n) == Some(&'.') {
        let after = digits(&letters[n + 1..]);
        n_digits += after;
        n += 1 + after;
    }
    if n_digits == 0 {
        return 0;
    }
    if matches!(letters.get(n), Some('e' | 'E')) {
        let sign = usize::from(matches!(letters.get(n + 1), Some('+' | '-')));
        let power = digits(&letters[n + 1 + sign..]);
        if power > 0 {
            n += 1 + sign + power;
        }
    }
    n
}

/// Letters of a text in double quotes, which are among them.
fn quoted_length(letters: &[char]) -> usize {
    if letters.first() != Some(&'"') {
        return 0;
    }
    let mut is_escaped = false;
    for (at, letter) in letters.iter().enumerate().skip(1) {
        match letter {
            '"' if !is_escaped => return at + 1,
            _ => is_escaped = *letter == '\\' && !is_escaped,
        }
    }
    0
}

fn identifier_length(letters: &[char]) -> usize {
    if !letters.first().is_some_and(|letter| letter.is_alphabetic()) {
        return 0;
    }
    letters.iter().take_while(|letter| letter.is_alphanumeric() || **letter == '_').count()
}

fn as_integers(value: Value) -> Value {
    match value {
        Value::Scalars(scalars) => Value::Scalars(Scalars { ty: Type::Integer, ..scalars }),
        other => other,
    }
}

/// A text's hash code: alternating shifts over its bytes, as libraries expect it of seeds made from names.
fn hash(bytes: &[u8]) -> i32 {
    let mut hash: u32 = 0xAAAA_AAAA;
    for (at, &byte) in bytes.iter().enumerate() {
        let byte = u32::from(byte);
        hash ^= if at % 2 == 0 {
            (hash << 7) ^ byte.wrapping_mul(hash >> 3)
        } else {
            !((hash << 11).wrapping_add(byte ^ (hash >> 5)))
        };
    }
    hash as i32
}

/// Gauss's elimination with row exchanges on `A X = B`, `B` row by row with `width` columns; the answer is in its
/// place. Gives 0, or the number of the pivot that vanished.
fn gauss(mut a: Matrix, b: &mut [f64], width: usize) -> usize {
    let n = a.rows;
    for k in 0..n {
        let pivot = (k..n).max_by(|&i, &j| a.at(i, k).abs().total_cmp(&a.at(j, k).abs())).unwrap_or(k);
        if a.at(pivot, k) == 0.0 {
            return k + 1;
        }
        for column in 0..n {
            a.entries.swap(k * n + column, pivot * n + column);
        }
        for column in 0..width {
            b.swap(k * width + column, pivot * width + column);
        }
        for row in k + 1..n {
            let factor = a.at(row, k) / a.at(k, k);
            for column in k..n {
                a.entries[row * n + column] -= factor * a.at(k, column);
            }
            for column in 0..width {
                b[row * width + column] -= factor * b[k * width + column];
            }
        }
    }
    for k in (0..n).rev() {
        for column in 0..width {
            let known: f64 = (k + 1..n).map(|other| a.at(k, other) * b[other * width + column]).sum();
            b[k * width + column] = (b[k * width + column] - known) / a.at(k, k);
        }
    }
    0
}

/// The solution of a least-squares problem and the rank found.
struct LeastNorm {
    x: Vec<f64>,
    rank: usize,
}

/// The shortest `x` of those that minimize `|A x - b|`, by the singular values of `A`, which one-sided Jacobi rotations
/// give: `A V = U S`, `x = V S^+ U^T b`. Singular values below `tolerance` times the largest count as zero.
fn least_norm(a: &Matrix, b: &[f64], tolerance: f64) -> LeastNorm {
    let (m, n) = (a.rows, a.columns);
    let mut u: Vec<Vec<f64>> = (0..n).map(|column| (0..m).map(|row| a.at(row, column)).collect()).collect();
    let mut v: Vec<Vec<f64>> = (0..n).map(|one| (0..n).map(|row| f64::from(u8::from(row == one))).collect()).collect();
    let dot = |p: &[f64], q: &[f64]| -> f64 { p.iter().zip(q).map(|(p, q)| p * q).sum() };
    for _ in 0..60 {
        let mut largest = 0.0_f64;
        for i in 0..n {
            for j in i + 1..n {
                let (alpha, beta, gamma) = (dot(&u[i], &u[i]), dot(&u[j], &u[j]), dot(&u[i], &u[j]));
                if gamma == 0.0 || gamma.abs() <= 1e-16 * (alpha * beta).sqrt() {
                    continue;
                }
                largest = largest.max(gamma.abs() / (alpha * beta).sqrt());
                let zeta = (beta - alpha) / (2.0 * gamma);
                let t = zeta.signum() / (zeta.abs() + (1.0 + zeta * zeta).sqrt());
                let cosine = 1.0 / (1.0 + t * t).sqrt();
                for list in [&mut u, &mut v] {
                    let (left, right) = list.split_at_mut(j);
                    for (p, q) in left[i].iter_mut().zip(right[0].iter_mut()) {
                        (*p, *q) = (cosine * (*p - t * *q), cosine * (t * *p + *q));
                    }
                }
            }
        }
        if largest < 1e-15 {
            break;
        }
    }
    let sizes: Vec<f64> = u.iter().map(|column| dot(column, column).sqrt()).collect();
    let bound = sizes.iter().copied().fold(0.0, f64::max) * tolerance.max(1e-14);
    let mut x = vec![0.0; n];
    let mut rank = 0;
    for (k, &size) in sizes.iter().enumerate() {
        if size <= bound || size == 0.0 {
            continue;
        }
        rank += 1;
        let weight = dot(&u[k], b) / (size * size);
        for (entry, direction) in x.iter_mut().zip(&v[k]) {
            *entry += weight * direction;
        }
    }
    LeastNorm { x, rank }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn systems_are_solved_and_singular_ones_told() {
        let a = |entries: [f64; 4]| Matrix { rows: 2, columns: 2, entries: entries.to_vec() };
        let mut b = vec![5.0, 6.0];
        assert_eq!(gauss(a([0.0, 1.0, 2.0, 0.0]), &mut b, 1), 0);
        assert_eq!(b, [3.0, 5.0]);
        assert_eq!(gauss(a([1.0, 2.0, 2.0, 4.0]), &mut [1.0, 1.0], 1), 2);
    }

    #[test]
    fn least_squares_fits_a_line_and_chooses_the_shortest_of_many() {
        // y = 1 + 2 x through (0, 1), (1, 3), (2, 5).
        let a = Matrix { rows: 3, columns: 2, entries: vec![1.0, 0.0, 1.0, 1.0, 1.0, 2.0] };
        let found = least_norm(&a, &[1.0, 3.0, 5.0], 0.0);
        assert_eq!(found.rank, 2);
        assert!((found.x[0] - 1.0).abs() < 1e-12 && (found.x[1] - 2.0).abs() < 1e-12);
        // x + y = 2 has the shortest solution (1, 1).
        let a = Matrix { rows: 1, columns: 2, entries: vec![1.0, 1.0] };
        let found = least_norm(&a, &[2.0], 0.0);
        assert_eq!(found.rank, 1);
        assert!((found.x[0] - 1.0).abs() < 1e-12 && (found.x[1] - 1.0).abs() < 1e-12);
    }

    #[test]
    fn tokens_end_where_they_should() {
        let letters = |text: &str| text.chars().collect::<Vec<char>>();
        assert_eq!(integer_length(&letters("-12 x"), false), 3);
        assert_eq!(integer_length(&letters("-12"), true), 0);
        assert_eq!(integer_length(&letters("1.5"), false), 0);
        assert_eq!(real_length(&letters("1.5e-3,"), false), 6);
        assert_eq!(real_length(&letters("2e"), false), 1);
        assert_eq!(real_length(&letters("."), false), 0);
        assert_eq!(quoted_length(&letters(r#""a\"b" c"#)), 6);
        assert_eq!(identifier_length(&letters("a_1 = 2")), 3);
    }

    #[test]
    fn the_hash_of_one_letter_by_hand() {
        // h = 0xAAAAAAAA; h << 7 = 0x55555500; h >> 3 = 0x15555555; times 97 ('a') = 0x1_5555_5555 * .. mod 2^32.
        let expected = 0xAAAA_AAAA_u32 ^ (0x5555_5500 ^ 97_u32.wrapping_mul(0x1555_5555));
        assert_eq!(hash(b"a"), expected as i32);
        assert_ne!(hash(b"ab"), hash(b"ba"));
    }
}
