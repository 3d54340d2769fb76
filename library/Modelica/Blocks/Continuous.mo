within Modelica.Blocks;
package Continuous "Linear dynamic blocks and controllers"
  import Modelica.Blocks.Interfaces;
  import Modelica.Blocks.Types.Init;
  import Modelica.Blocks.Types.SimpleController;

  block Integrator "Integral of the input"
    extends Interfaces.SISO(y(start=y_start));
    parameter Real k = 1 "Gain";
    parameter Boolean use_reset = false "Whether there is a reset input";
    parameter Boolean use_set = false "Whether an input says the value after a reset";
    parameter Init initType = Init.InitialState "How the block starts";
    parameter Real y_start = 0 "Start value, and value after a reset";
    Interfaces.BooleanInput reset if use_reset "Becoming true resets the output";
    Interfaces.RealInput set if use_reset and use_set "Value after a reset";
  protected
    Interfaces.BooleanOutput local_reset "Reset as seen inside";
    Interfaces.RealOutput local_set "Value after a reset as seen inside";
  initial equation
    if initType == Init.SteadyState then
      der(y) = 0;
    elseif initType == Init.InitialState or initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    if use_reset then
      connect(reset, local_reset);
      if use_set then
        connect(set, local_set);
      else
        local_set = y_start;
      end if;
      when local_reset then
        reinit(y, local_set);
      end when;
    else
      local_reset = false;
      local_set = 0;
    end if;
    der(y) = k*u;
  end Integrator;

  block LimIntegrator "Integral of the input, kept between two limits"
    extends Interfaces.SISO(y(start=y_start));
    parameter Real k(unit="1") = 1 "Gain";
    parameter Real outMax(start=1) "Upper limit";
    parameter Real outMin = -outMax "Lower limit";
    parameter Boolean use_reset = false "Whether there is a reset input";
    parameter Boolean use_set = false "Whether an input says the value after a reset";
    parameter Init initType = Init.InitialState "How the block starts";
    parameter Boolean limitsAtInit = true "Accepted for compatibility";
    parameter Real y_start = 0 "Start value";
    parameter Boolean strict = false "Whether reaching a limit is no event";
    Interfaces.BooleanInput reset if use_reset "Becoming true resets the output";
    Interfaces.RealInput set if use_reset and use_set "Value after a reset";
  protected
    Interfaces.BooleanOutput local_reset "Reset as seen inside";
    Interfaces.RealOutput local_set "Value after a reset as seen inside";
  initial equation
    if initType == Init.SteadyState then
      der(y) = 0;
    elseif initType == Init.InitialState or initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    if use_reset then
      connect(reset, local_reset);
      if use_set then
        connect(set, local_set);
      else
        local_set = y_start;
      end if;
      when local_reset then
        reinit(y, local_set);
      end when;
    else
      local_reset = false;
      local_set = 0;
    end if;
    if strict then
      der(y) = noEvent(if y < outMin and k*u < 0 or y > outMax and k*u > 0 then 0 else k*u);
    else
      der(y) = if y < outMin and k*u < 0 or y > outMax and k*u > 0 then 0 else k*u;
    end if;
  end LimIntegrator;

  block Derivative "Approximate derivative: k*s/(T*s + 1)"
    extends Interfaces.SISO;
    parameter Real k = 1 "Gain";
    parameter SI.Time T(min=Modelica.Constants.small) = 0.01 "Time constant";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real x_start = 0 "Start value of the state";
    parameter Real y_start = 0 "Start value of the output";
    output Real x(start=x_start) "State: the input, delayed";
  protected
    parameter Boolean zeroGain = abs(k) < Modelica.Constants.eps "Whether there is nothing to do";
  initial equation
    if initType == Init.SteadyState then
      der(x) = 0;
    elseif initType == Init.InitialState then
      x = x_start;
    elseif initType == Init.InitialOutput then
      if zeroGain then
        x = u;
      else
        y = y_start;
      end if;
    end if;
  equation
    der(x) = if zeroGain then 0 else (u - x)/T;
    y = if zeroGain then 0 else (k/T)*(u - x);
  end Derivative;

  block Der "Exact derivative of the input"
    extends Interfaces.SISO;
  equation
    y = der(u);
  end Der;

  block FirstOrder "First-order lag: k/(T*s + 1)"
    extends Interfaces.SISO(y(start=y_start));
    parameter Real k(unit="1") = 1 "Gain";
    parameter SI.Time T(start=1) "Time constant";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real y_start = 0 "Start value";
  initial equation
    if initType == Init.SteadyState then
      der(y) = 0;
    elseif initType == Init.InitialState or initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    der(y) = (k*u - y)/T;
  end FirstOrder;

  block SecondOrder "Second-order lag: k/((s/w)^2 + 2*D*(s/w) + 1)"
    extends Interfaces.SISO(y(start=y_start));
    parameter Real k(unit="1") = 1 "Gain";
    parameter Real w(start=1) "Angular frequency without damping";
    parameter Real D(start=1) "Damping ratio";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real y_start = 0 "Start value";
    parameter Real yd_start = 0 "Start value of the derivative";
    output Real yd(start=yd_start) "Derivative of the output";
  initial equation
    if initType == Init.SteadyState then
      der(y) = 0;
      der(yd) = 0;
    elseif initType == Init.InitialState or initType == Init.InitialOutput then
      y = y_start;
      yd = yd_start;
    end if;
  equation
    der(y) = yd;
    der(yd) = w*(w*(k*u - y) - 2*D*yd);
  end SecondOrder;

  block PI "Proportional and integral controller: k*(1 + 1/(T*s))"
    extends Interfaces.SISO;
    parameter Real k(unit="1") = 1 "Gain";
    parameter SI.Time T(start=1, min=Modelica.Constants.small) "Integral time";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real x_start = 0 "Start value of the state";
    parameter Real y_start = 0 "Start value of the output";
    output Real x(start=x_start) "State: the integral";
  initial equation
    if initType == Init.SteadyState then
      der(x) = 0;
    elseif initType == Init.InitialState then
      x = x_start;
    elseif initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    der(x) = u/T;
    y = k*(x + u);
  end PI;

  block PID "Proportional, integral and derivative controller: k*(1 + 1/(Ti*s) + Td*s/(1 + s*Td/Nd))"
    extends Interfaces.SISO;
    parameter Real k(unit="1") = 1 "Gain";
    parameter SI.Time Ti(min=Modelica.Constants.small, start=0.5) "Integral time";
    parameter SI.Time Td(min=0, start=0.1) "Derivative time";
    parameter Real Nd(min=Modelica.Constants.small) = 10 "Ratio of derivative time to its filter's time constant";
    parameter Init initType = Init.InitialState "How the block starts";
    parameter Real xi_start = 0 "Start value of the integral";
    parameter Real xd_start = 0 "Start value of the derivative's state";
    parameter Real y_start = 0 "Start value of the output";
    constant SI.Time unitTime = 1 "One second";
    Modelica.Blocks.Math.Gain P(k=1) "Proportional part";
    Integrator I(k=unitTime/Ti, y_start=xi_start,
      initType=if initType == Init.SteadyState then Init.SteadyState
        else if initType == Init.InitialState then Init.InitialState else Init.NoInit) "Integral part";
    Derivative D(k=Td/unitTime, T=max({Td/Nd, 100*Modelica.Constants.eps}), x_start=xd_start,
      initType=if initType == Init.SteadyState or initType == Init.InitialOutput then Init.SteadyState
        else if initType == Init.InitialState then Init.InitialState else Init.NoInit) "Derivative part";
    Modelica.Blocks.Math.Gain Gain(k=k) "Gain of all parts";
    Modelica.Blocks.Math.Add3 Add "Sum of all parts";
  initial equation
    if initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    connect(u, P.u);
    connect(u, I.u);
    connect(u, D.u);
    connect(P.y, Add.u1);
    connect(I.y, Add.u2);
    connect(D.y, Add.u3);
    connect(Add.y, Gain.u);
    connect(y, Gain.y);
  end PID;

  block LimPID "Controller with limited output, anti-windup, setpoint weights and feed-forward"
    extends Interfaces.SVcontrol;
    output Real controlError = u_s - u_m "Setpoint less measurement";
    parameter SimpleController controllerType = SimpleController.PID "Which parts it has";
    parameter Real k(min=0, unit="1") = 1 "Gain";
    parameter SI.Time Ti(min=Modelica.Constants.small) = 0.5 "Integral time";
    parameter SI.Time Td(min=0) = 0.1 "Derivative time";
    parameter Real yMax(start=1) "Upper limit of the output";
    parameter Real yMin = -yMax "Lower limit of the output";
    parameter Real wp(min=0) = 1 "Weight of the setpoint in the proportional part";
    parameter Real wd(min=0) = 0 "Weight of the setpoint in the derivative part";
    parameter Real Ni(min=100*Modelica.Constants.eps) = 0.9 "Ni*Ti is the time constant of the anti-windup";
    parameter Real Nd(min=100*Modelica.Constants.eps) = 10 "Ratio of derivative time to its filter's time constant";
    parameter Boolean withFeedForward = false "Whether there is a feed-forward input";
    parameter Real kFF = 1 "Gain of the feed-forward input";
    parameter Init initType = Init.InitialState "How the block starts";
    parameter Real xi_start = 0 "Start value of the integral";
    parameter Real xd_start = 0 "Start value of the derivative's state";
    parameter Real y_start = 0 "Start value of the output";
    parameter Modelica.Blocks.Types.LimiterHomotopy homotopyType = Modelica.Blocks.Types.LimiterHomotopy.Linear "Accepted for compatibility";
    parameter Boolean strict = false "Whether reaching a limit is no event";
    Interfaces.RealInput u_ff if withFeedForward "Feed-forward";
    Real xi(start=xi_start) "Integral part, before the gain";
    Real xd(start=xd_start) "State of the derivative part";
    Real v "Output before the limits";
  protected
    parameter Boolean with_I = controllerType == SimpleController.PI or controllerType == SimpleController.PID "Whether there is an integral part";
    parameter Boolean with_D = controllerType == SimpleController.PD or controllerType == SimpleController.PID "Whether there is a derivative part";
    final parameter SI.Time T_filter = max({Td/Nd, 1e-14}) "Time constant of the derivative's filter";
    Interfaces.RealInput local_ff "Feed-forward as seen inside";
    Real d "Derivative part, before the gain";
  initial equation
    if initType == Init.SteadyState then
      if with_I then
        der(xi) = 0;
      end if;
      if with_D then
        der(xd) = 0;
      end if;
    elseif initType == Init.InitialState then
      if with_I then
        xi = xi_start;
      end if;
      if with_D then
        xd = xd_start;
      end if;
    elseif initType == Init.InitialOutput then
      if with_I then
        v = y_start;
      end if;
      if with_D then
        der(xd) = 0;
      end if;
    end if;
  equation
    assert(yMax >= yMin, "LimPID: yMax is below yMin");
    connect(u_ff, local_ff);
    if not withFeedForward then
      local_ff = 0;
    end if;
    if with_I then
      der(xi) = (controlError + (y - v)/(k*Ni))/Ti;
    else
      xi = 0;
    end if;
    if with_D then
      der(xd) = (wd*u_s - u_m - xd)/T_filter;
      d = Td*(wd*u_s - u_m - xd)/T_filter;
    else
      xd = 0;
      d = 0;
    end if;
    v = k*(wp*u_s - u_m + xi + d) + kFF*local_ff;
    if strict then
      y = smooth(0, noEvent(if v > yMax then yMax else if v < yMin then yMin else v));
    else
      y = smooth(0, if v > yMax then yMax else if v < yMin then yMin else v);
    end if;
    annotation (Documentation(info="<html>
<p>The controller is written as equations, so the inner blocks of the Standard Library's version (I, D, limiter and so on) cannot be named;
the integral is xi, the state of the derivative xd. With the integral part absent, xi is zero; likewise xd.</p>
</html>"));
  end LimPID;

  block TransferFunction "Ratio of two polynomials in s"
    extends Interfaces.SISO;
    parameter Real b[:] = {1} "Numerator, highest power first";
    parameter Real a[:] = {1} "Denominator, highest power first";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real x_start[size(a, 1) - 1] = zeros(nx) "Start values of the states";
    parameter Real y_start = 0 "Start value of the output";
    output Real x[size(a, 1) - 1](start=x_start) "States of the controller canonical form";
  protected
    parameter Integer na = size(a, 1) "Length of the denominator";
    parameter Integer nb = size(b, 1) "Length of the numerator";
    parameter Integer nx = size(a, 1) - 1 "Order";
    parameter Real bb[:] = vector([zeros(max(0, na - nb), 1); b]) "Numerator as long as the denominator";
    parameter Real d = bb[1]/a[1] "Direct feed-through";
    parameter Real a_end = if a[end] > 100*Modelica.Constants.eps*sqrt(a*a) then a[end] else 1.0 "Scale of the states";
    Real x_scaled[size(x, 1)] "States times their scale";
  initial equation
    if initType == Init.SteadyState then
      der(x_scaled) = zeros(nx);
    elseif initType == Init.InitialState then
      x_scaled = x_start*a_end;
    elseif initType == Init.InitialOutput then
      y = y_start;
      der(x_scaled[2:nx]) = zeros(if nx == 0 then 0 else nx - 1);
    end if;
  equation
    assert(nb <= na, "TransferFunction: the numerator has a higher order than the denominator");
    if nx == 0 then
      y = d*u;
    else
      der(x_scaled[1]) = (-a[2:na]*x_scaled + a_end*u)/a[1];
      der(x_scaled[2:nx]) = x_scaled[1:nx - 1];
      y = ((bb[2:na] - d*a[2:na])*x_scaled)/a_end + d*u;
      x = x_scaled/a_end;
    end if;
  end TransferFunction;

  block StateSpace "Linear system: der(x) = A*x + B*u, y = C*x + D*u"
    extends Interfaces.MIMO(final nin=size(B, 2), final nout=size(C, 1));
    parameter Real A[:, size(A, 1)] = [1, 0; 0, 1] "Dynamics";
    parameter Real B[size(A, 1), :] = [1; 1] "Entry of the inputs";
    parameter Real C[:, size(A, 1)] = [1, 1] "Exit to the outputs";
    parameter Real D[size(C, 1), size(B, 2)] = zeros(size(C, 1), size(B, 2)) "Direct feed-through";
    parameter Init initType = Init.NoInit "How the block starts";
    parameter Real x_start[nx] = zeros(nx) "Start values of the states";
    parameter Real y_start[ny] = zeros(ny) "Start values of the outputs";
    output Real x[size(A, 1)](start=x_start) "States";
  protected
    parameter Integer nx = size(A, 1) "Number of states";
    parameter Integer ny = size(C, 1) "Number of outputs";
  initial equation
    if initType == Init.SteadyState then
      der(x) = zeros(nx);
    elseif initType == Init.InitialState then
      x = x_start;
    elseif initType == Init.InitialOutput then
      y = y_start;
    end if;
  equation
    der(x) = A*x + B*u;
    y = C*x + D*u;
    annotation (Documentation(info="<html>
<p>Starting from given outputs determines the states only when there are as many of one as of the other.</p>
</html>"));
  end StateSpace;
end Continuous;
