package Wheelset "Two conical wheels on an axle that runs on a straight track and begins to hunt"
  record Contact "Where a wheel meets its rail"
    Real psi "Angle of the contact on the wheel", xi "Its place along the axle";
    Real r, dr "Radius of the wheel there, and its derivative";
    Real x, g, dg, ddg "Place across the track, height of the rail there, and its derivatives";
    Real G[5] "How the distance from the rail depends on the coordinates";
    Real delta "Angle of the plane of contact";
    Real N "Normal force";
    Real a "Size of the ellipse of contact";
    Real theta "Yaw seen in the plane of contact";
    Real w[3], rolling[3] "Velocities of slip, and of rolling twice";
    Real speed "Of rolling";
    Real nu_x, nu_y, spin "Creepages";
    Real bound, tx0, ty0, tx, ty "Creep forces in the plane of contact";
    Real T[3] "Creep forces";
    Real M[3] "Their torques for yaw, roll and rotation of the axle";
  end Contact;
  partial model Base
    constant Real pi = 3.1415926 "As published";
    parameter Real m = 16.08 "Mass", I1 = 0.0605 "Inertia about the axle", I2 = 0.366 "Across it";
    parameter Real gravity = 9.81, v = 30 "Speed along the track", mu = 0.12 "Friction";
    parameter Real cx = 6400, cz = 6400 "Stiffness of the suspension", arm = 0.19;
    parameter Real delta0 = 0.0262 "Angle of the cones", r0 = 0.1 "Radius", half = 0.1506 "Half the gauge", rs = 0.06 "Radius of the rail's head";
    parameter Real e = 1.3537956, gg = 0.7115218, sigma = 0.28, shear = 7.92e10, c11 = 4.72772197, c22 = 4.27526987, c23 = 1.97203505 "Of Hertz and Kalker";
    parameter Real omega = v/r0;
    Real x(start = 0.14941e-2, fixed = true), y(start = 0.40089e-6), z(start = 0.11241e-5, fixed = true), theta(start = -0.28573e-3, fixed = true), phi(start = 0.26459e-3);
    Real vx(start = 0, fixed = true), vy(start = 0), vz(start = 0, fixed = true), vtheta(start = 0, fixed = true), vphi(start = 0), beta(start = 0, fixed = true) "Deviation of the speed of rotation";
    Real lambda[2](start = {-8.3593e-3, -7.4144e-3}) "Multipliers, in 10 kN";
    Contact c[2](psi(start = {7.5634406395172940e-6, -7.4122380357667139e-6}), xi(start = {0.1490635714733819, -0.1521364296121248}), each r(start = 0.1),
      x(start = {0.15, -0.15}), each g(start = -0.1), dg(start = {0.03, -0.03}), G(start = {{0.03, -1, 0, 0, -0.15}, {-0.03, -1, 0, 0, 0.15}}),
      each N(start = 80), each speed(start = 30));
    Real st, ct(start = 1), sp, cp(start = 1) "Sine and cosine of yaw and roll";
    Real F[5] "Forces of the constraints";
  equation
    st = sin(theta);
    ct = cos(theta);
    sp = sin(phi);
    cp = cos(phi);
    der(x) = vx;
    der(y) = vy;
    der(z) = vz;
    der(theta) = vtheta;
    der(phi) = vphi;
    for k in 1:2 loop
      c[k].r = r0 + tan(delta0)*(half - abs(c[k].xi));
      c[k].dr = if k == 1 then -tan(delta0) else tan(delta0);
      c[k].x = x + c[k].xi*ct*cp + c[k].r*(ct*sp*cos(c[k].psi) - st*sin(c[k].psi));
      (c[k].g + r0 + cos(delta0)*rs)^2 + (abs(c[k].x) - half - sin(delta0)*rs)^2 = rs^2;
      c[k].dg = (if k == 1 then 1 else -1)*(half + sin(delta0)*rs - abs(c[k].x))/(c[k].g + r0 + cos(delta0)*rs);
      c[k].ddg = -rs^2/(c[k].g + r0 + cos(delta0)*rs)^3;
      // Planes of contact are the same, and do not intersect the wheel.
      c[k].dg*(c[k].dr*sp + cp*cos(c[k].psi)) + c[k].dr*ct*cp - ct*sp*cos(c[k].psi) + st*sin(c[k].psi) = 0;
      c[k].dr*st*cp - st*sp*cos(c[k].psi) - ct*sin(c[k].psi) = 0;
      c[k].G = {c[k].dg, -1, 0,
        c[k].dg*(c[k].r*(-ct*sin(c[k].psi) - cos(c[k].psi)*sp*st) - cp*st*c[k].xi),
        -cos(c[k].psi)*c[k].r*sp - cp*c[k].xi + c[k].dg*(cp*cos(c[k].psi)*ct*c[k].r - ct*sp*c[k].xi)};
      c[k].delta = (if k == 1 then -1 else 1)*atan(((c[k].dr*cp - sp*cos(c[k].psi))*ct + sin(c[k].psi)*st)/(c[k].dr*sp + cos(c[k].psi)*cp));
      c[k].theta = theta/cos(c[k].delta);
      c[k].a = (3*abs(c[k].N)*(1 - sigma)*e/(2*pi*(0.5/(c[k].r*sqrt(1 + c[k].dr^2)) - 0.5*c[k].ddg/(1 + c[k].dg^2)^1.5)*shear*sqrt(gg)))^(1/3);
      c[k].w[1] = -(omega + beta)*c[k].r*(sin(c[k].theta)*cos(c[k].psi) + cos(c[k].theta)*sp*sin(c[k].psi)) + vx
        - vtheta*(c[k].r*(sin(c[k].theta)*sp*cos(c[k].psi) + cos(c[k].theta)*sin(c[k].psi)) + c[k].xi*sin(c[k].theta)*cp)
        - vphi*cos(c[k].theta)*(c[k].xi*sp - c[k].r*cp*cos(c[k].psi));
      c[k].w[2] = (omega + beta)*c[k].r*cp*sin(c[k].psi) + vy + vphi*(c[k].xi*cp + c[k].r*sp*cos(c[k].psi));
      c[k].w[3] = -(omega + beta)*c[k].r*(cos(c[k].theta)*cos(c[k].psi) - sin(c[k].theta)*sp*sin(c[k].psi)) + v + vz
        - vtheta*(c[k].xi*cos(c[k].theta)*cp + c[k].r*(cos(c[k].theta)*sp*cos(c[k].psi) - sin(c[k].theta)*sin(c[k].psi)))
        + vphi*sin(c[k].theta)*(c[k].xi*sp - c[k].r*cp*cos(c[k].psi));
      c[k].rolling = {c[k].w[1] - 2*vx, c[k].w[2] - 2*vy, c[k].w[3] - 2*vz - 2*v};
      c[k].speed = 0.5*sqrt(c[k].rolling[1]^2 + c[k].rolling[2]^2 + c[k].rolling[3]^2);
      c[k].nu_x = (sin(c[k].theta)*c[k].w[1] + cos(c[k].theta)*c[k].w[3])/c[k].speed;
      c[k].nu_y = (cos(c[k].theta)*cos(c[k].delta)*c[k].w[1] + (if k == 1 then 1 else -1)*sin(c[k].delta)*c[k].w[2]
        - sin(c[k].theta)*cos(c[k].delta)*c[k].w[3])/c[k].speed;
      c[k].spin = ((if k == 1 then -1 else 1)*sin(c[k].delta)*(omega + beta) + cos(c[k].delta)*vtheta)/c[k].speed;
      c[k].bound = mu*c[k].N;
      c[k].tx0 = -c[k].bound*tanh(shear*c[k].a^2*c11*c[k].nu_x/c[k].bound);
      c[k].ty0 = -c[k].bound*tanh((shear*c[k].a^2*c22*c[k].nu_y + shear*c[k].a^3*c23*c[k].spin)/c[k].bound);
      if c[k].tx0^2 + c[k].ty0^2 > c[k].bound^2 then
        c[k].tx = c[k].tx0*abs(c[k].bound)/sqrt(c[k].tx0^2 + c[k].ty0^2);
        c[k].ty = c[k].ty0*abs(c[k].bound)/sqrt(c[k].tx0^2 + c[k].ty0^2);
      else
        c[k].tx = c[k].tx0;
        c[k].ty = c[k].ty0;
      end if;
      c[k].T = {sin(c[k].theta)*c[k].tx + cos(c[k].theta)*cos(c[k].delta)*c[k].ty,
        (if k == 1 then 1 else -1)*sin(c[k].delta)*c[k].ty,
        cos(c[k].theta)*c[k].tx - sin(c[k].theta)*cos(c[k].delta)*c[k].ty};
      c[k].M[1] = -(c[k].xi*st + c[k].r*sin(c[k].psi)*ct*cp)*c[k].T[1] - c[k].r*sin(c[k].psi)*sp*c[k].T[2]
        + (-c[k].xi*ct + c[k].r*sin(c[k].psi)*st*cp)*c[k].T[3];
      c[k].M[2] = -(c[k].xi*ct*sp - c[k].r*cos(c[k].psi)*ct*cp)*c[k].T[1] + (c[k].xi*cp + c[k].r*cos(c[k].psi)*sp)*c[k].T[2]
        + (c[k].xi*st*sp - c[k].r*cos(c[k].psi)*st*cp)*c[k].T[3];
      c[k].M[3] = -c[k].r*(cos(c[k].psi)*st + sin(c[k].psi)*ct*sp)*c[k].T[1] + c[k].r*sin(c[k].psi)*cp*c[k].T[2]
        - c[k].r*(cos(c[k].psi)*ct - sin(c[k].psi)*st*sp)*c[k].T[3];
    end for;
    for j in 1:5 loop
      F[j] = 1e4*(c[1].G[j]*lambda[1] + c[2].G[j]*lambda[2]);
    end for;
    // Both normal forces together are the forces of the constraints across the track.
    -sin(c[1].delta)*c[1].N + sin(c[2].delta)*c[2].N = F[1];
    cos(c[1].delta)*c[1].N + cos(c[2].delta)*c[2].N = F[2];
    m*der(vx) = c[1].T[1] + c[2].T[1] + F[1] - 2*cx*x;
    m*der(vy) = c[1].T[2] + c[2].T[2] + F[2] - m*gravity;
    m*der(vz) = c[1].T[3] + c[2].T[3] + F[3] - 2*cz*z;
    I2*cp*der(vtheta) = I2*vtheta*vphi*sp - I1*(omega + beta)*vphi - (I1 - I2)*vtheta*sp*vphi + c[1].M[1] + c[2].M[1] - 2*cp*arm^2*cz*theta + F[4];
    I2*der(vphi) = I1*(omega + beta)*vtheta*cp + (I1 - I2)*vtheta^2*sp*cp + c[1].M[2] + c[2].M[2] + F[5];
    I1*(der(beta) + sp*der(vtheta)) = -I1*vtheta*vphi*cp + c[1].M[3] + c[2].M[3] - 2*sp*arm^2*cz*theta;
  end Base;
  model Positions "The wheels touch the rails"
    extends Base;
  equation
    for k in 1:2 loop
      c[k].g - y - c[k].xi*sp + c[k].r*cp*cos(c[k].psi) = 0;
    end for;
  end Positions;
  model Velocities "They do not leave them"
    extends Base(y(fixed = true), phi(fixed = true));
  equation
    for k in 1:2 loop
      c[k].G[1]*vx + c[k].G[2]*vy + c[k].G[3]*vz + c[k].G[4]*vtheta + c[k].G[5]*vphi = 0;
    end for;
  end Velocities;
end Wheelset;
