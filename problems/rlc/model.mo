model Rlc "A voltage step on a resistor, a coil and a capacitor in series"
  import Modelica.Electrical.Analog.{Basic,Sources};
  Sources.StepVoltage source(V=10, startTime=0.1) "Step";
  Basic.Resistor resistor(R=10) "Resistor";
  Basic.Inductor inductor(L=0.1, i(start=0, fixed=true)) "Coil";
  Basic.Capacitor capacitor(C=1e-3, v(start=0, fixed=true)) "Capacitor";
  Basic.Ground ground "Reference potential";
equation
  connect(source.p, resistor.p);
  connect(resistor.n, inductor.p);
  connect(inductor.n, capacitor.p);
  connect(capacitor.n, source.n);
  connect(source.n, ground.p);
  annotation (experiment(StopTime=1, Interval=0.01));
end Rlc;
