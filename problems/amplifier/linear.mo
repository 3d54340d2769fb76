model LinearAmplifier "The amplifier of one transistor, linearized around its rest"
  import Modelica.Units.SI;
  parameter SI.Voltage U_op = 6 "Operating voltage";
  parameter SI.Current alpha = 1e-6 "Saturation current";
  parameter SI.Voltage beta = 0.026 "Thermal voltage";
  parameter SI.Resistance R0 = 1000 "Resistance of the source";
  parameter SI.Resistance R1 = 9000 "Base to ground";
  parameter SI.Resistance R2 = 9000 "Base to the operating voltage";
  parameter SI.Resistance R3 = 9000 "Emitter to ground";
  parameter SI.Resistance R4 = 9000 "Collector to the operating voltage";
  parameter SI.Resistance R5 = 9000 "Load";
  parameter SI.Capacitance C1 = 1e-6 "Coupling capacitor at the input";
  parameter SI.Capacitance C2 = 2e-6 "Emitter capacitor";
  parameter SI.Capacitance C3 = 3e-6 "Coupling capacitor at the output";
  parameter SI.Voltage U23 = 0.149659893863916 "Base to emitter at rest";
  final parameter SI.Current g0 = alpha*(exp(U23/beta) - 1) "Emitter current at rest";
  final parameter SI.Conductance slope = alpha/beta*exp(U23/beta) "Its slope there";
  parameter Integer start = 0 "Start: 0 at rest, 1 just switched on as in [@hairer1996]";
  SI.Voltage U_in "Source";
  SI.Voltage U1 "Input";
  SI.Voltage U2 "Base";
  SI.Voltage U3 "Emitter";
  SI.Voltage U4 "Collector";
  output SI.Voltage U5 "Output";
  SI.Current g "Emitter current";
  SI.Voltage u1 "Voltage of C1";
  SI.Voltage u3 "Voltage of C3";
initial equation
  if start == 0 then
    der(u1) = 0;
    der(U3) = 0;
    der(u3) = 0;
  else
    u1 = -U_op/2;
    U3 = U_op/2;
    u3 = U_op;
  end if;
equation
  U_in = 0.4*sin(200*Modelica.Constants.pi*time);
  g = g0 + slope*(U2 - U3 - U23);
  u1 = U1 - U2;
  u3 = U4 - U5;
  -C1*der(u1) = (U1 - U_in)/R0;
  C1*der(u1) = U2/R1 + (U2 - U_op)/R2 + 0.01*g;
  -C2*der(U3) = U3/R3 - g;
  -C3*der(u3) = (U4 - U_op)/R4 + 0.99*g;
  C3*der(u3) = U5/R5;
  annotation (experiment(StopTime=0.2, Interval=0.001));
end LinearAmplifier;
