within Modelica.Blocks;
package Sources "Signals of time"
  import Modelica.Blocks.Interfaces;
  import Modelica.Constants.pi;

  block RealExpression "An expression as a signal"
    Interfaces.RealOutput y = 0.0 "The expression";
  end RealExpression;

  block IntegerExpression "An integer expression as a signal"
    Interfaces.IntegerOutput y = 0 "The expression";
  end IntegerExpression;

  block BooleanExpression "A Boolean expression as a signal"
    Interfaces.BooleanOutput y = false "The expression";
  end BooleanExpression;

  block ContinuousClock "Time"
    extends Interfaces.SignalSource;
  equation
    y = offset + (if time < startTime then 0 else time - startTime);
  end ContinuousClock;

  block Clock "Time, by the name of versions before 4"
    extends ContinuousClock;
  end Clock;

  block Constant "A number"
    parameter Real k(start=1) "The number";
    extends Interfaces.SO;
  equation
    y = k;
  end Constant;

  block Step "A jump"
    parameter Real height = 1 "Height of the jump";
    extends Interfaces.SignalSource;
  equation
    y = offset + (if time < startTime then 0 else height);
  end Step;

  block Ramp "A straight rise to a new level"
    parameter Real height = 1 "Height of the rise";
    parameter SI.Time duration(min=0.0, start=2) "Duration of the rise; a jump when 0";
    extends Interfaces.SignalSource;
  equation
    y = offset + (if time < startTime then 0 elseif time < startTime + duration then (time - startTime)*height/duration else height);
  end Ramp;

  block Sine "A sine wave"
    parameter Real amplitude = 1 "Amplitude";
    parameter SI.Frequency f(start=1) "Frequency";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter Boolean continuous = false "Whether the signal before the start equals that at the start";
    extends Interfaces.SignalSource;
  equation
    if continuous then
      y = offset + amplitude*sin(2*pi*f*(if time < startTime then 0 else time - startTime) + phase);
    else
      y = offset + (if time < startTime then 0 else amplitude*sin(2*pi*f*(time - startTime) + phase));
    end if;
  end Sine;

  block Cosine "A cosine wave"
    parameter Real amplitude = 1 "Amplitude";
    parameter SI.Frequency f(start=1) "Frequency";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter Boolean continuous = false "Whether the signal before the start equals that at the start";
    extends Interfaces.SignalSource;
  equation
    if continuous then
      y = offset + amplitude*cos(2*pi*f*(if time < startTime then 0 else time - startTime) + phase);
    else
      y = offset + (if time < startTime then 0 else amplitude*cos(2*pi*f*(time - startTime) + phase));
    end if;
  end Cosine;

  block ExpSine "A sine wave that dies out"
    parameter Real amplitude = 1 "Amplitude at the start";
    parameter SI.Frequency f(start=2) "Frequency";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.DampingCoefficient damping(start=1) "Rate of decay";
    extends Interfaces.SignalSource;
  equation
    y = offset + (if time < startTime then 0 else
      amplitude*exp(-(time - startTime)*damping)*sin(2*pi*f*(time - startTime) + phase));
  end ExpSine;

  block Exponentials "A rise and a fall, both exponential"
    parameter Real outMax = 1 "Level of an endless rise";
    parameter SI.Time riseTime(min=0, start=0.5) "Duration of the rise";
    parameter SI.Time riseTimeConst(min=Modelica.Constants.small) = 0.1 "Time constant of the rise";
    parameter SI.Time fallTimeConst(min=Modelica.Constants.small) = riseTimeConst "Time constant of the fall";
    extends Interfaces.SignalSource;
  protected
    Real y_riseTime "Level at the end of the rise";
  equation
    y_riseTime = outMax*(1 - exp(-riseTime/riseTimeConst));
    y = offset + (if time < startTime then 0 elseif time < startTime + riseTime then
      outMax*(1 - exp(-(time - startTime)/riseTimeConst)) else
      y_riseTime*exp(-(time - startTime - riseTime)/fallTimeConst));
  end Exponentials;

  block Pulse "Rectangles, one each period"
    parameter Real amplitude = 1 "Height of the rectangles";
    parameter Real width(final min=Modelica.Constants.small, final max=100) = 50 "Width in per cent of the period";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter Integer nperiod = -1 "Number of rectangles; without end when negative";
    extends Interfaces.SignalSource;
  protected
    SI.Time T_width = period*width/100 "Width";
    SI.Time T_start "Begin of the present period";
    Integer count "Number of the present period, from 0";
  initial algorithm
    count := integer((time - startTime)/period);
    T_start := startTime + count*period;
  equation
    when integer((time - startTime)/period) > pre(count) then
      count = pre(count) + 1;
      T_start = time;
    end when;
    y = offset + (if time < startTime or nperiod == 0 or (nperiod > 0 and count >= nperiod) then 0
      elseif time < T_start + T_width then amplitude else 0);
  end Pulse;

  block SawTooth "Straight rises, one each period"
    parameter Real amplitude = 1 "Height of the rises";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter Integer nperiod = -1 "Number of rises; without end when negative";
    extends Interfaces.SignalSource;
  protected
    SI.Time T_start(final start=startTime) "Begin of the present period";
    Integer count "Number of the present period, from 0";
  initial algorithm
    count := integer((time - startTime)/period);
    T_start := startTime + count*period;
  equation
    when integer((time - startTime)/period) > pre(count) then
      count = pre(count) + 1;
      T_start = time;
    end when;
    y = offset + (if time < startTime or nperiod == 0 or (nperiod > 0 and count >= nperiod) then 0
      else amplitude*(time - T_start)/period);
  end SawTooth;

  block Trapezoid "Trapezoids, one each period"
    parameter Real amplitude = 1 "Height of the trapezoids";
    parameter SI.Time rising(final min=0) = 0 "Duration of the rise";
    parameter SI.Time width(final min=0) = 0.5 "Duration of the top";
    parameter SI.Time falling(final min=0) = 0 "Duration of the fall";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter Integer nperiod = -1 "Number of trapezoids; without end when negative";
    extends Interfaces.SignalSource;
  protected
    parameter SI.Time T_rising = rising "End of the rise in the period";
    parameter SI.Time T_width = T_rising + width "End of the top in the period";
    parameter SI.Time T_falling = T_width + falling "End of the fall in the period";
    SI.Time T_start "Begin of the present period";
    Integer count "Number of the present period, from 0";
  initial algorithm
    count := integer((time - startTime)/period);
    T_start := startTime + count*period;
  equation
    when integer((time - startTime)/period) > pre(count) then
      count = pre(count) + 1;
      T_start = time;
    end when;
    y = offset + (if time < startTime or nperiod == 0 or (nperiod > 0 and count >= nperiod) then 0
      elseif time < T_start + T_rising then amplitude*(time - T_start)/rising
      elseif time < T_start + T_width then amplitude
      elseif time < T_start + T_falling then amplitude*(T_start + T_falling - time)/falling
      else 0);
  end Trapezoid;

  block TimeTable "Straight lines between given points; a jump where two points have the same time"
    parameter Real table[:, 2] = fill(0.0, 0, 2) "Times, not decreasing, and values";
    parameter SI.Time timeScale(min=Modelica.Constants.eps) = 1 "Unit of the times in the table";
    extends Interfaces.SignalSource;
    parameter SI.Time shiftTime = startTime "The table's time 0";
  protected
    Real t = (time - shiftTime)/timeScale "Time as in the table";
  equation
    assert(size(table, 1) > 0, "TimeTable needs at least one point");
    if size(table, 1) <= 1 then
      y = offset + (if time < startTime then 0 else sum(table[:, 2]));
    else
      // One line is in force at a time; those of length zero never are.
      y = offset + (if time < startTime then 0 else
        sum(if (i == 1 or t >= table[i, 1]) and (i == size(table, 1) - 1 or t < table[i + 1, 1]) then
              table[i, 2] + (if table[i + 1, 1] > table[i, 1] then
                (table[i + 1, 2] - table[i, 2])/(table[i + 1, 1] - table[i, 1])*(t - table[i, 1]) else table[i + 1, 2] - table[i, 2])
            else 0 for i in 1:size(table, 1) - 1));
    end if;
    annotation (Documentation(info="<html>
<p>Before the first point and after the last the outer lines are continued.</p>
</html>"));
  end TimeTable;

  block BooleanConstant "A truth value"
    parameter Boolean k = true "The value";
    extends Interfaces.partialBooleanSource;
  equation
    y = k;
  end BooleanConstant;

  block BooleanStep "A truth value that changes once"
    parameter SI.Time startTime = 0 "Time of the change";
    parameter Boolean startValue = false "Value before";
    extends Interfaces.partialBooleanSource;
  equation
    y = if time >= startTime then not startValue else startValue;
  end BooleanStep;

  block BooleanPulse "True for a part of each period"
    parameter Real width(final min=Modelica.Constants.small, final max=100) = 50 "Part in per cent";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter SI.Time startTime = 0 "First begin";
    extends Interfaces.partialBooleanSource;
  protected
    parameter SI.Time Twidth = period*width/100 "Duration of true";
    discrete SI.Time pulseStart(start=startTime, fixed=true) "Begin of the present period";
  equation
    when sample(startTime, period) then
      pulseStart = time;
    end when;
    y = time >= pulseStart and time < pulseStart + Twidth and time >= startTime;
  end BooleanPulse;

  block IntegerConstant "A whole number"
    parameter Integer k(start=1) "The number";
    Interfaces.IntegerOutput y "Output";
  equation
    y = k;
  end IntegerConstant;
end Sources;
