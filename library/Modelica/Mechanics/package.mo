within Modelica;
package Mechanics "Moving parts"
end Mechanics;
