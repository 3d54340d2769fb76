within Daesy;
package Disturbances "Places where an unmeasured disturbance enters"
  model Torque "Disturbing torque on a shaft"
    extends Modelica.Mechanics.Rotational.Interfaces.PartialElementaryOneFlangeAndSupport2;
    input SI.Torque tau = 0 "Torque that drives the shaft";
  equation
    flange.tau = -tau;
  end Torque;

  model Force "Disturbing force on a sliding part"
    extends Modelica.Mechanics.Translational.Interfaces.PartialElementaryOneFlangeAndSupport2;
    input SI.Force f = 0 "Force that drives the part";
  equation
    flange.f = -f;
  end Force;

  model Voltage "Disturbing voltage in series"
    Modelica.Electrical.Analog.Interfaces.PositivePin p "Positive pin";
    Modelica.Electrical.Analog.Interfaces.NegativePin n "Negative pin";
    input SI.Voltage v = 0 "Voltage from p to n";
    SI.Current i "Current from p to n";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
  end Voltage;

  model Current "Disturbing current in parallel"
    Modelica.Electrical.Analog.Interfaces.PositivePin p "Positive pin";
    Modelica.Electrical.Analog.Interfaces.NegativePin n "Negative pin";
    SI.Voltage v "Voltage from p to n";
    input SI.Current i = 0 "Current from p to n";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
  end Current;

  model HeatFlow "Disturbing heat flow"
    Modelica.Thermal.HeatTransfer.Interfaces.HeatPort_b port "Where it enters";
    input SI.HeatFlowRate Q_flow = 0 "Heat flow out of the port, into what is connected";
  equation
    port.Q_flow = -Q_flow;
  end HeatFlow;

  block Signal "Disturbance added to a signal"
    extends Modelica.Blocks.Interfaces.SISO;
    input Real w = 0 "The disturbance";
  equation
    y = u + w;
  end Signal;

  block Source "Disturbance as a signal"
    extends Modelica.Blocks.Interfaces.SO;
    input Real w = 0 "The disturbance";
  equation
    y = w;
  end Source;
  annotation (Documentation(info="<html>
<p>Each class has one input whose value is zero unless the model gives it another: without a study nothing disturbs. A study names
an input of the whole model under <code>[disturbances]</code> and says what it is; the model hands it through, such as
<code>Daesy.Disturbances.Torque load(tau=w)</code> with <code>input Real w</code>.</p>
</html>"));
end Disturbances;
