//! Attributes of elements, and what both dialects say the same way.

use std::borrow::Cow;
use std::sync::Arc;

use roxmltree::Node;
use rustc_hash::FxHashMap;

use super::{
    Causality, Experiment, Initial, Interface, Literals, MAX_BYTES, MAX_DEPTH, Scalar, ScalarType, Variability,
};
use crate::error::ForeignError;

/// Something is wrong at an element.
pub(super) fn wrong(node: Node<'_, '_>, reason: impl std::fmt::Display) -> ForeignError {
    let place = node.document().text_pos_at(node.range().start);
    ForeignError::Description { reason: format!("line {}: {reason}", place.row) }
}

/// The text of a file in UTF-8, or in Latin-1 where its head says so.
pub(super) fn text_of(bytes: &[u8]) -> Result<Cow<'_, str>, ForeignError> {
    if bytes.len() > MAX_BYTES {
        let reason = format!("it has {} bytes, and {MAX_BYTES} are the limit", bytes.len());
        return Err(ForeignError::Description { reason });
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    if let Ok(text) = std::str::from_utf8(bytes) {
        return Ok(Cow::Borrowed(text));
    }
    let head = String::from_utf8_lossy(&bytes[..bytes.len().min(200)]).to_lowercase();
    if head.contains("iso-8859-1") || head.contains("windows-1252") {
        return Ok(Cow::Owned(bytes.iter().map(|&byte| char::from(byte)).collect()));
    }
    Err(ForeignError::Description { reason: "it is not encoded in UTF-8".to_owned() })
}

/// Refuses texts that are nested too deeply, before anything is built of them.
pub(super) fn check_depth(text: &str) -> Result<(), ForeignError> {
    let (mut depth, mut rest) = (0usize, text);
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        let skipped =
            [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>")].iter().find(|(head, _)| rest.starts_with(head));
        if let Some((_, end)) = skipped {
            rest = rest.find(end).map_or("", |at| &rest[at + end.len()..]);
            continue;
        }
        let Some(end) = rest.find('>') else { break };
        if rest.starts_with('/') {
            depth = depth.saturating_sub(1);
        } else if !rest[..end].ends_with('/') {
            depth += 1;
        }
        if depth > MAX_DEPTH {
            return Err(ForeignError::Description { reason: format!("it is nested deeper than {MAX_DEPTH} levels") });
        }
    }
    Ok(())
}

pub(super) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    node.children().find(|child| child.tag_name().name() == name)
}

pub(super) fn elements<'a, 'i>(node: Option<Node<'a, 'i>>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.into_iter().flat_map(|node| node.children().filter(Node::is_element))
}

pub(super) fn required<'a>(node: Node<'a, '_>, name: &str) -> Result<&'a str, ForeignError> {
    node.attribute(name).ok_or_else(|| wrong(node, format!("`{}` has no `{name}`", node.tag_name().name())))
}

pub(super) fn flag(node: Node<'_, '_>, name: &str) -> bool {
    matches!(node.attribute(name), Some("true" | "1"))
}

/// A number, a truth as 0 or 1.
pub(super) fn number_of(node: Node<'_, '_>, text: &str) -> Result<f64, ForeignError> {
    match text.trim() {
        "true" => Ok(1.0),
        "false" => Ok(0.0),
        other => other.parse().map_err(|_| wrong(node, format!("`{other}` is not a number"))),
    }
}

pub(super) fn number(node: Node<'_, '_>, name: &str) -> Result<Option<f64>, ForeignError> {
    node.attribute(name).map(|text| number_of(node, text)).transpose()
}

pub(super) fn reference(node: Node<'_, '_>, name: &str) -> Result<u32, ForeignError> {
    let text = required(node, name)?;
    text.trim().parse().map_err(|_| wrong(node, format!("`{text}` is not a value reference")))
}

/// A list of whole numbers.
pub(super) fn numbers(node: Node<'_, '_>, name: &str) -> Result<Option<Vec<u32>>, ForeignError> {
    let Some(text) = node.attribute(name) else { return Ok(None) };
    let parse = |word: &str| word.parse().map_err(|_| wrong(node, format!("`{word}` is not a whole number")));
    text.split_whitespace().map(parse).collect::<Result<_, _>>().map(Some)
}

pub(super) fn experiment(root: Node<'_, '_>) -> Result<Experiment, ForeignError> {
    let Some(node) = child(root, "DefaultExperiment") else { return Ok(Experiment::default()) };
    Ok(Experiment {
        start: number(node, "startTime")?.filter(|value| value.is_finite()),
        stop: number(node, "stopTime")?.filter(|value| value.is_finite()),
        tolerance: number(node, "tolerance")?.filter(|value| *value > 0.0),
        step: number(node, "stepSize")?.filter(|value| *value > 0.0),
    })
}

pub(super) fn interface(root: Node<'_, '_>, name: &str) -> Result<Option<Interface>, ForeignError> {
    let Some(node) = child(root, name) else { return Ok(None) };
    let identifier = required(node, "modelIdentifier")?;
    let is_name = |character: char| character.is_alphanumeric() || matches!(character, '_' | '-' | '.' | ' ');
    if identifier.is_empty() || identifier.contains("..") || !identifier.chars().all(is_name) {
        return Err(wrong(node, format!("`{identifier}` is no name of a library")));
    }
    Ok(Some(Interface {
        identifier: identifier.to_owned(),
        has_directional_derivatives: flag(node, "providesDirectionalDerivative")
            || flag(node, "providesDirectionalDerivatives"),
        has_saved_states: flag(node, "canGetAndSetFMUstate") || flag(node, "canGetAndSetFMUState"),
        is_single: flag(node, "canBeInstantiatedOnlyOncePerProcess"),
        needs_tool: flag(node, "needsExecutionTool"),
        needs_completed_steps: match node.attribute("needsCompletedIntegratorStep") {
            Some("false" | "0") => false,
            _ => !flag(node, "completedIntegratorStepNotNeeded"),
        },
    }))
}

/// Attributes of a declared type, by its name.
pub(super) struct DeclaredType {
    pub(super) unit: Option<String>,
    pub(super) display_unit: Option<String>,
    pub(super) min: Option<f64>,
    pub(super) max: Option<f64>,
    pub(super) nominal: Option<f64>,
    pub(super) literals: Option<Arc<Literals>>,
}

pub(super) type Types = FxHashMap<String, DeclaredType>;

/// The attributes that types and variables share, read from the element that has them.
pub(super) fn declared(node: Node<'_, '_>, name: &str) -> Result<DeclaredType, ForeignError> {
    let mut names = Vec::new();
    let mut is_counted = true;
    for item in elements(Some(node)).filter(|item| item.tag_name().name() == "Item") {
        names.push(required(item, "name")?.to_owned());
        is_counted &= number(item, "value")? == Some(names.len() as f64);
    }
    let literals = (is_counted && !names.is_empty()).then(|| Arc::new(Literals { name: name.to_owned(), names }));
    let text = |name| node.attribute(name).map(str::to_owned);
    Ok(DeclaredType {
        unit: text("unit"),
        display_unit: text("displayUnit"),
        min: number(node, "min")?,
        max: number(node, "max")?,
        nominal: number(node, "nominal")?,
        literals,
    })
}

pub(super) fn causality(node: Node<'_, '_>) -> Result<Causality, ForeignError> {
    Ok(match node.attribute("causality") {
        None | Some("local") => Causality::Local,
        Some("parameter") => Causality::Parameter,
        Some("structuralParameter") => Causality::StructuralParameter,
        Some("calculatedParameter") => Causality::CalculatedParameter,
        Some("input") => Causality::Input,
        Some("output") => Causality::Output,
        Some("independent") => Causality::Independent,
        Some(other) => return Err(wrong(node, format!("`{other}` is no causality"))),
    })
}

pub(super) fn variability(
    node: Node<'_, '_>,
    scalar_type: ScalarType,
    causality: Causality,
) -> Result<Variability, ForeignError> {
    Ok(match node.attribute("variability") {
        Some("constant") => Variability::Constant,
        Some("fixed") => Variability::Fixed,
        Some("tunable") => Variability::Tunable,
        Some("discrete") => Variability::Discrete,
        Some("continuous") => Variability::Continuous,
        Some(other) => return Err(wrong(node, format!("`{other}` is no variability"))),
        None => match causality {
            Causality::Parameter | Causality::StructuralParameter | Causality::CalculatedParameter => {
                Variability::Fixed
            }
            _ if scalar_type.is_real() => Variability::Continuous,
            _ => Variability::Discrete,
        },
    })
}

pub(super) fn initial(
    node: Node<'_, '_>,
    causality: Causality,
    variability: Variability,
) -> Result<Initial, ForeignError> {
    Ok(match node.attribute("initial") {
        Some("exact") => Initial::Exact,
        Some("approx") => Initial::Approx,
        Some("calculated") => Initial::Calculated,
        Some(other) => return Err(wrong(node, format!("`{other}` is no kind of initial value"))),
        // The defaults of the standard [@fmi2, sec. 2.2.7].
        None => match (causality, variability) {
            (Causality::Parameter | Causality::StructuralParameter | Causality::Input, _)
            | (_, Variability::Constant) => Initial::Exact,
            _ => Initial::Calculated,
        },
    })
}

/// Names must differ: two scalars of one name could not be told apart.
pub(super) fn check_names(node: Node<'_, '_>, scalars: &[Scalar]) -> Result<(), ForeignError> {
    let mut seen = rustc_hash::FxHashSet::default();
    match scalars.iter().find(|scalar| !seen.insert(scalar.name.as_str())) {
        Some(twin) => Err(wrong(node, format!("two variables are called `{}`", twin.name))),
        None => Ok(()),
    }
}
