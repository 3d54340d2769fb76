model PipeNetwork "Water in pipes that part and meet again, a source that jumps, a valve that closes fast"
  parameter Real I[4] = {1.0, 2.0, 1.5, 0.5} "Inertia of the water in each pipe";
  parameter Real k[4] = {0.5, 0.3, 0.7, 0.2} "Losses";
  parameter Real closed = 4.0 "Loss of the valve when it is closed as far as it goes";
  parameter Real A = 2.0 "Area of the tank";
  parameter Real g = 9.81;
  Real q[4] "Flows";
  Real pa "Pressure where the pipes part", pb "Pressure where they meet";
  Real h(start = 1, fixed = true) "Level of the tank behind the valve";
  Real source, valve, outflow;
initial equation
  q[2] = 0.2;
  q[3] = 0.1;
equation
  source = 12 + sin(time) + (if time < 4 then 0 else 6);
  valve = if time < 8 then 0 elseif time < 8.05 then closed*(time - 8)/0.05 else closed;
  q[1] = q[2] + q[3];
  q[4] = q[2] + q[3];
  I[1]*der(q[1]) = source - pa - k[1]*q[1]*abs(q[1]);
  I[2]*der(q[2]) = pa - pb - k[2]*q[2]*abs(q[2]);
  I[3]*der(q[3]) = pa - pb - k[3]*q[3]*abs(q[3]);
  I[4]*der(q[4]) = pb - g*h - (k[4] + valve)*q[4]*abs(q[4]);
  outflow = 0.8*sqrt(h);
  A*der(h) = q[4] - outflow;
end PipeNetwork;
