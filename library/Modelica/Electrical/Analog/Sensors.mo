within Modelica.Electrical.Analog;
package Sensors "Measurements"
  import Modelica.Electrical.Analog.Interfaces;

  model PotentialSensor "Potential of a pin"
    extends Modelica.Icons.RoundSensor;
    Interfaces.PositivePin p "Measured pin";
    Modelica.Blocks.Interfaces.RealOutput phi(unit="V") "Potential";
  equation
    p.i = 0;
    phi = p.v;
  end PotentialSensor;

  model VoltageSensor "Voltage between two pins"
    extends Modelica.Icons.RoundSensor;
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    Modelica.Blocks.Interfaces.RealOutput v(unit="V") "Voltage from p to n";
  equation
    p.i = 0;
    n.i = 0;
    v = p.v - n.v;
  end VoltageSensor;

  model CurrentSensor "Current through two pins"
    extends Modelica.Icons.RoundSensor;
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    Modelica.Blocks.Interfaces.RealOutput i(unit="A") "Current from p to n";
  equation
    p.v = n.v;
    p.i = i;
    n.i = -i;
  end CurrentSensor;

  model PowerSensor "Power from one current and one voltage"
    Interfaces.PositivePin pc "Positive pin of the current path";
    Interfaces.NegativePin nc "Negative pin of the current path";
    Interfaces.PositivePin pv "Positive pin of the voltage path";
    Interfaces.NegativePin nv "Negative pin of the voltage path";
    Modelica.Blocks.Interfaces.RealOutput power(unit="W") "Power";
  equation
    pc.v = nc.v;
    0 = pc.i + nc.i;
    pv.i = 0;
    nv.i = 0;
    power = pc.i*(pv.v - nv.v);
  end PowerSensor;

  model MultiSensor "Current, voltage and power"
    extends Modelica.Icons.RoundSensor;
    Interfaces.PositivePin pc "Positive pin of the current path";
    Interfaces.NegativePin nc "Negative pin of the current path";
    Interfaces.PositivePin pv "Positive pin of the voltage path";
    Interfaces.NegativePin nv "Negative pin of the voltage path";
    Modelica.Blocks.Interfaces.RealOutput i(final unit="A") "Current";
    Modelica.Blocks.Interfaces.RealOutput v(final unit="V") "Voltage";
    Modelica.Blocks.Interfaces.RealOutput power(final unit="W") "Power";
  equation
    pc.v = nc.v;
    0 = pc.i + nc.i;
    pv.i = 0;
    nv.i = 0;
    i = pc.i;
    v = pv.v - nv.v;
    power = v*i;
  end MultiSensor;
end Sensors;
