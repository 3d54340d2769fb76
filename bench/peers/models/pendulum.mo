model Pendulum "Index 1: the twice differentiated constraint, with the equations of motion put in"
  parameter Real m = 0.3;
  parameter Real g = 9.81;
  parameter Real k = 0.05;
  parameter Real L = 6.25;
  Real x1(start=0);
  Real x2(start=-L);
  Real x4(start=0);
  Real x5(start=0);
  Real x3(start=-m*g/L);
protected
  Real u;
  Real fx;
  Real fy;
equation
  u = 0.5*sin(1.1*time) + 0.3*sin(3.7*time);
  fx = u - k*abs(x4)*x4;
  fy = -k*abs(x5)*x5 - m*g;
  der(x1) = x4;
  der(x2) = x5;
  der(x4) = (x3*x1 + fx)/m;
  der(x5) = (x3*x2 + fy)/m;
  0 = m*(x4^2 + x5^2) + x3*L^2 + x1*fx + x2*fy;
end Pendulum;
