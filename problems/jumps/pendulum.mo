model ForcedPendulum "A pendulum whose weight steps: [@barton2002, eq. (4.11)]"
  Real x(start = 0.6, fixed = true), y(start = -0.8);
  Real v(start = 0, fixed = true), w;
  Real T "Force in the rod over its length";
  Real u "Weight";
equation
  u = if time < 0.5 then 9.81 else 5;
  der(x) = v;
  der(y) = w;
  der(v) = -T*x;
  der(w) = -T*y - u;
  x^2 + y^2 = 1;
  annotation (experiment(StopTime = 2, Interval = 0.01));
end ForcedPendulum;
