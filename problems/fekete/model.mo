model Fekete "Points on a sphere repel each other until they are as far apart as can be"
  constant Real pi = 3.141592653589793;
  constant Integer N = 20;
  parameter Real friction = 0.5;
  parameter Real alpha[N] = {if i <= 3 then 2*pi*i/3 + pi/13 elseif i <= 10 then 2*pi*(i - 3)/7 + pi/29
    elseif i <= 16 then 2*pi*(i - 10)/6 + pi/7 else 2*pi*(i - 17)/4 + pi/17 for i in 1:N} "Where they start";
  parameter Real beta[N] = {if i <= 3 then 3*pi/8 elseif i <= 10 then pi/8 elseif i <= 16 then -2*pi/15 else -3*pi/10
    for i in 1:N};
  Real p[N, 3](start = {{cos(alpha[i])*cos(beta[i]), sin(alpha[i])*cos(beta[i]), sin(beta[i])} for i in 1:N}) "Positions";
  Real v[N, 3](each start = 0) "Velocities";
  Real f[N, 3] "Forces";
  Real lambda[N] "Forces of the sphere";
equation
  for i in 1:N loop
    for k in 1:3 loop
      f[i, k] = sum((p[i, k] - p[j, k])/((p[i, 1] - p[j, 1])^2 + (p[i, 2] - p[j, 2])^2 + (p[i, 3] - p[j, 3])^2)
        for j in 1:i - 1) + sum((p[i, k] - p[j, k])/((p[i, 1] - p[j, 1])^2 + (p[i, 2] - p[j, 2])^2 + (p[i, 3] - p[j, 3])^2)
        for j in i + 1:N) - friction*v[i, k];
      der(p[i, k]) = v[i, k];
      der(v[i, k]) = f[i, k] + 2*lambda[i]*p[i, k];
    end for;
    p[i, 1]^2 + p[i, 2]^2 + p[i, 3]^2 = 1;
  end for;
end Fekete;
