model GearTrain "Three wheels on shafts that two gears couple rigidly"
  import Modelica.Mechanics.Rotational.{Components,Sources};
  Modelica.Blocks.Interfaces.RealInput torque(unit="N.m") "Torque at the first wheel";
  Sources.Torque drive "Drive";
  Components.Inertia wheel1(J=0.01, phi(start=0, fixed=true), w(start=0, fixed=true)) "First wheel";
  Components.IdealGear gear1(ratio=10) "First gear";
  Components.Inertia wheel2(J=0.5) "Second wheel";
  Components.IdealGear gear2(ratio=4) "Second gear";
  Components.Inertia wheel3(J=8) "Third wheel";
equation
  connect(torque, drive.tau);
  connect(drive.flange, wheel1.flange_a);
  connect(wheel1.flange_b, gear1.flange_a);
  connect(gear1.flange_b, wheel2.flange_a);
  connect(wheel2.flange_b, gear2.flange_a);
  connect(gear2.flange_b, wheel3.flange_a);
  annotation (experiment(StopTime=2, Interval=0.01));
end GearTrain;
