within;
package Daesy "What daesy's studies need beyond the classes named as in the Standard Library"
  import Modelica.Units.SI;
  annotation (version="0.1.0", uses(Modelica(version="4.0.0")));
end Daesy;
