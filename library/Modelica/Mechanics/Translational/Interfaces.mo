within Modelica.Mechanics.Translational;
package Interfaces "Flanges and partial parts"
  connector Flange "A flange"
    SI.Position s "Position";
    flow SI.Force f "Force into the component";
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

  model InternalSupport "Housing inside a part that balances its own forces"
    input SI.Force f "Force on the housing";
    SI.Position s "Position of the housing";
    Flange_a flange "Flange of the housing";
  equation
    flange.f = f;
    flange.s = s;
  end InternalSupport;

  partial model PartialTwoFlanges "Two flanges"
    Flange_a flange_a "Left flange";
    Flange_b flange_b "Right flange";
  end PartialTwoFlanges;

  partial model PartialOneFlangeAndSupport "One flange and a housing"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Flange_b flange "Flange of the moving part";
    Support support if useSupport "Flange of the housing";
  protected
    Support internalSupport "Housing as seen inside";
    Components.Fixed fixed if not useSupport "Housing at rest";
  equation
    connect(support, internalSupport);
    connect(internalSupport, fixed.flange);
  end PartialOneFlangeAndSupport;

  partial model PartialRigid "Two flanges at a fixed distance"
    extends PartialTwoFlanges;
    SI.Position s "Position of the middle";
    parameter SI.Length L(start=0) "Position of flange_b less that of flange_a";
  equation
    flange_a.s = s - L/2;
    flange_b.s = s + L/2;
  end PartialRigid;

  partial model PartialCompliant "Two flanges that may slide against each other"
    extends PartialTwoFlanges;
    SI.Position s_rel(start=0) "Position of flange_b less that of flange_a";
    SI.Force f "Force between the flanges";
  equation
    s_rel = flange_b.s - flange_a.s;
    flange_b.f = f;
    flange_a.f = -f;
  end PartialCompliant;

  partial model PartialCompliantWithRelativeStates "Two flanges that may slide against each other, with relative speed"
    extends PartialTwoFlanges;
    parameter StateSelect stateSelect = StateSelect.prefer "Wish about s_rel and v_rel being states";
    parameter SI.Distance s_nominal = 1e-4 "Typical relative position";
    SI.Position s_rel(start=0, stateSelect=stateSelect, nominal=s_nominal) "Position of flange_b less that of flange_a";
    SI.Velocity v_rel(start=0, stateSelect=stateSelect) "Relative speed";
    SI.Force f "Force between the flanges";
  equation
    s_rel = flange_b.s - flange_a.s;
    v_rel = der(s_rel);
    flange_b.f = f;
    flange_a.f = -f;
  end PartialCompliantWithRelativeStates;

  partial model PartialElementaryOneFlangeAndSupport2 "One flange and a housing, force balanced"
    parameter Boolean useSupport = false "Whether the housing has a flange";
    Flange_b flange "Flange of the moving part";
    Support support(s=s_support, f=-flange.f) if useSupport "Flange of the housing";
  protected
    SI.Length s_support "Position of the housing";
  equation
    if not useSupport then
      s_support = 0;
    end if;
  end PartialElementaryOneFlangeAndSupport2;

  partial model PartialForce "A force between moving part and housing"
    extends PartialElementaryOneFlangeAndSupport2;
    SI.Length s "Position against the housing";
  equation
    s = flange.s - s_support;
  end PartialForce;

  partial model PartialAbsoluteSensor "Measurement at one flange"
    extends Modelica.Icons.RectangularSensor;
    Flange_a flange "Measured flange";
  equation
    0 = flange.f;
  end PartialAbsoluteSensor;

  partial model PartialRelativeSensor "Measurement between two flanges"
    extends Modelica.Icons.RectangularSensor;
    Flange_a flange_a "Left flange";
    Flange_b flange_b "Right flange";
  equation
    0 = flange_a.f + flange_b.f;
  end PartialRelativeSensor;
end Interfaces;
