//! What `String` makes of values: minimum length, significant digits, and the formats of C [@modelica36, sec. 3.7.1].

use std::sync::Arc;

use daesy_graph::Span;

use super::expr::Ctx;
use super::function::first_result;
use super::value::{Dims, Text, Type, Value};
use super::{Flattener, Res};
use crate::syntax::{Expr, NamedArg};

/// So many characters at most are asked for by one call: more is a mistake, not a text.
const MAX_LENGTH: usize = 10_000;

/// Options of `String`, as far as they are given.
#[derive(Clone, Debug, Default)]
struct Options {
    significant_digits: Option<usize>,
    minimum_length: Option<usize>,
    is_left_justified: Option<bool>,
    format: Option<String>,
}

/// A conversion as C's `printf` has it, without the percent sign.
#[derive(Clone, PartialEq, Debug)]
struct Format {
    is_left: bool,
    has_sign: bool,
    has_space: bool,
    is_alternate: bool,
    has_zeros: bool,
    width: usize,
    precision: Option<usize>,
    conversion: char,
}

impl Format {
    /// Reads `-8.3f` and the like; `None` if it is no such thing.
    fn parse(text: &str) -> Option<Self> {
        let mut format = Self {
            is_left: false,
            has_sign: false,
            has_space: false,
            is_alternate: false,
            has_zeros: false,
            width: 0,
            precision: None,
            conversion: 'g',
        };
        let mut letters = text.chars().peekable();
        while let Some(&letter) = letters.peek() {
            match letter {
                '-' => format.is_left = true,
                '+' => format.has_sign = true,
                ' ' => format.has_space = true,
                '#' => format.is_alternate = true,
                '0' => format.has_zeros = true,
                _ => break,
            }
            letters.next();
        }
        let number = |letters: &mut std::iter::Peekable<std::str::Chars<'_>>| -> Option<usize> {
            let mut value = 0;
            while let Some(digit) = letters.peek().and_then(|letter| letter.to_digit(10)) {
                value = value * 10 + digit as usize;
                letters.next();
                if value > MAX_LENGTH {
                    return None;
                }
            }
            Some(value)
        };
        format.width = number(&mut letters)?;
        if letters.peek() == Some(&'.') {
            letters.next();
            format.precision = Some(number(&mut letters)?);
        }
        format.conversion = letters.next()?;
        letters.next().is_none().then_some(format)
    }

    /// The text of a number, or `None` if the conversion is not meant for it.
    /// `whole` is the number where it is an Integer.
    fn write(&self, value: f64, whole: Option<i64>) -> Option<String> {
        let digits = match (self.conversion, whole) {
            ('d' | 'i' | 'u', Some(whole)) => with_precision(&whole.unsigned_abs().to_string(), self.precision),
            ('o', Some(whole @ 0..)) => with_precision(&format!("{whole:o}"), self.precision),
            ('x', Some(whole @ 0..)) => with_precision(&format!("{whole:x}"), self.precision),
            ('X', Some(whole @ 0..)) => with_precision(&format!("{whole:X}"), self.precision),
            ('c', Some(whole)) => char::from_u32(u32::try_from(whole).ok()?)?.to_string(),
            ('f' | 'F', _) => format!("{:.*}", self.precision.unwrap_or(6), value.abs()),
            ('e', _) => scientific(value.abs(), self.precision.unwrap_or(6)),
            ('E', _) => scientific(value.abs(), self.precision.unwrap_or(6)).to_uppercase(),
            ('g', _) => general(value.abs(), self.precision.unwrap_or(6), self.is_alternate),
            ('G', _) => general(value.abs(), self.precision.unwrap_or(6), self.is_alternate).to_uppercase(),
            _ => return None,
        };
        let sign = match () {
            () if value < 0.0 => "-",
            () if self.has_sign => "+",
            () if self.has_space => " ",
            () => "",
        };
        let length = sign.len() + digits.chars().count();
        let missing = self.width.saturating_sub(length);
        let has_zeros = self.has_zeros && !self.is_left && value.is_finite();
        Some(match (self.is_left, has_zeros) {
            (true, _) => format!("{sign}{digits}{}", " ".repeat(missing)),
            (false, true) => format!("{sign}{}{digits}", "0".repeat(missing)),
            (false, false) => format!("{}{sign}{digits}", " ".repeat(missing)),
        })
    }
}

/// A whole number with at least so many digits.
fn with_precision(digits: &str, precision: Option<usize>) -> String {
    let missing = precision.unwrap_or(1).saturating_sub(digits.len());
    format!("{}{digits}", "0".repeat(missing))
}

/// `%.{precision}e` of a number that is not negative: an exponent of at least two digits.
fn scientific(value: f64, precision: usize) -> String {
    let text = format!("{value:.precision$e}");
    match text.split_once('e') {
        Some((mantissa, exponent)) => {
            let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
            format!("{mantissa}e{sign}{digits:0>2}")
        }
        None => text,
    }
}

/// `%.{precision}g` of a number that is not negative: so many significant digits, without zeros at the end unless
/// `is_alternate`.
fn general(value: f64, precision: usize, is_alternate: bool) -> String {
    let precision = precision.max(1);
    let rounded = format!("{value:.*e}", precision - 1);
    let Some(exponent) = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse::<i64>().ok()) else {
        return format!("{value}").to_lowercase();
    };
    let trim = |text: &str| -> String {
        if is_alternate || !text.contains('.') {
            return text.to_owned();
        }
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    if exponent < -4 || exponent >= precision as i64 {
        let text = scientific(value, precision - 1);
        return match text.split_once('e') {
            Some((mantissa, exponent)) => format!("{}e{exponent}", trim(mantissa)),
            None => text,
        };
    }
    let n_after = (precision as i64 - 1 - exponent).max(0) as usize;
    trim(&format!("{value:.n_after$}"))
}

impl<'a> Flattener<'a> {
    /// `String(x, ..)`
    pub(crate) fn string_call(
        &mut self,
        args: &'a [Expr],
        named: &'a [NamedArg],
        span: Span,
        ctx: &mut Ctx,
    ) -> Res<Value> {
        let Some(first) = args.first() else {
            return Err(self.error("wrong-arguments", span, "`String` needs a value"));
        };
        let value = first_result(self.expr(first, ctx)?);
        if let Value::Record(_) = value {
            let mut values = vec![value];
            for arg in &args[1..] {
                values.push(first_result(self.expr(arg, ctx)?));
            }
            if let Some(arg) = named.first() {
                let message = "the options of `String` of a record must be given without their names";
                return Err(self.error("wrong-arguments", arg.name.span, message));
            }
            return self.record_operator("'String'", values, span);
        }
        let ty = match &value {
            Value::Scalars(scalars) => scalars.ty.clone(),
            _ => Type::String,
        };
        let options = self.string_options(&ty, &args[1..], named, ctx)?;
        if let Value::Texts { .. } = value {
            return Ok(value);
        }
        let scalars = self.scalars(value, "`String`", span)?;
        let item = self.single(&scalars, span)?;
        let whole = self.graph.as_whole_number(item).filter(|_| ty == Type::Integer);
        let number = self.graph.as_number(item).or(whole.map(|whole| whole as f64));
        let (Some(number), Some(options)) = (number, options) else {
            let what = self.library.text(first.span);
            let text = Text { text: Arc::from(format!("<{what}>")), is_known: false };
            return Ok(Value::Texts { dims: Dims::new(), items: vec![text] });
        };
        match formatted(number, whole, &ty, &options) {
            Ok(text) => Ok(Value::text(&text)),
            Err(format) => {
                let message = format!("`{format}` is not a format for {}", ty.word());
                let help = "formats are those of C without the percent sign, such as `6.3f`, `g` or `5d`";
                Err(self.error_help("wrong-arguments", span, message, help))
            }
        }
    }

    /// The options of a call; `None` if one of them is not known before the model runs.
    fn string_options(
        &mut self,
        ty: &Type,
        args: &'a [Expr],
        named: &'a [NamedArg],
        ctx: &mut Ctx,
    ) -> Res<Option<Options>> {
        let names: &[&str] = match ty {
            Type::Real => &["significantDigits", "minimumLength", "leftJustified", "format"],
            Type::Integer => &["minimumLength", "leftJustified", "format"],
            _ => &["minimumLength", "leftJustified"],
        };
        let mut options = Options::default();
        let mut is_known = true;
        let positional = args.iter().enumerate().map(|(at, arg)| (names.get(at).copied(), arg, arg.span));
        let by_name = named.iter().map(|arg| {
            let name = names.iter().copied().find(|&name| name == arg.name.name.text());
            (name, &arg.value, arg.name.span)
        });
        for (name, expr, span) in positional.chain(by_name) {
            let value = first_result(self.expr(expr, ctx)?);
            if let Value::Texts { items, .. } = &value {
                let is_format = matches!(name, Some("format")) || args.len() == 1;
                match items.as_slice() {
                    [only] if is_format && names.contains(&"format") => {
                        is_known &= only.is_known;
                        options.format = Some(only.text.to_string());
                        continue;
                    }
                    _ => return Err(self.error("wrong-type", span, "this option of `String` is not a text")),
                }
            }
            let Some(name) = name.filter(|&name| name != "format") else {
                let message = format!("`String` of {} has the options {}", ty.word(), names.join(", "));
                return Err(self.error("wrong-arguments", span, message));
            };
            let scalars = self.scalars(value, "an option of `String`", span)?;
            let item = self.single(&scalars, span)?;
            let wanted = if name == "leftJustified" { Type::Boolean } else { Type::Integer };
            if scalars.ty != wanted {
                let message = format!("`{name}` is {}, not {}", wanted.word(), scalars.ty.word());
                return Err(self.error("wrong-type", span, message));
            }
            let Some(number) = self.graph.as_number(item) else {
                is_known = false;
                continue;
            };
            if number > MAX_LENGTH as f64 {
                return Err(self.limit("the length of a text", MAX_LENGTH, span));
            }
            match name {
                "significantDigits" => options.significant_digits = Some(number.max(1.0) as usize),
                "minimumLength" => options.minimum_length = Some(number.max(0.0) as usize),
                _ => options.is_left_justified = Some(number != 0.0),
            }
        }
        Ok(is_known.then_some(options))
    }
}

/// A value as text; the format if it does not fit.
fn formatted(number: f64, whole: Option<i64>, ty: &Type, options: &Options) -> Result<String, String> {
    if let Some(format) = &options.format {
        let written = Format::parse(format).and_then(|parsed| parsed.write(number, whole));
        return written.ok_or_else(|| format.clone());
    }
    let text = match ty {
        Type::Boolean => (number != 0.0).to_string(),
        Type::Enumeration(enumeration) => {
            enumeration.literals.get((number as usize).wrapping_sub(1)).cloned().unwrap_or_default()
        }
        Type::Real => {
            let sign = if number < 0.0 { "-" } else { "" };
            format!("{sign}{}", general(number.abs(), options.significant_digits.unwrap_or(6), false))
        }
        _ => whole.map_or_else(|| number.to_string(), |whole| whole.to_string()),
    };
    let missing = options.minimum_length.unwrap_or(0).saturating_sub(text.chars().count());
    let blanks = " ".repeat(missing);
    Ok(if options.is_left_justified.unwrap_or(true) { format!("{text}{blanks}") } else { format!("{blanks}{text}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(format: &str, value: f64) -> String {
        let whole = (value.fract() == 0.0).then_some(value as i64);
        Format::parse(format).and_then(|parsed| parsed.write(value, whole)).unwrap_or_default()
    }

    #[test]
    fn formats_are_those_of_c() {
        // What `printf` of the C library writes for the same conversions.
        for (format, value, expected) in [
            (".2f", 1.23456, "1.23"),
            ("8.3f", -1.23456, "  -1.235"),
            ("-8.3f", 1.23456, "1.235   "),
            ("08.3f", -1.23456, "-001.235"),
            ("+.1f", 2.0, "+2.0"),
            (".3e", 12345.678, "1.235e+04"),
            ("e", 0.0, "0.000000e+00"),
            (".2E", 1e-300, "1.00E-300"),
            ("g", 1e6, "1e+06"),
            ("g", 100_000.0, "100000"),
            ("g", 0.0001, "0.0001"),
            ("g", 0.00001, "1e-05"),
            (".3g", 2.5, "2.5"),
            ("#.3g", 2.5, "2.50"),
            ("g", 0.0, "0"),
            ("5d", 42.0, "   42"),
            ("05d", -42.0, "-0042"),
            ("x", 255.0, "ff"),
            (".4d", 42.0, "0042"),
        ] {
            assert_eq!(written(format, value), expected, "{format} of {value}");
        }
        for bad in ["", "5", "ld", "*f", "f f", "%f", "999999999999999999999f"] {
            assert_eq!(Format::parse(bad), None, "{bad}");
        }
        assert_eq!(written("d", 2.5), "");
    }
}
