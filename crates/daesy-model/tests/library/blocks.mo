package Blocks "Block diagrams for the tests of the library"
  import Modelica.Blocks.{Continuous,Discrete,Logical,Math,Nonlinear,Routing,Sources};
  import Modelica.Blocks.Types.Init;

  model Loop "A controlled second-order process with noise filter"
    Sources.Step setpoint(height=1, startTime=1);
    Continuous.LimPID controller(k=2, Ti=1, Td=0.1, yMax=5);
    Continuous.SecondOrder process(w=2, D=0.5, initType=Init.InitialState);
    Daesy.Disturbances.Signal noise;
    Daesy.Filters.Presampling filter(order=2, f_cut=5);
  equation
    connect(setpoint.y, controller.u_s);
    connect(controller.y, process.u);
    connect(process.y, noise.u);
    connect(noise.y, filter.u);
    connect(filter.y, controller.u_m);
  end Loop;

  model Linear "Transfer function, state space and their difference"
    Sources.Sine sine(f=1);
    Continuous.TransferFunction transfer(b={1, 2}, a={1, 3, 5}, initType=Init.InitialState);
    Continuous.StateSpace space(A=[0, 1; -5, -3], B=[0; 1], C=[2, 1], initType=Init.InitialState);
    Math.Feedback difference;
  equation
    connect(sine.y, transfer.u);
    connect(sine.y, space.u[1]);
    connect(transfer.y, difference.u1);
    connect(space.y[1], difference.u2);
  end Linear;

  model Arithmetic "One of most mathematical blocks"
    Sources.Constant two(k=2);
    Sources.ContinuousClock clock;
    Math.Gain gain(k=3);
    Math.Add3 add(k2=-1);
    Math.Product product;
    Math.Division division;
    Math.Sum sum(nin=3, k={1, 2, 3});
    Math.Max larger;
    Math.MinMax range(nu=2);
    Math.Abs absolute;
    Math.Atan2 angle;
    Math.MatrixGain matrix(K=[1, 2; 3, 4; 5, 6]);
    Routing.Multiplex2 bundle;
    Nonlinear.DeadZone zone(uMax=0.5);
    Nonlinear.Limiter limiter(uMax=0.8);
  equation
    connect(clock.y, gain.u);
    connect(clock.y, add.u1);
    connect(two.y, add.u2);
    connect(gain.y, add.u3);
    connect(add.y, product.u1);
    connect(two.y, product.u2);
    connect(product.y, division.u1);
    connect(two.y, division.u2);
    connect(clock.y, sum.u[1]);
    connect(two.y, sum.u[2]);
    connect(gain.y, sum.u[3]);
    connect(sum.y, larger.u1);
    connect(division.y, larger.u2);
    connect(larger.y, range.u[1]);
    connect(clock.y, range.u[2]);
    connect(range.yMin, absolute.u);
    connect(absolute.y, angle.u1);
    connect(two.y, angle.u2);
    connect(angle.y, bundle.u1[1]);
    connect(two.y, bundle.u2[1]);
    connect(bundle.y, matrix.u);
    connect(matrix.y[1], zone.u);
    connect(matrix.y[2], limiter.u);
  end Arithmetic;

  model Switching "Logical blocks and sampled ones"
    Sources.Sine sine(f=1);
    Logical.GreaterThreshold positive(threshold=0.1);
    Logical.Hysteresis hysteresis(uLow=-0.5, uHigh=0.5);
    Logical.And both;
    Logical.Not none;
    Logical.Switch switch;
    Logical.FallingEdge falling;
    Sources.Constant zero(k=0);
    Discrete.ZeroOrderHold hold(samplePeriod=0.05);
    Discrete.UnitDelay delayed(samplePeriod=0.1);
    Continuous.Integrator integrator(use_reset=true);
  equation
    connect(sine.y, positive.u);
    connect(sine.y, hysteresis.u);
    connect(positive.y, both.u1);
    connect(hysteresis.y, both.u2);
    connect(both.y, none.u);
    connect(none.y, switch.u2);
    connect(sine.y, switch.u1);
    connect(zero.y, switch.u3);
    connect(switch.y, hold.u);
    connect(hold.y, delayed.u);
    connect(delayed.y, integrator.u);
    connect(positive.y, integrator.reset);
    connect(hysteresis.y, falling.u);
  end Switching;

  model Table "A table with a jump"
    Sources.TimeTable table(table=[0, 0; 1, 2; 1, 3; 4, 0]);
  end Table;

  model OldNames "Names of the versions before 4"
    import SI = Modelica.SIunits;
    SI.Voltage v = 3;
    Modelica.SIunits.Temperature T = Modelica.SIunits.Conversions.from_degC(20);
    Modelica.SIunits.Conversions.NonSIunits.Temperature_degC t = Modelica.SIunits.Conversions.to_degC(T);
    Modelica.Blocks.Sources.Clock clock;
  end OldNames;
end Blocks;
