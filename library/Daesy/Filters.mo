within Daesy;
package Filters "Filters between a signal and its samples"
  block Presampling "Low-pass filter before a sampler"
    extends Modelica.Blocks.Interfaces.SISO;
    parameter Integer order(min=1, max=2) = 1 "1, or 2 for a Butterworth filter";
    parameter SI.Frequency f_cut(min=Modelica.Constants.small, start=10) "Frequency where half the power passes";
    parameter Real y_start = 0 "Start value of the output";
    Real x[order](start=cat(1, {y_start}, zeros(order - 1))) "States: the output and, for order 2, its derivative divided by the cut-off frequency";
  protected
    final parameter SI.AngularFrequency w_cut = 2*Modelica.Constants.pi*f_cut "Cut-off frequency";
  equation
    assert(order == 1 or order == 2, "Presampling: order must be 1 or 2");
    if order == 1 then
      der(x[1]) = w_cut*(u - x[1]);
    else
      der(x[1]) = w_cut*x[order];
      der(x[order]) = w_cut*(u - x[1] - sqrt(2)*x[order]);
    end if;
    y = x[1];
    annotation (Documentation(info="<html>
<p>White noise cannot be sampled; filtered by this block it has finite variance. The gain at frequency zero is 1. The cut-off frequency belongs
well below half the sampling frequency.</p>
</html>"));
  end Presampling;
end Filters;
