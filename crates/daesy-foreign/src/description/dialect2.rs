//! FMI 2.0.

use roxmltree::Node;

use super::element::{
    Types, causality, check_names, child, declared, elements, experiment, initial, interface, number, numbers,
    reference, required, variability, wrong,
};
use super::{Block, Causality, Scalar, ScalarType, State, UnitDescription, Unknown, Variability, Version};
use crate::error::ForeignError;

pub(super) fn read(root: Node<'_, '_>) -> Result<UnitDescription, ForeignError> {
    let types = types(root)?;
    let variables = child(root, "ModelVariables");
    let mut scalars = Vec::new();
    let mut derivative_of = Vec::new();
    for node in elements(variables) {
        if node.tag_name().name() != "ScalarVariable" {
            return Err(wrong(node, format!("`{}` is no variable", node.tag_name().name())));
        }
        let (scalar, of) = scalar(node, &types)?;
        scalars.push(scalar);
        derivative_of.push(of);
    }
    check_names(root, &scalars)?;
    let structure = child(root, "ModelStructure");
    let list = |name: &str| structure.and_then(|structure| child(structure, name));
    let mut states = Vec::new();
    for node in elements(list("Derivatives")) {
        let derivative = unknown(node, scalars.len())?;
        let of = derivative_of[derivative.scalar].filter(|&of| of >= 1 && of as usize <= scalars.len());
        let Some(of) = of else {
            let name = &scalars[derivative.scalar].name;
            return Err(wrong(node, format!("`{name}` is listed as a derivative, but does not say of which variable")));
        };
        states.push(State { state: of as usize - 1, derivative });
    }
    let outputs = elements(list("Outputs")).map(|node| unknown(node, scalars.len())).collect::<Result<_, _>>()?;
    let n_indicators = number(root, "numberOfEventIndicators")?.unwrap_or(0.0);
    if !(0.0..=1e6).contains(&n_indicators) {
        return Err(wrong(root, format!("{n_indicators} is no number of event indicators")));
    }
    Ok(UnitDescription {
        version: Version::Two,
        name: required(root, "modelName")?.to_owned(),
        description: root.attribute("description").map(str::to_owned),
        tool: root.attribute("generationTool").map(str::to_owned),
        token: required(root, "guid")?.to_owned(),
        model_exchange: interface(root, "ModelExchange")?,
        co_simulation: interface(root, "CoSimulation")?,
        n_indicators: n_indicators as usize,
        indicators: Vec::new(),
        experiment: experiment(root)?,
        scalars,
        states,
        outputs,
    })
}

fn types(root: Node<'_, '_>) -> Result<Types, ForeignError> {
    let mut types = Types::default();
    for node in elements(child(root, "TypeDefinitions")) {
        let name = required(node, "name")?;
        if let Some(inner) = elements(Some(node)).next() {
            types.insert(name.to_owned(), declared(inner, name)?);
        }
    }
    Ok(types)
}

/// A variable, and the number of the variable whose derivative it is.
fn scalar(node: Node<'_, '_>, types: &Types) -> Result<(Scalar, Option<u32>), ForeignError> {
    let name = required(node, "name")?.to_owned();
    let is_type = |node: &Node<'_, '_>| {
        matches!(node.tag_name().name(), "Real" | "Integer" | "Boolean" | "String" | "Enumeration")
    };
    let Some(inner) = elements(Some(node)).find(is_type) else {
        return Err(wrong(node, format!("`{name}` has no type")));
    };
    let scalar_type = match inner.tag_name().name() {
        "Real" => ScalarType::Float64,
        "Integer" => ScalarType::Int32,
        "Boolean" => ScalarType::Boolean,
        "Enumeration" => ScalarType::Enumeration,
        _ => ScalarType::String,
    };
    let causality = causality(node)?;
    let variability = variability(node, scalar_type, causality)?;
    let own = declared(inner, &name)?;
    let of_type = inner.attribute("declaredType").and_then(|name| types.get(name));
    let is_text = scalar_type == ScalarType::String;
    let scalar = Scalar {
        block: Block { scalar_type, reference: reference(node, "valueReference")?, size: 1 },
        offset: 0,
        causality,
        variability,
        initial: initial(node, causality, variability)?,
        start: if is_text { None } else { number(inner, "start")? },
        text: if is_text { inner.attribute("start").map(Into::into) } else { None },
        unit: own.unit.or_else(|| of_type?.unit.clone()),
        display_unit: own.display_unit.or_else(|| of_type?.display_unit.clone()),
        min: own.min.or_else(|| of_type?.min),
        max: own.max.or_else(|| of_type?.max),
        nominal: own.nominal.or_else(|| of_type?.nominal),
        description: node.attribute("description").filter(|text| !text.is_empty()).map(str::to_owned),
        literals: of_type.and_then(|of_type| of_type.literals.clone()),
        name,
    };
    if causality == Causality::Input && variability == Variability::Constant {
        return Err(wrong(node, format!("the input `{}` is said to be constant", scalar.name)));
    }
    let of = if inner.has_attribute("derivative") { Some(reference(inner, "derivative")?) } else { None };
    Ok((scalar, of))
}

fn unknown(node: Node<'_, '_>, n: usize) -> Result<Unknown, ForeignError> {
    let place = |index: u32| {
        let index = index as usize;
        if (1..=n).contains(&index) { Ok(index - 1) } else { Err(wrong(node, format!("there is no variable {index}"))) }
    };
    let dependencies = numbers(node, "dependencies")?;
    let dependencies = dependencies.map(|list| list.into_iter().map(place).collect::<Result<_, _>>()).transpose()?;
    Ok(Unknown { scalar: place(reference(node, "index")?)?, dependencies })
}
