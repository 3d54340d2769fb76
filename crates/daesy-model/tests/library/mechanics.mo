package Mechanics "Machines for the tests of the library"
  import Modelica.Mechanics.{Rotational,Translational};

  model DriveTrain "Torque, inertia, gear, spring and damper, with a support"
    Rotational.Sources.Torque torque(useSupport=true);
    Rotational.Components.Inertia motor(J=0.1);
    Rotational.Components.IdealGear gear(ratio=10, useSupport=true);
    Rotational.Components.SpringDamper shaft(c=1e4, d=10, phi_rel(fixed=true), w_rel(fixed=true));
    Rotational.Components.Inertia load(J=2, phi(fixed=true), w(fixed=true));
    Rotational.Components.Fixed fixed;
    Modelica.Blocks.Sources.Sine sine(amplitude=10, f=5);
    Rotational.Sensors.SpeedSensor speed;
  equation
    connect(sine.y, torque.tau);
    connect(torque.flange, motor.flange_a);
    connect(motor.flange_b, gear.flange_a);
    connect(gear.flange_b, shaft.flange_a);
    connect(shaft.flange_b, load.flange_a);
    connect(torque.support, fixed.flange);
    connect(gear.support, fixed.flange);
    connect(speed.flange, load.flange_b);
  end DriveTrain;

  model Planetary "A planetary gear with three inertias"
    Rotational.Components.IdealPlanetary gear(ratio=3);
    Rotational.Components.Inertia sun(J=0.1, w(fixed=true), phi(fixed=true));
    Rotational.Components.Inertia carrier(J=0.2, w(fixed=true), phi(fixed=true));
    Rotational.Components.Inertia ring(J=0.3);
    Rotational.Sources.ConstantTorque drive(tau_constant=2);
    Daesy.Friction.Rotational friction(tau_dry=0.1, d=0.02);
  equation
    connect(drive.flange, sun.flange_a);
    connect(sun.flange_b, gear.sun);
    connect(carrier.flange_a, gear.carrier);
    connect(gear.ring, ring.flange_a);
    connect(ring.flange_b, friction.flange);
  end Planetary;

  model Winch "A rolling wheel pulls a mass on a spring"
    Rotational.Sources.Speed speed(exact=false);
    Modelica.Blocks.Sources.Ramp ramp(height=3, duration=2);
    Rotational.Components.IdealRollingWheel wheel(radius=0.2);
    Translational.Components.SpringDamper rope(c=100, d=1, s_rel(fixed=true));
    Translational.Components.Mass mass(m=5, s(fixed=true), v(fixed=true));
    Daesy.Disturbances.Force wind(f=0.1);
    Translational.Sensors.PositionSensor position;
  equation
    connect(ramp.y, speed.w_ref);
    connect(speed.flange, wheel.flangeR);
    connect(wheel.flangeT, rope.flange_a);
    connect(rope.flange_b, mass.flange_a);
    connect(mass.flange_b, wind.flange);
    connect(position.flange, mass.flange_b);
  end Winch;

  model Rods "Two masses held apart by a rod, on a spring"
    Translational.Components.Fixed wall(s0=-1);
    Translational.Components.Spring spring(c=10, s_rel0=1);
    Translational.Components.Mass first(m=1, s(fixed=true, start=0.3), v(fixed=true));
    Translational.Components.Rod rod(L=0.5);
    Translational.Components.Mass second(m=2);
    Translational.Sources.ForceStep push(stepForce=3, startTime=1);
  equation
    connect(wall.flange, spring.flange_a);
    connect(spring.flange_b, first.flange_a);
    connect(first.flange_b, rod.flange_a);
    connect(rod.flange_b, second.flange_a);
    connect(push.flange, second.flange_b);
  end Rods;

  model Motor "A DC motor from both worlds"
    Modelica.Electrical.Analog.Sources.RampVoltage source(V=10, duration=1);
    Modelica.Electrical.Analog.Basic.EMF emf(k=0.3);
    Modelica.Electrical.Analog.Basic.Resistor resistor(R=1);
    Modelica.Electrical.Analog.Basic.Ground ground;
    Rotational.Components.Inertia inertia(J=0.05, w(fixed=true), phi(fixed=true));
    Daesy.Disturbances.Torque load;
  equation
    connect(source.p, resistor.p);
    connect(resistor.n, emf.p);
    connect(emf.n, source.n);
    connect(source.n, ground.p);
    connect(emf.flange, inertia.flange_a);
    connect(inertia.flange_b, load.flange);
  end Motor;
end Mechanics;
