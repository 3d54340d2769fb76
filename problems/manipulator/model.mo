model Manipulator "Three links whose hand stays on a wall, upright: [@campbell2011, Example 1]"
  import Modelica.Units.SI;
  constant Integer n = 3 "Links";
  parameter SI.Length l[n] = {1.0, 0.8, 0.4} "Lengths of the links";
  parameter SI.Mass m[n] = {4.0, 3.0, 1.0} "Masses at their ends";
  parameter SI.Length wall = 1.2 "Distance of the wall";
  constant SI.Acceleration g = 9.81;
  input SI.Torque u[n] "Torques at the joints";
  SI.Angle theta[n](start = {0.9, -1.6, 0.7}) "Angles of the joints";
  SI.AngularVelocity omega[n] "Their rates";
  SI.Angle phi[n] "Angles of the links against the horizontal";
  SI.AngularVelocity w[n] "Their rates";
  Real lambda[2] "Force on the wall and torque that keeps the hand upright";
  output SI.Length y "Height of the hand: what a controller tracks";
equation
  der(theta) = omega;
  phi[1] = theta[1];
  phi[2] = theta[1] + theta[2];
  phi[3] = theta[1] + theta[2] + theta[3];
  w[1] = omega[1];
  w[2] = omega[1] + omega[2];
  w[3] = omega[1] + omega[2] + omega[3];
  // The equations of motion in the angles of the links; a joint's torque acts on its own link and against the one before.
  for i in 1:n loop
    sum(sum(m[max(i, j):n])*l[i]*l[j]*(cos(phi[i] - phi[j])*der(w[j]) + sin(phi[i] - phi[j])*w[j]^2) for j in 1:n)
      + sum(m[i:n])*g*l[i]*cos(phi[i])
      = u[i] - (if i < n then u[min(i + 1, n)] else 0) - lambda[1]*l[i]*sin(phi[i]) + (if i == n then lambda[2] else 0);
  end for;
  sum(l[i]*cos(phi[i]) for i in 1:n) = wall;
  phi[n] = 0;
  y = sum(l[i]*sin(phi[i]) for i in 1:n);
  annotation (experiment(StopTime = 1, Interval = 0.01));
end Manipulator;
