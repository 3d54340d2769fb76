model CapacitorSource "A capacitor across a voltage source: the current follows the voltage's derivative"
  import Modelica.Electrical.Analog.{Basic,Sources};
  Modelica.Blocks.Interfaces.RealInput voltage(unit="V") "Voltage of the source";
  Sources.SignalVoltage source "Source";
  Basic.Capacitor capacitor(C=1e-3) "Capacitor";
  Basic.Ground ground "Reference potential";
equation
  connect(voltage, source.v);
  connect(source.p, capacitor.p);
  connect(source.n, capacitor.n);
  connect(source.n, ground.p);
  annotation (experiment(StopTime=1, Interval=0.01));
end CapacitorSource;
