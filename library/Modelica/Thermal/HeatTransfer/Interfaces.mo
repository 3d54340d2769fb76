within Modelica.Thermal.HeatTransfer;
package Interfaces "Heat ports and partial elements"
  partial connector HeatPort "A heat port"
    SI.Temperature T "Temperature";
    flow SI.HeatFlowRate Q_flow "Heat flow into the component";
  end HeatPort;

  connector HeatPort_a "Heat port, first"
    extends HeatPort;
  end HeatPort_a;

  connector HeatPort_b "Heat port, second"
    extends HeatPort;
  end HeatPort_b;

  partial model Element1D "Heat flows through, none is stored"
    SI.HeatFlowRate Q_flow "Heat flow from port_a to port_b";
    SI.TemperatureDifference dT "Temperature of port_a less that of port_b";
    HeatPort_a port_a "First port";
    HeatPort_b port_b "Second port";
  equation
    dT = port_a.T - port_b.T;
    port_a.Q_flow = Q_flow;
    port_b.Q_flow = -Q_flow;
  end Element1D;

  partial model PartialElementaryConditionalHeatPort "Losses to a heat port where wanted, at a temperature"
    parameter Boolean useHeatPort = false "Whether there is a heat port";
    parameter SI.Temperature T = 293.15 "Temperature without heat port";
    HeatPort_a heatPort(final T=TheatPort, final Q_flow=-lossPower) if useHeatPort "Heat port";
  protected
    SI.Power lossPower "Power that becomes heat";
    SI.Temperature TheatPort "Temperature of the component";
  equation
    if not useHeatPort then
      TheatPort = T;
    end if;
  end PartialElementaryConditionalHeatPort;

  partial model PartialElementaryConditionalHeatPortWithoutT "Losses to a heat port where wanted"
    parameter Boolean useHeatPort = false "Whether there is a heat port";
    HeatPort_a heatPort(final Q_flow=-lossPower) if useHeatPort "Heat port";
  protected
    SI.Power lossPower "Power that becomes heat";
  end PartialElementaryConditionalHeatPortWithoutT;

  partial model PartialConditionalHeatPort "A heat port or a fixed temperature"
    parameter Boolean useHeatPort = false "Whether there is a heat port";
    parameter SI.Temperature T = 293.15 "Temperature without heat port";
    HeatPort_a heatPort if useHeatPort "Heat port";
  protected
    Modelica.Thermal.HeatTransfer.Sources.FixedTemperature fixedTemperature(T=T) if not useHeatPort "Fixed temperature";
    HeatPort_a internalHeatPort "Heat port as seen inside";
  equation
    connect(heatPort, internalHeatPort);
    connect(fixedTemperature.port, internalHeatPort);
  end PartialConditionalHeatPort;
end Interfaces;
