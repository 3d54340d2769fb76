//! The component library as part of the program.

/// A file of the component library.
macro_rules! library_file {
    ($path:literal) => {
        ($path, include_str!(concat!("../library/", $path)))
    };
}

/// The component library: paths such as `Modelica/Blocks/package.mo`, and texts.
pub const FILES: &[(&str, &str)] = &[
    library_file!("Daesy/Disturbances.mo"),
    library_file!("Daesy/Filters.mo"),
    library_file!("Daesy/Friction.mo"),
    library_file!("Daesy/package.mo"),
    library_file!("Modelica/Blocks/Continuous.mo"),
    library_file!("Modelica/Blocks/Discrete.mo"),
    library_file!("Modelica/Blocks/Icons.mo"),
    library_file!("Modelica/Blocks/Interfaces.mo"),
    library_file!("Modelica/Blocks/Logical.mo"),
    library_file!("Modelica/Blocks/Math.mo"),
    library_file!("Modelica/Blocks/Nonlinear.mo"),
    library_file!("Modelica/Blocks/Routing.mo"),
    library_file!("Modelica/Blocks/Sources.mo"),
    library_file!("Modelica/Blocks/Types.mo"),
    library_file!("Modelica/Blocks/package.mo"),
    library_file!("Modelica/Constants.mo"),
    library_file!("Modelica/Electrical/Analog/Basic.mo"),
    library_file!("Modelica/Electrical/Analog/Ideal.mo"),
    library_file!("Modelica/Electrical/Analog/Interfaces.mo"),
    library_file!("Modelica/Electrical/Analog/Semiconductors.mo"),
    library_file!("Modelica/Electrical/Analog/Sensors.mo"),
    library_file!("Modelica/Electrical/Analog/Sources.mo"),
    library_file!("Modelica/Electrical/Analog/package.mo"),
    library_file!("Modelica/Electrical/package.mo"),
    library_file!("Modelica/Icons.mo"),
    library_file!("Modelica/Math.mo"),
    library_file!("Modelica/Mechanics/Rotational/Components.mo"),
    library_file!("Modelica/Mechanics/Rotational/Interfaces.mo"),
    library_file!("Modelica/Mechanics/Rotational/Sensors.mo"),
    library_file!("Modelica/Mechanics/Rotational/Sources.mo"),
    library_file!("Modelica/Mechanics/Rotational/package.mo"),
    library_file!("Modelica/Mechanics/Translational/Components.mo"),
    library_file!("Modelica/Mechanics/Translational/Interfaces.mo"),
    library_file!("Modelica/Mechanics/Translational/Sensors.mo"),
    library_file!("Modelica/Mechanics/Translational/Sources.mo"),
    library_file!("Modelica/Mechanics/Translational/package.mo"),
    library_file!("Modelica/Mechanics/package.mo"),
    library_file!("Modelica/SIunits.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/Celsius.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/Components.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/Interfaces.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/Sensors.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/Sources.mo"),
    library_file!("Modelica/Thermal/HeatTransfer/package.mo"),
    library_file!("Modelica/Thermal/package.mo"),
    library_file!("Modelica/Units.mo"),
    library_file!("Modelica/package.mo"),
];

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn list(folder: &Path, prefix: &str, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(folder).expect("the library is there") {
            let path = entry.expect("it can be listed").path();
            let name = path.file_name().and_then(|name| name.to_str()).expect("names are plain");
            if path.is_dir() {
                list(&path, &format!("{prefix}{name}/"), found);
            } else if name.ends_with(".mo") {
                found.push(format!("{prefix}{name}"));
            }
        }
    }

    #[test]
    fn every_file_of_the_library_is_embedded() {
        let mut found = Vec::new();
        list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../library"), "", &mut found);
        found.sort();
        let embedded: Vec<&str> = FILES.iter().map(|(path, _)| *path).collect();
        assert_eq!(embedded, found);
    }
}
