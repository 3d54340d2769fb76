model Plant "Drive with clutch and brake"
  extends Modelica.Mechanics.Rotational.Examples.Friction;
end Plant;
