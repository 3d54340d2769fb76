//! `modelDescription.xml` of a unit, by version 2.0 or 3.0 of the interface [@fmi2; @fmi3].

use std::fmt::Write as _;

use daesy_compile::CompiledSystem;
use daesy_graph::Measure;
use daesy_graph::flat::ValueType;
use daesy_system::{ActionKind, DaeSystem};

use crate::dependency::{Dependencies, dependencies};
use crate::model::{Model, Settings};
use crate::observer::ObserverModel;
use crate::variable::{AtStart, Causality, ExportedVariable, Origin, Variability, enumerations};

/// Versions of the interface.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Version {
    /// 2.0
    Two,
    /// 3.0
    Three,
}

impl Version {
    /// As it is written.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Two => "2.0",
            Self::Three => "3.0",
        }
    }

    /// The folder of the shared library for the machine that this was compiled for; none where the version has no name
    /// for it.
    #[must_use]
    pub fn platform_folder(self) -> Option<&'static str> {
        let three = platform()?;
        match (self, three) {
            (Self::Three, _) => Some(three),
            (Self::Two, "x86_64-linux") => Some("linux64"),
            (Self::Two, "x86_64-windows") => Some("win64"),
            (Self::Two, "x86_64-darwin" | "aarch64-darwin") => Some("darwin64"),
            (Self::Two, _) => None,
        }
    }
}

/// The machine that this was compiled for, as version 3.0 of the interface names it.
#[must_use]
pub const fn platform() -> Option<&'static str> {
    if cfg!(all(target_arch = "x86_64", target_os = "linux")) {
        Some("x86_64-linux")
    } else if cfg!(all(target_arch = "aarch64", target_os = "linux")) {
        Some("aarch64-linux")
    } else if cfg!(all(target_arch = "x86_64", target_os = "windows")) {
        Some("x86_64-windows")
    } else if cfg!(all(target_arch = "x86_64", target_os = "macos")) {
        Some("x86_64-darwin")
    } else if cfg!(all(target_arch = "aarch64", target_os = "macos")) {
        Some("aarch64-darwin")
    } else {
        None
    }
}

/// How the name of a shared library ends on the machine that this was compiled for.
pub const LIBRARY_ENDING: &str = if cfg!(target_os = "windows") {
    ".dll"
} else if cfg!(target_os = "macos") {
    ".dylib"
} else {
    ".so"
};

/// Kinds of units.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Kinds {
    /// Model Exchange: the importer integrates.
    pub model_exchange: bool,
    /// Co-Simulation: the unit integrates.
    pub co_simulation: bool,
}

/// A name that C can use: letters, digits and underscores.
#[must_use]
pub fn identifier(model: &str) -> String {
    let mut text: String =
        model.chars().map(|character| if character.is_ascii_alphanumeric() { character } else { '_' }).collect();
    if !text.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_') {
        text.insert(0, '_');
    }
    text.truncate(200);
    text
}

/// A text inside quotes; characters that XML cannot hold become spaces.
fn quoted(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    for character in text.chars() {
        match character {
            '&' => quoted.push_str("&amp;"),
            '<' => quoted.push_str("&lt;"),
            '>' => quoted.push_str("&gt;"),
            '"' => quoted.push_str("&quot;"),
            '\n' => quoted.push_str("&#10;"),
            '\t' => quoted.push_str("&#9;"),
            character if character.is_control() || matches!(character, '\u{fffe}' | '\u{ffff}') => quoted.push(' '),
            character => quoted.push(character),
        }
    }
    quoted
}

/// Attributes of an element.
#[derive(Default)]
struct Attributes(String);

impl Attributes {
    fn text(mut self, name: &str, value: &str) -> Self {
        let _ = write!(self.0, " {name}=\"{}\"", quoted(value));
        self
    }

    fn maybe(self, name: &str, value: Option<&str>) -> Self {
        match value {
            Some(value) => self.text(name, value),
            None => self,
        }
    }

    fn number(self, name: &str, value: Option<f64>) -> Self {
        match value {
            Some(value) => self.text(name, &format!("{value:?}")),
            None => self,
        }
    }
}

/// Whether a name is one by the structured convention: identifiers with subscripts and dots, or `der(..)` of one.
fn is_structured(name: &str) -> bool {
    let mut inside = name;
    if let Some(rest) = name.strip_prefix("der(").and_then(|rest| rest.strip_suffix(')')) {
        inside = rest;
        if let Some((stem, order)) = rest.rsplit_once(',')
            && !order.is_empty()
            && order.bytes().all(|byte| byte.is_ascii_digit())
            && !stem.ends_with('[')
            && stem.matches('[').count() == stem.matches(']').count()
        {
            inside = stem;
        }
    }
    inside.split('.').all(|part| {
        let (stem, subscripts) = match part.split_once('[') {
            Some((stem, rest)) => match rest.strip_suffix(']') {
                Some(subscripts) => (stem, Some(subscripts)),
                None => return false,
            },
            None => (part, None),
        };
        let is_name = stem.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
            && stem.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        is_name && subscripts.is_none_or(|subscripts| subscripts.split(',').all(is_number))
    })
}

/// What is described.
#[derive(Clone, Copy)]
pub struct Described<'m> {
    /// The name of the model.
    pub name: &'m str,
    /// A sentence about it.
    pub description: Option<&'m str>,
    /// Its variables.
    pub variables: &'m [ExportedVariable],
    /// How it is simulated.
    pub settings: Settings,
    /// What tells it from others.
    pub token: &'m str,
    /// Its equations; a filter has none.
    pub system: Option<&'m CompiledSystem>,
}

impl Described<'_> {
    fn n_states(&self) -> usize {
        self.system.map_or(0, |system| system.description().states.len())
    }
}

impl<'m> From<&'m Model> for Described<'m> {
    fn from(model: &'m Model) -> Self {
        let flat = &model.system.regular().flat;
        Self {
            name: &flat.model,
            description: flat.description.as_deref(),
            variables: &model.variables,
            settings: model.settings,
            token: &model.token,
            system: Some(&model.system),
        }
    }
}

impl<'m> From<&'m ObserverModel> for Described<'m> {
    fn from(model: &'m ObserverModel) -> Self {
        Self {
            name: &model.name,
            description: Some("Filter: measurements and known inputs in, estimates and standard deviations out"),
            variables: &model.variables,
            settings: model.settings,
            token: &model.token,
            system: None,
        }
    }
}

/// Writes the description of a model.
struct Writer<'m> {
    model: Described<'m>,
    version: Version,
    xml: String,
    dependencies: Option<Dependencies>,
}

/// The description of a model.
#[must_use]
pub fn describe<'m>(model: impl Into<Described<'m>>, version: Version, kinds: Kinds) -> String {
    let model = model.into();
    let dependencies = model.system.and_then(|system| dependencies(system));
    let mut writer = Writer { model, version, xml: String::new(), dependencies };
    writer.write_head(kinds);
    writer.write_units();
    writer.write_types();
    let experiment = Attributes::default()
        .number("startTime", Some(model.settings.start))
        .number("stopTime", Some(model.settings.stop))
        .number("tolerance", Some(model.settings.rtol))
        .number("stepSize", (model.settings.step > 0.0).then_some(model.settings.step));
    writer.xml.push_str("  <LogCategories>\n");
    writer.line(4, "Category", Attributes::default().text("name", "logStatusError").text("description", "Errors"));
    writer.xml.push_str("  </LogCategories>\n");
    writer.line(2, "DefaultExperiment", experiment);
    writer.write_variables();
    writer.write_structure();
    writer.xml.push_str("</fmiModelDescription>\n");
    writer.xml
}

impl Writer<'_> {
    fn line(&mut self, indent: usize, element: &str, attributes: Attributes) {
        let _ = writeln!(self.xml, "{:indent$}<{element}{}/>", "", attributes.0);
    }

    fn write_head(&mut self, kinds: Kinds) {
        let (model, version) = (self.model, self.version);
        let is_structured = self.listed().all(|(_, variable)| is_structured(&variable.name));
        let token = if version == Version::Two { "guid" } else { "instantiationToken" };
        let mut attributes = Attributes::default()
            .text("fmiVersion", version.text())
            .text("modelName", model.name)
            .text(token, model.token)
            .maybe("description", model.description)
            .text("generationTool", concat!("daesy ", env!("CARGO_PKG_VERSION")))
            .text("variableNamingConvention", if is_structured { "structured" } else { "flat" });
        if version == Version::Two {
            let n = model.system.map_or(0, |system| system.description().n_roots);
            attributes = attributes.text("numberOfEventIndicators", &n.to_string());
        }
        let _ = write!(self.xml, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<fmiModelDescription{}>\n", attributes.0);
        let states = if version == Version::Two { "FMUstate" } else { "FMUState" };
        let derivative = if version == Version::Two { "Derivative" } else { "Derivatives" };
        let abilities = || {
            let mut attributes = Attributes::default()
                .text("modelIdentifier", &identifier(model.name))
                .text(&format!("canGetAndSet{states}"), "true")
                .text(&format!("canSerialize{states}"), "true");
            if model.system.is_none() {
                return attributes;
            }
            attributes = attributes.text(&format!("providesDirectional{derivative}"), "true");
            if version == Version::Three {
                attributes = attributes.text("providesAdjointDerivatives", "true");
            }
            attributes
        };
        if kinds.model_exchange {
            // Where constraints bind the states, the end of a step is where they are met again.
            let (name, value) = match version {
                Version::Two => ("completedIntegratorStepNotNeeded", "false"),
                Version::Three => ("needsCompletedIntegratorStep", "true"),
            };
            self.line(2, "ModelExchange", abilities().text(name, value));
        }
        if kinds.co_simulation {
            let mut attributes = abilities().text("canHandleVariableCommunicationStepSize", "true");
            if version == Version::Two {
                let interpolates = if model.system.is_some() { "true" } else { "false" };
                attributes =
                    attributes.text("canInterpolateInputs", interpolates).text("maxOutputDerivativeOrder", "0");
            }
            self.line(2, "CoSimulation", attributes);
        }
    }

    /// Variables with their value references. Only version 3.0 knows event indicators as variables.
    fn listed(&self) -> impl Iterator<Item = (usize, &ExportedVariable)> {
        let has_indicators = self.version == Version::Three;
        let is_listed =
            move |variable: &ExportedVariable| has_indicators || !matches!(variable.origin, Origin::Indicator(_));
        self.model.variables.iter().enumerate().filter(move |(_, variable)| is_listed(variable))
    }

    fn write_units(&mut self) {
        let mut units: Vec<(String, Vec<String>)> = Vec::new();
        for (_, variable) in self.listed() {
            let Some(unit) = variable.unit.as_deref() else { continue };
            let at = match units.iter().position(|(known, _)| known == unit) {
                Some(at) => at,
                None => {
                    units.push((unit.to_owned(), Vec::new()));
                    units.len() - 1
                }
            };
            if let Some(display) = displayed(variable)
                && !units[at].1.contains(&display.to_owned())
            {
                units[at].1.push(display.to_owned());
            }
        }
        if units.is_empty() {
            return;
        }
        self.xml.push_str("  <UnitDefinitions>\n");
        for (unit, displays) in &units {
            let measure = Measure::parse(unit).ok();
            let base = measure.as_ref().and_then(base_unit);
            let _ = write!(self.xml, "    <Unit name=\"{}\"", quoted(unit));
            if base.is_none() && displays.is_empty() {
                self.xml.push_str("/>\n");
                continue;
            }
            self.xml.push_str(">\n");
            if let Some(base) = base {
                self.line(6, "BaseUnit", base);
            }
            for display in displays {
                let (Some(of), Ok(to)) = (&measure, Measure::parse(display)) else { continue };
                let attributes = Attributes::default()
                    .text("name", display)
                    .number("factor", Some(of.scale / to.scale))
                    .number("offset", Some((of.offset - to.offset) / to.scale));
                self.line(6, "DisplayUnit", attributes);
            }
            self.xml.push_str("    </Unit>\n");
        }
        self.xml.push_str("  </UnitDefinitions>\n");
    }

    fn write_types(&mut self) {
        let all = enumerations(self.model.variables);
        if all.is_empty() {
            return;
        }
        self.xml.push_str("  <TypeDefinitions>\n");
        for enumeration in all {
            let name = quoted(&enumeration.name);
            let (open, close) = match self.version {
                Version::Two => (
                    format!("    <SimpleType name=\"{name}\">\n      <Enumeration>\n"),
                    "      </Enumeration>\n    </SimpleType>\n",
                ),
                Version::Three => (format!("    <EnumerationType name=\"{name}\">\n"), "    </EnumerationType>\n"),
            };
            self.xml.push_str(&open);
            for (literal, value) in enumeration.literals.iter().zip(1..) {
                let attributes = Attributes::default().text("name", literal).text("value", &value.to_string());
                self.line(8, "Item", attributes);
            }
            self.xml.push_str(close);
        }
        self.xml.push_str("  </TypeDefinitions>\n");
    }

    fn write_variables(&mut self) {
        self.xml.push_str("  <ModelVariables>\n");
        let listed: Vec<(usize, ExportedVariable)> =
            self.listed().map(|(at, variable)| (at, variable.clone())).collect();
        for (at, variable) in &listed {
            match self.version {
                Version::Two => self.write_variable_2(*at, variable),
                Version::Three => self.write_variable_3(*at, variable),
            }
        }
        self.xml.push_str("  </ModelVariables>\n");
    }

    /// What both versions say of a variable.
    fn said_of(at: usize, variable: &ExportedVariable) -> Attributes {
        let causality = match variable.causality {
            Causality::Independent => "independent",
            Causality::Parameter => "parameter",
            Causality::CalculatedParameter => "calculatedParameter",
            Causality::Input => "input",
            Causality::Output => "output",
            Causality::Local => "local",
        };
        let variability = match variable.variability {
            Variability::Constant => "constant",
            Variability::Fixed => "fixed",
            Variability::Tunable => "tunable",
            Variability::Discrete => "discrete",
            Variability::Continuous => "continuous",
        };
        let at_start = variable.at_start.filter(|_| variable.causality != Causality::Input);
        let at_start = at_start.map(|at_start| match at_start {
            AtStart::Exact => "exact",
            AtStart::Approximate => "approx",
            AtStart::Calculated => "calculated",
        });
        Attributes::default()
            .text("name", &variable.name)
            .text("valueReference", &at.to_string())
            .maybe("description", variable.description.as_deref())
            .text("causality", causality)
            .text("variability", variability)
            .maybe("initial", at_start)
    }

    /// What both versions say of values of the type of a variable.
    fn said_of_values(&self, variable: &ExportedVariable) -> Attributes {
        let whole = |value: f64| format!("{value:.0}");
        let attributes = Attributes::default();
        match &variable.value_type {
            ValueType::Real => {
                let is_state = matches!(variable.origin, Origin::State(_));
                let attributes = attributes
                    .maybe("unit", variable.unit.as_deref())
                    .maybe("displayUnit", displayed(variable))
                    .number("min", variable.min)
                    .number("max", variable.max)
                    .number("nominal", variable.nominal)
                    .number("start", variable.start);
                if is_state && self.may_reinitialize() { attributes.text("reinit", "true") } else { attributes }
            }
            ValueType::Integer => {
                // A bound beyond what a type holds is none.
                let is_bound = |bound: &f64| self.version == Version::Three || bound.abs() <= f64::from(i32::MAX);
                let bounds = attributes
                    .maybe("min", variable.min.filter(is_bound).map(whole).as_deref())
                    .maybe("max", variable.max.filter(is_bound).map(whole).as_deref());
                bounds.maybe("start", variable.start.map(whole).as_deref())
            }
            ValueType::Boolean => {
                attributes.maybe("start", variable.start.map(|value| if value == 0.0 { "false" } else { "true" }))
            }
            ValueType::Enumeration(enumeration) => {
                let typed = attributes.text("declaredType", &enumeration.name);
                typed.maybe("start", variable.start.map(whole).as_deref())
            }
            ValueType::String => attributes,
        }
    }

    fn may_reinitialize(&self) -> bool {
        let Some(description) = self.model.system.map(|system| system.description()) else { return false };
        let is_reinit = |kind: &ActionKind| matches!(kind, ActionKind::Reinit { .. });
        !description.constraints.is_empty() || description.events.actions.iter().any(|action| is_reinit(&action.kind))
    }

    fn write_variable_2(&mut self, at: usize, variable: &ExportedVariable) {
        let mut values = self.said_of_values(variable);
        let element = match &variable.value_type {
            ValueType::Real => "Real",
            ValueType::Integer => "Integer",
            ValueType::Boolean => "Boolean",
            ValueType::Enumeration(_) => "Enumeration",
            ValueType::String => "String",
        };
        if let Some(state) = variable.derivative_of {
            values = values.text("derivative", &(state + 1).to_string());
        }
        if variable.value_type == ValueType::String {
            values = values.text("start", variable.text.as_deref().unwrap_or_default());
        }
        let _ = writeln!(
            self.xml,
            "    <ScalarVariable{}><{element}{}/></ScalarVariable>",
            Self::said_of(at, variable).0,
            values.0
        );
    }

    fn write_variable_3(&mut self, at: usize, variable: &ExportedVariable) {
        let mut attributes = Self::said_of(at, variable);
        attributes.0.push_str(&self.said_of_values(variable).0);
        if let Some(state) = variable.derivative_of {
            attributes = attributes.text("derivative", &state.to_string());
        }
        let element = match &variable.value_type {
            ValueType::Real => "Float64",
            ValueType::Integer => "Int64",
            ValueType::Boolean => "Boolean",
            ValueType::Enumeration(_) => "Enumeration",
            ValueType::String => {
                let text = quoted(variable.text.as_deref().unwrap_or_default());
                let _ = writeln!(self.xml, "    <String{}><Start value=\"{text}\"/></String>", attributes.0);
                return;
            }
        };
        self.line(4, element, attributes);
    }

    fn write_structure(&mut self) {
        let variables = self.model.variables;
        let is_output = |at: &usize| variables[*at].causality == Causality::Output;
        let outputs: Vec<usize> = (0..variables.len()).filter(is_output).collect();
        let rates = rates(variables, self.model.n_states());
        let is_open = |at: &usize| matches!(variables[*at].at_start, Some(AtStart::Approximate | AtStart::Calculated));
        let is_unknown = |at: &usize| {
            let variable = &variables[*at];
            let is_moved = matches!(variable.origin, Origin::State(_)) || rates.contains(at);
            let is_asked = variable.causality == Causality::Output || is_moved;
            variable.causality == Causality::CalculatedParameter || is_asked && is_open(at)
        };
        let initial: Vec<usize> = (0..variables.len()).filter(is_unknown).collect();
        let indicators: Vec<usize> =
            (0..variables.len()).filter(|&at| matches!(variables[at].origin, Origin::Indicator(_))).collect();
        self.xml.push_str("  <ModelStructure>\n");
        self.write_unknowns("Outputs", "Output", &outputs, Known::OfPoint);
        self.write_unknowns("Derivatives", "ContinuousStateDerivative", &rates, Known::OfPoint);
        self.write_unknowns("InitialUnknowns", "InitialUnknown", &initial, Known::OfStart);
        if self.version == Version::Three {
            self.write_unknowns("", "EventIndicator", &indicators, Known::OfPoint);
        }
        self.xml.push_str("  </ModelStructure>\n");
    }

    /// What version 3.0 says when a list of dependencies is left out, that all of them count, some importers do not
    /// read: there all are listed, up to a size of the lists that nobody wants to read.
    fn all_known(&self, known: Known, n_unknowns: usize) -> Option<Vec<usize>> {
        const MOST_LISTED: usize = 100_000;
        let is_known = |variable: &ExportedVariable| match (known, variable.origin) {
            (_, Origin::Input(_)) | (Known::OfPoint, Origin::State(_)) => true,
            (Known::OfPoint, _) => false,
            (Known::OfStart, _) => {
                variable.causality == Causality::Parameter || variable.at_start == Some(AtStart::Exact)
            }
        };
        let variables = self.model.variables;
        let all: Vec<usize> = (0..variables.len()).filter(|&at| is_known(&variables[at])).collect();
        (self.version == Version::Three && all.len() * n_unknowns <= MOST_LISTED).then_some(all)
    }

    fn write_unknowns(&mut self, group: &str, element: &str, unknowns: &[usize], kind: Known) {
        if unknowns.is_empty() {
            return;
        }
        let is_two = self.version == Version::Two;
        let all = self.all_known(kind, unknowns.len());
        if is_two {
            let _ = writeln!(self.xml, "    <{group}>");
        }
        for &at in unknowns {
            let known = if kind == Known::OfPoint { self.known(at) } else { None };
            let known = known.or_else(|| all.clone()).map(|known| {
                let shift = usize::from(is_two);
                known.iter().map(|at| (at + shift).to_string()).collect::<Vec<_>>().join(" ")
            });
            let (indent, element, name, value) =
                if is_two { (6, "Unknown", "index", at + 1) } else { (4, element, "valueReference", at) };
            let attributes = Attributes::default().text(name, &value.to_string());
            self.line(indent, element, attributes.maybe("dependencies", known.as_deref()));
        }
        if is_two {
            let _ = writeln!(self.xml, "    </{group}>");
        }
    }

    /// The variables that a rate or an output depends on; none where it may be all.
    fn known(&self, at: usize) -> Option<Vec<usize>> {
        let found = self.dependencies.as_ref()?;
        let variables = self.model.variables;
        let known = match (variables[at].origin, variables[at].derivative_of) {
            (_, Some(state)) => match variables[state].origin {
                Origin::State(state) => &found.rates[state as usize],
                _ => return None,
            },
            (Origin::Observed(observed), None) => &found.observed[observed as usize],
            (Origin::State(state), None) => &vec![state as usize],
            _ => return None,
        };
        let n_states = self.model.n_states();
        let is_meant = |origin: Origin| match origin {
            Origin::State(state) => known.contains(&(state as usize)),
            Origin::Input(input) => known.contains(&(n_states + input as usize)),
            _ => false,
        };
        Some((0..variables.len()).filter(|&at| is_meant(variables[at].origin)).collect())
    }
}

/// What an unknown of the structure is computed from.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Known {
    /// States and inputs.
    OfPoint,
    /// Inputs, parameters and start values.
    OfStart,
}

/// By state: the variable that is its rate.
#[must_use]
pub fn rates(variables: &[ExportedVariable], n_states: usize) -> Vec<usize> {
    let mut rates = vec![0; n_states];
    for (at, variable) in variables.iter().enumerate() {
        if let Some(Origin::State(state)) = variable.derivative_of.map(|of| variables[of].origin) {
            rates[state as usize] = at;
        }
    }
    rates
}

/// The unit for display, where it measures the same as the unit.
fn displayed(variable: &ExportedVariable) -> Option<&str> {
    let (unit, display) = (variable.unit.as_deref()?, variable.display_unit.as_deref()?);
    let (of, to) = (Measure::parse(unit).ok()?, Measure::parse(display).ok()?);
    (of.dimension == to.dimension && unit != display).then_some(display)
}

/// A unit in the base units of the SI, where it is one with whole exponents and without angles.
fn base_unit(measure: &Measure) -> Option<Attributes> {
    let exponents = measure.dimension.whole_exponents()?;
    if measure.has_angle {
        return None;
    }
    let mut attributes = Attributes::default();
    for (name, exponent) in ["kg", "m", "s", "A", "K", "mol", "cd"].iter().zip(exponents) {
        if exponent != 0 {
            attributes = attributes.text(name, &exponent.to_string());
        }
    }
    if measure.scale != 1.0 {
        attributes = attributes.number("factor", Some(measure.scale));
    }
    if measure.offset != 0.0 {
        attributes = attributes.number("offset", Some(measure.offset));
    }
    Some(attributes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structured_names_are_told_from_others() {
        for name in ["a", "_b.c[1,2].d", "der(x)", "der(x[1,2])", "der(a.b,2)"] {
            assert!(is_structured(name), "{name}");
        }
        for name in ["", "1a", "a b", "der(der(x))", "a[", "a[x]", "'q'", "a..b", "e\u{301}"] {
            assert!(!is_structured(name), "{name}");
        }
    }

    #[test]
    fn identifiers_are_what_c_can_use() {
        assert_eq!(identifier("Modelica.Blocks.Sine"), "Modelica_Blocks_Sine");
        assert_eq!(identifier("3 D"), "_3_D");
    }
}
