within Modelica.Blocks;
package Math "Mathematical operations on signals"
  import Modelica.Blocks.Interfaces;

  block Gain "Times a number"
    parameter Real k(start=1) "The number";
    Interfaces.RealInput u "Input";
    Interfaces.RealOutput y "Output";
  equation
    y = k*u;
  end Gain;

  block MatrixGain "Times a matrix"
    parameter Real K[:, :] = [1, 0; 0, 1] "The matrix";
    extends Interfaces.MIMO(final nin=size(K, 2), final nout=size(K, 1));
  equation
    y = K*u;
  end MatrixGain;

  block Feedback "First input less the second"
    Interfaces.RealInput u1 "Commanded value";
    Interfaces.RealInput u2 "Value fed back";
    Interfaces.RealOutput y "Difference";
  equation
    y = u1 - u2;
  end Feedback;

  block Add "Weighted sum of two inputs"
    extends Interfaces.SI2SO;
    parameter Real k1 = +1 "Weight of the first input";
    parameter Real k2 = +1 "Weight of the second input";
  equation
    y = k1*u1 + k2*u2;
  end Add;

  block Add3 "Weighted sum of three inputs"
    extends Modelica.Blocks.Icons.Block;
    parameter Real k1 = +1 "Weight of the first input";
    parameter Real k2 = +1 "Weight of the second input";
    parameter Real k3 = +1 "Weight of the third input";
    Interfaces.RealInput u1 "First input";
    Interfaces.RealInput u2 "Second input";
    Interfaces.RealInput u3 "Third input";
    Interfaces.RealOutput y "Sum";
  equation
    y = k1*u1 + k2*u2 + k3*u3;
  end Add3;

  block Sum "Weighted sum of several inputs"
    extends Interfaces.MISO;
    parameter Real k[nin] = ones(nin) "Weights";
  equation
    y = k*u;
  end Sum;

  block MultiSum "Weighted sum of several inputs"
    extends Interfaces.PartialRealMISO;
    parameter Real k[nu] = fill(1, nu) "Weights";
  equation
    y = k*u;
  end MultiSum;

  block MultiProduct "Product of several inputs"
    extends Interfaces.PartialRealMISO;
  equation
    y = product(u);
  end MultiProduct;

  block Product "Product of two inputs"
    extends Interfaces.SI2SO;
  equation
    y = u1*u2;
  end Product;

  block Division "First input divided by the second"
    extends Interfaces.SI2SO;
  equation
    y = u1/u2;
  end Division;

  block LinearDependency "Combination y0*(1 + k1*u1 + k2*u2)"
    extends Interfaces.SI2SO;
    parameter Real y0 = 0 "Value at zero input";
    parameter Real k1 = 0 "Weight of the first input";
    parameter Real k2 = 0 "Weight of the second input";
  equation
    y = y0*(1 + k1*u1 + k2*u2);
  end LinearDependency;

  block Abs "Absolute value"
    extends Interfaces.SISO;
    parameter Boolean generateEvent = false "Whether the change of sign is an event";
  equation
    y = if generateEvent then abs(u) else noEvent(abs(u));
  end Abs;

  block Sign "Sign"
    extends Interfaces.SISO;
    parameter Boolean generateEvent = false "Whether the change of sign is an event";
  equation
    y = if generateEvent then sign(u) else noEvent(sign(u));
  end Sign;

  block Sqrt "Square root"
    extends Interfaces.SISO;
  equation
    y = sqrt(u);
  end Sqrt;

  block Sin "Sine"
    extends Interfaces.SISO;
  equation
    y = sin(u);
  end Sin;

  block Cos "Cosine"
    extends Interfaces.SISO;
  equation
    y = cos(u);
  end Cos;

  block Tan "Tangent"
    extends Interfaces.SISO;
  equation
    y = tan(u);
  end Tan;

  block Asin "Inverse sine"
    extends Interfaces.SISO;
  equation
    y = asin(u);
  end Asin;

  block Acos "Inverse cosine"
    extends Interfaces.SISO;
  equation
    y = acos(u);
  end Acos;

  block Atan "Inverse tangent"
    extends Interfaces.SISO;
  equation
    y = atan(u);
  end Atan;

  block Sinh "Hyperbolic sine"
    extends Interfaces.SISO;
  equation
    y = sinh(u);
  end Sinh;

  block Cosh "Hyperbolic cosine"
    extends Interfaces.SISO;
  equation
    y = cosh(u);
  end Cosh;

  block Tanh "Hyperbolic tangent"
    extends Interfaces.SISO;
  equation
    y = tanh(u);
  end Tanh;

  block Log10 "Decimal logarithm"
    extends Interfaces.SISO;
  equation
    y = log10(u);
  end Log10;

  block Max "Larger input"
    extends Interfaces.SI2SO;
  equation
    y = max(u1, u2);
  end Max;

  block Min "Smaller input"
    extends Interfaces.SI2SO;
  equation
    y = min(u1, u2);
  end Min;

  block Atan2 "Angle of the point (u2, u1)"
    extends Interfaces.SI2SO;
  equation
    y = atan2(u1, u2);
  end Atan2;

  block Exp "Power of a base, the exponential function by default"
    extends Interfaces.SISO;
    parameter Real base = Modelica.Constants.e "Base";
    parameter Boolean useExp = true "Whether computed by exponential and logarithm";
  equation
    y = if useExp then exp(u*log(base)) else base^u;
  end Exp;

  block Log "Logarithm to a base, natural by default"
    extends Interfaces.SISO;
    parameter Real base = Modelica.Constants.e "Base";
  equation
    y = log(u)/log(base);
  end Log;

  block Power "Power of the input"
    extends Interfaces.SISO;
    parameter Real N = 2 "Exponent";
    parameter Boolean NInteger = true "Whether the exponent is whole";
    parameter Boolean noNegativeU = false "Whether negative inputs count as zero";
  equation
    y = if noNegativeU then noEvent(max(u, 0))^N else u^N;
  end Power;

  block MinMax "Smallest and largest of several inputs"
    parameter Integer nu(min=0) = 0 "Number of inputs";
    Interfaces.RealVectorInput u[nu] "Inputs";
    Interfaces.RealOutput yMax "Largest";
    Interfaces.RealOutput yMin "Smallest";
  equation
    yMax = max(u);
    yMin = min(u);
  end MinMax;

  block WrapAngle "Angle within one turn"
    extends Interfaces.SISO;
    parameter Boolean positiveRange = false "0 to 2 pi rather than -pi to pi";
  protected
    constant Real turn = 2*Modelica.Constants.pi "One turn";
  equation
    y = if positiveRange then u - turn*floor(u/turn) else u - turn*floor(u/turn + 0.5);
  end WrapAngle;

  block RealToInteger "Nearest whole number"
    extends Modelica.Blocks.Icons.IntegerBlock;
    Interfaces.RealInput u "Input";
    Interfaces.IntegerOutput y "Output";
  equation
    y = if u > 0 then integer(floor(u + 0.5)) else integer(ceil(u - 0.5));
  end RealToInteger;

  block IntegerToReal "Whole number as a real one"
    extends Modelica.Blocks.Icons.Block;
    Interfaces.IntegerInput u "Input";
    Interfaces.RealOutput y "Output";
  equation
    y = u;
  end IntegerToReal;

  block BooleanToReal "One number for true, one for false"
    extends Modelica.Blocks.Icons.Block;
    parameter Real realTrue = 1.0 "For true";
    parameter Real realFalse = 0.0 "For false";
    Interfaces.BooleanInput u "Input";
    Interfaces.RealOutput y "Output";
  equation
    y = if u then realTrue else realFalse;
  end BooleanToReal;

  block RealToBoolean "Whether the input reaches a threshold"
    extends Modelica.Blocks.Icons.BooleanBlock;
    parameter Real threshold = 0.5 "Threshold";
    Interfaces.RealInput u "Input";
    Interfaces.BooleanOutput y "Output";
  equation
    y = u >= threshold;
  end RealToBoolean;

  block BooleanToInteger "One whole number for true, one for false"
    extends Modelica.Blocks.Icons.IntegerBlock;
    parameter Integer integerTrue = 1 "For true";
    parameter Integer integerFalse = 0 "For false";
    Interfaces.BooleanInput u "Input";
    Interfaces.IntegerOutput y "Output";
  equation
    y = if u then integerTrue else integerFalse;
  end BooleanToInteger;
end Math;
