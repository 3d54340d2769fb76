model Borehole "Water Q through a borehole"
  parameter Real rw = 0.1 "Radius of the borehole, m";
  parameter Real r = 3698.25 "Radius of influence, m";
  parameter Real Tu = 89335 "Transmissivity of the upper aquifer, m2/yr";
  parameter Real Hu = 1050 "Potentiometric head of the upper aquifer, m";
  parameter Real Tl = 89.55 "Transmissivity of the lower aquifer, m2/yr";
  parameter Real Hl = 760 "Potentiometric head of the lower aquifer, m";
  parameter Real L = 1400 "Length of the borehole, m";
  parameter Real Kw = 10950 "Hydraulic conductivity of the borehole, m/yr";
  Real ratio "Logarithm of the radii's ratio";
  output Real Q "m3/yr";
equation
  ratio = log(r/rw);
  Q = 2*3.141592653589793*Tu*(Hu - Hl)/(ratio*(1 + 2*L*Tu/(ratio*rw^2*Kw) + Tu/Tl));
end Borehole;
