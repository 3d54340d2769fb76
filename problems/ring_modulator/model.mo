model RingModulator "A ring of four diodes mixes a signal of low frequency with one of high frequency"
  constant Real pi = 3.141592653589793;
  parameter Real C = 1.6e-8, Cs = 2e-12, Cp = 1e-8;
  parameter Real R = 25000, Rp = 50, Ri = 50, Rc = 600, Rg1 = 36.3, Rg2 = 17.3, Rg3 = 17.3;
  parameter Real Lh = 4.45, Ls1 = 0.002, Ls2 = 5e-4, Ls3 = 5e-4;
  parameter Real gamma = 40.67286402e-9 "Current of a diode", delta = 17.7493332 "Its exponent";
  function diode
    input Real voltage;
    input Real gamma;
    input Real delta;
    output Real current;
  algorithm
    current := gamma*(exp(delta*voltage) - 1);
  end diode;
  Real y[15](each start = 0, each fixed = true) "Voltages y[1..7], currents y[8..15]";
  Real U[4] "Voltages of the diodes", q[4] "Their currents";
  Real signal, carrier;
equation
  signal = 0.5*sin(2000*pi*time);
  carrier = 2*sin(20000*pi*time);
  U[1] = y[3] - y[5] - y[7] - carrier;
  U[2] = -y[4] + y[6] - y[7] - carrier;
  U[3] = y[4] + y[5] + y[7] + carrier;
  U[4] = -y[3] - y[6] + y[7] + carrier;
  for k in 1:4 loop
    q[k] = diode(U[k], gamma, delta);
  end for;
  C*der(y[1]) = y[8] - 0.5*y[10] + 0.5*y[11] + y[14] - y[1]/R;
  C*der(y[2]) = y[9] - 0.5*y[12] + 0.5*y[13] + y[15] - y[2]/R;
  Cs*der(y[3]) = y[10] - q[1] + q[4];
  Cs*der(y[4]) = -y[11] + q[2] - q[3];
  Cs*der(y[5]) = y[12] + q[1] - q[3];
  Cs*der(y[6]) = -y[13] - q[2] + q[4];
  Cp*der(y[7]) = -y[7]/Rp + q[1] + q[2] - q[3] - q[4];
  Lh*der(y[8]) = -y[1];
  Lh*der(y[9]) = -y[2];
  Ls2*der(y[10]) = 0.5*y[1] - y[3] - Rg2*y[10];
  Ls3*der(y[11]) = -0.5*y[1] + y[4] - Rg3*y[11];
  Ls2*der(y[12]) = 0.5*y[2] - y[5] - Rg2*y[12];
  Ls3*der(y[13]) = -0.5*y[2] + y[6] - Rg3*y[13];
  Ls1*der(y[14]) = -y[1] + signal - (Ri + Rg1)*y[14];
  Ls1*der(y[15]) = -y[2] - (Rc + Rg1)*y[15];
end RingModulator;
