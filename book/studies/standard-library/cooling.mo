model Plant "Mass cooled by a fluid"
  extends Modelica.Thermal.FluidHeatFlow.Examples.OneMass;
end Plant;
