within Modelica.Mechanics.Rotational;
package Sources "Torques and prescribed motions"
  import Modelica.Mechanics.Rotational.Interfaces;

  model Position "Angle that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    parameter Boolean exact = false "Whether the angle is the signal itself rather than filtered";
    parameter SI.Frequency f_crit = 50 "Critical frequency of the filter";
    SI.Angle phi(stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Angle against the housing";
    SI.AngularVelocity w(start=0, stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Speed";
    SI.AngularAcceleration a "Acceleration";
    Modelica.Blocks.Interfaces.RealInput phi_ref(final quantity="Angle", final unit="rad", displayUnit="deg") "The signal";
  protected
    parameter Modelica.Units.SI.AngularFrequency w_crit = 2*Modelica.Constants.pi*f_crit "Critical frequency of the filter";
    constant Real af = 1.3617 "First coefficient of the second-order Bessel filter";
    constant Real bf = 0.6180 "Second coefficient of the second-order Bessel filter";
  initial equation
    if not exact then
      phi = phi_ref;
    end if;
  equation
    phi = flange.phi - phi_support;
    w = der(phi);
    a = der(w);
    if exact then
      phi = phi_ref;
    else
      a = ((phi_ref - phi)*w_crit - af*w)*(w_crit/bf);
    end if;
  end Position;

  model Speed "Speed that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    parameter Boolean exact = false "Whether the speed is the signal itself rather than filtered";
    parameter SI.Frequency f_crit = 50 "Critical frequency of the filter";
    SI.Angle phi(start=0, fixed=true, stateSelect=StateSelect.prefer) "Angle against the housing";
    SI.AngularVelocity w(start=0, stateSelect=if exact then StateSelect.default else StateSelect.prefer) "Speed";
    SI.AngularAcceleration a "Acceleration; zero when exact";
    Modelica.Blocks.Interfaces.RealInput w_ref(final quantity="AngularVelocity", final unit="rad/s") "The signal";
  protected
    parameter Modelica.Units.SI.AngularFrequency w_crit = 2*Modelica.Constants.pi*f_crit "Critical frequency of the filter";
  initial equation
    if not exact then
      w = w_ref;
    end if;
  equation
    phi = flange.phi - phi_support;
    w = der(phi);
    if exact then
      w = w_ref;
      a = 0;
    else
      a = der(w);
      a = (w_ref - w)*w_crit;
    end if;
  end Speed;

  model Accelerate "Acceleration that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    SI.Angle phi(start=0, fixed=true, stateSelect=StateSelect.prefer) "Angle against the housing";
    SI.AngularVelocity w(start=0, fixed=true, stateSelect=StateSelect.prefer) "Speed";
    SI.AngularAcceleration a "Acceleration";
    Modelica.Blocks.Interfaces.RealInput a_ref(final quantity="AngularAcceleration", final unit="rad/s2") "The signal";
  equation
    phi = flange.phi - phi_support;
    w = der(phi);
    a = der(w);
    a = a_ref;
  end Accelerate;

  model Torque "Torque that follows a signal"
    extends Interfaces.PartialElementaryOneFlangeAndSupport2;
    Modelica.Blocks.Interfaces.RealInput tau(unit="N.m") "Torque that drives the shaft";
  equation
    flange.tau = -tau;
  end Torque;

  model Torque2 "Torque between two flanges that follows a signal"
    extends Interfaces.PartialTwoFlanges;
    Modelica.Blocks.Interfaces.RealInput tau(unit="N.m") "Torque that drives flange_b against flange_a";
  equation
    flange_a.tau = tau;
    flange_b.tau = -tau;
  end Torque2;

  model LinearSpeedDependentTorque "Torque linear in speed"
    extends Interfaces.PartialTorque;
    parameter SI.Torque tau_nominal "Torque at the nominal speed; a load when negative";
    parameter Boolean TorqueDirection = true "Whether the torque keeps its direction when the speed changes sign";
    parameter SI.AngularVelocity w_nominal(min=Modelica.Constants.eps) "Nominal speed";
    SI.AngularVelocity w "Speed";
    SI.Torque tau "Torque that drives the shaft";
  equation
    w = der(phi);
    tau = -flange.tau;
    if TorqueDirection then
      tau = tau_nominal*abs(w/w_nominal);
    else
      tau = tau_nominal*(w/w_nominal);
    end if;
  end LinearSpeedDependentTorque;

  model QuadraticSpeedDependentTorque "Torque quadratic in speed"
    extends Interfaces.PartialTorque;
    parameter SI.Torque tau_nominal "Torque at the nominal speed; a load when negative";
    parameter Boolean TorqueDirection = true "Whether the torque keeps its direction when the speed changes sign";
    parameter SI.AngularVelocity w_nominal(min=Modelica.Constants.eps) "Nominal speed";
    SI.AngularVelocity w "Speed";
    SI.Torque tau "Torque that drives the shaft";
  equation
    w = der(phi);
    tau = -flange.tau;
    if TorqueDirection then
      tau = tau_nominal*(w/w_nominal)^2;
    else
      tau = tau_nominal*smooth(1, if w >= 0 then (w/w_nominal)^2 else -(w/w_nominal)^2);
    end if;
  end QuadraticSpeedDependentTorque;

  model ConstantTorque "Constant torque"
    extends Interfaces.PartialTorque;
    parameter SI.Torque tau_constant "The torque; a load when negative";
    SI.AngularVelocity w "Speed";
    SI.Torque tau "Torque that drives the shaft";
  equation
    w = der(phi);
    tau = -flange.tau;
    tau = tau_constant;
  end ConstantTorque;

  model ConstantSpeed "Constant speed"
    extends Interfaces.PartialTorque;
    parameter SI.AngularVelocity w_fixed "The speed";
    SI.AngularVelocity w "Speed";
  equation
    w = der(phi);
    w = w_fixed;
  end ConstantSpeed;

  model TorqueStep "Torque with a jump"
    extends Interfaces.PartialTorque;
    parameter SI.Torque stepTorque(start=1) "Height of the jump; a load when negative";
    parameter SI.Torque offsetTorque(start=0) = 0 "Torque before";
    parameter SI.Time startTime = 0 "Time of the jump";
    SI.Torque tau "Torque that drives the shaft";
  equation
    tau = -flange.tau;
    tau = offsetTorque + (if time < startTime then 0 else stepTorque);
  end TorqueStep;
end Sources;
