// Three equations for two variables: the third follows from the others where a = 0, and contradicts them otherwise,
// though not at the start, where sin(time) is zero.
model Contradiction
  parameter Real a = 1;
  Real x(start = 1, fixed = true);
  Real y;
equation
  der(x) = -x;
  y = 2*x;
  der(x) = -y/2 + a*sin(time);
end Contradiction;
