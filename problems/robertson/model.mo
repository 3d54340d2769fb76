model Robertson "Three species whose rates differ by nine orders of magnitude"
  Real y1(start=1, fixed=true) "First species";
  Real y2(start=0, fixed=true, nominal=1e-5) "Second species";
  Real y3(start=0) "Third species";
equation
  der(y1) = -0.04*y1 + 1e4*y2*y3;
  der(y2) = 0.04*y1 - 1e4*y2*y3 - 3e7*y2^2;
  0 = y1 + y2 + y3 - 1;
  annotation (experiment(StopTime=1e11));
end Robertson;
