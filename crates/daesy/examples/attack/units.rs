//! What must hold for every archive and every description of a unit: it is read or refused, without a panic, and what
//! is read is as large as it says.

use std::path::Path;

use daesy_fmu::archive::{Entry, pack};
use daesy_foreign::archive::{Archive, Limits};
use daesy_foreign::described;
use daesy_foreign::description::UnitDescription;

/// Descriptions to begin with: version 2.0, and version 3.0 with what it alone has.
pub const SEEDS: [&str; 2] = [
    r#"<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="A" guid="{1}" numberOfEventIndicators="1">
  <ModelExchange modelIdentifier="A" providesDirectionalDerivative="true" canGetAndSetFMUstate="true"/>
  <CoSimulation modelIdentifier="A" canHandleVariableCommunicationStepSize="true"/>
  <UnitDefinitions><Unit name="m/s2"><BaseUnit m="1" s="-2" factor="1e3"/></Unit></UnitDefinitions>
  <TypeDefinitions><SimpleType name="E"><Enumeration><Item name="a" value="1"/></Enumeration></SimpleType></TypeDefinitions>
  <DefaultExperiment startTime="0" stopTime="3" tolerance="1e-6"/>
  <ModelVariables>
    <ScalarVariable name="x" valueReference="0" initial="exact"><Real start="1" unit="m/s2" nominal="2"/></ScalarVariable>
    <ScalarVariable name="der(x)" valueReference="1"><Real derivative="1"/></ScalarVariable>
    <ScalarVariable name="k" valueReference="2" causality="parameter" variability="fixed"><Real start="2"/></ScalarVariable>
    <ScalarVariable name="u" valueReference="3" causality="input"><Real start="0"/></ScalarVariable>
    <ScalarVariable name="n" valueReference="4" variability="discrete"><Integer start="3" min="-1" max="7"/></ScalarVariable>
    <ScalarVariable name="e" valueReference="5" causality="parameter"><Enumeration declaredType="E" start="1"/></ScalarVariable>
    <ScalarVariable name="s" valueReference="6" causality="parameter"><String start="&amp;a"/></ScalarVariable>
  </ModelVariables>
  <ModelStructure>
    <Derivatives><Unknown index="2" dependencies="1 4"/></Derivatives>
    <InitialUnknowns><Unknown index="1"/></InitialUnknowns>
  </ModelStructure>
</fmiModelDescription>"#,
    r#"<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="3.0" modelName="B" instantiationToken="{2}">
  <ModelExchange modelIdentifier="B" needsCompletedIntegratorStep="true"/>
  <TypeDefinitions><Float64Type name="T" unit="K" min="0"/></TypeDefinitions>
  <ModelVariables>
    <Float64 name="time" valueReference="0" causality="independent" variability="continuous"/>
    <UInt64 name="m" valueReference="1" causality="structuralParameter" variability="fixed" start="3"/>
    <Float64 name="x" valueReference="2" declaredType="T" start="1 2 3"><Dimension start="3"/></Float64>
    <Float64 name="der(x)" valueReference="3" derivative="2"><Dimension valueReference="1"/></Float64>
    <Boolean name="b" valueReference="4" causality="input" variability="discrete" start="true"/>
    <Binary name="c" valueReference="5" causality="output"><Start value="00ff"/></Binary>
    <Clock name="d" valueReference="6" intervalVariability="triggered"/>
    <Float64 name="z" valueReference="7" causality="local" variability="continuous"/>
  </ModelVariables>
  <ModelStructure>
    <ContinuousStateDerivative valueReference="3" dependencies="2" dependenciesKind="dependent"/>
    <InitialUnknown valueReference="2"/><EventIndicator valueReference="7"/>
  </ModelStructure>
</fmiModelDescription>"#,
];

/// Checks a description, an archive that holds it, and that archive with some of its bytes changed; says whether the
/// description was read.
pub fn check_unit(text: &str) -> Result<bool, String> {
    let read = UnitDescription::read(text.as_bytes());
    if let Ok(description) = &read {
        // What is read can be shown, and chosen from.
        let _ = (described(description, &[]), description.interface(), description.kinds());
    }
    let file = |path: &str, bytes: &[u8]| Entry { path: path.to_owned(), bytes: bytes.to_vec(), is_executable: false };
    let files =
        [file("modelDescription.xml", text.as_bytes()), file("resources/a", &text.as_bytes()[..text.len() / 2])];
    let Ok(packed) = pack(&files) else { return Ok(false) };
    let whole = contents(&packed)?.ok_or("an archive as it was written is refused")?;
    if whole != [text.as_bytes().to_vec(), text.as_bytes()[..text.len() / 2].to_vec()] {
        return Err("an archive gives something else than was put in".to_owned());
    }
    // The changes are a function of the text.
    let mut state = text
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let mut below = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % bound.max(1)
    };
    for _ in 0..8 {
        let mut bytes = packed.clone();
        for _ in 0..=below(4) {
            // The list of contents is at the end.
            let at = if below(2) == 0 { bytes.len().saturating_sub(1 + below(200)) } else { below(bytes.len()) };
            match below(4) {
                0 => bytes.truncate(at),
                1 => bytes.insert(at, below(256) as u8),
                2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][below(5)],
                _ => bytes[at] ^= 1 << below(8),
            }
            if bytes.is_empty() {
                break;
            }
        }
        contents(&bytes)?;
    }
    Ok(read.is_ok())
}

/// The contents of all files of an archive, or nothing if it is refused.
fn contents(bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, String> {
    let limits = Limits { unpacked: 1 << 20, small: 1 << 18, ..Limits::default() };
    let Ok(archive) = Archive::new(bytes.to_vec(), limits) else { return Ok(None) };
    let mut all = Vec::new();
    for entry in archive.entries() {
        let is_inside = entry.path.components().all(|part| matches!(part, std::path::Component::Normal(_)));
        if !is_inside || entry.path == Path::new("") {
            return Err(format!("the entry `{}` leads out of the folder", entry.path.display()));
        }
        match archive.content(&entry.path) {
            Ok(content) => all.push(content),
            Err(_) => return Ok(None),
        }
    }
    let total: usize = all.iter().map(Vec::len).sum();
    if total as u64 > limits.unpacked { Err(format!("{total} bytes were unpacked")) } else { Ok(Some(all)) }
}
