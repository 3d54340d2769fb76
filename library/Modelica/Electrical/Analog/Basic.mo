within Modelica.Electrical.Analog;
package Basic "Resistors, coils, capacitors and what couples circuits"
  import Modelica.Electrical.Analog.Interfaces;

  model Ground "Potential zero"
    Interfaces.Pin p "The pin";
  equation
    p.v = 0;
  end Ground;

  model Resistor "Resistor, its resistance linear in temperature"
    parameter SI.Resistance R(start=1) "Resistance at the reference temperature";
    parameter SI.Temperature T_ref = 300.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change of resistance with temperature";
    extends Interfaces.OnePort;
    extends Interfaces.ConditionalHeatPort(T=T_ref);
    SI.Resistance R_actual "Resistance";
  equation
    R_actual = R*(1 + alpha*(T_heatPort - T_ref));
    v = R_actual*i;
    LossPower = v*i;
  end Resistor;

  model Conductor "Conductor, its resistance linear in temperature"
    parameter SI.Conductance G(start=1) "Conductance at the reference temperature";
    parameter SI.Temperature T_ref = 300.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change of resistance with temperature";
    extends Interfaces.OnePort;
    extends Interfaces.ConditionalHeatPort(T=T_ref);
    SI.Conductance G_actual "Conductance";
  equation
    G_actual = G/(1 + alpha*(T_heatPort - T_ref));
    i = G_actual*v;
    LossPower = v*i;
  end Conductor;

  model Capacitor "Capacitor"
    extends Interfaces.OnePort(v(start=0));
    parameter SI.Capacitance C(start=1) "Capacitance";
  equation
    i = C*der(v);
  end Capacitor;

  model Inductor "Coil"
    extends Interfaces.OnePort(i(start=0));
    parameter SI.Inductance L(start=1) "Inductance";
  equation
    v = L*der(i);
  end Inductor;

  model Transformer "Two coupled coils"
    extends Interfaces.TwoPort(i1(start=0), i2(start=0));
    parameter SI.Inductance L1(start=1) "Inductance of the first coil";
    parameter SI.Inductance L2(start=1) "Inductance of the second coil";
    parameter SI.Inductance M(start=1) "Mutual inductance";
  equation
    v1 = L1*der(i1) + M*der(i2);
    v2 = M*der(i1) + L2*der(i2);
  end Transformer;

  model Gyrator "Gyrator"
    extends Interfaces.TwoPort;
    parameter SI.Conductance G1(start=1) "Conductance from the first pair to the second";
    parameter SI.Conductance G2(start=1) "Conductance from the second pair to the first";
  equation
    i1 = G2*v2;
    i2 = -G1*v1;
  end Gyrator;

  model RotationalEMF "Motor or generator without losses, rotating"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    parameter SI.ElectricalTorqueConstant k(start=1) "Torque per current";
    SI.Voltage v "Voltage between the pins";
    SI.Current i "Current from p to n";
    SI.Angle phi "Angle of the shaft against the housing";
    SI.AngularVelocity w "Speed of the shaft against the housing";
    SI.Torque tau "Torque of the flange";
    SI.Torque tauElectrical "Torque made by the current";
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    Modelica.Mechanics.Rotational.Interfaces.Flange_b flange "Shaft";
    Modelica.Mechanics.Rotational.Interfaces.Support support if useSupport "Housing";
  protected
    Modelica.Mechanics.Rotational.Components.Fixed fixed if not useSupport "Housing at rest";
    Modelica.Mechanics.Rotational.Interfaces.InternalSupport internalSupport(tau=-flange.tau) "Housing as seen inside";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
    phi = flange.phi - internalSupport.phi;
    w = der(phi);
    k*w = v;
    tau = -k*i;
    tauElectrical = -tau;
    tau = flange.tau;
    connect(internalSupport.flange, support);
    connect(internalSupport.flange, fixed.flange);
  end RotationalEMF;

  model EMF "Motor or generator without losses, by the name of versions before 4"
    extends RotationalEMF;
  end EMF;

  model TranslationalEMF "Motor or generator without losses, sliding"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    parameter SI.ElectricalForceConstant k(start=1) "Force per current";
    SI.Voltage v "Voltage between the pins";
    SI.Current i "Current from p to n";
    SI.Position s "Position of the flange against the housing";
    SI.Velocity vel "Speed of the flange against the housing";
    SI.Force f "Force of the flange";
    SI.Force fElectrical "Force made by the current";
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    Modelica.Mechanics.Translational.Interfaces.Flange_b flange "Moving part";
    Modelica.Mechanics.Translational.Interfaces.Support support if useSupport "Housing";
  protected
    Modelica.Mechanics.Translational.Components.Fixed fixed if not useSupport "Housing at rest";
    Modelica.Mechanics.Translational.Interfaces.InternalSupport internalSupport(f=-flange.f) "Housing as seen inside";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
    s = flange.s - internalSupport.s;
    vel = der(s);
    k*vel = v;
    f = -k*i;
    fElectrical = -f;
    f = flange.f;
    connect(internalSupport.flange, support);
    connect(internalSupport.flange, fixed.flange);
  end TranslationalEMF;

  model VCV "Voltage that follows a voltage"
    extends Interfaces.TwoPort;
    parameter Real gain(start=1) "Ratio of voltages";
  equation
    v2 = v1*gain;
    i1 = 0;
  end VCV;

  model VCC "Current that follows a voltage"
    extends Interfaces.TwoPort;
    parameter SI.Conductance transConductance(start=1) "Current per voltage";
  equation
    i2 = v1*transConductance;
    i1 = 0;
  end VCC;

  model CCV "Voltage that follows a current"
    extends Interfaces.TwoPort;
    parameter SI.Resistance transResistance(start=1) "Voltage per current";
  equation
    v2 = i1*transResistance;
    v1 = 0;
  end CCV;

  model CCC "Current that follows a current"
    extends Interfaces.TwoPort;
    parameter Real gain(start=1) "Ratio of currents";
  equation
    i2 = i1*gain;
    v1 = 0;
  end CCC;

  model VariableResistor "Resistor, its resistance a signal"
    parameter SI.Temperature T_ref = 300.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change of resistance with temperature";
    extends Interfaces.OnePort;
    extends Interfaces.ConditionalHeatPort(T=T_ref);
    SI.Resistance R_actual "Resistance";
    Modelica.Blocks.Interfaces.RealInput R(unit="Ohm") "Resistance at the reference temperature";
  equation
    R_actual = R*(1 + alpha*(T_heatPort - T_ref));
    v = R_actual*i;
    LossPower = v*i;
  end VariableResistor;

  model VariableConductor "Conductor, its conductance a signal"
    parameter SI.Temperature T_ref = 300.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change of resistance with temperature";
    extends Interfaces.OnePort;
    extends Interfaces.ConditionalHeatPort(T=T_ref);
    SI.Conductance G_actual "Conductance";
    Modelica.Blocks.Interfaces.RealInput G(unit="S") "Conductance at the reference temperature";
  equation
    G_actual = G/(1 + alpha*(T_heatPort - T_ref));
    i = G_actual*v;
    LossPower = v*i;
  end VariableConductor;

  model VariableCapacitor "Capacitor, its capacitance a signal"
    extends Interfaces.OnePort(v(start=0));
    parameter SI.Capacitance Cmin = Modelica.Constants.eps "Least capacitance";
    SI.ElectricCharge Q "Charge";
    Modelica.Blocks.Interfaces.RealInput C(unit="F") "Capacitance";
  equation
    assert(C >= 0, "VariableCapacitor: the capacitance is negative");
    Q = noEvent(max(C, Cmin))*v;
    i = der(Q);
  end VariableCapacitor;

  model VariableInductor "Coil, its inductance a signal"
    extends Interfaces.OnePort(i(start=0));
    parameter SI.Inductance Lmin = Modelica.Constants.eps "Least inductance";
    SI.MagneticFlux Psi "Linked flux";
    Modelica.Blocks.Interfaces.RealInput L(unit="H") "Inductance";
  equation
    assert(L >= 0, "VariableInductor: the inductance is negative");
    Psi = noEvent(max(L, Lmin))*i;
    v = der(Psi);
  end VariableInductor;

  model Potentiometer "Resistor with a tap that a parameter or a signal places"
    parameter SI.Resistance R(start=1) "Resistance from end to end";
    parameter SI.Temperature T_ref = 293.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change of resistance with temperature";
    extends Interfaces.ConditionalHeatPort(T=T_ref);
    parameter Boolean useRinput = false "Whether a signal places the tap";
    parameter Real rConstant(final min=0, final max=1) = 0.5 "Place of the tap without signal: 0 at n, 1 at p";
    SI.Resistance R_actual "Resistance from end to end";
    SI.Voltage vp "Voltage from p to the tap";
    SI.Voltage vn "Voltage from the tap to n";
    SI.Current ip "Current from p";
    Interfaces.PositivePin pin_p "Positive end";
    Interfaces.NegativePin pin_n "Negative end";
    Interfaces.Pin contact "Tap";
    Modelica.Blocks.Interfaces.RealInput r if useRinput "Place of the tap";
  protected
    Modelica.Blocks.Interfaces.RealInput rInternal "Place of the tap as seen inside";
  equation
    connect(r, rInternal);
    if not useRinput then
      rInternal = rConstant;
    end if;
    R_actual = R*(1 + alpha*(T_heatPort - T_ref));
    0 = pin_p.i + pin_n.i + contact.i;
    vp = pin_p.v - contact.v;
    vn = contact.v - pin_n.v;
    ip = pin_p.i;
    vp = ip*R_actual*(1 - rInternal);
    vn = -pin_n.i*R_actual*rInternal;
    LossPower = vp*ip - vn*pin_n.i;
  end Potentiometer;
end Basic;
