model VoltageDivider "Two resistors at a source of 10 V"
  parameter Real R1 = 1000;
  parameter Real R2 = 2000;
  Real i;
  output Real v;
equation
  i = (10 - v)/R1;
  v = R2*i;
end VoltageDivider;
