model Plant "MultiBody pendulum with a damper"
  extends Modelica.Mechanics.MultiBody.Examples.Elementary.Pendulum;
end Plant;
