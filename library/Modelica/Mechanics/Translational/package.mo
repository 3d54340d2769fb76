within Modelica.Mechanics;
package Translational "Parts that slide along one axis"
  import Modelica.Units.SI;
end Translational;
