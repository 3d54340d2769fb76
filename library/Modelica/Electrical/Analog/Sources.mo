within Modelica.Electrical.Analog;
package Sources "Voltages and currents of time or of a signal"
  import Modelica.Electrical.Analog.Interfaces;

  model SignalVoltage "Voltage that follows a signal"
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    Modelica.Blocks.Interfaces.RealInput v(unit="V") "Voltage from p to n";
    SI.Current i "Current from p to n";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
  end SignalVoltage;

  model SignalCurrent "Current that follows a signal"
    Interfaces.PositivePin p "Positive pin";
    Interfaces.NegativePin n "Negative pin";
    SI.Voltage v "Voltage from p to n";
    Modelica.Blocks.Interfaces.RealInput i(unit="A") "Current from p to n";
  equation
    v = p.v - n.v;
    0 = p.i + n.i;
    i = p.i;
  end SignalCurrent;

  model ConstantVoltage "Constant voltage"
    parameter SI.Voltage V(start=1) "Voltage";
    extends Interfaces.OnePort;
  equation
    v = V;
  end ConstantVoltage;

  model ConstantCurrent "Constant current"
    parameter SI.Current I(start=1) "Current";
    extends Interfaces.OnePort;
  equation
    i = I;
  end ConstantCurrent;

  model StepVoltage "Voltage with a jump"
    parameter SI.Voltage V(start=1) "Height of the jump";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Step signalSource(final height=V));
  end StepVoltage;

  model RampVoltage "Voltage with a straight rise"
    parameter SI.Voltage V(start=1) "Height of the rise";
    parameter SI.Time duration(min=Modelica.Constants.small, start=2) "Duration of the rise";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Ramp signalSource(final height=V, final duration=duration));
  end RampVoltage;

  model SineVoltage "Voltage that follows a sine"
    parameter SI.Voltage V(start=1) "Amplitude";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.Frequency f(start=1) "Frequency";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Sine signalSource(final amplitude=V, final f=f, final phase=phase));
  end SineVoltage;

  model CosineVoltage "Voltage that follows a cosine"
    parameter SI.Voltage V(start=1) "Amplitude";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.Frequency f(start=1) "Frequency";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Cosine signalSource(final amplitude=V, final f=f, final phase=phase));
  end CosineVoltage;

  model ExpSineVoltage "Voltage that follows a sine and dies out"
    parameter SI.Voltage V(start=1) "Amplitude at the start";
    parameter SI.Frequency f(start=2) "Frequency";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.DampingCoefficient damping(start=1) "Rate of decay";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.ExpSine signalSource(final amplitude=V, final f=f, final phase=phase, final damping=damping));
  end ExpSineVoltage;

  model PulseVoltage "Voltage of rectangles"
    parameter SI.Voltage V(start=1) "Height of the rectangles";
    parameter Real width(final min=Modelica.Constants.small, final max=100, start=50) "Width in per cent of the period";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Pulse signalSource(final amplitude=V, final width=width, final period=period));
  end PulseVoltage;

  model SawToothVoltage "Voltage of straight rises"
    parameter SI.Voltage V(start=1) "Height of the rises";
    parameter SI.Time period(start=1) "Period";
    parameter Integer nperiod(start=1) = -1 "Number of rises; without end when negative";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.SawTooth signalSource(final amplitude=V, final period=period, final nperiod=nperiod));
  end SawToothVoltage;

  model TrapezoidVoltage "Voltage of trapezoids"
    parameter SI.Voltage V(start=1) "Height of the trapezoids";
    parameter SI.Time rising(final min=0, start=0) "Duration of the rise";
    parameter SI.Time width(final min=0, start=0.5) "Duration of the top";
    parameter SI.Time falling(final min=0, start=0) "Duration of the fall";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter Integer nperiod(start=-1) = -1 "Number of trapezoids; without end when negative";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.Trapezoid signalSource(final amplitude=V, final rising=rising, final width=width, final falling=falling, final period=period, final nperiod=nperiod));
  end TrapezoidVoltage;

  model TableVoltage "Voltage that follows straight lines between points"
    parameter Real table[:, 2] = [0, 0; 1, 1; 2, 4] "Times and values";
    extends Interfaces.VoltageSource(redeclare Modelica.Blocks.Sources.TimeTable signalSource(final table=table));
  end TableVoltage;

  model StepCurrent "Current with a jump"
    parameter SI.Current I(start=1) "Height of the jump";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Step signalSource(final height=I));
  end StepCurrent;

  model RampCurrent "Current with a straight rise"
    parameter SI.Current I(start=1) "Height of the rise";
    parameter SI.Time duration(min=Modelica.Constants.small, start=2) "Duration of the rise";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Ramp signalSource(final height=I, final duration=duration));
  end RampCurrent;

  model SineCurrent "Current that follows a sine"
    parameter SI.Current I(start=1) "Amplitude";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.Frequency f(start=1) "Frequency";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Sine signalSource(final amplitude=I, final f=f, final phase=phase));
  end SineCurrent;

  model CosineCurrent "Current that follows a cosine"
    parameter SI.Current I(start=1) "Amplitude";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.Frequency f(start=1) "Frequency";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Cosine signalSource(final amplitude=I, final f=f, final phase=phase));
  end CosineCurrent;

  model ExpSineCurrent "Current that follows a sine and dies out"
    parameter SI.Current I(start=1) "Amplitude at the start";
    parameter SI.Frequency f(start=2) "Frequency";
    parameter SI.Angle phase = 0 "Phase at the start";
    parameter SI.DampingCoefficient damping(start=1) "Rate of decay";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.ExpSine signalSource(final amplitude=I, final f=f, final phase=phase, final damping=damping));
  end ExpSineCurrent;

  model PulseCurrent "Current of rectangles"
    parameter SI.Current I(start=1) "Height of the rectangles";
    parameter Real width(final min=Modelica.Constants.small, final max=100, start=50) "Width in per cent of the period";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Pulse signalSource(final amplitude=I, final width=width, final period=period));
  end PulseCurrent;

  model SawToothCurrent "Current of straight rises"
    parameter SI.Current I(start=1) "Height of the rises";
    parameter SI.Time period(start=1) "Period";
    parameter Integer nperiod(start=1) = -1 "Number of rises; without end when negative";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.SawTooth signalSource(final amplitude=I, final period=period, final nperiod=nperiod));
  end SawToothCurrent;

  model TrapezoidCurrent "Current of trapezoids"
    parameter SI.Current I(start=1) "Height of the trapezoids";
    parameter SI.Time rising(final min=0, start=0) "Duration of the rise";
    parameter SI.Time width(final min=0, start=0.5) "Duration of the top";
    parameter SI.Time falling(final min=0, start=0) "Duration of the fall";
    parameter SI.Time period(final min=Modelica.Constants.small, start=1) "Period";
    parameter Integer nperiod(start=-1) = -1 "Number of trapezoids; without end when negative";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.Trapezoid signalSource(final amplitude=I, final rising=rising, final width=width, final falling=falling, final period=period, final nperiod=nperiod));
  end TrapezoidCurrent;

  model TableCurrent "Current that follows straight lines between points"
    parameter Real table[:, 2] = [0, 0; 1, 1; 2, 4] "Times and values";
    extends Interfaces.CurrentSource(redeclare Modelica.Blocks.Sources.TimeTable signalSource(final table=table));
  end TableCurrent;

end Sources;
