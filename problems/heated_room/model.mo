model HeatedRoom "A room with a heater: the air, the wall behind it, and the weather"
  import Modelica.Thermal.HeatTransfer.{Components,Sources};
  Modelica.Blocks.Interfaces.RealInput heating(unit="W") "Power of the heater";
  Modelica.Blocks.Interfaces.RealInput outdoor(unit="K") "Temperature outside";
  Components.HeatCapacitor air(C=2e5, T(start=288.15, fixed=true)) "Air and furniture";
  Components.HeatCapacitor wall(C=5e6, T(start=285.15, fixed=true)) "Wall";
  Components.ThermalConductor inside(G=120) "From the air to the wall";
  Components.ThermalConductor outside(G=40) "From the wall to the weather";
  Components.ThermalConductor window(G=25) "From the air to the weather";
  Sources.PrescribedHeatFlow heater "Heater";
  Sources.PrescribedTemperature weather "Weather";
  Daesy.Disturbances.HeatFlow people(Q_flow=gains) "People and sun";
  input Modelica.Units.SI.HeatFlowRate gains "Heat from people and sun";
  Modelica.Thermal.HeatTransfer.Celsius.TemperatureSensor thermometer "Measured temperature of the air";
equation
  connect(heating, heater.Q_flow);
  connect(outdoor, weather.T);
  connect(heater.port, air.port);
  connect(people.port, air.port);
  connect(air.port, inside.port_a);
  connect(inside.port_b, wall.port);
  connect(wall.port, outside.port_a);
  connect(outside.port_b, weather.port);
  connect(air.port, window.port_a);
  connect(window.port_b, weather.port);
  connect(air.port, thermometer.port);
  annotation (experiment(StopTime=86400, Interval=600));
end HeatedRoom;
