model AndrewsSqueezer "Seven flat bodies between joints without friction, driven by a motor"
  import Modelica.Units.SI;
  parameter SI.Length xa = -0.06934 "Support A, horizontal";
  parameter SI.Length ya = -0.00227 "Support A, vertical";
  parameter SI.Length xb = -0.03635 "Support B, horizontal";
  parameter SI.Length yb = 0.03273 "Support B, vertical";
  parameter SI.Length xc = 0.014 "Support C, horizontal";
  parameter SI.Length yc = 0.072 "Support C, vertical";
  parameter SI.Length d = 0.028;
  parameter SI.Length da = 0.0115;
  parameter SI.Length e = 0.02;
  parameter SI.Length ea = 0.01421;
  parameter SI.Length rr = 0.007;
  parameter SI.Length ra = 0.00092;
  parameter SI.Length ss = 0.035;
  parameter SI.Length sa = 0.01874;
  parameter SI.Length sb = 0.01043;
  parameter SI.Length sc = 0.018;
  parameter SI.Length sd = 0.02;
  parameter SI.Length ta = 0.02308;
  parameter SI.Length tb = 0.00916;
  parameter SI.Length u = 0.04;
  parameter SI.Length ua = 0.01228;
  parameter SI.Length ub = 0.00449;
  parameter SI.Length zf = 0.02;
  parameter SI.Length zt = 0.04;
  parameter SI.Length fa = 0.01421;
  parameter SI.TranslationalSpringConstant c0 = 4530 "Spring";
  parameter SI.Length l0 = 0.07785 "Length of the spring at rest";
  parameter SI.Torque mom = 0.033 "Torque of the motor";
  parameter SI.Mass m[7] = {0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498} "Masses";
  parameter SI.Inertia I[7] = {2.194e-6, 4.41e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5} "Inertias";
  parameter SI.Angle q0[7] = {-0.06171389001427645, 0, 0.45527981916307037, 0.22266839016588588, 0.48736497954384256,
    -0.22266839016588588, 1.2305474445498212} "Angles at the start";
  SI.Angle q[7](start=q0, fixed={false, true, false, false, false, false, false}) "Angles beta, Theta, gamma, Phi, delta, Omega, epsilon";
  SI.AngularVelocity v[7](each start=0, fixed={false, true, false, false, false, false, false}) "Velocities";
  SI.AngularAcceleration w[7](each nominal=1e4, start={14222.4439199541138, -10666.8329399655854, 0, 0, 0, 0, 0}) "Accelerations";
  SI.Force lambda[6](start={98.5668703962410896, -6.12268834425566265, 0, 0, 0, 0}) "Forces in the joints";
protected
  SI.Length xd "End of the spring, horizontal";
  SI.Length yd "End of the spring, vertical";
  SI.Length lang(start=l0) "Length of the spring";
  SI.Force fx "Force of the spring, horizontal";
  SI.Force fy "Force of the spring, vertical";
equation
  der(q) = v;
  der(v) = w;
  xd = sd*cos(q[3]) + sc*sin(q[3]) + xb;
  yd = sd*sin(q[3]) - sc*cos(q[3]) + yb;
  lang = sqrt((xd - xc)^2 + (yd - yc)^2);
  fx = -c0*(lang - l0)/lang*(xd - xc);
  fy = -c0*(lang - l0)/lang*(yd - yc);
  // Balances of torque: mass matrix times accelerations, forces, reactions of the joints.
  (m[1]*ra^2 + m[2]*(rr^2 - 2*da*rr*cos(q[2]) + da^2) + I[1] + I[2])*w[1] + (m[2]*(da^2 - da*rr*cos(q[2])) + I[2])*w[2]
    = mom - m[2]*da*rr*v[2]*(v[2] + 2*v[1])*sin(q[2])
      - (-rr*sin(q[1]) + d*sin(q[1] + q[2]))*(lambda[1] + lambda[3] + lambda[5])
      - (rr*cos(q[1]) - d*cos(q[1] + q[2]))*(lambda[2] + lambda[4] + lambda[6]);
  (m[2]*(da^2 - da*rr*cos(q[2])) + I[2])*w[1] + (m[2]*da^2 + I[2])*w[2]
    = m[2]*da*rr*v[1]^2*sin(q[2])
      - d*sin(q[1] + q[2])*(lambda[1] + lambda[3] + lambda[5]) + d*cos(q[1] + q[2])*(lambda[2] + lambda[4] + lambda[6]);
  (m[3]*(sa^2 + sb^2) + I[3])*w[3]
    = fx*(sc*cos(q[3]) - sd*sin(q[3])) + fy*(sd*cos(q[3]) + sc*sin(q[3]))
      + ss*cos(q[3])*lambda[1] + ss*sin(q[3])*lambda[2];
  (m[4]*(e - ea)^2 + I[4])*w[4] + (m[4]*((e - ea)^2 + zt*(e - ea)*sin(q[4])) + I[4])*w[5]
    = m[4]*zt*(e - ea)*v[5]^2*cos(q[4])
      + e*cos(q[4] + q[5])*lambda[3] + e*sin(q[4] + q[5])*lambda[4];
  (m[4]*((e - ea)^2 + zt*(e - ea)*sin(q[4])) + I[4])*w[4]
    + (m[4]*(zt^2 + 2*zt*(e - ea)*sin(q[4]) + (e - ea)^2) + m[5]*(ta^2 + tb^2) + I[4] + I[5])*w[5]
    = -m[4]*zt*(e - ea)*v[4]*(v[4] + 2*v[5])*cos(q[4])
      + (e*cos(q[4] + q[5]) - zt*sin(q[5]))*lambda[3] + (e*sin(q[4] + q[5]) + zt*cos(q[5]))*lambda[4];
  (m[6]*(zf - fa)^2 + I[6])*w[6] + (m[6]*((zf - fa)^2 - u*(zf - fa)*sin(q[6])) + I[6])*w[7]
    = -m[6]*u*(zf - fa)*v[7]^2*cos(q[6])
      - zf*sin(q[6] + q[7])*lambda[5] + zf*cos(q[6] + q[7])*lambda[6];
  (m[6]*((zf - fa)^2 - u*(zf - fa)*sin(q[6])) + I[6])*w[6]
    + (m[6]*((zf - fa)^2 - 2*u*(zf - fa)*sin(q[6]) + u^2) + m[7]*(ua^2 + ub^2) + I[6] + I[7])*w[7]
    = m[6]*u*(zf - fa)*v[6]*(v[6] + 2*v[7])*cos(q[6])
      - (zf*sin(q[6] + q[7]) - u*cos(q[7]))*lambda[5] + (zf*cos(q[6] + q[7]) + u*sin(q[7]))*lambda[6];
  // The three chains of bodies end where they are joined.
  0 = rr*cos(q[1]) - d*cos(q[1] + q[2]) - ss*sin(q[3]) - xb;
  0 = rr*sin(q[1]) - d*sin(q[1] + q[2]) + ss*cos(q[3]) - yb;
  0 = rr*cos(q[1]) - d*cos(q[1] + q[2]) - e*sin(q[4] + q[5]) - zt*cos(q[5]) - xa;
  0 = rr*sin(q[1]) - d*sin(q[1] + q[2]) + e*cos(q[4] + q[5]) - zt*sin(q[5]) - ya;
  0 = rr*cos(q[1]) - d*cos(q[1] + q[2]) - zf*cos(q[6] + q[7]) - u*sin(q[7]) - xa;
  0 = rr*sin(q[1]) - d*sin(q[1] + q[2]) - zf*sin(q[6] + q[7]) + u*cos(q[7]) - ya;
  annotation (experiment(StopTime=0.03, Interval=1e-4));
end AndrewsSqueezer;
