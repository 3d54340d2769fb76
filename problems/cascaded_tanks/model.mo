model CascadedTanks "A pump fills an upper tank, which runs into a lower one; both may overflow"

  connector Port "Water"
    Real level(unit="V") "Level, as the sensor would show it";
    flow Real rate(unit="V/s") "Rate of change of the level, into the component";
  end Port;

  model Tank "Open tank"
    parameter Real start(unit="V") = 5 "Level at the beginning";
    Port port "Water in and out";
    Real level(unit="V", start=start, fixed=true) "Level";
  equation
    der(level) = port.rate;
    port.level = level;
  end Tank;

  model Outlet "Hole in the bottom, by Torricelli's law, with a correction for what follows it"
    parameter Real k(unit="V(1/2)/s") = 0.05 "Coefficient of the hole";
    parameter Real c(unit="1/s") = 0 "Correction for losses in the hose, per level: less than the law at high levels";
    parameter Real depth(unit="V") = 0 "How far the hole is below the zero of the sensor";
    Port upper "Tank above";
    Real rate(unit="V/s") "What leaves the tank above";
  equation
    rate = k*sqrt(noEvent(max(upper.level + depth, 1e-6))) + c*(upper.level + depth);
    upper.rate = rate;
  end Outlet;

  model Weir "Water that runs over the edge"
    parameter Real edge(unit="V") = 10 "Level of the edge";
    parameter Real c(unit="1/s") = 0.1 "Rate per level above the edge";
    Port upper "Tank above";
    Real rate(unit="V/s") "What runs over";
  equation
    rate = c*noEvent(max(upper.level - edge, 0));
    upper.rate = rate;
  end Weir;

  model Inflow "Water from outside"
    input Real rate(unit="V/s") "How much";
    Port port "Where to";
  equation
    port.rate = -rate;
  end Inflow;

  parameter Real pump(unit="1/s") = 0.05 "Rate of the upper level per pump voltage";
  parameter Real area = 1 "Area of the upper tank over that of the lower";
  parameter Real share = 0.8 "Share of the overflow that reaches the lower tank";
  input Real u(unit="V") "Pump voltage";
  parameter Real film(unit="V") = 0 "What the sensor shows too much while it is wet";
  input Real leak(unit="V/s") "Water that comes and goes unseen";
  input Real spill "How the share of the overflow that reaches the lower tank changes";
  input Real wet "1 while water clings to the sensor";
  output Real y(unit="V") "Measured level of the lower tank";
  Tank upper "Upper tank";
  Tank lower "Lower tank";
  Outlet hole1 "From the upper to the lower tank";
  Outlet hole2 "From the lower tank to the reservoir";
  Weir edge1 "Edge of the upper tank";
  Weir edge2(edge=10, c=1) "Edge of the lower tank";
  Inflow supply(rate=pump*u) "Pump";
  Inflow falling(rate=area*(hole1.rate + (share + spill)*edge1.rate) + leak) "Water from above";
equation
  connect(supply.port, upper.port);
  connect(hole1.upper, upper.port);
  connect(edge1.upper, upper.port);
  connect(falling.port, lower.port);
  connect(hole2.upper, lower.port);
  connect(edge2.upper, lower.port);
  y = lower.level + film*wet;
  annotation (experiment(StopTime=4092, Interval=4));
end CascadedTanks;
