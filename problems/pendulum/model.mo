model Pendulum "A pendulum with drag in Cartesian coordinates, pushed by a known and an unknown force"
  import Modelica.Units.SI;
  parameter SI.Mass m = 0.3 "Mass";
  parameter SI.Acceleration g = 9.81 "Gravity";
  parameter Real k(unit="kg/m") = 0.05 "Drag";
  parameter SI.Length L = 6.25 "Length of the arm";
  input SI.Force u "Known force";
  input Real w "Unknown disturbance; its square is a force";
  SI.Position x1(start=0, fixed=true) "Horizontal position";
  SI.Position x2(start=-L) "Vertical position";
  Real x3(unit="N/m", start=-m*g/L) "Tension per length of the arm";
  SI.Velocity x4(start=0, fixed=true) "Horizontal velocity";
  SI.Velocity x5(start=0) "Vertical velocity";
  output SI.Angle y "Measured angle between the arm and the downward vertical";
protected
  constant SI.Force newton = 1 "Unit of the disturbing force";
equation
  der(x1) = x4;
  der(x2) = x5;
  m*der(x4) = x3*x1 - k*abs(x4)*x4 + u + newton*w^2;
  m*der(x5) = x3*x2 - k*abs(x5)*x5 - m*g;
  L^2 = x1^2 + x2^2;
  y = atan(x1/(-x2));
  annotation (experiment(StopTime=10, Interval=0.1));
end Pendulum;
