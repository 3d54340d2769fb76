within Modelica.Mechanics.Translational;
package Components "Masses, springs, dampers, rods"
  import Modelica.Mechanics.Translational.Interfaces;

  model Fixed "A flange that cannot move"
    parameter SI.Position s0 = 0 "Its position";
    Interfaces.Flange_b flange "The flange";
  equation
    flange.s = s0;
  end Fixed;

  model Mass "A sliding mass"
    parameter SI.Mass m(min=0, start=1) "Mass";
    parameter StateSelect stateSelect = StateSelect.default "Wish about s and v being states";
    extends Interfaces.PartialRigid(L=0, s(start=0, stateSelect=stateSelect));
    SI.Velocity v(start=0, stateSelect=stateSelect) "Speed";
    SI.Acceleration a "Acceleration";
  equation
    v = der(s);
    a = der(v);
    m*a = flange_a.f + flange_b.f;
  end Mass;

  model Rod "A rigid rod without mass"
    extends Interfaces.PartialRigid;
  equation
    0 = flange_a.f + flange_b.f;
  end Rod;

  model Spring "Linear spring"
    extends Interfaces.PartialCompliant;
    parameter SI.TranslationalSpringConstant c(final min=0, start=1) "Force per length";
    parameter SI.Distance s_rel0 = 0 "Length without force";
  equation
    f = c*(s_rel - s_rel0);
  end Spring;

  model Damper "Linear damper"
    extends Interfaces.PartialCompliantWithRelativeStates;
    parameter SI.TranslationalDampingConstant d(final min=0, start=0) "Force per relative speed";
    extends Modelica.Thermal.HeatTransfer.Interfaces.PartialElementaryConditionalHeatPortWithoutT;
  equation
    f = d*v_rel;
    lossPower = f*v_rel;
  end Damper;

  model SpringDamper "Linear spring and damper side by side"
    extends Interfaces.PartialCompliantWithRelativeStates;
    parameter SI.TranslationalSpringConstant c(final min=0, start=1) "Force per length";
    parameter SI.TranslationalDampingConstant d(final min=0, start=1) "Force per relative speed";
    parameter SI.Position s_rel0 = 0 "Length without force of the spring";
    extends Modelica.Thermal.HeatTransfer.Interfaces.PartialElementaryConditionalHeatPortWithoutT;
  protected
    SI.Force f_c "Force of the spring";
    SI.Force f_d "Force of the damper";
  equation
    f_c = c*(s_rel - s_rel0);
    f_d = d*v_rel;
    f = f_c + f_d;
    lossPower = f_d*v_rel;
  end SpringDamper;

  model IdealGearR2T "Gear from turning to sliding, without inertia, losses or play"
    extends Modelica.Mechanics.Rotational.Components.IdealGearR2T;
  end IdealGearR2T;

  model IdealRollingWheel "Wheel without inertia that rolls without slip"
    extends Modelica.Mechanics.Rotational.Components.IdealRollingWheel;
  end IdealRollingWheel;

  model RelativeStates "Wish that the relative position and speed of two flanges be states"
    extends Interfaces.PartialTwoFlanges;
    parameter StateSelect stateSelect = StateSelect.prefer "The wish";
    SI.Position s_rel(start=0, stateSelect=stateSelect) "Position of flange_b less that of flange_a";
    SI.Velocity v_rel(start=0, stateSelect=stateSelect) "Relative speed";
    SI.Acceleration a_rel "Relative acceleration";
  equation
    s_rel = flange_b.s - flange_a.s;
    v_rel = der(s_rel);
    a_rel = der(v_rel);
    flange_a.f = 0;
    flange_b.f = 0;
  end RelativeStates;
end Components;
