model Feedback "[@campbell2011, Example 7]: strangeness-free with the input as a variable, but not with the input set to zero"
  input Real u(start = 0);
  Real x1(start = 0.2), x2(start = 0.9);
equation
  der(x2) = 0;
  log(x2) + sin(u) = 0;
end Feedback;
