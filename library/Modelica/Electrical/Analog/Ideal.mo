within Modelica.Electrical.Analog;
package Ideal "Switches, valves and amplifiers without flaws"
  import Modelica.Electrical.Analog.Interfaces;

  model Idle "No current"
    extends Interfaces.OnePort;
  equation
    i = 0;
  end Idle;

  model Short "No voltage"
    extends Interfaces.OnePort;
  equation
    v = 0;
  end Short;

  model IdealDiode "Diode of two straight lines"
    extends Interfaces.IdealSemiconductor;
  equation
    off = s < 0;
  end IdealDiode;

  model IdealThyristor "Thyristor of two straight lines"
    extends Interfaces.IdealSemiconductor;
    Modelica.Blocks.Interfaces.BooleanInput fire "Gate";
  equation
    off = s < 0 or pre(off) and not fire;
  end IdealThyristor;

  model IdealOpeningSwitch "Open while the signal is true"
    extends Interfaces.IdealSwitch;
    Modelica.Blocks.Interfaces.BooleanInput control "Open";
  equation
    off = control;
  end IdealOpeningSwitch;

  model IdealClosingSwitch "Closed while the signal is true"
    extends Interfaces.IdealSwitch;
    Modelica.Blocks.Interfaces.BooleanInput control "Closed";
  equation
    off = not control;
  end IdealClosingSwitch;

  model IdealCommutingSwitch "Switch between two pins"
    parameter SI.Resistance Ron(final min=0) = 1e-5 "Resistance when closed";
    parameter SI.Conductance Goff(final min=0) = 1e-5 "Conductance when open";
    extends Interfaces.ConditionalHeatPort;
    Interfaces.PositivePin p "Common pin";
    Interfaces.NegativePin n2 "Connected while the signal is true";
    Interfaces.NegativePin n1 "Connected while the signal is false";
    Modelica.Blocks.Interfaces.BooleanInput control "Which";
  protected
    Real s1 "Place on the characteristic towards n1";
    Real s2 "Place on the characteristic towards n2";
    constant SI.Voltage unitVoltage = 1 "One volt";
    constant SI.Current unitCurrent = 1 "One ampere";
  equation
    0 = p.i + n2.i + n1.i;
    p.v - n1.v = (s1*unitCurrent)*(if control then 1 else Ron);
    n1.i = -(s1*unitVoltage)*(if control then Goff else 1);
    p.v - n2.v = (s2*unitCurrent)*(if control then Ron else 1);
    n2.i = -(s2*unitVoltage)*(if control then 1 else Goff);
    LossPower = p.i*p.v + n1.i*n1.v + n2.i*n2.v;
  end IdealCommutingSwitch;

  model IdealTransformer "Transformer without losses, with magnetization where wanted"
    extends Interfaces.TwoPort;
    parameter Real n(start=1) "First voltage per second voltage";
    parameter Boolean considerMagnetization = false "Whether the core takes a current";
    parameter SI.Inductance Lm1(start=1) "Magnetizing inductance at the first side";
    SI.Current im1 "Magnetizing current at the first side";
    SI.MagneticFlux psim1 "Flux at the first side";
  equation
    im1 = i1 + i2/n;
    if considerMagnetization then
      psim1 = Lm1*im1;
      v1 = der(psim1);
    else
      psim1 = 0;
      im1 = 0;
    end if;
    v1 = n*v2;
  end IdealTransformer;

  model IdealGyrator "Gyrator of one conductance"
    extends Interfaces.TwoPort;
    parameter SI.Conductance G(start=1) "Conductance";
  equation
    i1 = G*v2;
    i2 = -G*v1;
  end IdealGyrator;

  model IdealOpAmp "Amplifier of infinite gain, both pins of its output"
    SI.Voltage v1 "Voltage at the input";
    SI.Voltage v2 "Voltage at the output";
    SI.Current i1 "Current into the input";
    SI.Current i2 "Current into the output";
    Interfaces.PositivePin p1 "Positive input";
    Interfaces.NegativePin n1 "Negative input";
    Interfaces.PositivePin p2 "Positive output";
    Interfaces.NegativePin n2 "Negative output";
  equation
    v1 = p1.v - n1.v;
    v2 = p2.v - n2.v;
    0 = p1.i + n1.i;
    0 = p2.i + n2.i;
    i1 = p1.i;
    i2 = p2.i;
    v1 = 0;
    i1 = 0;
  end IdealOpAmp;

  model IdealOpAmp3Pin "Amplifier of infinite gain"
    Interfaces.PositivePin in_p "Positive input";
    Interfaces.NegativePin in_n "Negative input";
    Interfaces.PositivePin out "Output";
  equation
    in_p.v = in_n.v;
    in_p.i = 0;
    in_n.i = 0;
  end IdealOpAmp3Pin;

  model IdealOpAmpLimited "Amplifier of infinite gain between two rails"
    Interfaces.PositivePin in_p "Positive input";
    Interfaces.NegativePin in_n "Negative input";
    Interfaces.PositivePin out "Output";
    Interfaces.PositivePin VMax "Upper rail";
    Interfaces.NegativePin VMin "Lower rail";
    SI.Voltage vin "Voltage at the input";
  protected
    Real s(start=0) "Place on the characteristic";
    constant SI.Voltage unitVoltage = 1 "One volt";
  equation
    in_p.i = 0;
    in_n.i = 0;
    VMax.i = 0;
    VMin.i = 0;
    vin = in_p.v - in_n.v;
    vin = unitVoltage*smooth(0, if s < -1 then s + 1 else if s > 1 then s - 1 else 0);
    out.v = smooth(0, if s < -1 then VMin.v else if s > 1 then VMax.v else (VMax.v - VMin.v)*s/2 + (VMax.v + VMin.v)/2);
  end IdealOpAmpLimited;
end Ideal;
