within Modelica.Blocks;
package Discrete "Sampled blocks"
  import Modelica.Blocks.Interfaces;

  block Sampler "Value at the last sampling time"
    extends Interfaces.DiscreteSISO;
  equation
    when {sampleTrigger, initial()} then
      y = u;
    end when;
  end Sampler;

  block ZeroOrderHold "Value at the last sampling time, held"
    extends Interfaces.DiscreteSISO;
  protected
    Real ySample(start=0, fixed=true) "Last sample";
  equation
    when {sampleTrigger, initial()} then
      ySample = u;
    end when;
    y = pre(ySample);
    annotation (Documentation(info="<html>
<p>The output changes one event iteration after the sample is taken.</p>
</html>"));
  end ZeroOrderHold;

  block UnitDelay "Value at the sampling time before the last"
    extends Interfaces.DiscreteSISO;
    parameter Real y_start = 0 "Start value";
  equation
    when sampleTrigger then
      y = pre(u);
    end when;
  initial equation
    y = y_start;
  end UnitDelay;

  block TriggeredSampler "Value at the last time the trigger became true"
    extends Modelica.Blocks.Icons.DiscreteBlock;
    parameter Real y_start = 0 "Start value";
    Interfaces.RealInput u "Input";
    Interfaces.RealOutput y "Output";
    Interfaces.BooleanInput trigger "Trigger";
  equation
    when trigger then
      y = u;
    end when;
  initial equation
    y = y_start;
  end TriggeredSampler;
end Discrete;
