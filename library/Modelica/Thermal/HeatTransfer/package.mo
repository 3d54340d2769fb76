within Modelica.Thermal;
package HeatTransfer "Lumped heat storage and transfer"
  import Modelica.Units.SI;
end HeatTransfer;
