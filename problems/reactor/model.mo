package Reactor "A cooled reactor with a first-order reaction"
  import Modelica.Units.SI;

  partial model Balance "Balances of reactant and heat"
    parameter SI.Concentration c0 = 1000 "Concentration of the feed";
    parameter SI.Temperature T0 = 350 "Temperature of the feed";
    parameter SI.DampingCoefficient k1 = 0.1 "Feed per volume";
    parameter Real k2(unit="K.m3/mol") = 0.05 "Heating by the reaction";
    parameter SI.DampingCoefficient k3 = 0.5 "Rate of cooling and of the reaction at infinite temperature";
    parameter SI.Temperature k4 = 500 "Activation temperature";
    SI.Concentration c "Concentration";
    SI.Temperature T "Temperature";
    Real R(unit="mol/(m3.s)") "Reaction rate";
    SI.Temperature T_C "Temperature of the cooling";
  equation
    der(c) = k1*(c0 - c) - R;
    der(T) = k1*(T0 - T) + k2*R - k3*(T - T_C);
    R = k3*exp(-k4/T)*c;
  end Balance;

  model Cooled "The cooling is given"
    extends Balance(c(start=500, fixed=true), T(start=320, fixed=true));
    input Real u(unit="K") "Temperature of the cooling";
  equation
    T_C = u;
    annotation (experiment(StopTime=60, Interval=0.5));
  end Cooled;

  model Prescribed "The concentration is given; which cooling does it need?"
    extends Balance(c(start=500), T(start=320), R(start=50), T_C(start=310));
    input Real u(unit="mol/m3") "Wanted concentration";
  equation
    c = u;
    annotation (experiment(StopTime=60, Interval=0.5));
  end Prescribed;
end Reactor;
