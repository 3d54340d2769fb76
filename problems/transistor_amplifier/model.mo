package TransistorAmplifier "An amplifier of two transistors"
  import Modelica.Units.SI;

  partial model Circuit "Parameters, potentials and sources"
    parameter SI.Voltage Ub = 6 "Operating voltage";
    parameter SI.Voltage UF = 0.026 "Thermal voltage";
    parameter Real alpha = 0.99 "Current gain of the transistors";
    parameter SI.Current beta = 1e-6 "Saturation current";
    parameter SI.Resistance R0 = 1000 "Resistance of the source";
    parameter SI.Resistance R = 9000 "Resistance of all other resistors";
    parameter SI.Capacitance C1 = 1e-6 "First coupling capacitor";
    parameter SI.Capacitance C2 = 2e-6 "First emitter capacitor";
    parameter SI.Capacitance C3 = 3e-6 "Second coupling capacitor";
    parameter SI.Capacitance C4 = 4e-6 "Second emitter capacitor";
    parameter SI.Capacitance C5 = 5e-6 "Third coupling capacitor";
    SI.Voltage y1 "Input";
    SI.Voltage y2 "Base of the first transistor";
    SI.Voltage y3 "Emitter of the first transistor";
    SI.Voltage y4 "Collector of the first transistor";
    SI.Voltage y5 "Base of the second transistor";
    SI.Voltage y6 "Emitter of the second transistor";
    SI.Voltage y7 "Collector of the second transistor";
    output SI.Voltage y8 "Output";
    SI.Voltage Ue "Source";
    SI.Current g1 "Emitter current of the first transistor";
    SI.Current g2 "Emitter current of the second transistor";
  equation
    Ue = 0.1*sin(200*Modelica.Constants.pi*time);
    g1 = beta*(exp((y2 - y3)/UF) - 1);
    g2 = beta*(exp((y5 - y6)/UF) - 1);
  end Circuit;

  model Nodes "Kirchhoff's law at each node, as the problem is usually written"
    extends Circuit(y2(start=3), y3(start=3), y4(start=6), y5(start=3), y6(start=3), y7(start=6));
  equation
    -C1*(der(y1) - der(y2)) = (y1 - Ue)/R0;
    C1*(der(y1) - der(y2)) = y2/R + (y2 - Ub)/R + (1 - alpha)*g1;
    -C2*der(y3) = y3/R - g1;
    -C3*(der(y4) - der(y5)) = (y4 - Ub)/R + alpha*g1;
    C3*(der(y4) - der(y5)) = y5/R + (y5 - Ub)/R + (1 - alpha)*g2;
    -C4*der(y6) = y6/R - g2;
    -C5*(der(y7) - der(y8)) = (y7 - Ub)/R + alpha*g2;
    C5*(der(y7) - der(y8)) = y8/R;
    annotation (experiment(StopTime=0.2, Interval=0.001));
  end Nodes;

  model Branches "The same circuit with the voltages and currents of its capacitors"
    extends Circuit;
    SI.Voltage u1(start=-3, fixed=true) "Voltage of C1";
    SI.Voltage u2(start=3, fixed=true) "Voltage of C2";
    SI.Voltage u3(start=3, fixed=true) "Voltage of C3";
    SI.Voltage u4(start=3, fixed=true) "Voltage of C4";
    SI.Voltage u5(start=6, fixed=true) "Voltage of C5";
    SI.Current i1 "Current of C1";
    SI.Current i2 "Current of C2";
    SI.Current i3 "Current of C3";
    SI.Current i4 "Current of C4";
    SI.Current i5 "Current of C5";
  equation
    u1 = y1 - y2;
    u2 = y3;
    u3 = y4 - y5;
    u4 = y6;
    u5 = y7 - y8;
    i1 = C1*der(u1);
    i2 = C2*der(u2);
    i3 = C3*der(u3);
    i4 = C4*der(u4);
    i5 = C5*der(u5);
    -i1 = (y1 - Ue)/R0;
    i1 = y2/R + (y2 - Ub)/R + (1 - alpha)*g1;
    -i2 = y3/R - g1;
    -i3 = (y4 - Ub)/R + alpha*g1;
    i3 = y5/R + (y5 - Ub)/R + (1 - alpha)*g2;
    -i4 = y6/R - g2;
    -i5 = (y7 - Ub)/R + alpha*g2;
    i5 = y8/R;
    annotation (experiment(StopTime=0.2, Interval=0.001));
  end Branches;
end TransistorAmplifier;
