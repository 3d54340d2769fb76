within Modelica.Blocks;
package Interfaces "Connectors and partial blocks"
  connector RealInput = input Real "Real signal that enters";
  connector RealOutput = output Real "Real signal that leaves";
  connector BooleanInput = input Boolean "Boolean signal that enters";
  connector BooleanOutput = output Boolean "Boolean signal that leaves";
  connector IntegerInput = input Integer "Integer signal that enters";
  connector IntegerOutput = output Integer "Integer signal that leaves";
  connector RealVectorInput = input Real "Real signal that enters, as one of several";
  connector BooleanVectorInput = input Boolean "Boolean signal that enters, as one of several";
  connector IntegerVectorInput = input Integer "Integer signal that enters, as one of several";

  partial block SO "One output"
    extends Modelica.Blocks.Icons.Block;
    RealOutput y "Output";
  end SO;

  partial block MO "Several outputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer nout(min=1) = 1 "Number of outputs";
    RealOutput y[nout] "Outputs";
  end MO;

  partial block SISO "One input, one output"
    extends Modelica.Blocks.Icons.Block;
    RealInput u "Input";
    RealOutput y "Output";
  end SISO;

  partial block SI2SO "Two inputs, one output"
    extends Modelica.Blocks.Icons.Block;
    RealInput u1 "First input";
    RealInput u2 "Second input";
    RealOutput y "Output";
  end SI2SO;

  partial block SIMO "One input, several outputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer nout = 1 "Number of outputs";
    RealInput u "Input";
    RealOutput y[nout] "Outputs";
  end SIMO;

  partial block MISO "Several inputs, one output"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer nin = 1 "Number of inputs";
    RealInput u[nin] "Inputs";
    RealOutput y "Output";
  end MISO;

  partial block PartialRealMISO "Several inputs, one output"
    parameter Integer significantDigits(min=1) = 3 "For display";
    parameter Integer nu(min=0) = 0 "Number of inputs";
    RealVectorInput u[nu] "Inputs";
    RealOutput y "Output";
  end PartialRealMISO;

  partial block MIMO "Several inputs, several outputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer nin = 1 "Number of inputs";
    parameter Integer nout = 1 "Number of outputs";
    RealInput u[nin] "Inputs";
    RealOutput y[nout] "Outputs";
  end MIMO;

  partial block MIMOs "As many inputs as outputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer n = 1 "Number of inputs and of outputs";
    RealInput u[n] "Inputs";
    RealOutput y[n] "Outputs";
  end MIMOs;

  partial block MI2MO "Two vectors of inputs, one of outputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Integer n = 1 "Length of the vectors";
    RealInput u1[n] "First inputs";
    RealInput u2[n] "Second inputs";
    RealOutput y[n] "Outputs";
  end MI2MO;

  partial block SignalSource "A signal that starts at a time from an offset"
    extends SO;
    parameter Real offset = 0 "Added to the signal";
    parameter SI.Time startTime = 0 "The output is the offset before";
  end SignalSource;

  partial block SVcontrol "A controller of one signal"
    extends Modelica.Blocks.Icons.Block;
    RealInput u_s "Setpoint";
    RealInput u_m "Measurement";
    RealOutput y "Control signal";
  end SVcontrol;

  partial block DiscreteBlock "A block that acts at sampling times"
    extends Modelica.Blocks.Icons.DiscreteBlock;
    parameter SI.Time samplePeriod(min=100*Modelica.Constants.eps, start=0.1) "Sampling interval";
    parameter SI.Time startTime = 0 "First sampling time";
  protected
    output Boolean sampleTrigger "At sampling times";
    output Boolean firstTrigger(start=false, fixed=true) "At the first sampling time";
  equation
    sampleTrigger = sample(startTime, samplePeriod);
    when sampleTrigger then
      firstTrigger = time <= startTime + samplePeriod/2;
    end when;
  end DiscreteBlock;

  partial block DiscreteSISO "One input, one output, sampled"
    extends DiscreteBlock;
    RealInput u "Input";
    RealOutput y "Output";
  end DiscreteSISO;

  partial block BooleanSISO "One Boolean input, one Boolean output"
    extends Modelica.Blocks.Icons.BooleanBlock;
    BooleanInput u "Input";
    BooleanOutput y "Output";
  end BooleanSISO;

  partial block partialBooleanSISO "One Boolean input, one Boolean output"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    BooleanInput u "Input";
    BooleanOutput y "Output";
  end partialBooleanSISO;

  partial block partialBooleanSI2SO "Two Boolean inputs, one Boolean output"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    BooleanInput u1 "First input";
    BooleanInput u2 "Second input";
    BooleanOutput y "Output";
  end partialBooleanSI2SO;

  partial block partialBooleanSO "One Boolean output"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    BooleanOutput y "Output";
  end partialBooleanSO;

  partial block partialBooleanSource "A Boolean signal"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    BooleanOutput y "Output";
  end partialBooleanSource;

  partial block partialBooleanThresholdComparison "An input compared with a number"
    parameter Real threshold = 0 "The number";
    RealInput u "Input";
    BooleanOutput y "Result";
  end partialBooleanThresholdComparison;

  partial block partialBooleanComparison "Two inputs compared"
    RealInput u1 "First input";
    RealInput u2 "Second input";
    BooleanOutput y "Result";
  end partialBooleanComparison;

  partial block PartialConversionBlock "A change of unit"
    RealInput u "Input";
    RealOutput y "Output";
  end PartialConversionBlock;
end Interfaces;
