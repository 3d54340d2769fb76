model Dryer "A fan blows air through a tube past a heated grid; a thermocouple measures the air downstream"
  import Modelica.Units.SI;

  block Stage "Anything that takes up heat and gives it to the air that leaves"
    parameter SI.Time tau = 0.1 "Time to follow";
    parameter Real start(unit="V") = 5 "Temperature at the beginning";
    Modelica.Blocks.Interfaces.RealInput inlet(unit="V") "Temperature of the air that comes, in volts of the thermocouple";
    Modelica.Blocks.Interfaces.RealOutput outlet(unit="V", start=start, fixed=true) "Temperature of the air that leaves";
  equation
    tau*der(outlet) = inlet - outlet;
  end Stage;

  constant Integer n = 10 "Parts of the tube";
  parameter Real gain = 1 "Rise of the temperature per voltage of the heater";
  parameter Real ambient(unit="V") = 0 "Temperature of the room";
  parameter SI.Time travel = 0.2 "Time the air takes through the tube";
  input Real u(unit="V") "Voltage of the heater";
  input Real draught(unit="V") "What comes in with the air of the room";
  output Real y(unit="V") "Signal of the thermocouple";
  parameter Real start(unit="V") = 5 "Temperature of everything at the beginning";
  Stage grid(start=start) "Heated grid";
  Stage tube[n](each tau=travel/n, each start=start) "Air on its way";
  Stage thermocouple(start=start) "Thermocouple";
equation
  grid.inlet = ambient + gain*u + draught;
  connect(grid.outlet, tube[1].inlet);
  for i in 1:n-1 loop
    connect(tube[i].outlet, tube[i+1].inlet);
  end for;
  connect(tube[n].outlet, thermocouple.inlet);
  y = thermocouple.outlet;
  annotation (experiment(StopTime = 80, Interval = 0.08));
end Dryer;
