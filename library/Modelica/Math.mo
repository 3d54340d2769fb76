within Modelica;
package Math "Mathematical functions"
  function sin "Sine"
    extends Modelica.Icons.Function;
    input Modelica.Units.SI.Angle u "Argument";
    output Real y "Sine of u";
    external "builtin" y = sin(u);
  end sin;

  function cos "Cosine"
    extends Modelica.Icons.Function;
    input Modelica.Units.SI.Angle u "Argument";
    output Real y "Cosine of u";
    external "builtin" y = cos(u);
  end cos;

  function tan "Tangent"
    extends Modelica.Icons.Function;
    input Modelica.Units.SI.Angle u "Argument";
    output Real y "Tangent of u";
    external "builtin" y = tan(u);
  end tan;

  function exp "Exponential"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Exponential of u";
    external "builtin" y = exp(u);
  end exp;

  function log "Natural logarithm"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Natural logarithm of u";
    external "builtin" y = log(u);
  end log;

  function log10 "Decimal logarithm"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Decimal logarithm of u";
    external "builtin" y = log10(u);
  end log10;

  function asin "Inverse sine"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Modelica.Units.SI.Angle y "Inverse sine of u";
    external "builtin" y = asin(u);
  end asin;

  function acos "Inverse cosine"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Modelica.Units.SI.Angle y "Inverse cosine of u";
    external "builtin" y = acos(u);
  end acos;

  function atan "Inverse tangent"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Modelica.Units.SI.Angle y "Inverse tangent of u";
    external "builtin" y = atan(u);
  end atan;

  function sinh "Hyperbolic sine"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Hyperbolic sine of u";
    external "builtin" y = sinh(u);
  end sinh;

  function cosh "Hyperbolic cosine"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Hyperbolic cosine of u";
    external "builtin" y = cosh(u);
  end cosh;

  function tanh "Hyperbolic tangent"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Hyperbolic tangent of u";
    external "builtin" y = tanh(u);
  end tanh;

  function atan2 "Angle of the point (u2, u1), in all four quadrants"
    extends Modelica.Icons.Function;
    input Real u1 "Ordinate";
    input Real u2 "Abscissa";
    output Modelica.Units.SI.Angle y "Angle";
    external "builtin" y = atan2(u1, u2);
  end atan2;

  function asinh "Inverse hyperbolic sine"
    extends Modelica.Icons.Function;
    input Real u "Argument";
    output Real y "Inverse hyperbolic sine of u";
  algorithm
    y := log(u + sqrt(u*u + 1));
    annotation (Inline=true);
  end asinh;

  function acosh "Inverse hyperbolic cosine"
    extends Modelica.Icons.Function;
    input Real u(min=1) "Argument";
    output Real y "Inverse hyperbolic cosine of u";
  algorithm
    y := log(u + sqrt(u*u - 1));
    annotation (Inline=true);
  end acosh;

  function wrapAngle "Angle brought into one turn"
    extends Modelica.Icons.Function;
    input Modelica.Units.SI.Angle u "Any angle";
    input Boolean positiveRange = false "0 to 2 pi rather than -pi to pi";
    output Modelica.Units.SI.Angle y "The same direction within one turn";
  protected
    constant Real turn = 2*Modelica.Constants.pi "One turn";
  algorithm
    y := u - turn*floor(u/turn);
    if not positiveRange and y > turn/2 then
      y := y - turn;
    end if;
  end wrapAngle;

  function isEqual "Whether two numbers differ by no more than eps"
    extends Modelica.Icons.Function;
    input Real s1 "One number";
    input Real s2 "The other";
    input Real eps(min=0) = 0 "Permitted difference";
    output Boolean result "Whether they are that near";
  algorithm
    result := abs(s1 - s2) <= eps;
    annotation (Inline=true);
  end isEqual;

  package Vectors "Functions of vectors"
    function length "Euclidean length"
      extends Modelica.Icons.Function;
      input Real v[:] "Vector";
      output Real result "Square root of the sum of squares";
    algorithm
      result := sqrt(v*v);
      annotation (Inline=true);
    end length;

    function normalize "Vector of the same direction and length 1"
      extends Modelica.Icons.Function;
      input Real v[:] "Vector";
      input Real eps(min=0) = 100*Modelica.Constants.eps "Shorter vectors are divided by this";
      output Real result[size(v, 1)] "v divided by its length";
    algorithm
      result := v/max(sqrt(v*v), eps);
      annotation (Inline=true);
    end normalize;
  end Vectors;
end Math;
