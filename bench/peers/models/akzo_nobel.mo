model AkzoNobel "The six equations of the test set, rates put in"
  Real y1(start=0.444);
  Real y2(start=0.00123);
  Real y3(start=0);
  Real y4(start=0.007);
  Real y5(start=0);
  Real y6(start=115.83*0.444*0.007);
protected
  Real r1;
  Real r2;
  Real r3;
  Real r4;
  Real r5;
  Real Fin;
equation
  r1 = 18.7*y1^4*sqrt(y2);
  r2 = 0.58*y3*y4;
  r3 = 0.58/34.4*y1*y5;
  r4 = 0.09*y1*y4^2;
  r5 = 0.42*y6^2*sqrt(y2);
  Fin = 3.3*(0.9/737 - y2);
  der(y1) = -2*r1 + r2 - r3 - r4;
  der(y2) = -0.5*r1 - r4 - 0.5*r5 + Fin;
  der(y3) = r1 - r2 + r3;
  der(y4) = -r2 + r3 - 2*r4;
  der(y5) = r2 - r3 + r5;
  0 = 115.83*y1*y4 - y6;
end AkzoNobel;
