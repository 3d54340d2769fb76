within;
package Modelica "Everyday classes under the names of the Modelica Standard Library, written for daesy"
  annotation (version="4.0.0", Documentation(info="<html>
<p>daesy's own small library. It is used only where no Modelica Standard Library is on MODELICAPATH. Class names, connectors,
parameter names and equations are those of the Standard Library 4, so that models written with it also run elsewhere; texts and
code are daesy's own. What a class leaves out is said in its documentation.</p>
</html>"));
end Modelica;
