model Crane "A trolley on a rail carries a load on a rope, in Cartesian coordinates"
  import Modelica.Units.SI;
  parameter SI.Mass M = 10 "Trolley";
  parameter SI.Mass m = 4 "Load";
  parameter SI.Length L = 3 "Rope";
  parameter SI.Acceleration g = 9.81 "Gravity";
  parameter SI.TranslationalDampingConstant d = 8 "Friction of the trolley";
  parameter SI.TranslationalDampingConstant c = 0.4 "Drag of the load";
  input SI.Force u "Drive";
  input SI.Force w "Wind on the load";
  SI.Position s(start=0, fixed=true) "Trolley";
  SI.Velocity v(start=0, fixed=true) "Speed of the trolley";
  SI.Position x(start=0, fixed=true) "Load, along the rail";
  SI.Position y(start=-L) "Load, height";
  SI.Velocity vx(start=0, fixed=true) "Speed of the load, along the rail";
  SI.Velocity vy "Speed of the load, upwards";
  Real lambda(unit="N/m", start=m*g/L) "Force in the rope over its length";
  output SI.Angle angle "Angle of the rope";
equation
  der(s) = v;
  M*der(v) = u - d*v + lambda*(x - s);
  der(x) = vx;
  der(y) = vy;
  m*der(vx) = -lambda*(x - s) - c*vx + w;
  m*der(vy) = -lambda*y - c*vy - m*g;
  (x - s)^2 + y^2 = L^2 "The rope is neither longer nor shorter; of index 3";
  angle = atan2(x - s, -y);
  annotation (experiment(StopTime=10, Interval=0.1));
end Crane;
