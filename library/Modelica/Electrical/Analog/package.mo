within Modelica.Electrical;
package Analog "Analogue circuits"
  import Modelica.Units.SI;
end Analog;
