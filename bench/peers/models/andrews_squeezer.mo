model AndrewsSqueezer "Index 1: angles, velocities, accelerations and forces, with the constraints on accelerations"
  parameter Real xa = -0.06934 "Support A, horizontal";
  parameter Real ya = -0.00227 "Support A, vertical";
  parameter Real xb = -0.03635 "Support B, horizontal";
  parameter Real yb = 0.03273 "Support B, vertical";
  parameter Real xc = 0.014 "Support C, horizontal";
  parameter Real yc = 0.072 "Support C, vertical";
  parameter Real d = 0.028;
  parameter Real da = 0.0115;
  parameter Real e = 0.02;
  parameter Real ea = 0.01421;
  parameter Real rr = 0.007;
  parameter Real ra = 0.00092;
  parameter Real ss = 0.035;
  parameter Real sa = 0.01874;
  parameter Real sb = 0.01043;
  parameter Real sc = 0.018;
  parameter Real sd = 0.02;
  parameter Real ta = 0.02308;
  parameter Real tb = 0.00916;
  parameter Real u = 0.04;
  parameter Real ua = 0.01228;
  parameter Real ub = 0.00449;
  parameter Real zf = 0.02;
  parameter Real zt = 0.04;
  parameter Real fa = 0.01421;
  parameter Real c0 = 4530 "Spring";
  parameter Real l0 = 0.07785 "Length of the spring at rest";
  parameter Real mom = 0.033 "Torque of the motor";
  parameter Real m[7] = {0.04325, 0.00365, 0.02373, 0.00706, 0.0705, 0.00706, 0.05498} "Masses";
  parameter Real I[7] = {2.194e-6, 4.41e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5} "Inertias";
  Real q[7](start={-0.06171389001427645, 0, 0.45527981916307037, 0.22266839016588588, 0.48736497954384256,
    -0.22266839016588588, 1.2305474445498212});
  Real v[7](start={0, 0, 0, 0, 0, 0, 0});
  Real w[7](start={14222.4439199541138, -10666.8329399655854, 0, 0, 0, 0, 0});
  Real lambda[6](start={98.5668703962410896, -6.12268834425566265, 0, 0, 0, 0});
protected
  Real xd;
  Real yd;
  Real lang;
  Real fx;
  Real fy;
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
  0 = -rr*(sin(q[1])*(w[1]) + cos(q[1])*(v[1])^2)
      - (-d*(sin(q[1]+q[2])*(w[1] + w[2]) + cos(q[1]+q[2])*(v[1] + v[2])^2))
      - (ss*(cos(q[3])*(w[3]) - sin(q[3])*(v[3])^2));
  0 = rr*(cos(q[1])*(w[1]) - sin(q[1])*(v[1])^2)
      - (d*(cos(q[1]+q[2])*(w[1] + w[2]) - sin(q[1]+q[2])*(v[1] + v[2])^2))
      + (-ss*(sin(q[3])*(w[3]) + cos(q[3])*(v[3])^2));
  0 = -rr*(sin(q[1])*(w[1]) + cos(q[1])*(v[1])^2)
      - (-d*(sin(q[1]+q[2])*(w[1] + w[2]) + cos(q[1]+q[2])*(v[1] + v[2])^2))
      - (e*(cos(q[4]+q[5])*(w[4] + w[5]) - sin(q[4]+q[5])*(v[4] + v[5])^2))
      - (-zt*(sin(q[5])*(w[5]) + cos(q[5])*(v[5])^2));
  0 = rr*(cos(q[1])*(w[1]) - sin(q[1])*(v[1])^2)
      - (d*(cos(q[1]+q[2])*(w[1] + w[2]) - sin(q[1]+q[2])*(v[1] + v[2])^2))
      + (-e*(sin(q[4]+q[5])*(w[4] + w[5]) + cos(q[4]+q[5])*(v[4] + v[5])^2))
      - (zt*(cos(q[5])*(w[5]) - sin(q[5])*(v[5])^2));
  0 = -rr*(sin(q[1])*(w[1]) + cos(q[1])*(v[1])^2)
      - (-d*(sin(q[1]+q[2])*(w[1] + w[2]) + cos(q[1]+q[2])*(v[1] + v[2])^2))
      - (-zf*(sin(q[6]+q[7])*(w[6] + w[7]) + cos(q[6]+q[7])*(v[6] + v[7])^2))
      - (u*(cos(q[7])*(w[7]) - sin(q[7])*(v[7])^2));
  0 = rr*(cos(q[1])*(w[1]) - sin(q[1])*(v[1])^2)
      - (d*(cos(q[1]+q[2])*(w[1] + w[2]) - sin(q[1]+q[2])*(v[1] + v[2])^2))
      - (zf*(cos(q[6]+q[7])*(w[6] + w[7]) - sin(q[6]+q[7])*(v[6] + v[7])^2))
      + (-u*(sin(q[7])*(w[7]) + cos(q[7])*(v[7])^2));
end AndrewsSqueezer;
