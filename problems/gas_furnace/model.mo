model GasFurnace "Gas burns in a furnace; the carbon dioxide of what leaves is measured"
  import Modelica.Units.SI;

  block Volume "Well-mixed gas"
    parameter SI.Time tau = 10 "Volume over flow";
    parameter Real start = 53.8 "Share of carbon dioxide at the beginning, percent";
    Modelica.Blocks.Interfaces.RealInput inlet "Share of carbon dioxide that comes, percent";
    Modelica.Blocks.Interfaces.RealOutput outlet(start=start, fixed=true) "Share that leaves, percent";
  equation
    tau*der(outlet) = inlet - outlet;
  end Volume;

  constant Integer n = 10 "Parts of the pipe";
  parameter Real rest = 53.5 "Carbon dioxide at the mean rate of gas, percent";
  parameter Real gain = -3 "Carbon dioxide per rate of gas";
  parameter SI.Time travel = 27 "Time through the pipe";
  input Real rate "Rate of gas, from its mean";
  input Real air "What the air and everything else do to the carbon dioxide, percent";
  output Real co2 "Measured carbon dioxide, percent";
  parameter Real start = 53.8 "Carbon dioxide everywhere at the beginning, percent";
  Volume furnace(start=start) "Combustion chamber";
  Volume pipe[n](each tau=travel/n, each start=start) "Way to the analyser";
equation
  furnace.inlet = rest + gain*rate;
  connect(furnace.outlet, pipe[1].inlet);
  for i in 1:n-1 loop
    connect(pipe[i].outlet, pipe[i+1].inlet);
  end for;
  co2 = pipe[n].outlet + air;
  annotation (experiment(StopTime = 2655, Interval = 9));
end GasFurnace;
