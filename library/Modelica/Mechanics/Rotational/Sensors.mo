within Modelica.Mechanics.Rotational;
package Sensors "Measurements"
  import Modelica.Mechanics.Rotational.Interfaces;

  model AngleSensor "Angle of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    Modelica.Blocks.Interfaces.RealOutput phi(unit="rad", displayUnit="deg") "Angle";
  equation
    phi = flange.phi;
  end AngleSensor;

  model SpeedSensor "Speed of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    Modelica.Blocks.Interfaces.RealOutput w(unit="rad/s") "Speed";
  equation
    w = der(flange.phi);
  end SpeedSensor;

  model AccSensor "Acceleration of a flange"
    extends Interfaces.PartialAbsoluteSensor;
    SI.AngularVelocity w "Speed";
    Modelica.Blocks.Interfaces.RealOutput a(unit="rad/s2") "Acceleration";
  equation
    w = der(flange.phi);
    a = der(w);
  end AccSensor;

  model RelAngleSensor "Relative angle of two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput phi_rel(unit="rad", displayUnit="deg") "Angle of flange_b less that of flange_a";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    0 = flange_a.tau;
  end RelAngleSensor;

  model RelSpeedSensor "Relative speed of two flanges"
    extends Interfaces.PartialRelativeSensor;
    SI.Angle phi_rel "Angle of flange_b less that of flange_a";
    Modelica.Blocks.Interfaces.RealOutput w_rel(unit="rad/s") "Relative speed";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    w_rel = der(phi_rel);
    0 = flange_a.tau;
  end RelSpeedSensor;

  model RelAccSensor "Relative acceleration of two flanges"
    extends Interfaces.PartialRelativeSensor;
    SI.Angle phi_rel "Angle of flange_b less that of flange_a";
    SI.AngularVelocity w_rel "Relative speed";
    Modelica.Blocks.Interfaces.RealOutput a_rel(unit="rad/s2") "Relative acceleration";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    w_rel = der(phi_rel);
    a_rel = der(w_rel);
    0 = flange_a.tau;
  end RelAccSensor;

  model TorqueSensor "Torque through two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput tau(unit="N.m") "Torque into flange_a";
  equation
    flange_a.phi = flange_b.phi;
    flange_a.tau = tau;
  end TorqueSensor;

  model PowerSensor "Power through two flanges"
    extends Interfaces.PartialRelativeSensor;
    Modelica.Blocks.Interfaces.RealOutput power(unit="W") "Power into flange_a";
  equation
    flange_a.phi = flange_b.phi;
    power = flange_a.tau*der(flange_a.phi);
  end PowerSensor;
end Sensors;
