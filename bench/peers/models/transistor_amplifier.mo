model TransistorAmplifier "Kirchhoff's law at the eight nodes, with a singular mass matrix"
  parameter Real Ub = 6;
  parameter Real UF = 0.026;
  parameter Real alpha = 0.99;
  parameter Real beta = 1e-6;
  parameter Real R0 = 1000;
  parameter Real R = 9000;
  parameter Real C1 = 1e-6;
  parameter Real C2 = 2e-6;
  parameter Real C3 = 3e-6;
  parameter Real C4 = 4e-6;
  parameter Real C5 = 5e-6;
  Real y1(start=0);
  Real y2(start=3);
  Real y3(start=3);
  Real y4(start=6);
  Real y5(start=3);
  Real y6(start=3);
  Real y7(start=6);
  Real y8(start=0);
protected
  Real Ue;
  Real g1;
  Real g2;
equation
  Ue = 0.1*sin(200*3.141592653589793*time);
  g1 = beta*(exp((y2 - y3)/UF) - 1);
  g2 = beta*(exp((y5 - y6)/UF) - 1);
  -C1*der(y1) + C1*der(y2) = (y1 - Ue)/R0;
  C1*der(y1) - C1*der(y2) = y2/R + (y2 - Ub)/R + (1 - alpha)*g1;
  -C2*der(y3) = y3/R - g1;
  -C3*der(y4) + C3*der(y5) = (y4 - Ub)/R + alpha*g1;
  C3*der(y4) - C3*der(y5) = y5/R + (y5 - Ub)/R + (1 - alpha)*g2;
  -C4*der(y6) = y6/R - g2;
  -C5*der(y7) + C5*der(y8) = (y7 - Ub)/R + alpha*g2;
  C5*der(y7) - C5*der(y8) = y8/R;
end TransistorAmplifier;
