within Modelica.Thermal.HeatTransfer;
package Sources "Temperatures and heat flows"
  import Modelica.Thermal.HeatTransfer.Interfaces;

  model FixedTemperature "Constant temperature"
    parameter SI.Temperature T "The temperature";
    Interfaces.HeatPort_b port "The port";
  equation
    port.T = T;
  end FixedTemperature;

  model PrescribedTemperature "Temperature that follows a signal"
    Interfaces.HeatPort_b port "The port";
    Modelica.Blocks.Interfaces.RealInput T(unit="K") "The temperature";
  equation
    port.T = T;
  end PrescribedTemperature;

  model FixedHeatFlow "Constant heat flow, linear in temperature where wanted"
    parameter SI.HeatFlowRate Q_flow "Heat flow at the reference temperature";
    parameter SI.Temperature T_ref = 293.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change with temperature";
    Interfaces.HeatPort_b port "The port";
  equation
    port.Q_flow = -Q_flow*(1 + alpha*(port.T - T_ref));
  end FixedHeatFlow;

  model PrescribedHeatFlow "Heat flow that follows a signal, linear in temperature where wanted"
    parameter SI.Temperature T_ref = 293.15 "Reference temperature";
    parameter SI.LinearTemperatureCoefficient alpha = 0 "Relative change with temperature";
    Modelica.Blocks.Interfaces.RealInput Q_flow(unit="W") "Heat flow at the reference temperature";
    Interfaces.HeatPort_b port "The port";
  equation
    port.Q_flow = -Q_flow*(1 + alpha*(port.T - T_ref));
  end PrescribedHeatFlow;
end Sources;
