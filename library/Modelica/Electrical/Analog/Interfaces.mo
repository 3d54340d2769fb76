within Modelica.Electrical.Analog;
package Interfaces "Pins and partial circuits"
  connector Pin "A pin"
    SI.ElectricPotential v "Potential";
    flow SI.Current i "Current into the component";
  end Pin;

  connector PositivePin "The pin where the counted current enters"
    extends Pin;
  end PositivePin;

  connector NegativePin "The pin where the counted current leaves"
    extends Pin;
  end NegativePin;

  partial model TwoPin "Two pins and the voltage between them"
    SI.Voltage v "Potential of p less that of n";
    PositivePin p "Positive pin";
    NegativePin n "Negative pin";
  equation
    v = p.v - n.v;
  end TwoPin;

  partial model OnePort "Two pins with one current through both"
    extends TwoPin;
    SI.Current i "Current from p to n";
  equation
    0 = p.i + n.i;
    i = p.i;
  end OnePort;

  partial model TwoPort "Two pairs of pins"
    SI.Voltage v1 "Voltage of the first pair";
    SI.Voltage v2 "Voltage of the second pair";
    SI.Current i1 "Current through the first pair";
    SI.Current i2 "Current through the second pair";
    PositivePin p1 "Positive pin of the first pair";
    NegativePin n1 "Negative pin of the first pair";
    PositivePin p2 "Positive pin of the second pair";
    NegativePin n2 "Negative pin of the second pair";
  equation
    v1 = p1.v - n1.v;
    v2 = p2.v - n2.v;
    0 = p1.i + n1.i;
    0 = p2.i + n2.i;
    i1 = p1.i;
    i2 = p2.i;
  end TwoPort;

  partial model ConditionalHeatPort "A heat port where wanted"
    parameter Boolean useHeatPort = false "Whether there is a heat port";
    parameter SI.Temperature T = 293.15 "Temperature without heat port";
    Modelica.Thermal.HeatTransfer.Interfaces.HeatPort_a heatPort(final T=T_heatPort, final Q_flow=-LossPower) if useHeatPort "Heat port";
    SI.Power LossPower "Power that becomes heat";
    SI.Temperature T_heatPort "Temperature of the component";
  equation
    if not useHeatPort then
      T_heatPort = T;
    end if;
  end ConditionalHeatPort;

  partial model AbsoluteSensor "Measurement at one pin"
    extends Modelica.Icons.RoundSensor;
    PositivePin p "Measured pin";
  end AbsoluteSensor;

  partial model RelativeSensor "Measurement between two pins"
    extends Modelica.Icons.RoundSensor;
    PositivePin p "Positive pin";
    NegativePin n "Negative pin";
  end RelativeSensor;

  partial model VoltageSource "A voltage that follows a signal"
    extends OnePort;
    parameter SI.Voltage offset = 0 "Added to the voltage";
    parameter SI.Time startTime = 0 "The voltage is the offset before";
    replaceable Modelica.Blocks.Interfaces.SignalSource signalSource(final offset=offset, final startTime=startTime) "The signal";
  equation
    v = signalSource.y;
  end VoltageSource;

  partial model CurrentSource "A current that follows a signal"
    extends OnePort;
    parameter SI.Current offset = 0 "Added to the current";
    parameter SI.Time startTime = 0 "The current is the offset before";
    replaceable Modelica.Blocks.Interfaces.SignalSource signalSource(final offset=offset, final startTime=startTime) "The signal";
  equation
    i = signalSource.y;
  end CurrentSource;

  partial model IdealSemiconductor "Straight-line characteristic of a valve"
    extends OnePort;
    extends ConditionalHeatPort;
    parameter SI.Resistance Ron(final min=0) = 1e-5 "Resistance when conducting";
    parameter SI.Conductance Goff(final min=0) = 1e-5 "Conductance when blocking";
    parameter SI.Voltage Vknee(final min=0) = 0 "Voltage where conduction begins";
    Boolean off(start=true) "Whether it blocks";
  protected
    Real s(start=0) "Place on the characteristic";
    constant SI.Voltage unitVoltage = 1 "One volt";
    constant SI.Current unitCurrent = 1 "One ampere";
  equation
    v = (s*unitCurrent)*(if off then 1 else Ron) + Vknee;
    i = (s*unitVoltage)*(if off then Goff else 1) + Goff*Vknee;
    LossPower = v*i;
  end IdealSemiconductor;

  partial model IdealSwitch "Straight-line characteristic of a switch"
    extends OnePort;
    extends ConditionalHeatPort;
    parameter SI.Resistance Ron(final min=0) = 1e-5 "Resistance when closed";
    parameter SI.Conductance Goff(final min=0) = 1e-5 "Conductance when open";
  protected
    Boolean off "Whether it is open";
    Real s "Place on the characteristic";
    constant SI.Voltage unitVoltage = 1 "One volt";
    constant SI.Current unitCurrent = 1 "One ampere";
  equation
    v = (s*unitCurrent)*(if off then 1 else Ron);
    i = (s*unitVoltage)*(if off then Goff else 1);
    LossPower = v*i;
  end IdealSwitch;
end Interfaces;
