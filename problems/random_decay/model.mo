model Decay "Exponential decay with uncertain start and rate"
  parameter Real alpha = 1.5 "Start";
  parameter Real beta = 0.15 "Rate";
  Real u(start = alpha, fixed = true);
equation
  der(u) = -beta*u;
end Decay;
