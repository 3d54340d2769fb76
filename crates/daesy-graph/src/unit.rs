//! Units of measurement: the text a user wrote and the SI dimension it stands for.
//!
//! The syntax is the one of the Modelica Language Specification [@modelica36, ch. 19]:
//!
//! ```text
//! expression  = numerator [ "/" denominator ]          numerator = "1" | factors | "(" expression ")"
//! denominator = factor | "(" expression ")"            factors   = factor { "." factor }
//! factor      = [ prefix ] symbol [ [ "+" | "-" ] digits ]
//! ```
//!
//! Read generously: a factor may also be in parentheses, `/` may be repeated (from left to right) and `^` may stand
//! before an exponent. Angles (rad, sr, deg, rev) have no dimension; [`Measure::has_angle`] remembers them.

use std::fmt;
use std::sync::Arc;

/// A unit: as written, with its dimension where the text could be read.
#[derive(Clone, PartialEq, Debug)]
pub struct Unit {
    /// As written, such as `N.m/rad`.
    pub text: Arc<str>,
    measure: Option<Measure>,
}

impl Unit {
    /// Takes a unit as written. A text that is empty or cannot be read has no measure; [`Measure::parse`] says why.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        Self { text: text.into(), measure: Measure::parse(text).ok() }
    }

    /// What the text stands for.
    #[must_use]
    pub const fn measure(&self) -> Option<Measure> {
        self.measure
    }

    /// The dimension, where the text could be read.
    #[must_use]
    pub fn dimension(&self) -> Option<Dimension> {
        self.measure.map(|measure| measure.dimension)
    }
}

impl fmt::Display for Unit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Exponents of the SI base units, rational with one common denominator.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Dimension {
    exponents: [i8; 7],
    denominator: u8,
}

const BASE_SYMBOLS: [&str; 7] = ["kg", "m", "s", "A", "K", "mol", "cd"];

const fn greatest_common_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Dimension {
    /// The exponents of kg, m, s, A, K, mol and cd, where all are whole.
    #[must_use]
    pub fn whole_exponents(self) -> Option<[i8; 7]> {
        (self.denominator == 1).then_some(self.exponents)
    }

    /// No dimension: the unit 1.
    pub const ONE: Self = Self { exponents: [0; 7], denominator: 1 };
    /// Time.
    pub const TIME: Self = Self::base([0, 0, 1, 0, 0, 0, 0]);

    const fn base(exponents: [i8; 7]) -> Self {
        Self { exponents, denominator: 1 }
    }

    /// Whether this is the dimension of plain numbers.
    #[must_use]
    pub fn is_one(self) -> bool {
        self == Self::ONE
    }

    fn reduced(exponents: [i32; 7], denominator: u32) -> Option<Self> {
        let divisor = exponents.iter().fold(denominator, |gcd, e| greatest_common_divisor(gcd, e.unsigned_abs()));
        let mut small = [0; 7];
        for (small, wide) in small.iter_mut().zip(exponents) {
            *small = i8::try_from(wide / divisor as i32).ok()?;
        }
        Some(Self { exponents: small, denominator: u8::try_from(denominator / divisor).ok()? })
    }

    fn combined(self, other: Self, sign: i32) -> Option<Self> {
        let mut exponents = [0; 7];
        for (at, exponent) in exponents.iter_mut().enumerate() {
            *exponent = i32::from(self.exponents[at]) * i32::from(other.denominator)
                + sign * i32::from(other.exponents[at]) * i32::from(self.denominator);
        }
        Self::reduced(exponents, u32::from(self.denominator) * u32::from(other.denominator))
    }

    /// The dimension of a product; `None` if an exponent grows out of all reason.
    #[must_use]
    pub fn times(self, other: Self) -> Option<Self> {
        self.combined(other, 1)
    }

    /// The dimension of a quotient.
    #[must_use]
    pub fn over(self, other: Self) -> Option<Self> {
        self.combined(other, -1)
    }

    /// The dimension of a power with exponent `numerator / denominator`.
    #[must_use]
    pub fn to_power(self, numerator: i32, denominator: u32) -> Option<Self> {
        if denominator == 0 || numerator.unsigned_abs() > 1000 || denominator > 1000 {
            return None;
        }
        Self::reduced(self.exponents.map(|e| i32::from(e) * numerator), u32::from(self.denominator) * denominator)
    }

    /// The dimension of a power with a real exponent, if that is a fraction with a denominator up to 12.
    #[must_use]
    pub fn to_real_power(self, exponent: f64) -> Option<Self> {
        if self.is_one() {
            return Some(self);
        }
        (1..=12u32).find_map(|denominator| {
            let numerator = exponent * f64::from(denominator);
            let is_whole = (numerator - numerator.round()).abs() <= 1e-12 * numerator.abs().max(1.0);
            (is_whole && numerator.abs() <= 1000.0)
                .then(|| self.to_power(numerator.round() as i32, denominator))
                .flatten()
        })
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factor = |at: usize| {
            let (numerator, denominator) = (u32::from(self.exponents[at].unsigned_abs()), u32::from(self.denominator));
            let divisor = greatest_common_divisor(numerator, denominator);
            let (numerator, denominator) = (numerator / divisor, denominator / divisor);
            match (numerator, denominator) {
                (1, 1) => BASE_SYMBOLS[at].to_owned(),
                (_, 1) => format!("{}{numerator}", BASE_SYMBOLS[at]),
                _ => format!("{}({numerator}/{denominator})", BASE_SYMBOLS[at]),
            }
        };
        let above: Vec<String> = (0..7).filter(|&at| self.exponents[at] > 0).map(factor).collect();
        let below: Vec<String> = (0..7).filter(|&at| self.exponents[at] < 0).map(factor).collect();
        let above = if above.is_empty() { "1".to_owned() } else { above.join(".") };
        match below.as_slice() {
            [] => formatter.write_str(&above),
            [single] => write!(formatter, "{above}/{single}"),
            several => write!(formatter, "{above}/({})", several.join(".")),
        }
    }
}

/// What a unit stands for: `value in SI = scale * value + offset`.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Measure {
    /// The dimension.
    pub dimension: Dimension,
    /// Factor to the SI unit.
    pub scale: f64,
    /// Offset to the SI unit; other than zero only for a temperature scale alone.
    pub offset: f64,
    /// Whether an angle is part of it, which the dimension does not show.
    pub has_angle: bool,
}

/// Why a unit cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UnitError {
    /// Nothing there.
    #[error("the unit is empty")]
    Empty,
    /// A symbol that is not known, with or without a prefix.
    #[error("unknown unit symbol `{symbol}`")]
    UnknownSymbol {
        /// The symbol.
        symbol: String,
    },
    /// Something that has no place in a unit.
    #[error("`{text}` cannot be read as a unit from byte {at} on")]
    Syntax {
        /// The whole text.
        text: String,
        /// Where reading stopped.
        at: usize,
    },
    /// An exponent or a nesting out of all reason.
    #[error("the unit `{text}` is too complicated")]
    TooComplicated {
        /// The whole text.
        text: String,
    },
}

impl Measure {
    const ONE: Self = Self { dimension: Dimension::ONE, scale: 1.0, offset: 0.0, has_angle: false };

    /// Reads a unit.
    ///
    /// # Errors
    /// When the text is empty, does not follow the grammar, or has an unknown symbol.
    pub fn parse(text: &str) -> Result<Self, UnitError> {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Err(UnitError::Empty);
        }
        let mut reader = Reader { text: trimmed, at: 0, depth: 0 };
        let measure = reader.expression()?;
        if reader.at < trimmed.len() { Err(reader.syntax()) } else { Ok(measure) }
    }

    /// Whether values in both units are the same numbers.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.dimension == other.dimension
            && (self.scale - other.scale).abs() <= 1e-12 * self.scale.abs()
            && (self.offset - other.offset).abs() <= 1e-9
    }

    fn combined(self, other: Self, is_over: bool) -> Option<Self> {
        let (dimension, scale) = if is_over {
            (self.dimension.over(other.dimension)?, self.scale / other.scale)
        } else {
            (self.dimension.times(other.dimension)?, self.scale * other.scale)
        };
        Some(Self { dimension, scale, offset: 0.0, has_angle: self.has_angle || other.has_angle })
    }
}

/// Parentheses may be nested this deep.
const MAX_DEPTH: u32 = 16;

struct Reader<'text> {
    text: &'text str,
    at: usize,
    depth: u32,
}

impl Reader<'_> {
    fn syntax(&self) -> UnitError {
        UnitError::Syntax { text: self.text.to_owned(), at: self.at }
    }

    fn too_complicated(&self) -> UnitError {
        UnitError::TooComplicated { text: self.text.to_owned() }
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_there = self.text.as_bytes().get(self.at) == Some(&byte);
        self.at += usize::from(is_there);
        is_there
    }

    fn while_char(&mut self, keep: impl Fn(char) -> bool) -> &str {
        let start = self.at;
        self.at += self.text[start..].find(|c| !keep(c)).unwrap_or(self.text.len() - start);
        &self.text[start..self.at]
    }

    fn expression(&mut self) -> Result<Measure, UnitError> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(self.too_complicated());
        }
        let mut measure = self.factor()?;
        loop {
            let is_over = if self.take(b'.') {
                false
            } else if self.take(b'/') {
                true
            } else {
                self.depth -= 1;
                return Ok(measure);
            };
            let factor = self.factor()?;
            measure = measure.combined(factor, is_over).ok_or_else(|| self.too_complicated())?;
        }
    }

    fn factor(&mut self) -> Result<Measure, UnitError> {
        let operand = if self.take(b'(') {
            let inner = self.expression()?;
            if !self.take(b')') {
                return Err(self.syntax());
            }
            inner
        } else if self.take(b'1') {
            return Ok(Measure::ONE);
        } else {
            let start = self.at;
            let symbol = self.while_char(|c| c.is_alphabetic() || matches!(c, '%' | '°' | '\'' | '"'));
            if symbol.is_empty() {
                self.at = start;
                return Err(self.syntax());
            }
            lookup(symbol).ok_or_else(|| UnitError::UnknownSymbol { symbol: symbol.to_owned() })?
        };
        let has_caret = self.take(b'^');
        let is_negative = self.take(b'-');
        let has_sign = is_negative || self.take(b'+');
        let digits = self.while_char(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return if has_sign || has_caret { Err(self.syntax()) } else { Ok(operand) };
        }
        let exponent: i32 = digits.parse().map_err(|_| self.too_complicated())?;
        let exponent = if is_negative { -exponent } else { exponent };
        let dimension = operand.dimension.to_power(exponent, 1).ok_or_else(|| self.too_complicated())?;
        Ok(Measure { dimension, scale: operand.scale.powi(exponent), offset: 0.0, has_angle: operand.has_angle })
    }
}

struct Symbol {
    name: &'static str,
    scale: f64,
    exponents: [i8; 7],
}

const fn symbol(name: &'static str, scale: f64, exponents: [i8; 7]) -> Symbol {
    Symbol { name, scale, exponents }
}

/// Units with a name: SI base units, derived units, and those accepted for use with the SI. Exponents in the order
/// kg, m, s, A, K, mol, cd.
const SYMBOLS: &[Symbol] = &[
    symbol("m", 1.0, [0, 1, 0, 0, 0, 0, 0]),
    symbol("g", 1e-3, [1, 0, 0, 0, 0, 0, 0]),
    symbol("s", 1.0, [0, 0, 1, 0, 0, 0, 0]),
    symbol("A", 1.0, [0, 0, 0, 1, 0, 0, 0]),
    symbol("K", 1.0, [0, 0, 0, 0, 1, 0, 0]),
    symbol("mol", 1.0, [0, 0, 0, 0, 0, 1, 0]),
    symbol("cd", 1.0, [0, 0, 0, 0, 0, 0, 1]),
    symbol("Hz", 1.0, [0, 0, -1, 0, 0, 0, 0]),
    symbol("N", 1.0, [1, 1, -2, 0, 0, 0, 0]),
    symbol("Pa", 1.0, [1, -1, -2, 0, 0, 0, 0]),
    symbol("J", 1.0, [1, 2, -2, 0, 0, 0, 0]),
    symbol("W", 1.0, [1, 2, -3, 0, 0, 0, 0]),
    symbol("C", 1.0, [0, 0, 1, 1, 0, 0, 0]),
    symbol("V", 1.0, [1, 2, -3, -1, 0, 0, 0]),
    symbol("F", 1.0, [-1, -2, 4, 2, 0, 0, 0]),
    symbol("Ohm", 1.0, [1, 2, -3, -2, 0, 0, 0]),
    symbol("Ω", 1.0, [1, 2, -3, -2, 0, 0, 0]),
    symbol("S", 1.0, [-1, -2, 3, 2, 0, 0, 0]),
    symbol("Wb", 1.0, [1, 2, -2, -1, 0, 0, 0]),
    symbol("T", 1.0, [1, 0, -2, -1, 0, 0, 0]),
    symbol("H", 1.0, [1, 2, -2, -2, 0, 0, 0]),
    symbol("lm", 1.0, [0, 0, 0, 0, 0, 0, 1]),
    symbol("lx", 1.0, [0, -2, 0, 0, 0, 0, 1]),
    symbol("Bq", 1.0, [0, 0, -1, 0, 0, 0, 0]),
    symbol("Gy", 1.0, [0, 2, -2, 0, 0, 0, 0]),
    symbol("Sv", 1.0, [0, 2, -2, 0, 0, 0, 0]),
    symbol("kat", 1.0, [0, 0, -1, 0, 0, 1, 0]),
    symbol("min", 60.0, [0, 0, 1, 0, 0, 0, 0]),
    symbol("h", 3600.0, [0, 0, 1, 0, 0, 0, 0]),
    symbol("d", 86400.0, [0, 0, 1, 0, 0, 0, 0]),
    symbol("l", 1e-3, [0, 3, 0, 0, 0, 0, 0]),
    symbol("L", 1e-3, [0, 3, 0, 0, 0, 0, 0]),
    symbol("t", 1e3, [1, 0, 0, 0, 0, 0, 0]),
    symbol("bar", 1e5, [1, -1, -2, 0, 0, 0, 0]),
    symbol("atm", 101_325.0, [1, -1, -2, 0, 0, 0, 0]),
    symbol("eV", 1.602_176_634e-19, [1, 2, -2, 0, 0, 0, 0]),
    symbol("var", 1.0, [1, 2, -3, 0, 0, 0, 0]),
    symbol("cal", 4.184, [1, 2, -2, 0, 0, 0, 0]),
    symbol("Ah", 3600.0, [0, 0, 1, 1, 0, 0, 0]),
    symbol("Wh", 3600.0, [1, 2, -2, 0, 0, 0, 0]),
    symbol("ft", 0.3048, [0, 1, 0, 0, 0, 0, 0]),
    symbol("in", 0.0254, [0, 1, 0, 0, 0, 0, 0]),
    symbol("%", 0.01, [0; 7]),
    symbol("ppm", 1e-6, [0; 7]),
    symbol("Np", 1.0, [0; 7]),
    symbol("dB", 1.0, [0; 7]),
];

const ANGLES: &[(&str, f64)] = &[
    ("rad", 1.0),
    ("sr", 1.0),
    ("deg", std::f64::consts::PI / 180.0),
    ("°", std::f64::consts::PI / 180.0),
    ("rev", std::f64::consts::TAU),
];

const TEMPERATURES: &[(&str, f64, f64)] =
    &[("degC", 1.0, 273.15), ("degF", 5.0 / 9.0, 459.67 * 5.0 / 9.0), ("degRk", 5.0 / 9.0, 0.0)];

const PREFIXES: &[(&str, f64)] = &[
    ("da", 1e1),
    ("Y", 1e24),
    ("Z", 1e21),
    ("E", 1e18),
    ("P", 1e15),
    ("T", 1e12),
    ("G", 1e9),
    ("M", 1e6),
    ("k", 1e3),
    ("h", 1e2),
    ("d", 1e-1),
    ("c", 1e-2),
    ("m", 1e-3),
    ("u", 1e-6),
    ("µ", 1e-6),
    ("μ", 1e-6),
    ("n", 1e-9),
    ("p", 1e-12),
    ("f", 1e-15),
    ("a", 1e-18),
    ("z", 1e-21),
    ("y", 1e-24),
];

/// A symbol as it stands, or else as a prefix and a symbol.
fn lookup(text: &str) -> Option<Measure> {
    plain(text).or_else(|| {
        PREFIXES.iter().find_map(|&(prefix, factor)| {
            let measure = plain(text.strip_prefix(prefix)?)?;
            (measure.offset == 0.0).then_some(Measure { scale: measure.scale * factor, ..measure })
        })
    })
}

fn plain(text: &str) -> Option<Measure> {
    if let Some(found) = SYMBOLS.iter().find(|symbol| symbol.name == text) {
        return Some(Measure { dimension: Dimension::base(found.exponents), scale: found.scale, ..Measure::ONE });
    }
    if let Some(&(_, scale)) = ANGLES.iter().find(|(name, _)| *name == text) {
        return Some(Measure { scale, has_angle: true, ..Measure::ONE });
    }
    TEMPERATURES.iter().find(|(name, ..)| *name == text).map(|&(_, scale, offset)| Measure {
        dimension: Dimension::base([0, 0, 0, 0, 1, 0, 0]),
        scale,
        offset,
        has_angle: false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Measure {
        Measure::parse(text).unwrap()
    }

    #[test]
    fn units_of_the_same_quantity_agree() {
        for (left, right) in [
            ("N.m", "J"),
            ("kg.m2/s2", "J"),
            ("V.A", "W"),
            ("N.m/(rad.s)", "W"),
            ("Ohm.F", "s"),
            ("H/Ohm", "s"),
            ("1/s", "Hz"),
            ("m.s-2", "m/s2"),
            ("J/(kg.K)", "m2/(s2.K)"),
            ("Wb", "V.s"),
            ("W/(m2.K4)", "kg/(s3.K4)"),
            ("m/s/s", "m/s2"),
            ("kg/m^3", "kg.m-3"),
        ] {
            assert!(read(left).is_same(&read(right)), "{left} and {right}");
        }
    }

    #[test]
    fn prefixes_scale_and_symbols_win_over_them() {
        assert_eq!(read("mm").scale, 1e-3);
        assert_eq!(read("kg").scale, 1.0);
        assert_eq!(read("min").scale, 60.0);
        assert_eq!(read("cd").dimension.to_string(), "cd");
        assert_eq!(read("hPa").scale, 100.0);
        assert_eq!(read("mm2").scale, 1e-6);
        assert_eq!(read("km/h").scale, 1e3 / 3600.0);
        assert!((read("kWh").scale - 3.6e6).abs() < 1e-6);
        assert!((read("rev/min").scale - std::f64::consts::TAU / 60.0).abs() < 1e-15);
        assert!(read("rad/s").has_angle);
        assert_eq!(read("rad").dimension, Dimension::ONE);
        assert_eq!(read("degC").offset, 273.15);
        assert_eq!(read("1").dimension, Dimension::ONE);
    }

    #[test]
    fn dimensions_print_in_unit_syntax() {
        assert_eq!(read("V").dimension.to_string(), "kg.m2/(s3.A)");
        assert_eq!(read("Hz").dimension.to_string(), "1/s");
        let root = read("m3").dimension.to_power(1, 2).unwrap();
        assert_eq!(root.to_string(), "m(3/2)");
        assert_eq!(root.to_power(2, 1).unwrap(), read("m3").dimension);
        assert_eq!(read("m").dimension.to_real_power(1.0 / 3.0).unwrap().to_string(), "m(1/3)");
        assert_eq!(read("m").dimension.to_real_power(0.123_456), None);
        for text in ["kg.m2/(s3.A)", "1/s", "K", "1"] {
            assert_eq!(read(text).dimension.to_string(), text);
        }
    }

    #[test]
    fn what_is_no_unit_is_refused() {
        assert_eq!(Measure::parse(""), Err(UnitError::Empty));
        assert!(matches!(Measure::parse("furlong"), Err(UnitError::UnknownSymbol { .. })));
        assert!(matches!(Measure::parse("m/"), Err(UnitError::Syntax { .. })));
        assert!(matches!(Measure::parse("m-"), Err(UnitError::Syntax { .. })));
        assert!(matches!(Measure::parse("(m"), Err(UnitError::Syntax { .. })));
        assert!(matches!(Measure::parse("m)"), Err(UnitError::Syntax { .. })));
        assert!(matches!(Measure::parse(&"(".repeat(100_000)), Err(UnitError::TooComplicated { .. })));
        assert!(matches!(Measure::parse("m99999999999"), Err(UnitError::TooComplicated { .. })));
        assert!(matches!(Measure::parse("m100.m100"), Err(UnitError::TooComplicated { .. })));
        assert!(Unit::parse("weird").measure().is_none());
    }
}
