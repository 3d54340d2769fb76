model Axis "A motor moves a carriage on a ball screw; a digital controller follows a reference (EMPS)"
  import Modelica.Units.SI;
  import Modelica.Mechanics.Translational;

  block Controller "Position and speed loop, sampled once a millisecond"
    parameter Real kp(unit="1/s") = 160.18 "Speed wanted per position error";
    parameter Real kv(unit="V.s/m") = 243.45 "Voltage per speed error";
    parameter SI.Voltage limit = 10 "Largest command";
    parameter SI.Time period = 0.001 "Sampling period";
    Modelica.Blocks.Interfaces.RealInput reference(unit="m") "Where the carriage should be";
    Modelica.Blocks.Interfaces.RealInput s(unit="m") "Where it is";
    Modelica.Blocks.Interfaces.RealOutput command(unit="V") "To the amplifier";
    Modelica.Blocks.Interfaces.RealOutput held(unit="V") "The command as the sampling delays it";
    SI.Velocity v(start=0, fixed=true) "Speed as the difference of two samples gives it";
  equation
    period/2*der(v) = der(s) - v "A difference of two samples is half a period late";
    command = noEvent(min(limit, max(-limit, kv*(kp*(reference - s) - v))));
    period/2*der(held) = command - held "A command held for a period is half a period late";
  initial equation
    held = command;
  end Controller;

  parameter SI.Mass M = 90 "Inertia of motor, screw and carriage, as a mass";
  parameter SI.TranslationalDampingConstant Fv = 150 "Viscous friction";
  parameter SI.Force Fc = 15 "Dry friction";
  parameter SI.Force offset = 0 "Friction that does not change its sign";
  parameter Real gain(unit="N/V") = 35.15065188 "Force per command";
  parameter SI.Position start = 0 "Where the carriage begins";
  input SI.Position qg "Reference";
  output SI.Position q "Position of the carriage";
  output SI.Voltage vir "Command to the amplifier";
  Translational.Components.Mass carriage(m=M, s(start=start, fixed=true), v(start=0, fixed=true)) "All that moves";
  Daesy.Friction.Translational slide(f_dry=Fc, d=Fv) "Friction";
  Translational.Sources.Force drive "Motor and amplifier";
  Translational.Sensors.PositionSensor encoder "Measured position";
  Controller controller "Controller";
equation
  connect(drive.flange, carriage.flange_a);
  connect(slide.flange, carriage.flange_b);
  connect(encoder.flange, carriage.flange_b);
  connect(encoder.s, controller.s);
  controller.reference = qg;
  drive.f = gain*controller.held - offset;
  q = carriage.s;
  vir = controller.command;
  annotation (experiment(StopTime=25, Interval=0.001));
end Axis;
