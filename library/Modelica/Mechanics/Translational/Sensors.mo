within Modelica.Mechanics.Translational;
package Sensors "Measurements"
  import Modelica.Mechanics.Translational.Interfaces;

  model PositionSensor "Position of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    Modelica.Blocks.Interfaces.RealOutput s(unit="m") "Position";
  equation
    s = flange.s;
  end PositionSensor;

  model SpeedSensor "Speed of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    Modelica.Blocks.Interfaces.RealOutput v(unit="m/s") "Speed";
  equation
    v = der(flange.s);
  end SpeedSensor;

  model AccSensor "Acceleration of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    SI.Velocity v "Speed";
    Modelica.Blocks.Interfaces.RealOutput a(unit="m/s2") "Acceleration";
  equation
    v = der(flange.s);
    a = der(v);
  end AccSensor;

  model RelPositionSensor "Relative position of two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput s_rel(unit="m") "Position of flange_b less that of flange_a";
  equation
    s_rel = flange_b.s - flange_a.s;
    0 = flange_a.f;
  end RelPositionSensor;

  model RelSpeedSensor "Relative speed of two flanges"
    extends Interfaces.PartialRelativeSensor;
    SI.Position s_rel "Position of flange_b less that of flange_a";
    Modelica.Blocks.Interfaces.RealOutput v_rel(unit="m/s") "Relative speed";
  equation
    s_rel = flange_b.s - flange_a.s;
    v_rel = der(s_rel);
    0 = flange_a.f;
  end RelSpeedSensor;

  model RelAccSensor "Relative acceleration of two flanges"
    extends Interfaces.PartialRelativeSensor;
    SI.Position s_rel "Position of flange_b less that of flange_a";
    SI.Velocity v_rel "Relative speed";
    Modelica.Blocks.Interfaces.RealOutput a_rel(unit="m/s2") "Relative acceleration";
  equation
    s_rel = flange_b.s - flange_a.s;
    v_rel = der(s_rel);
    a_rel = der(v_rel);
    0 = flange_a.f;
  end RelAccSensor;

  model ForceSensor "Force through two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput f(unit="N") "Force into flange_a";
  equation
    flange_a.s = flange_b.s;
    flange_a.f = f;
  end ForceSensor;

  model PowerSensor "Power through two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput power(unit="W") "Power into flange_a";
  equation
    flange_a.s = flange_b.s;
    power = flange_a.f*der(flange_a.s);
  end PowerSensor;
end Sensors;
