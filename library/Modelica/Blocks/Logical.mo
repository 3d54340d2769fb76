within Modelica.Blocks;
package Logical "Truth values"
  import Modelica.Blocks.Interfaces;

  block And "Both"
    extends Interfaces.partialBooleanSI2SO;
  equation
    y = u1 and u2;
  end And;

  block Or "At least one"
    extends Interfaces.partialBooleanSI2SO;
  equation
    y = u1 or u2;
  end Or;

  block Xor "Exactly one"
    extends Interfaces.partialBooleanSI2SO;
  equation
    y = not ((u1 and u2) or (not u1 and not u2));
  end Xor;

  block Nor "Neither"
    extends Interfaces.partialBooleanSI2SO;
  equation
    y = not (u1 or u2);
  end Nor;

  block Nand "Not both"
    extends Interfaces.partialBooleanSI2SO;
  equation
    y = not (u1 and u2);
  end Nand;

  block Not "The opposite"
    extends Interfaces.partialBooleanSISO;
  equation
    y = not u;
  end Not;

  block Pre "Value before the event"
    parameter Boolean pre_u_start = false "Value before the start";
    extends Interfaces.partialBooleanSISO;
  initial equation
    pre(u) = pre_u_start;
  equation
    y = pre(u);
  end Pre;

  block Edge "At the moment the input becomes true"
    parameter Boolean pre_u_start = false "Value before the start";
    extends Interfaces.partialBooleanSISO;
  initial equation
    pre(u) = pre_u_start;
  equation
    y = edge(u);
  end Edge;

  block FallingEdge "At the moment the input becomes false"
    parameter Boolean pre_u_start = false "Value before the start";
    extends Interfaces.partialBooleanSISO;
  protected
    Boolean not_u = not u "The opposite";
  initial equation
    pre(not_u) = not pre_u_start;
  equation
    y = edge(not_u);
  end FallingEdge;

  block Change "At the moment the input changes"
    parameter Boolean pre_u_start = false "Value before the start";
    extends Interfaces.partialBooleanSISO;
  initial equation
    pre(u) = pre_u_start;
  equation
    y = change(u);
  end Change;

  block GreaterThreshold "Greater than a number"
    extends Interfaces.partialBooleanThresholdComparison;
  equation
    y = u > threshold;
  end GreaterThreshold;

  block GreaterEqualThreshold "At least a number"
    extends Interfaces.partialBooleanThresholdComparison;
  equation
    y = u >= threshold;
  end GreaterEqualThreshold;

  block LessThreshold "Less than a number"
    extends Interfaces.partialBooleanThresholdComparison;
  equation
    y = u < threshold;
  end LessThreshold;

  block LessEqualThreshold "At most a number"
    extends Interfaces.partialBooleanThresholdComparison;
  equation
    y = u <= threshold;
  end LessEqualThreshold;

  block Greater "First greater than second"
    extends Interfaces.partialBooleanComparison;
  equation
    y = u1 > u2;
  end Greater;

  block GreaterEqual "First at least the second"
    extends Interfaces.partialBooleanComparison;
  equation
    y = u1 >= u2;
  end GreaterEqual;

  block Less "First less than second"
    extends Interfaces.partialBooleanComparison;
  equation
    y = u1 < u2;
  end Less;

  block LessEqual "First at most the second"
    extends Interfaces.partialBooleanComparison;
  equation
    y = u1 <= u2;
  end LessEqual;

  block Switch "One of two signals"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    Interfaces.RealInput u1 "Signal for true";
    Interfaces.BooleanInput u2 "Which";
    Interfaces.RealInput u3 "Signal for false";
    Interfaces.RealOutput y "Output";
  equation
    y = if u2 then u1 else u3;
  end Switch;

  block LogicalSwitch "One of two Boolean signals"
    Interfaces.BooleanInput u1 "Signal for true";
    Interfaces.BooleanInput u2 "Which";
    Interfaces.BooleanInput u3 "Signal for false";
    Interfaces.BooleanOutput y "Output";
  equation
    y = if u2 then u1 else u3;
  end LogicalSwitch;

  block Hysteresis "True above one level, false below another"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    parameter Real uLow(start=0) "Becomes false below";
    parameter Real uHigh(start=1) "Becomes true above";
    parameter Boolean pre_y_start = false "Value before the start";
    Interfaces.RealInput u "Input";
    Interfaces.BooleanOutput y "Output";
  initial equation
    pre(y) = pre_y_start;
  equation
    assert(uHigh > uLow, "Hysteresis: uHigh is not above uLow");
    y = not pre(y) and u > uHigh or pre(y) and u >= uLow;
  end Hysteresis;

  block OnOffController "Switches on below a reference and off above it"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    Interfaces.RealInput reference "Reference";
    Interfaces.RealInput u "Measured signal";
    Interfaces.BooleanOutput y "On";
    parameter Real bandwidth(start=0.1) "Distance of the two levels";
    parameter Boolean pre_y_start = false "Value before the start";
  initial equation
    pre(y) = pre_y_start;
  equation
    y = pre(y) and u < reference + bandwidth/2 or u < reference - bandwidth/2;
  end OnOffController;

  block Timer "Time since the input became true"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    Interfaces.BooleanInput u "Input";
    Interfaces.RealOutput y "Seconds; 0 while false";
  protected
    discrete SI.Time entryTime "When the input became true";
  initial equation
    pre(entryTime) = 0;
  equation
    when u then
      entryTime = time;
    end when;
    y = if u then time - entryTime else 0.0;
  end Timer;

  block RSFlipFlop "Set by one input, reset by the other"
    extends Modelica.Blocks.Icons.PartialBooleanBlock;
    parameter Boolean Qini = false "Value before the start";
    Interfaces.BooleanInput S "Set";
    Interfaces.BooleanInput R "Reset";
    Interfaces.BooleanOutput Q "State";
    Interfaces.BooleanOutput QI "Its opposite";
  initial equation
    pre(Q) = Qini;
  equation
    Q = S or pre(Q) and not R;
    QI = not Q;
  end RSFlipFlop;
end Logical;
