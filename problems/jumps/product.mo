model Product "[@barton2002, eq. (4.12)]: an impulse is multiplied by something that jumps at the same time, which has no meaning"
  input Real u1, u2;
  Real x1(start = 0, fixed = true), x2, x3;
equation
  der(x1) + x3*der(x2) = 0;
  x2 = u1;
  x3 = u2;
end Product;
