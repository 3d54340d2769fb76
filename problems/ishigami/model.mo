model Ishigami "A function whose sensitivities are known in closed form"
  parameter Real X1 = 0;
  parameter Real X2 = 0;
  parameter Real X3 = 0;
  parameter Real a = 7;
  parameter Real b = 0.1;
  output Real y;
equation
  y = sin(X1) + a*sin(X2)^2 + b*X3^4*sin(X1);
end Ishigami;
