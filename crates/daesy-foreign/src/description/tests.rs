//! Descriptions of both versions, read whole, refused, and damaged.

use super::*;

const TWO: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<fmiModelDescription fmiVersion="2.0" modelName="Ball" guid="{1}" numberOfEventIndicators="1">
  <ModelExchange modelIdentifier="Ball" providesDirectionalDerivative="true"/>
  <CoSimulation modelIdentifier="Ball" canGetAndSetFMUstate="true"/>
  <TypeDefinitions>
    <SimpleType name="Length"><Real unit="m" nominal="2"/></SimpleType>
    <SimpleType name="Mode"><Enumeration><Item name="off" value="1"/><Item name="on" value="2"/></Enumeration></SimpleType>
  </TypeDefinitions>
  <DefaultExperiment startTime="0" stopTime="3" stepSize="0.01"/>
  <ModelVariables>
    <ScalarVariable name="h" valueReference="0" causality="output" initial="exact"><Real start="1" declaredType="Length"/></ScalarVariable>
    <ScalarVariable name="der(h)" valueReference="1"><Real derivative="1"/></ScalarVariable>
    <ScalarVariable name="g" valueReference="2" causality="parameter" variability="tunable"><Real start="9.81" min="0"/></ScalarVariable>
    <ScalarVariable name="mode" valueReference="3" causality="parameter"><Enumeration declaredType="Mode" start="2"/></ScalarVariable>
    <ScalarVariable name="up" valueReference="4" causality="input" variability="discrete"><Boolean start="true"/></ScalarVariable>
  </ModelVariables>
  <ModelStructure>
    <Outputs><Unknown index="1" dependencies="1"/></Outputs>
    <Derivatives><Unknown index="2" dependencies=""/></Derivatives>
  </ModelStructure>
</fmiModelDescription>"#;

#[test]
fn a_description_of_version_2_is_read_whole() {
    let unit = UnitDescription::read(TWO.as_bytes()).expect("it is a description");
    assert_eq!((unit.version, unit.name.as_str(), unit.token.as_str()), (Version::Two, "Ball", "{1}"));
    assert_eq!((unit.n_indicators, unit.kinds()), (1, vec!["me", "cs"]));
    assert_eq!(unit.interface().expect("has one").0, Kind::ModelExchange);
    assert!(unit.model_exchange.as_ref().is_some_and(|me| me.has_directional_derivatives && !me.has_saved_states));
    assert_eq!(unit.states[0].state, 0);
    assert_eq!(unit.states[0].derivative, Unknown { scalar: 1, dependencies: Some(Vec::new()) });
    assert_eq!(unit.outputs[0].dependencies, Some(vec![0]));
    let h = &unit.scalars[0];
    assert_eq!((h.unit.as_deref(), h.nominal, h.start, h.initial), (Some("m"), Some(2.0), Some(1.0), Initial::Exact));
    assert_eq!(unit.scalars[2].variability, Variability::Tunable);
    assert_eq!(unit.scalars[3].literals.as_ref().map(|mode| mode.names.len()), Some(2));
    assert_eq!((unit.scalars[4].start, unit.scalars[4].causality), (Some(1.0), Causality::Input));
    assert_eq!(unit.experiment.stop, Some(3.0));
}

#[test]
fn arrays_of_version_3_become_scalars() {
    let text = r#"<fmiModelDescription fmiVersion="3.0" modelName="S" instantiationToken="t">
  <ModelExchange modelIdentifier="S"/>
  <ModelVariables>
    <UInt64 name="n" valueReference="1" causality="structuralParameter" variability="fixed" start="2"/>
    <Float64 name="A" valueReference="2" causality="parameter" variability="tunable" start="1 2 3 4">
      <Dimension valueReference="1"/><Dimension start="2"/></Float64>
    <Float64 name="x" valueReference="3" initial="exact" start="5 6"><Dimension start="2"/></Float64>
    <Float64 name="der(x)" valueReference="4" derivative="3"><Dimension start="2"/></Float64>
    <Float64 name="z" valueReference="5"/>
  </ModelVariables>
  <ModelStructure>
    <ContinuousStateDerivative valueReference="4" dependencies="3"/>
    <EventIndicator valueReference="5"/>
  </ModelStructure>
</fmiModelDescription>"#;
    let unit = UnitDescription::read(text.as_bytes()).expect("it is a description");
    let names: Vec<&str> = unit.scalars.iter().map(|scalar| scalar.name.as_str()).collect();
    let wanted = ["n", "A[1,1]", "A[1,2]", "A[2,1]", "A[2,2]", "x[1]", "x[2]", "der(x)[1]", "der(x)[2]", "z"];
    assert_eq!(names, wanted);
    assert_eq!((unit.scalars[3].start, unit.scalars[6].start), (Some(3.0), Some(6.0)));
    assert_eq!(unit.scalars[4].block.size, 4);
    assert_eq!((unit.states[1].state, unit.states[1].derivative.scalar), (6, 8));
    assert_eq!(unit.states[0].derivative.dependencies, Some(vec![5, 6]));
    assert_eq!(unit.n_indicators, 1);
}

#[test]
fn what_is_no_description_is_refused() {
    let code = |text: &str| UnitDescription::read(text.as_bytes()).expect_err("refused").code();
    assert_eq!(code("<a/>"), "fmu-description");
    assert_eq!(code(&TWO.replace("fmiVersion=\"2.0\"", "fmiVersion=\"1.0\"")), "fmu-unsupported");
    assert_eq!(code(&TWO.replace("index=\"2\"", "index=\"77\"")), "fmu-description");
    assert_eq!(code(&TWO.replace("name=\"g\"", "name=\"h\"")), "fmu-description");
    assert_eq!(code(&TWO.replace("modelIdentifier=\"Ball\"", "modelIdentifier=\"../Ball\"")), "fmu-description");
    let entity =
        r#"<!DOCTYPE a [<!ENTITY x SYSTEM "file:///etc/passwd">]><fmiModelDescription>&x;</fmiModelDescription>"#;
    assert_eq!(code(entity), "fmu-description");
    assert_eq!(code(&"<a>".repeat(100_000)), "fmu-description");
}

#[test]
fn a_damaged_description_is_read_or_refused_without_a_panic() {
    for at in (0..TWO.len()).filter(|&at| TWO.is_char_boundary(at)) {
        let _ = UnitDescription::read(&TWO.as_bytes()[..at]);
        for other in ["\"", "<", "9", "-"] {
            let mut changed = TWO.to_owned();
            changed.replace_range(at..=at, other);
            let _ = UnitDescription::read(changed.as_bytes());
        }
    }
}
