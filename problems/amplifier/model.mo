model Amplifier "An amplifier of one transistor"
  import Modelica.Units.SI;
  parameter SI.Voltage U_op = 6 "Operating voltage";
  parameter SI.Current alpha = 1e-6 "Saturation current";
  parameter SI.Voltage beta = 0.026 "Thermal voltage";
  parameter SI.Resistance R0 = 1000 "Resistance of the source";
  parameter SI.Resistance R = 9000 "Resistance of all other resistors";
  parameter SI.Capacitance C1 = 1e-6 "Coupling capacitor at the input";
  parameter SI.Capacitance C2 = 2e-6 "Emitter capacitor";
  parameter SI.Capacitance C3 = 3e-6 "Coupling capacitor at the output";
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
  g = alpha*(exp((U2 - U3)/beta) - 1);
  u1 = U1 - U2;
  u3 = U4 - U5;
  -C1*der(u1) = (U1 - U_in)/R0;
  C1*der(u1) = U2/R + (U2 - U_op)/R + 0.01*g;
  -C2*der(U3) = U3/R - g;
  -C3*der(u3) = (U4 - U_op)/R + 0.99*g;
  C3*der(u3) = U5/R;
  annotation (experiment(StopTime=0.2, Interval=0.001));
end Amplifier;
