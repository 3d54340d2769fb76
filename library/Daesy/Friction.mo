within Daesy;
package Friction "Dry friction as a smooth function of speed"
  model Rotational "Friction of a bearing"
    extends Modelica.Mechanics.Rotational.Interfaces.PartialTorque;
    parameter SI.Torque tau_dry(min=0, start=1) "Torque of dry friction at higher speed";
    parameter SI.RotationalDampingConstant d(min=0) = 0 "Torque of viscous friction per speed";
    parameter SI.AngularVelocity w_small(min=Modelica.Constants.small) = 0.01 "Speed at which 76 per cent of the dry friction is reached";
    SI.AngularVelocity w "Speed against the housing";
    SI.Torque tau "Torque that brakes the shaft";
  equation
    w = der(phi);
    tau = tau_dry*tanh(w/w_small) + d*w;
    flange.tau = tau;
  end Rotational;

  model Translational "Friction of a slide"
    extends Modelica.Mechanics.Translational.Interfaces.PartialForce;
    parameter SI.Force f_dry(min=0, start=1) "Force of dry friction at higher speed";
    parameter SI.TranslationalDampingConstant d(min=0) = 0 "Force of viscous friction per speed";
    parameter SI.Velocity v_small(min=Modelica.Constants.small) = 0.001 "Speed at which 76 per cent of the dry friction is reached";
    SI.Velocity v "Speed against the housing";
    SI.Force f "Force that brakes the part";
  equation
    v = der(s);
    f = f_dry*tanh(v/v_small) + d*v;
    flange.f = f;
  end Translational;
  annotation (Documentation(info="<html>
<p>The parts creep instead of sticking: at rest under a load below the dry friction they move with a small speed. For that the models need no
events and can be used with disturbances and in identification.</p>
</html>"));
end Friction;
