within Modelica;
package SIunits "Names of versions before 4 for Modelica.Units.SI"
  extends Modelica.Units.SI;

  package Conversions "Names of versions before 4 for Modelica.Units.Conversions"
    extends Modelica.Units.Conversions;

    package NonSIunits "Names of versions before 4 for Modelica.Units.NonSI"
      extends Modelica.Units.NonSI;
    end NonSIunits;
  end Conversions;
end SIunits;
