within Some.Where;
// Every construct of the grammar, once.
encapsulated package Everything "a package" + " of it all"
  import Modelica.Units.SI;
  import M = Modelica.Math;
  import Modelica.Constants.*;
  import Modelica.Blocks.{Sources, Math};
  /* A block
   comment. */
  type Color = enumeration(red "warm", green, blue annotation(Evaluate = true)) "colors";
  type Any = enumeration(:);
  type Angle = Real(final quantity = "Angle", unit = "rad", displayUnit = "deg");
  connector RealInput = input Real;
  connector Pin
    Real v;
    flow Real i;
    stream Real h;
  end Pin;
  expandable connector Bus
  end Bus;
  operator record Complex
    Real re;
    encapsulated operator '+'
      import Complex;
      function add
        input Complex a;
        input Complex b;
        output Complex c;
      algorithm
        c := Complex(a.re + b.re);
        annotation(Inline = true);
      end add;
    end '+';
    operator function '-' = .Everything.Complex.'+'.add;
  end Complex;
  partial function partialFunction
    input Real u;
    output Real y;
  end partialFunction;
  pure function external_one
    extends partialFunction;
    external "C" y = one(u, size({u}, 1)) annotation(Library = "one", Include = "#include \"one.h\"");
    annotation(derivative(zeroDerivative = u) = other);
  end external_one;
  impure function external_two
    external;
  end external_two;
  function derived = der(partialFunction, u);
  function loops
    input Real x[:, 2];
    output Real s = 0;
  protected
    Integer k;
  algorithm
    for i in 1:size(x, 1), j in {1, 2} loop
      s := s + x[i, j] "add";
    end for;
    k := 1;
    while k < 10 and not k == 5 loop
      k := k + 1;
      if k > 7 then
        break;
      elseif k > 6 then
        k := k + 1;
      else
        return;
      end if;
    end while;
    (s, , k) := g(x);
    (s) := h(x);
    Modelica.Utilities.Streams.print("a\tb\\n");
  end loops;
  model Base
    replaceable model R = Resistor(R = 1) constrainedby OnePort(v(start = 1)) "what it must be" annotation(choices(choice(redeclare model R = Other "other")));
    replaceable Real x "replaceable" constrainedby Real;
    parameter Boolean use = true annotation(Dialog(group = "g", enable = not use), HideResult = true);
    inner outer World world if use;
    final parameter Real p[3](each min = 0, each final max = 1) = fill(0.5, 3) "p";
    constant Integer n = 3;
    discrete output Real d;
  end Base;
  model Derived "derived"
    extends Base(redeclare replaceable model R = Capacitor constrainedby OnePort, redeclare final Real x = 2, p = {1, 2, 3}, use = break, break world, break connect(a, b[1])) annotation(Icon);
    redeclare model extends R(k = 1) "class extends"
      Real z;
    end R;
    Pin a, b[3](v(each start = 0));
    Real[3, 3] A = [1, 2, 3; 4, 5, 6; 7, 8, 9], B;
  protected
    Real y(start = if use then 1 elseif n > 2 then 2 else 3);
  public
    Real w = (f(y))[1] + sum(i ^ 2 for i in 1:n) + max({i * j for i in 1:3, j in 1:2});
    Real v = quad(function sine(A = 2, w = 3), 0, 1, tol = 1e-5);
  initial equation
    der(y) = 0;
    if initial() then
      y = 1;
    end if;
  equation
    connect(a, b[1]) annotation(Line(points = {{-10, 0}, {10, 0}}, color = {0, 0, 255}));
    -y ^ 2 * w + A[end, :] * B[:, 1] = 1:2:5 "text";
    (y, , w) = f(time);
    for i in 1:n - 1 loop
      connect(b[i], b[i + 1]);
    end for;
    if use and y > 0 or w <= 3 then
      y = 1.;
    elseif y <> 2 then
      y = 1e-3 ./ 2 .* 3 .+ 4 .- 5 .^ 6;
    else
      assert(y >= 0, "negative: " + String(y), AssertionLevel.warning);
    end if;
    when {sample(0, 1), y < 0} then
      reinit(y, -pre(y));
    elsewhen initial() then
      d = pre(d) + 1;
      terminate("done");
    end when;
  initial algorithm
    d := 0;
  algorithm
    when use then
      d := .Everything.f(x = 'quoted name', y = "a \"quote\" and a \\");
    elsewhen y > 0 then
      d := 'it\'s';
    end when;
    annotation(Documentation(info = "<html>
<p>Several lines.</p>
</html>"), experiment(StopTime = 10, Tolerance = 1e-6));
  end Derived;
end Everything; // at the end
