within Modelica;
package Blocks "Signal blocks: inputs on one side, outputs on the other"
  import Modelica.Units.SI;
end Blocks;
