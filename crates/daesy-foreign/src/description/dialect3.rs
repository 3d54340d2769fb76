//! FMI 3.0.

use roxmltree::Node;
use rustc_hash::FxHashMap;

use super::element::{
    DeclaredType, Types, causality, check_names, child, declared, elements, experiment, initial, interface, number_of,
    numbers, reference, required, variability, wrong,
};
use super::{Block, MAX_SCALARS, Scalar, ScalarType, State, UnitDescription, Unknown, Version};
use crate::error::ForeignError;

/// Where the scalars of a variable are.
#[derive(Clone, Copy)]
struct Stretch {
    first: usize,
    size: usize,
}

struct Variables {
    scalars: Vec<Scalar>,
    of_reference: FxHashMap<u32, Stretch>,
}

pub(super) fn read(root: Node<'_, '_>) -> Result<UnitDescription, ForeignError> {
    let types = types(root)?;
    let list = child(root, "ModelVariables");
    let sizes = structural_sizes(list)?;
    let mut variables = Variables { scalars: Vec::new(), of_reference: FxHashMap::default() };
    let mut derivative_of: FxHashMap<u32, u32> = FxHashMap::default();
    for node in elements(list) {
        variables.add(node, &types, &sizes)?;
        if node.has_attribute("derivative") {
            derivative_of.insert(reference(node, "valueReference")?, reference(node, "derivative")?);
        }
    }
    check_names(root, &variables.scalars)?;
    let structure = child(root, "ModelStructure");
    let mut states = Vec::new();
    let mut outputs = Vec::new();
    let mut indicators = Vec::new();
    for node in elements(structure) {
        match node.tag_name().name() {
            "ContinuousStateDerivative" => {
                let unknowns = variables.unknowns(node)?;
                let own = reference(node, "valueReference")?;
                let of = derivative_of.get(&own).and_then(|of| variables.of_reference.get(of));
                let Some(of) = of.filter(|of| of.size == unknowns.len()) else {
                    return Err(wrong(node, format!("variable {own} does not say whose derivative it is")));
                };
                let first = of.first;
                let places = unknowns.into_iter().enumerate();
                states.extend(places.map(|(at, derivative)| State { state: first + at, derivative }));
            }
            "Output" => outputs.extend(variables.unknowns(node)?),
            "EventIndicator" => {
                let stretch = variables.stretch(node)?;
                indicators.extend(stretch.first..stretch.first + stretch.size);
            }
            _ => {}
        }
    }
    Ok(UnitDescription {
        version: Version::Three,
        name: required(root, "modelName")?.to_owned(),
        description: root.attribute("description").map(str::to_owned),
        tool: root.attribute("generationTool").map(str::to_owned),
        token: required(root, "instantiationToken")?.to_owned(),
        model_exchange: interface(root, "ModelExchange")?,
        co_simulation: interface(root, "CoSimulation")?,
        n_indicators: indicators.len(),
        indicators,
        experiment: experiment(root)?,
        scalars: variables.scalars,
        states,
        outputs,
    })
}

fn types(root: Node<'_, '_>) -> Result<Types, ForeignError> {
    let mut types = Types::default();
    for node in elements(child(root, "TypeDefinitions")) {
        let name = required(node, "name")?;
        types.insert(name.to_owned(), declared(node, name)?);
    }
    Ok(types)
}

fn scalar_type(name: &str) -> Option<ScalarType> {
    Some(match name {
        "Float64" => ScalarType::Float64,
        "Float32" => ScalarType::Float32,
        "Int8" => ScalarType::Int8,
        "UInt8" => ScalarType::UInt8,
        "Int16" => ScalarType::Int16,
        "UInt16" => ScalarType::UInt16,
        "Int32" => ScalarType::Int32,
        "UInt32" => ScalarType::UInt32,
        "Int64" => ScalarType::Int64,
        "UInt64" => ScalarType::UInt64,
        "Boolean" => ScalarType::Boolean,
        "Enumeration" => ScalarType::Enumeration,
        "String" => ScalarType::String,
        "Binary" => ScalarType::Binary,
        "Clock" => ScalarType::Clock,
        _ => return None,
    })
}

/// Start values of structural parameters, which are sizes of arrays.
fn structural_sizes(list: Option<Node<'_, '_>>) -> Result<FxHashMap<u32, f64>, ForeignError> {
    let mut sizes = FxHashMap::default();
    for node in elements(list).filter(|node| node.attribute("causality") == Some("structuralParameter")) {
        if let Some(text) = node.attribute("start") {
            sizes.insert(reference(node, "valueReference")?, number_of(node, text)?);
        }
    }
    Ok(sizes)
}

impl Variables {
    fn add(&mut self, node: Node<'_, '_>, types: &Types, sizes: &FxHashMap<u32, f64>) -> Result<(), ForeignError> {
        let name = required(node, "name")?;
        let Some(scalar_type) = scalar_type(node.tag_name().name()) else {
            return Err(wrong(node, format!("`{}` is no type of a variable", node.tag_name().name())));
        };
        let dimensions = dimensions(node, sizes)?;
        let size = dimensions.iter().try_fold(1usize, |all, &size| all.checked_mul(size));
        let room = MAX_SCALARS.saturating_sub(self.scalars.len());
        let Some(size) = size.filter(|&size| size <= room) else {
            return Err(wrong(node, format!("`{name}` has too many elements")));
        };
        let own = reference(node, "valueReference")?;
        let stretch = Stretch { first: self.scalars.len(), size };
        if self.of_reference.insert(own, stretch).is_some() {
            return Err(wrong(node, format!("the value reference {own} of `{name}` is used twice")));
        }
        let attributes = Attributes {
            block: Block { scalar_type, reference: own, size: size as u32 },
            own: declared(node, name)?,
            of_type: node.attribute("declaredType").and_then(|name| types.get(name)),
            starts: starts(node, scalar_type)?,
        };
        for offset in 0..size {
            self.scalars.push(attributes.scalar(node, name, &dimensions, offset)?);
        }
        // Other names of the same variable.
        for alias in elements(Some(node)).filter(|child| child.tag_name().name() == "Alias") {
            let other = required(alias, "name")?;
            if self.scalars.len() + size > MAX_SCALARS {
                return Err(wrong(alias, "there are too many variables"));
            }
            for offset in 0..size {
                self.scalars.push(attributes.scalar(node, other, &dimensions, offset)?);
            }
        }
        Ok(())
    }

    fn stretch(&self, node: Node<'_, '_>) -> Result<Stretch, ForeignError> {
        let own = reference(node, "valueReference")?;
        self.of_reference.get(&own).copied().ok_or_else(|| wrong(node, format!("there is no variable {own}")))
    }

    /// The scalars of an unknown of the model structure.
    fn unknowns(&self, node: Node<'_, '_>) -> Result<Vec<Unknown>, ForeignError> {
        let stretch = self.stretch(node)?;
        let mut dependencies = None;
        if let Some(list) = numbers(node, "dependencies")? {
            let mut places = Vec::new();
            for one in list {
                let Some(of) = self.of_reference.get(&one) else {
                    return Err(wrong(node, format!("there is no variable {one}")));
                };
                places.extend(of.first..of.first + of.size);
            }
            dependencies = Some(places);
        }
        let scalars = stretch.first..stretch.first + stretch.size;
        Ok(scalars.map(|scalar| Unknown { scalar, dependencies: dependencies.clone() }).collect())
    }
}

/// Sizes of an array; empty for a scalar.
fn dimensions(node: Node<'_, '_>, sizes: &FxHashMap<u32, f64>) -> Result<Vec<usize>, ForeignError> {
    let mut dimensions = Vec::new();
    for dimension in elements(Some(node)).filter(|child| child.tag_name().name() == "Dimension") {
        let size = match dimension.attribute("start") {
            Some(text) => Some(number_of(dimension, text)?),
            None => sizes.get(&reference(dimension, "valueReference")?).copied(),
        };
        let size = size.filter(|&size| size >= 0.0 && size <= MAX_SCALARS as f64 && size.fract() == 0.0);
        let Some(size) = size else { return Err(wrong(dimension, "the size of the array is not known")) };
        dimensions.push(size as usize);
    }
    Ok(dimensions)
}

/// Start values: numbers, or texts.
enum Starts {
    Numbers(Vec<f64>),
    Texts(Vec<String>),
}

fn starts(node: Node<'_, '_>, scalar_type: ScalarType) -> Result<Starts, ForeignError> {
    if scalar_type.is_number() {
        let words = node.attribute("start").unwrap_or("").split_whitespace();
        return words.map(|word| number_of(node, word)).collect::<Result<_, _>>().map(Starts::Numbers);
    }
    let texts = elements(Some(node)).filter(|child| child.tag_name().name() == "Start");
    Ok(Starts::Texts(texts.filter_map(|start| start.attribute("value")).map(str::to_owned).collect()))
}

struct Attributes<'a> {
    block: Block,
    own: DeclaredType,
    of_type: Option<&'a DeclaredType>,
    starts: Starts,
}

impl Attributes<'_> {
    fn scalar(
        &self,
        node: Node<'_, '_>,
        name: &str,
        dimensions: &[usize],
        offset: usize,
    ) -> Result<Scalar, ForeignError> {
        let causality = causality(node)?;
        let variability = variability(node, self.block.scalar_type, causality)?;
        let (own, of_type) = (&self.own, self.of_type);
        // One value stands for all elements.
        let start = match &self.starts {
            Starts::Numbers(values) if values.len() == 1 => values.first().copied(),
            Starts::Numbers(values) => values.get(offset).copied(),
            Starts::Texts(_) => None,
        };
        let text = match &self.starts {
            Starts::Texts(texts) => texts.get(offset).map(|text| text.as_str().into()),
            Starts::Numbers(_) => None,
        };
        Ok(Scalar {
            name: element_name(name, dimensions, offset),
            block: self.block,
            offset: offset as u32,
            causality,
            variability,
            initial: initial(node, causality, variability)?,
            start,
            text,
            unit: own.unit.clone().or_else(|| of_type?.unit.clone()),
            display_unit: own.display_unit.clone().or_else(|| of_type?.display_unit.clone()),
            min: own.min.or_else(|| of_type?.min),
            max: own.max.or_else(|| of_type?.max),
            nominal: own.nominal.or_else(|| of_type?.nominal),
            description: node.attribute("description").filter(|text| !text.is_empty()).map(str::to_owned),
            literals: of_type.and_then(|of_type| of_type.literals.clone()),
        })
    }
}

/// `name[i,j]`, the last index running fastest.
fn element_name(name: &str, dimensions: &[usize], offset: usize) -> String {
    if dimensions.is_empty() {
        return name.to_owned();
    }
    let mut rest = offset;
    let mut indices = Vec::new();
    for &size in dimensions.iter().rev() {
        indices.push((rest % size.max(1) + 1).to_string());
        rest /= size.max(1);
    }
    indices.reverse();
    format!("{name}[{}]", indices.join(","))
}
