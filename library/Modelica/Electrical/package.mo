within Modelica;
package Electrical "Electrical circuits"
end Electrical;
