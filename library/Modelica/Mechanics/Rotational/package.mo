within Modelica.Mechanics;
package Rotational "Parts that turn about one axis"
  import Modelica.Units.SI;
end Rotational;
