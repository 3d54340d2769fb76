model Carriage "The carriage of the positioning axis (EMPS) under its measured command, with friction as most people write it"
  import Modelica.Units.SI;
  parameter SI.Mass M = 95 "Inertia of motor, screw and carriage, as a mass";
  parameter SI.TranslationalDampingConstant Fv = 200 "Viscous friction";
  parameter SI.Force Fc = 20 "Dry friction";
  parameter SI.Force offset = -3 "Friction that does not change its sign";
  parameter Real gain(unit="N/V") = 35.15065188 "Force per command";
  input SI.Voltage vir "Measured command";
  input Real way "Sense of the measured motion: -1, 0 or 1";
  input SI.Force missing "What the model leaves out";
  SI.Position q(start=0) "Position";
  SI.Velocity v(start=0) "Speed";
equation
  der(q) = v;
  M*der(v) = gain*vir - Fv*v - Fc*way - offset + missing;
end Carriage;
