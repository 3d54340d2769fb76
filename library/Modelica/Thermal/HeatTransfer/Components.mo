within Modelica.Thermal.HeatTransfer;
package Components "Storage and transfer of heat"
  import Modelica.Thermal.HeatTransfer.Interfaces;

  model HeatCapacitor "A body of one temperature that stores heat"
    parameter SI.HeatCapacity C "Heat capacity";
    SI.Temperature T(start=293.15) "Temperature";
    SI.TemperatureSlope der_T "Rate of the temperature";
    Interfaces.HeatPort_a port "Its surface";
  equation
    T = port.T;
    der_T = der(T);
    C*der(T) = port.Q_flow;
  end HeatCapacitor;

  model ThermalConductor "Heat flow proportional to the temperature difference"
    extends Interfaces.Element1D;
    parameter SI.ThermalConductance G "Heat flow per temperature difference";
  equation
    Q_flow = G*dT;
  end ThermalConductor;

  model ThermalResistor "Temperature difference proportional to the heat flow"
    extends Interfaces.Element1D;
    parameter SI.ThermalResistance R "Temperature difference per heat flow";
  equation
    dT = R*Q_flow;
  end ThermalResistor;

  model Convection "Heat flow between a body and a fluid, its conductance a signal"
    SI.HeatFlowRate Q_flow "Heat flow from the body to the fluid";
    SI.TemperatureDifference dT "Temperature of the body less that of the fluid";
    Modelica.Blocks.Interfaces.RealInput Gc(unit="W/K") "Heat flow per temperature difference";
    Interfaces.HeatPort_a solid "Body";
    Interfaces.HeatPort_b fluid "Fluid";
  equation
    dT = solid.T - fluid.T;
    solid.Q_flow = Q_flow;
    fluid.Q_flow = -Q_flow;
    Q_flow = Gc*dT;
  end Convection;

  model ConvectiveResistor "Heat flow between a body and a fluid, its resistance a signal"
    SI.HeatFlowRate Q_flow "Heat flow from the body to the fluid";
    SI.TemperatureDifference dT "Temperature of the body less that of the fluid";
    Modelica.Blocks.Interfaces.RealInput Rc(unit="K/W") "Temperature difference per heat flow";
    Interfaces.HeatPort_a solid "Body";
    Interfaces.HeatPort_b fluid "Fluid";
  equation
    dT = solid.T - fluid.T;
    solid.Q_flow = Q_flow;
    fluid.Q_flow = -Q_flow;
    dT = Rc*Q_flow;
  end ConvectiveResistor;

  model BodyRadiation "Radiation between two bodies"
    extends Interfaces.Element1D;
    parameter Real Gr(unit="m2") "Net radiation conductance between the surfaces";
  equation
    Q_flow = Gr*Modelica.Constants.sigma*(port_a.T^4 - port_b.T^4);
  end BodyRadiation;

  model ThermalCollector "Several heat ports at one temperature"
    parameter Integer m(min=1) = 3 "Number of ports";
    Interfaces.HeatPort_a port_a[m] "The ports";
    Interfaces.HeatPort_b port_b "Their sum";
  equation
    port_b.Q_flow + sum(port_a.Q_flow) = 0;
    port_a.T = fill(port_b.T, m);
  end ThermalCollector;
end Components;
