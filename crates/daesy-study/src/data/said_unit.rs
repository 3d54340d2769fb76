//! Units that a data file names, in a row below its header or in the headers themselves, beside those of the model.
//!
//! With `value in SI = scale * value + offset` on both sides, a number v of the file is in the model's unit
//!
//! ```text
//! (scale_file v + offset_file - offset_model) / scale_model
//! ```

use daesy_graph::unit::Measure;

/// A unit as a file writes it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SaidUnit {
    /// As written.
    pub text: String,
    /// Whether it can be nothing else: it stands in a row of units or in brackets, not at the end of a name.
    pub is_certain: bool,
}

/// How numbers in one unit become numbers in another.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Change {
    /// They are the same.
    None,
    /// By a factor, and then a number that is added.
    Linear {
        /// The factor.
        scale: f64,
        /// What is added after that.
        offset: f64,
    },
    /// The units measure different things.
    Impossible,
}

impl SaidUnit {
    /// The unit in a cell of a row of units.
    pub(super) fn of_cell(cell: &str) -> Option<Self> {
        let text = cell.trim_matches(['[', ']', '(', ')', ' ']);
        (!text.is_empty()).then(|| Self { text: text.to_owned(), is_certain: true })
    }

    /// The unit in a header: `P [kW]`, `P (kW)`, `P in kW`, `P / kW` and, less certain, `P_kW`.
    pub(super) fn of_header(header: &str) -> Option<Self> {
        let header = header.trim();
        let inside = header.strip_suffix([']', ')']).and_then(|rest| rest.rsplit_once(['[', '(']));
        let certain = inside.or_else(|| header.rsplit_once(" in ")).or_else(|| header.rsplit_once(" / "));
        if let Some((_, text)) = certain.filter(|(name, _)| !name.trim().is_empty()) {
            return Self::of_cell(text);
        }
        // A letter may be an index, and `flow_in` is no length in inches.
        let (name, text) = header.rsplit_once('_')?;
        let may_be = !name.is_empty() && text.chars().count() > 1 && text != "in";
        may_be.then(|| Self { text: text.to_owned(), is_certain: false })
    }

    /// What it stands for, as people write it: `°C`, `m³/h`, `U/min`.
    #[must_use]
    pub fn measure(&self) -> Option<Measure> {
        Measure::parse(&self.modelica()).ok()
    }

    /// The same as Modelica writes it.
    #[must_use]
    pub fn modelica(&self) -> String {
        let mut text = self.text.replace("°C", "degC").replace("°F", "degF").replace(['·', '*', ' '], ".");
        for (power, digit) in [('²', "2"), ('³', "3"), ('⁻', "-"), ('¹', "1")] {
            text = text.replace(power, digit);
        }
        match text.as_str() {
            "rpm" | "RPM" | "U/min" => "rev/min".to_owned(),
            "min-1" | "min^-1" => "1/min".to_owned(),
            _ => text,
        }
    }

    /// How numbers of the file become numbers in a unit of the model; `None` where nobody can say.
    #[must_use]
    pub fn change_to(&self, model: &Measure) -> Option<Change> {
        let own = self.measure()?;
        // Speeds in 1/min are revolutions, and revolutions are counted where the model has no angle.
        let turns = match (self.modelica().as_str(), model.has_angle) {
            ("1/min", true) => std::f64::consts::TAU,
            ("rev/min", false) => 1.0 / std::f64::consts::TAU,
            _ => 1.0,
        };
        let own = Measure { scale: own.scale * turns, ..own };
        if own.dimension != model.dimension {
            return Some(Change::Impossible);
        }
        if own.is_same(model) {
            return Some(Change::None);
        }
        let (scale, offset) = (own.scale / model.scale, (own.offset - model.offset) / model.scale);
        Some(Change::Linear { scale: rounded(scale), offset: rounded(offset) })
    }
}

/// A number without the noise of a division: 1000 and not 999.9999999999999.
fn rounded(value: f64) -> f64 {
    format!("{value:.14e}").parse().unwrap_or(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(said: &str, model: &str) -> Option<Change> {
        SaidUnit::of_cell(said)?.change_to(&Measure::parse(model).unwrap())
    }

    #[test]
    fn units_of_files_become_those_of_models() {
        let linear = |scale: f64, offset: f64| Some(Change::Linear { scale, offset });
        assert_eq!(change("kW", "W"), linear(1000.0, 0.0));
        assert_eq!(change("[°C]", "K"), linear(1.0, 273.15));
        assert_eq!(change("K", "degC"), linear(1.0, -273.15));
        assert_eq!(change("mbar", "Pa"), linear(100.0, 0.0));
        assert_eq!(change("m³/h", "m3/s"), linear(rounded(1.0 / 3600.0), 0.0));
        assert_eq!(change("U/min", "rad/s"), linear(rounded(std::f64::consts::TAU / 60.0), 0.0));
        assert_eq!(change("1/min", "rad/s"), linear(rounded(std::f64::consts::TAU / 60.0), 0.0));
        assert_eq!(change("rpm", "1/s"), linear(rounded(1.0 / 60.0), 0.0));
        assert_eq!(change("1/min", "1/s"), linear(rounded(1.0 / 60.0), 0.0));
        assert_eq!(change("V", "V"), Some(Change::None));
        assert_eq!(change("V", "A"), Some(Change::Impossible));
        assert_eq!(change("Einheit", "A"), None);
    }

    #[test]
    fn headers_name_units_in_several_ways() {
        let said = |header: &str| SaidUnit::of_header(header).map(|said| (said.text, said.is_certain));
        for header in ["P [kW]", "P (kW)", "P in kW", "P / kW", "P[kW]"] {
            assert_eq!(said(header), Some(("kW".to_owned(), true)), "{header}");
        }
        assert_eq!(said("heater_P_kW"), Some(("kW".to_owned(), false)));
        assert_eq!((said("P"), said("(kW)"), said("_kW")), (None, None, None));
        assert_eq!((said("height_in"), said("tau_d")), (None, None));
    }
}
