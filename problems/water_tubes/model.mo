model WaterTubes "Water in a network of eighteen tubes between thirteen nodes, two of them reservoirs; flow is laminar or turbulent in each tube"
  constant Real pi = 3.141592653589793;
  parameter Real nu = 1.31e-6 "Kinematic viscosity", g = 9.8, rho = 1000, critical = 2300 "Reynolds number where flow becomes turbulent";
  parameter Real length = 1000 "Of each tube", roughness = 2e-4, diameter = 1, surface = 200 "Of each reservoir";
  parameter Real area = pi*diameter^2/4;
  parameter Integer from[18] = {1, 2, 2, 3, 3, 4, 5, 6, 7, 7, 8, 8, 9, 11, 11, 12, 12, 13};
  parameter Integer to[18] = {2, 3, 6, 4, 5, 5, 10, 5, 4, 8, 5, 10, 8, 9, 12, 7, 8, 11};
  Real phi[18](each start = 0, each nominal = 1e-3) "Volume flow through the tubes";
  Real lambda[18](each start = 0.0475) "Coefficients of resistance";
  Real p[13](each start = 109800, each nominal = 1e5) "Pressures at the nodes";
  Real reynolds[18](each nominal = 1e3);
  Real supply[13] "What flows into each node from outside";
  Real hours;
  Real net[13] "What each node gets";
equation
  hours = time/3600;
  for n in 1:13 loop
    supply[n] =
      if n == 1 then (1 - cos(exp(-hours) - 1))/200
      elseif n == 13 then (1 - cos(exp(-hours) - 1))/80
      elseif n == 10 then -hours^2*(3*hours^2 - 92*hours + 720)/1e6
      else 0;
    net[n] = supply[n] + sum(if to[k] == n then phi[k] elseif from[k] == n then -phi[k] else 0 for k in 1:18);
    if n == 5 or n == 8 then
      surface/(rho*g)*der(p[n]) = net[n];
    else
      net[n] = 0;
    end if;
  end for;
  for k in 1:18 loop
    reynolds[k] = abs(phi[k]*diameter/(nu*area));
    if reynolds[k] > critical then
      1/sqrt(lambda[k]) = 1.74 - 2*log10(2*roughness/diameter + 18.7/(reynolds[k]*sqrt(lambda[k])));
      rho*length/area*der(phi[k]) = p[from[k]] - p[to[k]] - lambda[k]*rho*length*phi[k]^2/(area^2*diameter);
    else
      1/sqrt(lambda[k]) = 1.74 - 2*log10(2*roughness/diameter + 18.7/(critical*sqrt(lambda[k])));
      rho*length/area*der(phi[k]) = p[from[k]] - p[to[k]] - 32*nu*rho*length*phi[k]/(area*diameter^2);
    end if;
  end for;
initial equation
  p[5] = 109800;
  p[8] = 109800;
  phi[1] = 0;
end WaterTubes;
