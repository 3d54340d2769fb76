//! Columns of numbers and times from Apache Parquet files, as pandas, polars and daesy write them.
//!
//! A file ends with a description in Thrift's compact protocol, its length, and the word `PAR1`. The description lists
//! columns and, for each group of rows, where the pages of a column begin. A page has numbers as they are (`PLAIN`), or
//! positions in a page of different values (`RLE_DICTIONARY`); missing values are told by levels in front of it.
//! Uncompressed pages and those of Snappy are read; nested columns and other codecs are refused by name.

use super::stamp::{Stamp, StampKind, TICKS};
use super::{Data, Origin, Reading, TimeAxis};
use crate::diagnostic::Diagnostic;
use crate::limits;
use crate::table::Table;

const MAGIC: &[u8] = b"PAR1";

/// Structures within structures that are followed.
const MAX_DEPTH: usize = 32;

/// Why a file or one of its columns cannot be read.
#[derive(Debug)]
struct Refusal {
    message: String,
    help: &'static str,
}

fn refuse<T>(message: impl Into<String>) -> Result<T, Refusal> {
    Err(Refusal { message: message.into(), help: "write the file again, or save it as CSV" })
}

fn broken<T>() -> Result<T, Refusal> {
    refuse("it is not a whole Parquet file")
}

/// Reads the bytes of a file.
pub(super) fn read(bytes: &[u8], shown: &str, reading: &Reading<'_>) -> Result<Data, Vec<Diagnostic>> {
    let told = |refusal: Refusal| {
        let message = format!("the data file `{shown}` cannot be read: {}", refusal.message);
        vec![Diagnostic::about_file("data-file", shown, message).with_help(refusal.help)]
    };
    let file = Description::read(bytes).map_err(told)?;
    let time_column = match reading.axis {
        TimeAxis::Column(column) => Some(column.as_str()),
        TimeAxis::Step(_) => None,
    };
    let mut table = Table::default();
    for column in &file.columns {
        let is_time = time_column == Some(column.name.as_str());
        if !is_time && !reading.wants(&column.name) {
            continue;
        }
        let values = file.column(bytes, column).and_then(|numbers| column.values(numbers, is_time, reading));
        table.names.push(column.name.clone());
        table.columns.push(values.map_err(told)?);
    }
    if let Some(column) = time_column.filter(|column| !table.names.iter().any(|name| name == column)) {
        let names: Vec<String> = file.columns.iter().map(|column| column.name.clone()).collect();
        let wrong = Diagnostic::about_file("data-column", shown, format!("there is no time column `{column}`"));
        return Err(vec![wrong.with_help(super::time_column_help(column, &names))]);
    }
    Data::from_table(&table, shown, reading.axis)
}

/// The numbers of a column.
enum Numbers {
    Doubles(Vec<f64>),
    /// Whole numbers; missing ones are `None`.
    Whole(Vec<Option<i64>>),
}

/// A column of the file.
struct Column {
    name: String,
    kind: i64,
    is_optional: bool,
    meaning: Meaning,
}

/// What whole numbers stand for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Meaning {
    /// Themselves.
    Number,
    /// So many digits after the point.
    Decimal(i32),
    /// Points of time, so many ticks apart.
    Times(i128),
}

impl Column {
    /// Numbers as doubles, times as seconds from the origin.
    fn values(&self, numbers: Numbers, is_time: bool, reading: &Reading<'_>) -> Result<Vec<f64>, Refusal> {
        let origin = reading.format.origin.filter(|_| is_time);
        let known = |value: f64| if reading.format.is_missing(value) { f64::NAN } else { value };
        let ticks = match (numbers, self.meaning) {
            (Numbers::Doubles(values), _) => return shifted(values.into_iter().map(known).collect(), origin),
            (Numbers::Whole(values), Meaning::Times(each)) => {
                values.into_iter().map(|value| value.map(|value| i128::from(value) * each)).collect::<Vec<_>>()
            }
            (Numbers::Whole(values), Meaning::Number | Meaning::Decimal(_)) => {
                let unit = if let Meaning::Decimal(digits) = self.meaning { 10f64.powi(digits) } else { 1.0 };
                let number = |value: &Option<i64>| value.map_or(f64::NAN, |value| known(value as f64 / unit));
                return shifted(values.iter().map(number).collect(), origin);
            }
        };
        if is_time && reading.has_time_unit {
            return Err(Refusal {
                message: format!("`{}` has dates, which have no unit", self.name),
                help: "leave `time_unit` out of `[data]`: dates are read as seconds from `origin`",
            });
        }
        let stamp = |ticks: i128| Stamp { ticks, kind: StampKind::Local };
        let zero = match origin {
            Some(Origin::Stamp(origin)) => stamp(origin.ticks),
            Some(Origin::Number(_)) => {
                return Err(Refusal {
                    message: format!("`origin` is a number, but `{}` has dates", self.name),
                    help: "give `origin` as a date such as \"2024-03-01T12:30:00\", or leave it out",
                });
            }
            None => stamp(ticks.iter().find_map(|ticks| *ticks).unwrap_or(0)),
        };
        Ok(ticks.iter().map(|ticks| ticks.map_or(f64::NAN, |ticks| stamp(ticks).since(zero))).collect())
    }
}

fn shifted(mut values: Vec<f64>, origin: Option<Origin>) -> Result<Vec<f64>, Refusal> {
    match origin {
        None => {}
        Some(Origin::Number(origin)) => values.iter_mut().for_each(|value| *value -= origin),
        Some(Origin::Stamp(_)) => {
            return Err(Refusal {
                message: "`origin` is a date, but the times are numbers".to_owned(),
                help: "give `origin` as a number, or leave it out",
            });
        }
    }
    Ok(values)
}

/// Where the pages of a column are in one group of rows.
struct Chunk {
    column: String,
    codec: i64,
    n_values: usize,
    offset: usize,
}

struct Description {
    columns: Vec<Column>,
    chunks: Vec<Chunk>,
}

impl Description {
    fn read(bytes: &[u8]) -> Result<Self, Refusal> {
        let n = bytes.len();
        if n < 12 || !bytes.starts_with(MAGIC) || !bytes.ends_with(MAGIC) {
            return broken();
        }
        let length = u32::from_le_bytes([bytes[n - 8], bytes[n - 7], bytes[n - 6], bytes[n - 5]]) as usize;
        let Some(start) = (n - 8).checked_sub(length) else { return broken() };
        let mut reader = Thrift { bytes: &bytes[start..n - 8], at: 0 };
        let Some(file) = reader.structure(0) else { return broken() };
        let mut columns = columns(file.list(2))?;
        for (name, each) in durations(file.list(5)) {
            columns.iter_mut().filter(|column| column.name == name).for_each(|of| of.meaning = Meaning::Times(each));
        }
        let n_rows = file.integer(3).unwrap_or(0).max(0) as f64;
        limits::fits("the data file", 16.0 * n_rows * columns.len() as f64, "split it")
            .map_err(|refusal| Refusal { message: refusal.message, help: "split the file" })?;
        let groups = file.list(4).iter().flat_map(|group| group.list(1));
        let chunks: Option<Vec<Chunk>> = groups.map(|chunk| Chunk::read(chunk.field(3)?, n_rows)).collect();
        chunks.map_or_else(broken, |chunks| Ok(Self { columns, chunks }))
    }

    /// All values of a column.
    fn column(&self, bytes: &[u8], column: &Column) -> Result<Numbers, Refusal> {
        let mut all = match column.kind {
            BOOLEAN | INT32 | INT64 => Numbers::Whole(Vec::new()),
            FLOAT | DOUBLE => Numbers::Doubles(Vec::new()),
            _ => return refuse(format!("the column `{}` holds no numbers", column.name)),
        };
        for chunk in self.chunks.iter().filter(|chunk| chunk.column == column.name) {
            let mut pages = Pages { bytes, at: chunk.offset, column, codec: chunk.codec, dictionary: None };
            let mut n_read = 0;
            while n_read < chunk.n_values {
                n_read += pages.next(&mut all, chunk.n_values - n_read)?;
            }
        }
        Ok(all)
    }
}

impl Chunk {
    fn read(described: &Value<'_>, n_rows: f64) -> Option<Self> {
        let path = described.list(3);
        let data = usize::try_from(described.integer(9)?).ok()?;
        let dictionary = described.integer(11).and_then(|offset| usize::try_from(offset).ok()).filter(|&at| at > 0);
        let n_values = usize::try_from(described.integer(5)?).ok()?;
        (n_values as f64 <= n_rows).then_some(())?;
        Some(Self {
            column: path.iter().map(Value::text).collect::<Option<Vec<_>>>()?.join("."),
            codec: described.integer(4)?,
            n_values,
            offset: dictionary.map_or(data, |dictionary| dictionary.min(data)),
        })
    }
}

/// Kinds of numbers.
const BOOLEAN: i64 = 0;
const INT32: i64 = 1;
const INT64: i64 = 2;
const FLOAT: i64 = 4;
const DOUBLE: i64 = 5;

/// The columns of a schema without nested ones, which are left out with all that they hold.
fn columns(schema: &[Value<'_>]) -> Result<Vec<Column>, Refusal> {
    let mut columns = Vec::new();
    let mut at = 1;
    while let Some(element) = schema.get(at) {
        let Some(name) = element.field(4).and_then(Value::text) else { return broken() };
        let mut n_inside = element.integer(5).unwrap_or(0);
        at += 1;
        if n_inside == 0 && element.integer(3) != Some(2) {
            columns.push(Column {
                name: name.to_owned(),
                kind: element.integer(1).unwrap_or(-1),
                is_optional: element.integer(3) == Some(1),
                meaning: meaning(element),
            });
        }
        while n_inside > 0 && at < schema.len() {
            n_inside += schema[at].integer(5).unwrap_or(0) - 1;
            at += 1;
        }
    }
    Ok(columns)
}

fn meaning(element: &Value<'_>) -> Meaning {
    let per_second = |number: i64| TICKS / number as i128;
    if let Some(logical) = element.field(10) {
        if let Some(decimal) = logical.field(5) {
            return Meaning::Decimal(decimal.integer(1).unwrap_or(0) as i32);
        }
        if logical.field(6).is_some() {
            return Meaning::Times(TICKS * 86_400);
        }
        // Times of a day and of a date.
        if let Some(unit) = [7, 8].iter().find_map(|kind| logical.field(*kind)).and_then(|stamp| stamp.field(2)) {
            let units = [(1, 1_000), (2, 1_000_000), (3, 1_000_000_000)];
            let found = units.into_iter().find(|(number, _)| unit.field(*number).is_some());
            return found.map_or(Meaning::Number, |(_, ticks)| Meaning::Times(per_second(ticks)));
        }
    }
    match element.integer(6) {
        Some(5) => Meaning::Decimal(element.integer(7).unwrap_or(0) as i32),
        Some(6) => Meaning::Times(TICKS * 86_400),
        Some(7 | 9) => Meaning::Times(per_second(1_000)),
        Some(8 | 10) => Meaning::Times(per_second(1_000_000)),
        _ => Meaning::Number,
    }
}

/// Columns of durations with their ticks, which the format itself has no word for: pandas tells them beside.
fn durations(metadata: &[Value<'_>]) -> Vec<(String, i128)> {
    let is_pandas = |entry: &&Value<'_>| entry.field(1).and_then(Value::text) == Some("pandas");
    let text = metadata.iter().find(is_pandas).and_then(|entry| entry.field(2)).and_then(Value::text);
    let told: serde_json::Value = text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default();
    let column = |column: &serde_json::Value| {
        let name = column.get("field_name").or_else(|| column.get("name"))?.as_str()?.to_owned();
        let unit = column.get("numpy_type")?.as_str()?.strip_prefix("timedelta64[")?.strip_suffix(']')?;
        let units = [("s", 1), ("ms", 1_000), ("us", 1_000_000), ("ns", 1_000_000_000)];
        Some((name, units.into_iter().find(|(word, _)| *word == unit).map(|(_, per_second)| TICKS / per_second)?))
    };
    told.get("columns").and_then(|list| list.as_array()).into_iter().flatten().filter_map(column).collect()
}

/// The pages of a column, one after the other.
struct Pages<'a> {
    bytes: &'a [u8],
    at: usize,
    column: &'a Column,
    codec: i64,
    dictionary: Option<Numbers>,
}

const DATA_PAGE: i64 = 0;
const DICTIONARY_PAGE: i64 = 2;
const DATA_PAGE_2: i64 = 3;

impl Pages<'_> {
    /// Reads one page; gives the number of values it added.
    fn next(&mut self, all: &mut Numbers, most: usize) -> Result<usize, Refusal> {
        let Some(rest) = self.bytes.get(self.at..) else { return broken() };
        let mut reader = Thrift { bytes: rest, at: 0 };
        let Some(header) = reader.structure(0) else { return broken() };
        let size = |number| header.integer(number).and_then(|size| usize::try_from(size).ok());
        let (Some(full), Some(packed)) = (size(2), size(3)) else { return broken() };
        let start = self.at + reader.at;
        let Some(body) = self.bytes.get(start..start.saturating_add(packed)) else { return broken() };
        self.at = start + packed;
        match header.integer(1) {
            Some(DICTIONARY_PAGE) => {
                let body = self.unpacked(body, full)?;
                let n_values = header.field(7).and_then(|page| page.integer(1)).unwrap_or(0).max(0) as usize;
                self.dictionary = Some(plain(&body, self.column.kind, n_values)?);
                Ok(0)
            }
            Some(DATA_PAGE) => {
                let Some(page) = header.field(5) else { return broken() };
                let body = self.unpacked(body, full)?;
                let n_values = page.integer(1).unwrap_or(0).max(0) as usize;
                let (levels, rest) = if self.column.is_optional { prefixed(&body)? } else { (&[][..], &body[..]) };
                self.add(all, levels, rest, n_values.min(most), page.integer(2))
            }
            Some(DATA_PAGE_2) => {
                let Some(page) = header.field(8) else { return broken() };
                let length = |number| page.integer(number).and_then(|size| usize::try_from(size).ok()).unwrap_or(0);
                let Some((repeats, rest)) = body.split_at_checked(length(6)) else { return broken() };
                let Some((levels, rest)) = rest.split_at_checked(length(5)) else { return broken() };
                let is_packed = page.field(7).is_none_or(|flag| !matches!(flag, Value::Flag(false)));
                let full = full.saturating_sub(repeats.len() + levels.len());
                let rest = if is_packed { self.unpacked(rest, full)? } else { rest.to_vec() };
                self.add(all, levels, &rest, length(1).min(most), page.integer(4))
            }
            _ => Ok(0),
        }
    }

    fn unpacked(&self, body: &[u8], full: usize) -> Result<Vec<u8>, Refusal> {
        match self.codec {
            0 => Ok(body.to_vec()),
            1 => snappy(body, full).map_or_else(broken, Ok),
            other => {
                let word = ["", "", "gzip", "LZO", "Brotli", "LZ4", "Zstandard", "LZ4"];
                let word = usize::try_from(other).ok().and_then(|at| word.get(at)).unwrap_or(&"an unknown method");
                Err(Refusal {
                    message: format!("its columns are compressed by {word}, which is not read"),
                    help: "write it with `compression=\"snappy\"` or `\"uncompressed\"`",
                })
            }
        }
    }

    /// Adds the values of a page.
    fn add(
        &self,
        all: &mut Numbers,
        levels: &[u8],
        body: &[u8],
        n_values: usize,
        encoding: Option<i64>,
    ) -> Result<usize, Refusal> {
        if n_values == 0 {
            return broken();
        }
        let is_there: Vec<bool> = if self.column.is_optional {
            let Some(levels) = hybrid(levels, 1, n_values) else { return broken() };
            levels.iter().map(|&level| level == 1).collect()
        } else {
            vec![true; n_values]
        };
        let n_there = is_there.iter().filter(|there| **there).count();
        let values = match encoding {
            Some(0) => plain(body, self.column.kind, n_there)?,
            Some(3) if self.column.kind == BOOLEAN => {
                let bits = body.get(4..).and_then(|body| hybrid(body, 1, n_there));
                bits.map_or_else(broken, |bits| {
                    Ok(Numbers::Whole(bits.into_iter().map(|bit| Some(i64::from(bit))).collect()))
                })?
            }
            Some(2 | 8) => self.looked_up(body, n_there)?,
            other => {
                return refuse(format!("its columns have the encoding {}, which is not read", other.unwrap_or(-1)));
            }
        };
        match (all, values) {
            (Numbers::Doubles(all), Numbers::Doubles(values)) => spread(all, values, &is_there, f64::NAN),
            (Numbers::Whole(all), Numbers::Whole(values)) => spread(all, values, &is_there, None),
            _ => return broken(),
        }
        Ok(n_values)
    }

    fn looked_up(&self, body: &[u8], n_values: usize) -> Result<Numbers, Refusal> {
        let (Some(dictionary), Some((&width, rest))) = (&self.dictionary, body.split_first()) else { return broken() };
        let Some(positions) = hybrid(rest, u32::from(width), n_values) else { return broken() };
        let found = match dictionary {
            Numbers::Doubles(known) => {
                let values: Option<_> = positions.iter().map(|&at| known.get(at as usize).copied()).collect();
                values.map(Numbers::Doubles)
            }
            Numbers::Whole(known) => {
                let values: Option<_> = positions.iter().map(|&at| known.get(at as usize).copied()).collect();
                values.map(Numbers::Whole)
            }
        };
        found.map_or_else(broken, Ok)
    }
}

/// Puts values where they are, and a sign where none is.
fn spread<T: Copy>(all: &mut Vec<T>, values: Vec<T>, is_there: &[bool], missing: T) {
    let mut values = values.into_iter();
    all.extend(is_there.iter().map(|&there| if there { values.next().unwrap_or(missing) } else { missing }));
}

/// A part that begins with its length.
fn prefixed(body: &[u8]) -> Result<(&[u8], &[u8]), Refusal> {
    let length = body.first_chunk::<4>().map(|bytes| u32::from_le_bytes(*bytes) as usize);
    let parts = length.and_then(|length| body[4..].split_at_checked(length));
    parts.map_or_else(broken, Ok)
}

/// Numbers one after the other, the small end first; truths are single bits.
fn plain(body: &[u8], kind: i64, n_values: usize) -> Result<Numbers, Refusal> {
    fn each<const N: usize, T>(body: &[u8], n_values: usize, make: impl Fn([u8; N]) -> T) -> Option<Vec<T>> {
        let needed = body.get(..n_values.checked_mul(N)?)?;
        Some(needed.chunks_exact(N).filter_map(|chunk| chunk.try_into().ok()).map(make).collect())
    }
    let numbers = match kind {
        BOOLEAN => {
            let bit = |at: usize| body.get(at / 8).map(|byte| Some(i64::from(byte >> (at % 8) & 1)));
            (n_values.div_ceil(8) <= body.len()).then(|| (0..n_values).filter_map(bit).collect()).map(Numbers::Whole)
        }
        INT32 => each(body, n_values, |bytes| Some(i64::from(i32::from_le_bytes(bytes)))).map(Numbers::Whole),
        INT64 => each(body, n_values, |bytes| Some(i64::from_le_bytes(bytes))).map(Numbers::Whole),
        FLOAT => each(body, n_values, |bytes| f64::from(f32::from_le_bytes(bytes))).map(Numbers::Doubles),
        _ => each(body, n_values, f64::from_le_bytes).map(Numbers::Doubles),
    };
    numbers.map_or_else(broken, Ok)
}

/// Small numbers in runs: an even head is a repeated value, an odd one groups of eight packed values.
fn hybrid(bytes: &[u8], width: u32, n_values: usize) -> Option<Vec<u32>> {
    if width > 32 {
        return None;
    }
    let mut reader = Thrift { bytes, at: 0 };
    let mut values = Vec::new();
    while values.len() < n_values {
        let head = reader.varint()?;
        let left = n_values - values.len();
        if head & 1 == 0 {
            let run = usize::try_from(head >> 1).ok()?.min(left);
            let value = reader.take(width.div_ceil(8) as usize)?;
            let value = value.iter().rev().fold(0u32, |value, byte| value << 8 | u32::from(*byte));
            (run > 0).then_some(())?;
            values.extend(std::iter::repeat_n(value, run));
        } else {
            let n_bytes = usize::try_from(head >> 1).ok()?.checked_mul(width as usize)?;
            // The last group may be cut short by some writers.
            let packed = reader.take(n_bytes.min(reader.bytes.len() - reader.at))?;
            let n_packed = if width == 0 { left } else { packed.len() * 8 / width as usize };
            (n_packed > 0).then_some(())?;
            let bit = |at: usize| u32::from(packed[at / 8] >> (at % 8) & 1);
            let value = |at: usize| {
                let first = at * width as usize;
                (0..width as usize).fold(0, |value, offset| value | bit(first + offset) << offset)
            };
            values.extend((0..n_packed.min(left)).map(value));
        }
    }
    Some(values)
}

/// Snappy: literal bytes and copies of what came before.
fn snappy(packed: &[u8], full: usize) -> Option<Vec<u8>> {
    let mut reader = Thrift { bytes: packed, at: 0 };
    let length = usize::try_from(reader.varint()?).ok()?;
    (length <= full).then_some(())?;
    let mut text = Vec::with_capacity(length);
    while reader.at < packed.len() {
        let tag = usize::from(reader.take(1)?[0]);
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte));
        let (length, offset) = match tag & 3 {
            0 => {
                let short = tag >> 2;
                let length = if short < 60 { short } else { number(reader.take(short - 59)?) };
                text.extend(reader.take(length.checked_add(1)?)?);
                continue;
            }
            1 => ((tag >> 2 & 7) + 4, (tag >> 5) << 8 | number(reader.take(1)?)),
            2 => ((tag >> 2) + 1, number(reader.take(2)?)),
            _ => ((tag >> 2) + 1, number(reader.take(4)?)),
        };
        let start = text.len().checked_sub(offset).filter(|_| offset > 0)?;
        (text.len() + length <= full).then_some(())?;
        for at in start..start + length {
            text.push(text[at]);
        }
    }
    (text.len() == length).then_some(text)
}

/// A value of Thrift's compact protocol.
enum Value<'a> {
    Integer(i64),
    Flag(bool),
    Bytes(&'a [u8]),
    List(Vec<Value<'a>>),
    Structure(Vec<(i64, Value<'a>)>),
    Other,
}

impl<'a> Value<'a> {
    fn field(&self, number: i64) -> Option<&Value<'a>> {
        let Self::Structure(fields) = self else { return None };
        fields.iter().find(|(known, _)| *known == number).map(|(_, value)| value)
    }

    fn integer(&self, number: i64) -> Option<i64> {
        match self.field(number)? {
            Self::Integer(value) => Some(*value),
            _ => None,
        }
    }

    fn list(&self, number: i64) -> &[Value<'a>] {
        match self.field(number) {
            Some(Self::List(items)) => items,
            _ => &[],
        }
    }

    fn text(&self) -> Option<&'a str> {
        match self {
            Self::Bytes(bytes) => std::str::from_utf8(bytes).ok(),
            _ => None,
        }
    }
}

/// A reader of Thrift's compact protocol.
struct Thrift<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Thrift<'a> {
    fn take(&mut self, n_bytes: usize) -> Option<&'a [u8]> {
        let taken = self.bytes.get(self.at..self.at.checked_add(n_bytes)?)?;
        self.at += n_bytes;
        Some(taken)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.take(1)?[0];
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn zigzag(&mut self) -> Option<i64> {
        let value = self.varint()?;
        Some((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    fn structure(&mut self, depth: usize) -> Option<Value<'a>> {
        (depth < MAX_DEPTH).then_some(())?;
        let mut fields = Vec::new();
        let mut number = 0i64;
        loop {
            let head = self.take(1)?[0];
            if head == 0 {
                return Some(Value::Structure(fields));
            }
            let distance = i64::from(head >> 4);
            number = if distance == 0 { self.zigzag()? } else { number.checked_add(distance)? };
            let value = match head & 15 {
                1 => Value::Flag(true),
                2 => Value::Flag(false),
                kind => self.value(kind, depth)?,
            };
            fields.push((number, value));
        }
    }

    fn value(&mut self, kind: u8, depth: usize) -> Option<Value<'a>> {
        Some(match kind {
            1 | 2 => Value::Flag(self.take(1)?[0] == 1),
            3 => Value::Integer(i64::from(self.take(1)?[0] as i8)),
            4..=6 => Value::Integer(self.zigzag()?),
            7 => {
                self.take(8)?;
                Value::Other
            }
            8 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            9 | 10 => {
                let head = self.take(1)?[0];
                let length =
                    if head >> 4 == 15 { usize::try_from(self.varint()?).ok()? } else { usize::from(head >> 4) };
                (length <= self.bytes.len() - self.at && depth < MAX_DEPTH).then_some(())?;
                Value::List((0..length).map(|_| self.value(head & 15, depth + 1)).collect::<Option<_>>()?)
            }
            12 => self.structure(depth + 1)?,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn snappy_copies_what_came_before() {
        // "abcabcabcabc!" as a literal "abc", a copy of 9 bytes from 3 before, and a literal "!".
        let packed = [13, 2 << 2, b'a', b'b', b'c', (9 - 1) << 2 | 2, 3, 0, 0, b'!'];
        assert_eq!(snappy(&packed, 13).unwrap(), b"abcabcabcabc!");
        assert_eq!(snappy(&packed, 12), None);
        assert_eq!(snappy(&packed[..7], 13), None);
        assert_eq!(snappy(&[4, 1, 1], 4), None);
    }

    #[test]
    fn runs_and_packed_groups_are_read() {
        // Five times the value 3 in 2 bits; then one group of eight: 0 1 2 3 0 1 2 3.
        assert_eq!(hybrid(&[5 << 1, 3, 1 << 1 | 1, 0xe4, 0xe4], 2, 9).unwrap(), [3, 3, 3, 3, 3, 0, 1, 2, 3]);
        assert_eq!(hybrid(&[5 << 1], 2, 9), None);
        assert_eq!(hybrid(&[0, 0], 2, 1), None);
    }

    #[test]
    fn dates_times_and_decimals_are_told_from_numbers() {
        let structure = |fields: Vec<(i64, Value<'static>)>| Value::Structure(fields);
        let micros = || structure(vec![(2, structure(vec![(2, structure(Vec::new()))]))]);
        let logical = |kind: i64, inner: Value<'static>| structure(vec![(10, structure(vec![(kind, inner)]))]);
        assert_eq!(meaning(&structure(vec![(1, Value::Integer(INT64))])), Meaning::Number);
        assert_eq!(meaning(&logical(6, structure(Vec::new()))), Meaning::Times(TICKS * 86_400));
        for kind in [7, 8] {
            assert_eq!(meaning(&logical(kind, micros())), Meaning::Times(TICKS / 1_000_000));
        }
        assert_eq!(meaning(&logical(5, structure(vec![(1, Value::Integer(3))]))), Meaning::Decimal(3));
        assert_eq!(meaning(&structure(vec![(6, Value::Integer(6))])), Meaning::Times(TICKS * 86_400));
        assert_eq!(meaning(&structure(vec![(6, Value::Integer(5)), (7, Value::Integer(2))])), Meaning::Decimal(2));
        let pandas = r#"{"columns": [{"field_name": "t", "numpy_type": "timedelta64[ms]"}, {"name": "x"}]}"#;
        let entry = structure(vec![(1, Value::Bytes(b"pandas")), (2, Value::Bytes(pandas.as_bytes()))]);
        assert_eq!(durations(&[entry]), [("t".to_owned(), TICKS / 1_000)]);
        assert!(durations(&[]).is_empty());
    }

    #[test]
    fn what_is_no_whole_file_is_refused() {
        let axis = TimeAxis::Step(1.0);
        for bytes in [&b""[..], b"PAR1", b"PAR1\xff\xff\xff\x7fPAR1", b"PAR1\x15\x15\x02\0\0\0PAR1"] {
            let wrong = read(bytes, "a.parquet", &Reading::plain(&axis)).unwrap_err();
            assert_eq!(wrong[0].code, "data-file", "{bytes:?}");
        }
    }
}
