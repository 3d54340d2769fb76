within Modelica.Blocks;
package Nonlinear "Limits and dead zones"
  import Modelica.Blocks.Interfaces;

  block Limiter "Input kept between two limits"
    parameter Real uMax(start=1) "Upper limit";
    parameter Real uMin = -uMax "Lower limit";
    parameter Boolean strict = false "Whether reaching a limit is no event";
    parameter Modelica.Blocks.Types.LimiterHomotopy homotopyType = Modelica.Blocks.Types.LimiterHomotopy.Linear "Accepted for compatibility";
    parameter Boolean limitsAtInit = true "Accepted for compatibility";
    extends Interfaces.SISO;
  equation
    assert(uMax >= uMin, "Limiter: uMax is below uMin");
    if strict then
      y = smooth(0, noEvent(if u > uMax then uMax else if u < uMin then uMin else u));
    else
      y = smooth(0, if u > uMax then uMax else if u < uMin then uMin else u);
    end if;
  end Limiter;

  block VariableLimiter "Input kept between two signals"
    extends Interfaces.SISO;
    parameter Boolean strict = false "Whether reaching a limit is no event";
    parameter Boolean ySimplified = false "Accepted for compatibility";
    Interfaces.RealInput limit1 "Upper limit";
    Interfaces.RealInput limit2 "Lower limit";
  equation
    if strict then
      y = smooth(0, noEvent(if u > limit1 then limit1 else if u < limit2 then limit2 else u));
    else
      y = smooth(0, if u > limit1 then limit1 else if u < limit2 then limit2 else u);
    end if;
  end VariableLimiter;

  block DeadZone "Zero within a zone, shifted outside"
    parameter Real uMax(start=1) "Upper end of the zone";
    parameter Real uMin = -uMax "Lower end of the zone";
    parameter Boolean deadZoneAtInit = true "Accepted for compatibility";
    extends Interfaces.SISO;
  equation
    assert(uMax >= uMin, "DeadZone: uMax is below uMin");
    y = smooth(0, if u > uMax then u - uMax else if u < uMin then u - uMin else 0);
  end DeadZone;

  block SlewRateLimiter "Input followed with limited speed"
    extends Interfaces.SISO;
    parameter Real Rising(min=Modelica.Constants.small, unit="1/s") = 1 "Greatest rate";
    parameter Real Falling(max=-Modelica.Constants.small, unit="1/s") = -Rising "Least rate";
    parameter SI.Time Td(min=Modelica.Constants.small) = 0.001 "Time constant of following";
    parameter Modelica.Blocks.Types.Init initType = Modelica.Blocks.Types.Init.SteadyState "How it starts";
    parameter Real y_start = 0 "Start value";
    parameter Boolean strict = false "Whether reaching a limit is no event";
  protected
    Real val(unit="1/s") = (u - y)/Td "Rate without limits";
  initial equation
    if initType == Modelica.Blocks.Types.Init.SteadyState then
      y = u;
    elseif initType == Modelica.Blocks.Types.Init.InitialState or initType == Modelica.Blocks.Types.Init.InitialOutput then
      y = y_start;
    end if;
  equation
    if strict then
      der(y) = smooth(1, noEvent(if val < Falling then Falling else if val > Rising then Rising else val));
    else
      der(y) = if val < Falling then Falling else if val > Rising then Rising else val;
    end if;
  end SlewRateLimiter;
end Nonlinear;
