model Servo "A DC motor turns a heavy disk through a gearbox and a spring"
  import Modelica.Units.SI;

  model Motor "DC motor"
    parameter SI.Resistance R = 2.0 "Resistance of the winding";
    parameter SI.Inductance L = 0.005 "Inductance of the winding";
    parameter SI.ElectricalTorqueConstant k = 0.1 "Torque per current";
    parameter SI.Inertia J = 1e-4 "Inertia of the rotor";
    parameter SI.RotationalDampingConstant d = 2e-4 "Friction of the bearings";
    Modelica.Electrical.Analog.Interfaces.PositivePin p "Positive pin";
    Modelica.Electrical.Analog.Interfaces.NegativePin n "Negative pin";
    Modelica.Mechanics.Rotational.Interfaces.Flange_b flange "Shaft";
    Modelica.Electrical.Analog.Basic.Resistor resistor(R=R) "Resistance of the winding";
    Modelica.Electrical.Analog.Basic.Inductor inductor(L=L, i(start=0, fixed=true)) "Inductance of the winding";
    Modelica.Electrical.Analog.Basic.RotationalEMF emf(k=k) "From current to torque";
    Modelica.Mechanics.Rotational.Components.Inertia rotor(J=J, phi(start=0, fixed=true), w(start=0, fixed=true)) "Rotor";
    Modelica.Mechanics.Rotational.Components.Damper bearing(d=d, stateSelect=StateSelect.default) "Bearings";
    Modelica.Mechanics.Rotational.Components.Fixed housing "Housing";
  equation
    connect(p, resistor.p);
    connect(resistor.n, inductor.p);
    connect(inductor.n, emf.p);
    connect(emf.n, n);
    connect(emf.flange, rotor.flange_a);
    connect(rotor.flange_b, flange);
    connect(rotor.flange_b, bearing.flange_a);
    connect(bearing.flange_b, housing.flange);
  end Motor;

  Modelica.Blocks.Interfaces.RealInput voltage(unit="V") "Voltage at the motor";
  Modelica.Electrical.Analog.Sources.SignalVoltage source "Amplifier";
  Modelica.Electrical.Analog.Basic.Ground ground "Reference potential";
  Motor motor "Motor";
  Modelica.Mechanics.Rotational.Components.IdealGear gear(ratio=5) "Gearbox";
  Modelica.Mechanics.Rotational.Components.Spring spring(c=20) "Weak axis";
  Modelica.Mechanics.Rotational.Components.Inertia disk(J=0.02, phi(start=0, fixed=true), w(start=0, fixed=true)) "Disk";
  Daesy.Disturbances.Torque load(tau=torque) "Friction and whatever else brakes or drives the disk";
  input SI.Torque torque "Disturbing torque on the disk";
  output SI.Angle phi "Measured angle of the disk";
equation
  connect(voltage, source.v);
  connect(source.p, motor.p);
  connect(source.n, ground.p);
  connect(motor.n, ground.p);
  connect(motor.flange, gear.flange_a);
  connect(gear.flange_b, spring.flange_a);
  connect(spring.flange_b, disk.flange_a);
  connect(disk.flange_b, load.flange);
  phi = disk.phi;
  annotation (experiment(StopTime=5, Interval=0.01));
end Servo;
