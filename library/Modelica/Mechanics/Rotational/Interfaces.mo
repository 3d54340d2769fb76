within Modelica.Mechanics.Rotational;
package Interfaces "Flanges and partial parts"
  connector Flange "A flange"
    SI.Angle phi "Angle";
    flow SI.Torque tau "Torque into the component";
  end Flange;

  connector Flange_a "Flange at the left"
    extends Flange;
  end Flange_a;

  connector Flange_b "Flange at the right"
    extends Flange;
  end Flange_b;

  connector Support "Flange of the housing"
    extends Flange;
  end Support;

  model InternalSupport "Housing inside a part that balances its own torques"
    input SI.Torque tau "Torque on the housing";
    SI.Angle phi "Angle of the housing";
    Flange_a flange "Flange of the housing";
  equation
    flange.tau = tau;
    flange.phi = phi;
  end InternalSupport;

  partial model PartialTwoFlanges "Two flanges"
    Flange_a flange_a "Left flange";
    Flange_b flange_b "Right flange";
  end PartialTwoFlanges;

  partial model PartialOneFlangeAndSupport "One flange and a housing"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Flange_b flange "Flange of the shaft";
    Support support if useSupport "Flange of the housing";
  protected
    Support internalSupport "Housing as seen inside";
    Components.Fixed fixed if not useSupport "Housing at rest";
  equation
    connect(support, internalSupport);
    connect(internalSupport, fixed.flange);
  end PartialOneFlangeAndSupport;

  partial model PartialTwoFlangesAndSupport "Two flanges and a housing"
    extends PartialTwoFlanges;
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Support support if useSupport "Flange of the housing";
  protected
    Support internalSupport "Housing as seen inside";
    Components.Fixed fixed if not useSupport "Housing at rest";
  equation
    connect(support, internalSupport);
    connect(internalSupport, fixed.flange);
  end PartialTwoFlangesAndSupport;

  partial model PartialCompliant "Two flanges that may turn against each other"
    extends PartialTwoFlanges;
    SI.Angle phi_rel(start=0) "Angle of flange_b less that of flange_a";
    SI.Torque tau "Torque between the flanges";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    flange_b.tau = tau;
    flange_a.tau = -tau;
  end PartialCompliant;

  partial model PartialCompliantWithRelativeStates "Two flanges that may turn against each other, with relative speed"
    extends PartialTwoFlanges;
    parameter SI.Angle phi_nominal(displayUnit="rad", min=0.0) = 1e-4 "Typical relative angle";
    parameter StateSelect stateSelect = StateSelect.prefer "Wish about phi_rel and w_rel being states";
    SI.Angle phi_rel(start=0, stateSelect=stateSelect, nominal=if phi_nominal >= Modelica.Constants.eps then phi_nominal else 1)
      "Angle of flange_b less that of flange_a";
    SI.AngularVelocity w_rel(start=0, stateSelect=stateSelect) "Relative speed";
    SI.AngularAcceleration a_rel "Relative acceleration";
    SI.Torque tau "Torque between the flanges";
  equation
    phi_rel = flange_b.phi - flange_a.phi;
    w_rel = der(phi_rel);
    a_rel = der(w_rel);
    flange_b.tau = tau;
    flange_a.tau = -tau;
  end PartialCompliantWithRelativeStates;

  partial model PartialElementaryOneFlangeAndSupport2 "One flange and a housing, torque balanced"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Flange_b flange "Flange of the shaft";
    Support support(phi=phi_support, tau=-flange.tau) if useSupport "Flange of the housing";
  protected
    SI.Angle phi_support "Angle of the housing";
  equation
    if not useSupport then
      phi_support = 0;
    end if;
  end PartialElementaryOneFlangeAndSupport2;

  partial model PartialElementaryTwoFlangesAndSupport2 "Two flanges and a housing, torque balanced"
    extends PartialTwoFlanges;
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Support support(phi=phi_support, tau=-flange_a.tau - flange_b.tau) if useSupport "Flange of the housing";
  protected
    SI.Angle phi_support "Angle of the housing";
  equation
    if not useSupport then
      phi_support = 0;
    end if;
  end PartialElementaryTwoFlangesAndSupport2;

  partial model PartialElementaryRotationalToTranslational "From turning to sliding, with housings"
    parameter Boolean useSupportR = false "Whether the turning part's housing has a flange";
    parameter Boolean useSupportT = false "Whether the sliding part's housing has a flange";
    Flange_a flangeR "Turning flange";
    Modelica.Mechanics.Translational.Interfaces.Flange_b flangeT "Sliding flange";
    Support supportR if useSupportR "Housing of the turning part";
    Modelica.Mechanics.Translational.Interfaces.Support supportT if useSupportT "Housing of the sliding part";
  protected
    InternalSupport internalSupportR(tau=-flangeR.tau) "Turning part's housing as seen inside";
    Modelica.Mechanics.Translational.Interfaces.InternalSupport internalSupportT(f=-flangeT.f) "Sliding part's housing as seen inside";
    Components.Fixed fixedR if not useSupportR "Housing at rest";
    Modelica.Mechanics.Translational.Components.Fixed fixedT if not useSupportT "Housing at rest";
  equation
    connect(internalSupportR.flange, supportR);
    connect(internalSupportR.flange, fixedR.flange);
    connect(internalSupportT.flange, supportT);
    connect(internalSupportT.flange, fixedT.flange);
  end PartialElementaryRotationalToTranslational;

  partial model PartialTorque "A torque between shaft and housing"
    extends PartialElementaryOneFlangeAndSupport2;
    SI.Angle phi "Angle of the shaft against the housing";
  equation
    phi = flange.phi - phi_support;
  end PartialTorque;

  partial model PartialAbsoluteSensor "Measurement at one flange"
    extends Modelica.Icons.RoundSensor;
    Flange_a flange "Measured flange";
  equation
    0 = flange.tau;
  end PartialAbsoluteSensor;

  partial model PartialRelativeSensor "Measurement between two flanges"
    extends Modelica.Icons.RoundSensor;
    Flange_a flange_a "Left flange";
    Flange_b flange_b "Right flange";
  equation
    0 = flange_a.tau + flange_b.tau;
  end PartialRelativeSensor;
end Interfaces;
