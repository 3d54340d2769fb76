within Modelica.Mechanics.Translational;
package Sources "Forces and prescribed motions"
  import Modelica.Mechanics.Translational.Interfaces;

  model Position "Position that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    parameter Boolean exact = false "Whether the position is the signal itself rather than filtered";
    parameter SI.Frequency f_crit = 50 "Critical frequency of the filter";
    SI.Position s(stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Position against the housing";
    SI.Velocity v(start=0, stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Speed";
    SI.Acceleration a "Acceleration";
    Modelica.Blocks.Interfaces.RealInput s_ref(unit="m") "The signal";
  protected
    parameter Modelica.Units.SI.AngularFrequency w_crit = 2*Modelica.Constants.pi*f_crit "Critical frequency of the filter";
    constant Real af = 1.3617 "First coefficient of the second-order Bessel filter";
    constant Real bf = 0.6180 "Second coefficient of the second-order Bessel filter";
  initial equation
    if not exact then
      s = s_ref;
    end if;
  equation
    s = flange.s - s_support;
    v = der(s);
    a = der(v);
    if exact then
      s = s_ref;
    else
      a = ((s_ref - s)*w_crit - af*v)*(w_crit/bf);
    end if;
  end Position;

  model Speed "Speed that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    parameter Boolean exact = false "Whether the speed is the signal itself rather than filtered";
    parameter SI.Frequency f_crit = 50 "Critical frequency of the filter";
    SI.Position s(start=0, fixed=true, stateSelect=StateSelect.prefer) "Position against the housing";
    SI.Velocity v(start=0, stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Speed";
    SI.Acceleration a "Acceleration; zero when exact";
    Modelica.Blocks.Interfaces.RealInput v_ref(unit="m/s") "The signal";
  protected
    parameter Modelica.Units.SI.AngularFrequency w_crit = 2*Modelica.Constants.pi*f_crit "Critical frequency of the filter";
  initial equation
    if not exact then
      v = v_ref;
    end if;
  equation
    s = flange.s - s_support;
    v = der(s);
    if exact then
      v = v_ref;
      a = 0;
    else
      a = der(v);
      a = (v_ref - v)*w_crit;
    end if;
  end Speed;

  model Accelerate "Acceleration that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    SI.Position s(start=0, fixed=true, stateSelect=StateSelect.prefer) "Position against the housing";
    SI.Velocity v(start=0, fixed=true, stateSelect=StateSelect.prefer) "Speed";
    SI.Acceleration a "Acceleration";
    Modelica.Blocks.Interfaces.RealInput a_ref(unit="m/s2") "The signal";
  equation
    s = flange.s - s_support;
    v = der(s);
    a = der(v);
    a = a_ref;
  end Accelerate;

  model Force "Force that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    Modelica.Blocks.Interfaces.RealInput f(unit="N") "Force that drives the moving part";
  equation
    flange.f = -f;
  end Force;

  model Force2 "Force between two flanges that follows a signal"
    extends Interfaces.PartialTwoFlanges;
    Modelica.Blocks.Interfaces.RealInput f(unit="N") "Force that drives flange_b away from flange_a";
  equation
    flange_a.f = f;
    flange_b.f = -f;
  end Force2;

  model LinearSpeedDependentForce "Force linear in speed"
    extends Interfaces.PartialForce;
    parameter SI.Force f_nominal "Force at the nominal speed; a load when negative";
    parameter Boolean ForceDirection = true "Whether the force keeps its direction when the speed changes sign";
    parameter SI.Velocity v_nominal(min=Modelica.Constants.eps) "Nominal speed";
    SI.Velocity v "Speed";
    SI.Force f "Force that drives the moving part";
  equation
    v = der(s);
    f = -flange.f;
    if ForceDirection then
      f = f_nominal*abs(v/v_nominal);
    else
      f = f_nominal*(v/v_nominal);
    end if;
  end LinearSpeedDependentForce;

  model QuadraticSpeedDependentForce "Force quadratic in speed"
    extends Interfaces.PartialForce;
    parameter SI.Force f_nominal "Force at the nominal speed; a load when negative";
    parameter Boolean ForceDirection = true "Whether the force keeps its direction when the speed changes sign";
    parameter SI.Velocity v_nominal(min=Modelica.Constants.eps) "Nominal speed";
    SI.Velocity v "Speed";
    SI.Force f "Force that drives the moving part";
  equation
    v = der(s);
    f = -flange.f;
    if ForceDirection then
      f = f_nominal*(v/v_nominal)^2;
    else
      f = f_nominal*smooth(1, if v >= 0 then (v/v_nominal)^2 else -(v/v_nominal)^2);
    end if;
  end QuadraticSpeedDependentForce;

  model ConstantForce "Constant force"
    extends Interfaces.PartialForce;
    parameter SI.Force f_constant "The force; a load when negative";
    SI.Velocity v "Speed";
    SI.Force f "Force that drives the moving part";
  equation
    v = der(s);
    f = -flange.f;
    f = f_constant;
  end ConstantForce;

  model ConstantSpeed "Constant speed"
    extends Interfaces.PartialForce;
    parameter SI.Velocity v_fixed "The speed";
    SI.Velocity v "Speed";
  equation
    v = der(s);
    v = v_fixed;
  end ConstantSpeed;

  model ForceStep "Force with a jump"
    extends Interfaces.PartialForce;
    parameter SI.Force stepForce(start=1) "Height of the jump; a load when negative";
    parameter SI.Force offsetForce(start=0) = 0 "Force before";
    parameter SI.Time startTime = 0 "Time of the jump";
    SI.Force f "Force that drives the moving part";
  equation
    f = -flange.f;
    f = offsetForce + (if time < startTime then 0 else stepForce);
  end ForceStep;
end Sources;
