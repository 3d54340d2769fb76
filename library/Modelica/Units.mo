within Modelica;
package Units "Physical quantities with their units"
  package SI "Quantities in SI units"
    // Space and time
    type Angle = Real(final quantity="Angle", final unit="rad", displayUnit="deg") "Angle";
    type SolidAngle = Real(final quantity="SolidAngle", final unit="sr") "Solid angle";
    type Length = Real(final quantity="Length", final unit="m") "Length";
    type PathLength = Length "Path length";
    type Position = Length "Position";
    type Distance = Length(min=0) "Distance";
    type Breadth = Length(min=0) "Breadth";
    type Height = Length(min=0) "Height";
    type Thickness = Length(min=0) "Thickness";
    type Radius = Length(min=0) "Radius";
    type Diameter = Length(min=0) "Diameter";
    type Area = Real(final quantity="Area", final unit="m2") "Area";
    type Volume = Real(final quantity="Volume", final unit="m3") "Volume";
    type Time = Real(final quantity="Time", final unit="s") "Time";
    type Duration = Time "Duration";
    type AngularVelocity = Real(final quantity="AngularVelocity", final unit="rad/s") "Angular velocity";
    type AngularAcceleration = Real(final quantity="AngularAcceleration", final unit="rad/s2") "Angular acceleration";
    type AngularJerk = Real(final quantity="AngularJerk", final unit="rad/s3") "Angular jerk";
    type Velocity = Real(final quantity="Velocity", final unit="m/s") "Velocity";
    type Acceleration = Real(final quantity="Acceleration", final unit="m/s2") "Acceleration";
    type Jerk = Real(final quantity="Jerk", final unit="m/s3") "Jerk";
    type Period = Real(final quantity="Time", final unit="s") "Period";
    type Frequency = Real(final quantity="Frequency", final unit="Hz") "Frequency";
    type AngularFrequency = Real(final quantity="AngularFrequency", final unit="rad/s") "Angular frequency";
    type Wavelength = Real(final quantity="Wavelength", final unit="m") "Wavelength";
    type WaveNumber = Real(final quantity="WaveNumber", final unit="1/m") "Wave number";
    type DampingCoefficient = Real(final quantity="DampingCoefficient", final unit="1/s") "Damping coefficient";
    // Mechanics
    type Mass = Real(final quantity="Mass", final unit="kg", min=0) "Mass";
    type Density = Real(final quantity="Density", final unit="kg/m3", displayUnit="g/cm3", min=0) "Density";
    type SpecificVolume = Real(final quantity="SpecificVolume", final unit="m3/kg", min=0) "Specific volume";
    type LinearDensity = Real(final quantity="LinearDensity", final unit="kg/m", min=0) "Linear density";
    type Momentum = Real(final quantity="Momentum", final unit="kg.m/s") "Momentum";
    type Impulse = Real(final quantity="Impulse", final unit="N.s") "Impulse";
    type AngularMomentum = Real(final quantity="AngularMomentum", final unit="kg.m2/s") "Angular momentum";
    type MomentOfInertia = Real(final quantity="MomentOfInertia", final unit="kg.m2") "Moment of inertia";
    type Inertia = MomentOfInertia "Inertia";
    type Force = Real(final quantity="Force", final unit="N") "Force";
    type TranslationalSpringConstant = Real(final quantity="TranslationalSpringConstant", final unit="N/m") "Translational spring constant";
    type TranslationalDampingConstant = Real(final quantity="TranslationalDampingConstant", final unit="N.s/m") "Translational damping constant";
    type Weight = Force "Weight";
    type Torque = Real(final quantity="Torque", final unit="N.m") "Torque";
    type MomentOfForce = Torque "Moment of force";
    type RotationalSpringConstant = Real(final quantity="RotationalSpringConstant", final unit="N.m/rad") "Rotational spring constant";
    type RotationalDampingConstant = Real(final quantity="RotationalDampingConstant", final unit="N.m.s/rad") "Rotational damping constant";
    type ElectricalTorqueConstant = Real(final quantity="ElectricalTorqueConstant", final unit="N.m/A") "Electrical torque constant";
    type ElectricalForceConstant = Real(final quantity="ElectricalForceConstant", final unit="N/A") "Electrical force constant";
    type Pressure = Real(final quantity="Pressure", final unit="Pa", displayUnit="bar") "Pressure";
    type AbsolutePressure = Pressure(min=0.0, nominal=1e5) "Absolute pressure";
    type PressureDifference = Pressure "Pressure difference";
    type BulkModulus = AbsolutePressure "Bulk modulus";
    type Stress = Real(final quantity="Stress", final unit="Pa") "Stress";
    type NormalStress = Stress "Normal stress";
    type ModulusOfElasticity = Stress "Modulus of elasticity";
    type ShearModulus = Stress "Shear modulus";
    type SecondMomentOfArea = Real(final quantity="SecondMomentOfArea", final unit="m4") "Second moment of area";
    type CoefficientOfFriction = Real(final quantity="CoefficientOfFriction", final unit="1") "Coefficient of friction";
    type DynamicViscosity = Real(final quantity="DynamicViscosity", final unit="Pa.s", min=0) "Dynamic viscosity";
    type KinematicViscosity = Real(final quantity="KinematicViscosity", final unit="m2/s", min=0) "Kinematic viscosity";
    type SurfaceTension = Real(final quantity="SurfaceTension", final unit="N/m") "Surface tension";
    type Work = Real(final quantity="Work", final unit="J") "Work";
    type Energy = Real(final quantity="Energy", final unit="J") "Energy";
    type PotentialEnergy = Energy "Potential energy";
    type KineticEnergy = Energy "Kinetic energy";
    type Power = Real(final quantity="Power", final unit="W") "Power";
    type EnergyFlowRate = Real(final quantity="Power", final unit="W") "Energy flow rate";
    type EnthalpyFlowRate = Real(final quantity="EnthalpyFlowRate", final unit="W") "Enthalpy flow rate";
    type Efficiency = Real(final quantity="Efficiency", final unit="1", min=0) "Efficiency";
    type MassFlowRate = Real(final quantity="MassFlowRate", final unit="kg/s") "Mass flow rate";
    type VolumeFlowRate = Real(final quantity="VolumeFlowRate", final unit="m3/s") "Volume flow rate";
    // Heat
    type ThermodynamicTemperature = Real(final quantity="ThermodynamicTemperature", final unit="K", min=0.0, start=288.15, nominal=300, displayUnit="degC") "Thermodynamic temperature";
    type Temperature = ThermodynamicTemperature "Temperature";
    type TemperatureDifference = Real(final quantity="ThermodynamicTemperature", final unit="K") "Temperature difference";
    type TemperatureSlope = Real(final quantity="TemperatureSlope", final unit="K/s") "Temperature slope";
    type LinearTemperatureCoefficient = Real(final quantity="LinearTemperatureCoefficient", final unit="1/K") "Linear temperature coefficient";
    type QuadraticTemperatureCoefficient = Real(final quantity="QuadraticTemperatureCoefficient", final unit="1/K2") "Quadratic temperature coefficient";
    type LinearExpansionCoefficient = Real(final quantity="LinearExpansionCoefficient", final unit="1/K") "Linear expansion coefficient";
    type CubicExpansionCoefficient = Real(final quantity="CubicExpansionCoefficient", final unit="1/K") "Cubic expansion coefficient";
    type Heat = Real(final quantity="Energy", final unit="J") "Heat";
    type HeatFlowRate = Real(final quantity="Power", final unit="W") "Heat flow rate";
    type HeatFlux = Real(final quantity="HeatFlux", final unit="W/m2") "Heat flux";
    type ThermalConductivity = Real(final quantity="ThermalConductivity", final unit="W/(m.K)") "Thermal conductivity";
    type CoefficientOfHeatTransfer = Real(final quantity="CoefficientOfHeatTransfer", final unit="W/(m2.K)") "Coefficient of heat transfer";
    type ThermalInsulance = Real(final quantity="ThermalInsulance", final unit="m2.K/W") "Thermal insulance";
    type ThermalResistance = Real(final quantity="ThermalResistance", final unit="K/W") "Thermal resistance";
    type ThermalConductance = Real(final quantity="ThermalConductance", final unit="W/K") "Thermal conductance";
    type ThermalDiffusivity = Real(final quantity="ThermalDiffusivity", final unit="m2/s") "Thermal diffusivity";
    type HeatCapacity = Real(final quantity="HeatCapacity", final unit="J/K") "Heat capacity";
    type SpecificHeatCapacity = Real(final quantity="SpecificHeatCapacity", final unit="J/(kg.K)") "Specific heat capacity";
    type Entropy = Real(final quantity="Entropy", final unit="J/K") "Entropy";
    type SpecificEntropy = Real(final quantity="SpecificEntropy", final unit="J/(kg.K)") "Specific entropy";
    type InternalEnergy = Heat "Internal energy";
    type Enthalpy = Heat "Enthalpy";
    type SpecificEnergy = Real(final quantity="SpecificEnergy", final unit="J/kg") "Specific energy";
    type SpecificInternalEnergy = SpecificEnergy "Specific internal energy";
    type SpecificEnthalpy = SpecificEnergy "Specific enthalpy";
    type Emissivity = Real(final quantity="Emissivity", final unit="1", min=0, max=1) "Emissivity";
    // Electricity and magnetism
    type ElectricCurrent = Real(final quantity="ElectricCurrent", final unit="A") "Electric current";
    type Current = ElectricCurrent "Current";
    type CurrentSlope = Real(final quantity="CurrentSlope", final unit="A/s") "Current slope";
    type CurrentDensity = Real(final quantity="CurrentDensity", final unit="A/m2") "Current density";
    type ElectricCharge = Real(final quantity="ElectricCharge", final unit="C") "Electric charge";
    type Charge = ElectricCharge "Charge";
    type ElectricFieldStrength = Real(final quantity="ElectricFieldStrength", final unit="V/m") "Electric field strength";
    type ElectricPotential = Real(final quantity="ElectricPotential", final unit="V") "Electric potential";
    type Voltage = ElectricPotential "Voltage";
    type PotentialDifference = ElectricPotential "Potential difference";
    type ElectromotiveForce = ElectricPotential "Electromotive force";
    type VoltageSlope = Real(final quantity="VoltageSlope", final unit="V/s") "Voltage slope";
    type Capacitance = Real(final quantity="Capacitance", final unit="F", min=0) "Capacitance";
    type Permittivity = Real(final quantity="Permittivity", final unit="F/m", min=0) "Permittivity";
    type MagneticFieldStrength = Real(final quantity="MagneticFieldStrength", final unit="A/m") "Magnetic field strength";
    type MagneticPotentialDifference = Real(final quantity="MagneticPotential", final unit="A") "Magnetic potential difference";
    type MagneticFluxDensity = Real(final quantity="MagneticFluxDensity", final unit="T") "Magnetic flux density";
    type MagneticFlux = Real(final quantity="MagneticFlux", final unit="Wb") "Magnetic flux";
    type Inductance = Real(final quantity="Inductance", final unit="H") "Inductance";
    type SelfInductance = Inductance(min=0) "Self inductance";
    type MutualInductance = Inductance "Mutual inductance";
    type Permeability = Real(final quantity="Permeability", final unit="H/m") "Permeability";
    type Reluctance = Real(final quantity="Reluctance", final unit="H-1") "Reluctance";
    type Resistance = Real(final quantity="Resistance", final unit="Ohm") "Resistance";
    type Resistivity = Real(final quantity="Resistivity", final unit="Ohm.m") "Resistivity";
    type Conductance = Real(final quantity="Conductance", final unit="S") "Conductance";
    type Conductivity = Real(final quantity="Conductivity", final unit="S/m") "Conductivity";
    type Reactance = Resistance "Reactance";
    type Impedance = Resistance "Impedance";
    type Admittance = Conductance "Admittance";
    type ActivePower = Real(final quantity="Power", final unit="W") "Active power";
    type ApparentPower = Real(final quantity="Power", final unit="V.A") "Apparent power";
    type ReactivePower = Real(final quantity="Power", final unit="var") "Reactive power";
    type LossAngle = Angle "Loss angle";
    type PhaseDifference = Angle "Phase difference";
    // Chemistry and radiation
    type AmountOfSubstance = Real(final quantity="AmountOfSubstance", final unit="mol", min=0) "Amount of substance";
    type MolarMass = Real(final quantity="MolarMass", final unit="kg/mol", min=0) "Molar mass";
    type MolarVolume = Real(final quantity="MolarVolume", final unit="m3/mol", min=0) "Molar volume";
    type MolarFlowRate = Real(final quantity="MolarFlowRate", final unit="mol/s") "Molar flow rate";
    type MolarEnergy = Real(final quantity="MolarEnergy", final unit="J/mol") "Molar energy";
    type MolarHeatCapacity = Real(final quantity="MolarHeatCapacity", final unit="J/(mol.K)") "Molar heat capacity";
    type Concentration = Real(final quantity="Concentration", final unit="mol/m3") "Concentration";
    type MassConcentration = Real(final quantity="MassConcentration", final unit="kg/m3") "Mass concentration";
    type MassFraction = Real(final quantity="MassFraction", final unit="1", min=0, max=1) "Mass fraction";
    type MoleFraction = Real(final quantity="MoleFraction", final unit="1", min=0, max=1) "Mole fraction";
    type Irradiance = Real(final quantity="Irradiance", final unit="W/m2") "Irradiance";
    type LuminousFlux = Real(final quantity="LuminousFlux", final unit="lm") "Luminous flux";
    type Illuminance = Real(final quantity="Illuminance", final unit="lx") "Illuminance";
    // Dimensionless
    type DimensionlessRatio = Real(final unit="1") "Dimensionless ratio";
  end SI;

  package NonSI "Quantities in other units"
    type Temperature_degC = Real(final quantity="ThermodynamicTemperature", final unit="degC") "Temperature in degC";
    type Temperature_degF = Real(final quantity="ThermodynamicTemperature", final unit="degF") "Temperature in degF";
    type Angle_deg = Real(final quantity="Angle", final unit="deg") "Angle in deg";
    type AngularVelocity_rpm = Real(final quantity="AngularVelocity", final unit="rev/min") "Angular velocity in rev/min";
    type Velocity_kmh = Real(final quantity="Velocity", final unit="km/h") "Velocity in km/h";
    type Time_day = Real(final quantity="Time", final unit="d") "Time in d";
    type Time_hour = Real(final quantity="Time", final unit="h") "Time in h";
    type Time_minute = Real(final quantity="Time", final unit="min") "Time in min";
    type Volume_litre = Real(final quantity="Volume", final unit="l") "Volume in l";
    type Energy_kWh = Real(final quantity="Energy", final unit="kW.h") "Energy in kW.h";
    type Pressure_bar = Real(final quantity="Pressure", final unit="bar") "Pressure in bar";
    type MassFlowRate_gps = Real(final quantity="MassFlowRate", final unit="g/s") "Mass flow rate in g/s";
  end NonSI;

  package Conversions "From SI units to others and back"
    function to_degC "SI unit to degrees Celsius"
      extends Modelica.Icons.Function;
      input SI.Temperature Kelvin "Given value";
      output NonSI.Temperature_degC Celsius "Converted value";
    algorithm
      Celsius := Kelvin + Modelica.Constants.T_zero;
      annotation (Inline=true);
    end to_degC;

    function from_degC "Degrees Celsius to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Temperature_degC Celsius "Given value";
      output SI.Temperature Kelvin "Converted value";
    algorithm
      Kelvin := Celsius - Modelica.Constants.T_zero;
      annotation (Inline=true);
    end from_degC;

    function to_degF "SI unit to degrees Fahrenheit"
      extends Modelica.Icons.Function;
      input SI.Temperature Kelvin "Given value";
      output NonSI.Temperature_degF Fahrenheit "Converted value";
    algorithm
      Fahrenheit := (Kelvin + Modelica.Constants.T_zero)*9/5 + 32;
      annotation (Inline=true);
    end to_degF;

    function from_degF "Degrees Fahrenheit to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Temperature_degF Fahrenheit "Given value";
      output SI.Temperature Kelvin "Converted value";
    algorithm
      Kelvin := (Fahrenheit - 32)*5/9 - Modelica.Constants.T_zero;
      annotation (Inline=true);
    end from_degF;

    function to_deg "SI unit to degrees"
      extends Modelica.Icons.Function;
      input SI.Angle radian "Given value";
      output NonSI.Angle_deg degree "Converted value";
    algorithm
      degree := (180/Modelica.Constants.pi)*radian;
      annotation (Inline=true);
    end to_deg;

    function from_deg "Degrees to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Angle_deg degree "Given value";
      output SI.Angle radian "Converted value";
    algorithm
      radian := (Modelica.Constants.pi/180)*degree;
      annotation (Inline=true);
    end from_deg;

    function to_rpm "SI unit to turns in a minute"
      extends Modelica.Icons.Function;
      input SI.AngularVelocity rs "Given value";
      output NonSI.AngularVelocity_rpm rpm "Converted value";
    algorithm
      rpm := (30/Modelica.Constants.pi)*rs;
      annotation (Inline=true);
    end to_rpm;

    function from_rpm "Turns in a minute to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.AngularVelocity_rpm rpm "Given value";
      output SI.AngularVelocity rs "Converted value";
    algorithm
      rs := (Modelica.Constants.pi/30)*rpm;
      annotation (Inline=true);
    end from_rpm;

    function to_kmh "SI unit to kilometres in an hour"
      extends Modelica.Icons.Function;
      input SI.Velocity ms "Given value";
      output NonSI.Velocity_kmh kmh "Converted value";
    algorithm
      kmh := 3.6*ms;
      annotation (Inline=true);
    end to_kmh;

    function from_kmh "Kilometres in an hour to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Velocity_kmh kmh "Given value";
      output SI.Velocity ms "Converted value";
    algorithm
      ms := kmh/3.6;
      annotation (Inline=true);
    end from_kmh;

    function to_day "SI unit to days"
      extends Modelica.Icons.Function;
      input SI.Time s "Given value";
      output NonSI.Time_day day "Converted value";
    algorithm
      day := s/86400;
      annotation (Inline=true);
    end to_day;

    function from_day "Days to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Time_day day "Given value";
      output SI.Time s "Converted value";
    algorithm
      s := 86400*day;
      annotation (Inline=true);
    end from_day;

    function to_hour "SI unit to hours"
      extends Modelica.Icons.Function;
      input SI.Time s "Given value";
      output NonSI.Time_hour hour "Converted value";
    algorithm
      hour := s/3600;
      annotation (Inline=true);
    end to_hour;

    function from_hour "Hours to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Time_hour hour "Given value";
      output SI.Time s "Converted value";
    algorithm
      s := 3600*hour;
      annotation (Inline=true);
    end from_hour;

    function to_minute "SI unit to minutes"
      extends Modelica.Icons.Function;
      input SI.Time s "Given value";
      output NonSI.Time_minute minute "Converted value";
    algorithm
      minute := s/60;
      annotation (Inline=true);
    end to_minute;

    function from_minute "Minutes to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Time_minute minute "Given value";
      output SI.Time s "Converted value";
    algorithm
      s := 60*minute;
      annotation (Inline=true);
    end from_minute;

    function to_litre "SI unit to litres"
      extends Modelica.Icons.Function;
      input SI.Volume m3 "Given value";
      output NonSI.Volume_litre litre "Converted value";
    algorithm
      litre := 1000*m3;
      annotation (Inline=true);
    end to_litre;

    function from_litre "Litres to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Volume_litre litre "Given value";
      output SI.Volume m3 "Converted value";
    algorithm
      m3 := litre/1000;
      annotation (Inline=true);
    end from_litre;

    function to_kWh "SI unit to kilowatt hours"
      extends Modelica.Icons.Function;
      input SI.Energy J "Given value";
      output NonSI.Energy_kWh kWh "Converted value";
    algorithm
      kWh := J/3.6e6;
      annotation (Inline=true);
    end to_kWh;

    function from_kWh "Kilowatt hours to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Energy_kWh kWh "Given value";
      output SI.Energy J "Converted value";
    algorithm
      J := 3.6e6*kWh;
      annotation (Inline=true);
    end from_kWh;

    function to_bar "SI unit to bar"
      extends Modelica.Icons.Function;
      input SI.Pressure Pa "Given value";
      output NonSI.Pressure_bar bar "Converted value";
    algorithm
      bar := Pa/1e5;
      annotation (Inline=true);
    end to_bar;

    function from_bar "Bar to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.Pressure_bar bar "Given value";
      output SI.Pressure Pa "Converted value";
    algorithm
      Pa := 1e5*bar;
      annotation (Inline=true);
    end from_bar;

    function to_gps "SI unit to grams in a second"
      extends Modelica.Icons.Function;
      input SI.MassFlowRate kgps "Given value";
      output NonSI.MassFlowRate_gps gps "Converted value";
    algorithm
      gps := 1000*kgps;
      annotation (Inline=true);
    end to_gps;

    function from_gps "Grams in a second to SI unit"
      extends Modelica.Icons.Function;
      input NonSI.MassFlowRate_gps gps "Given value";
      output SI.MassFlowRate kgps "Converted value";
    algorithm
      kgps := gps/1000;
      annotation (Inline=true);
    end from_gps;

  end Conversions;
end Units;
