within Modelica.Thermal.HeatTransfer;
package Celsius "Elements with temperatures in degrees Celsius"
  import Modelica.Thermal.HeatTransfer.Interfaces;

  model FixedTemperature "Constant temperature"
    parameter Modelica.Units.NonSI.Temperature_degC T "The temperature";
    Interfaces.HeatPort_b port "The port";
  equation
    port.T = Modelica.Units.Conversions.from_degC(T);
  end FixedTemperature;

  model PrescribedTemperature "Temperature that follows a signal"
    Interfaces.HeatPort_b port "The port";
    Modelica.Blocks.Interfaces.RealInput T(unit="degC") "The temperature";
  equation
    port.T = Modelica.Units.Conversions.from_degC(T);
  end PrescribedTemperature;

  model TemperatureSensor "Temperature of a port"
    Modelica.Blocks.Interfaces.RealOutput T(unit="degC") "Temperature";
    Interfaces.HeatPort_a port "Measured port";
  equation
    T = Modelica.Units.Conversions.to_degC(port.T);
    port.Q_flow = 0;
  end TemperatureSensor;

  model ToKelvin "Degrees Celsius to kelvin"
    Modelica.Blocks.Interfaces.RealInput Celsius(unit="degC") "In degrees Celsius";
    Modelica.Blocks.Interfaces.RealOutput Kelvin(unit="K") "In kelvin";
  equation
    Kelvin = Modelica.Units.Conversions.from_degC(Celsius);
  end ToKelvin;

  model FromKelvin "Kelvin to degrees Celsius"
    Modelica.Blocks.Interfaces.RealInput Kelvin(unit="K") "In kelvin";
    Modelica.Blocks.Interfaces.RealOutput Celsius(unit="degC") "In degrees Celsius";
  equation
    Celsius = Modelica.Units.Conversions.to_degC(Kelvin);
  end FromKelvin;
end Celsius;
