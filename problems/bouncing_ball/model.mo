model BouncingBall "A ball that loses speed at each bounce and comes to rest"
  import Modelica.Units.SI;
  parameter SI.Height h0 = 1 "Height at the start";
  parameter Real e(min=0, max=1) = 0.7 "Part of the speed that a bounce leaves";
  parameter SI.Acceleration g = 9.81 "Gravity";
  parameter SI.Velocity v_rest = 0.01 "Slower balls stay on the ground";
  SI.Position h(start=h0, fixed=true) "Height";
  SI.Velocity v(start=0, fixed=true) "Velocity, upwards";
  Boolean flying(start=true, fixed=true) "Whether it still bounces";
equation
  der(h) = v;
  der(v) = if flying then -g else 0;
  when h <= 0 then
    flying = -e*pre(v) > v_rest;
    reinit(v, if flying then -e*pre(v) else 0);
  end when;
  annotation (experiment(StopTime=2, Interval=0.01));
end BouncingBall;
