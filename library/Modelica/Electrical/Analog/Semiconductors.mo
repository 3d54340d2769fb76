within Modelica.Electrical.Analog;
package Semiconductors "Diodes"
  import Modelica.Electrical.Analog.Interfaces;

  model Diode "Diode of exponential characteristic with a parallel resistor"
    extends Interfaces.OnePort;
    extends Interfaces.ConditionalHeatPort(T=293.15);
    parameter SI.Current Ids = 1e-6 "Saturation current";
    parameter SI.Voltage Vt = 0.04 "Voltage of an e-fold increase";
    parameter Real Maxexp(final min=Modelica.Constants.small) = 15 "The characteristic is straight above Maxexp*Vt";
    parameter SI.Resistance R = 1e8 "Parallel resistance";
  equation
    i = smooth(1, if v/Vt > Maxexp then Ids*(exp(Maxexp)*(1 + v/Vt - Maxexp) - 1) + v/R else Ids*(exp(v/Vt) - 1) + v/R);
    LossPower = v*i;
  end Diode;
end Semiconductors;
