within Modelica.Mechanics.Rotational;
package Components "Inertias, springs, dampers, gears"
  import Modelica.Mechanics.Rotational.Interfaces;

  model Fixed "A flange that cannot turn"
    parameter SI.Angle phi0 = 0 "Its angle";
    Interfaces.Flange_b flange "The flange";
  equation
    flange.phi = phi0;
  end Fixed;

  model Inertia "A turning mass"
    Interfaces.Flange_a flange_a "Left flange";
    Interfaces.Flange_b flange_b "Right flange";
    parameter SI.Inertia J(min=0, start=1) "Moment of inertia";
    parameter StateSelect stateSelect = StateSelect.default "Wish about phi and w being states";
    SI.Angle phi(start=0, stateSelect=stateSelect) "Angle";
    SI.AngularVelocity w(start=0, stateSelect=stateSelect) "Speed";
    SI.AngularAcceleration a "Acceleration";
  equation
    phi = flange_a.phi;
    phi = flange_b.phi;
    w = der(phi);
    a = der(w);
    J*a = flange_a.tau + flange_b.tau;
  end Inertia;

  model Disc "A rigid joint between two angles"
    extends Interfaces.PartialTwoFlanges;
    parameter SI.Angle deltaPhi = 0 "Angle of flange_b less that of flange_a";
    SI.Angle phi "Angle in the middle";
  equation
    flange_a.phi = phi - deltaPhi/2;
    flange_b.phi = phi + deltaPhi/2;
    0 = flange_a.tau + flange_b.tau;
  end Disc;

  model Spring "Linear spring"
    extends Interfaces.PartialCompliant;
    parameter SI.RotationalSpringConstant c(final min=0, start=1e5) "Torque per angle";
    parameter SI.Angle phi_rel0 = 0 "Relative angle without torque";
  equation
    tau = c*(phi_rel - phi_rel0);
  end Spring;

  model Damper "Linear damper"
    extends Interfaces.PartialCompliantWithRelativeStates;
    parameter SI.RotationalDampingConstant d(final min=0, start=0) "Torque per relative speed";
    extends Modelica.Thermal.HeatTransfer.Interfaces.PartialElementaryConditionalHeatPortWithoutT;
  equation
    tau = d*w_rel;
    lossPower = tau*w_rel;
  end Damper;

  model SpringDamper "Linear spring and damper side by side"
    extends Interfaces.PartialCompliantWithRelativeStates;
    parameter SI.RotationalSpringConstant c(final min=0, start=1e5) "Torque per angle";
    parameter SI.RotationalDampingConstant d(final min=0, start=0) "Torque per relative speed";
    parameter SI.Angle phi_rel0 = 0 "Relative angle without torque of the spring";
    extends Modelica.Thermal.HeatTransfer.Interfaces.PartialElementaryConditionalHeatPortWithoutT;
  protected
    SI.Torque tau_c "Torque of the spring";
    SI.Torque tau_d "Torque of the damper";
  equation
    tau_c = c*(phi_rel - phi_rel0);
    tau_d = d*w_rel;
    tau = tau_c + tau_d;
    lossPower = tau_d*w_rel;
  end SpringDamper;

  model IdealGear "Gear without inertia, losses or play"
    extends Interfaces.PartialElementaryTwoFlangesAndSupport2;
    parameter Real ratio(start=1) "Turns of flange_a per turn of flange_b";
    SI.Angle phi_a "Angle of the left flange against the housing";
    SI.Angle phi_b "Angle of the right flange against the housing";
  equation
    phi_a = flange_a.phi - phi_support;
    phi_b = flange_b.phi - phi_support;
    phi_a = ratio*phi_b;
    0 = ratio*flange_a.tau + flange_b.tau;
  end IdealGear;

  model IdealPlanetary "Planetary gear without inertia, losses or play"
    parameter Real ratio(start=100/50) "Teeth of the ring per tooth of the sun";
    Interfaces.Flange_a sun "Sun";
    Interfaces.Flange_a carrier "Carrier";
    Interfaces.Flange_b ring "Ring";
  equation
    (1 + ratio)*carrier.phi = sun.phi + ratio*ring.phi;
    ring.tau = ratio*sun.tau;
    carrier.tau = -(1 + ratio)*sun.tau;
  end IdealPlanetary;

  model IdealGearR2T "Gear from turning to sliding, without inertia, losses or play"
    extends Interfaces.PartialElementaryRotationalToTranslational;
    parameter Real ratio(final unit="rad/m", start=1) "Angle per distance";
  equation
    flangeR.phi - internalSupportR.phi = ratio*(flangeT.s - internalSupportT.s);
    0 = ratio*flangeR.tau + flangeT.f;
  end IdealGearR2T;

  model IdealRollingWheel "Wheel without inertia that rolls without slip"
    extends Interfaces.PartialElementaryRotationalToTranslational;
    parameter SI.Distance radius(start=0.3) "Radius";
  equation
    (flangeR.phi - internalSupportR.phi)*radius = flangeT.s - internalSupportT.s;
    0 = radius*flangeT.f + flangeR.tau;
  end IdealRollingWheel;

  model RelativeStates "Wish that the relative angle and speed of two flanges be states"
    extends Interfaces.PartialTwoFlanges;
    parameter StateSelect stateSelect = StateSelect.prefer "The wish";
    SI.Angle phi_rel(start=0, stateSelect=stateSelect) "Angle of flange_b less that of flange_a";
    SI.AngularVelocity w_rel(start=0, stateSelect=stateSelect) "Relative speed";
    SI.AngularAcceleration a_rel "Relative acceleration";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    w_rel = der(phi_rel);
    a_rel = der(w_rel);
    flange_a.tau = 0;
    flange_b.tau = 0;
  end RelativeStates;
end Components;
