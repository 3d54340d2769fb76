package ChargePump "A transistor that is nothing but charges, between two capacitors and a source of trapezoids; in V, ns, pC and mA"
  connector Pin
    Real v "Potential";
    flow Real i "Current into the component";
  end Pin;
  model Ground
    Pin p;
  equation
    p.v = 0;
  end Ground;
  model Trapezoids "A voltage against ground: low, up, high, down"
    parameter Real high = 20, period = 120, up = 50, slope = 10, down = 110;
    Real tau "Time within the period";
    Pin p;
  equation
    tau = mod(time, period);
    p.v =
      if tau < up then 0
      elseif tau < up + slope then high*(tau - up)/slope
      elseif tau < down then high
      else high*(period - tau)/slope;
  end Trapezoids;
  model Capacitor
    parameter Real C;
    Real q "Charge";
    Pin p, n;
  equation
    q = C*(p.v - n.v);
    der(q) = p.i;
    p.i + n.i = 0;
  end Capacitor;
  model Mosfet "Charges of an n-channel transistor; no current flows from drain to source"
    parameter Real Vt0 = 0.2, gamma = 0.035, phi = 1.01, C = 4;
    parameter Real flat = Vt0 - gamma*sqrt(phi) - phi "Voltage of flat bands";
    Pin gate, drain, source, bulk;
    Real qg, qd, qs "Charges";
    Real ugb, upper, lower "From gate to bulk, and to source and drain, whichever is lower in potential first";
    Real inverted "Root of what is left of phi", threshold;
    Real us, ud "How far gate is above the threshold";
  equation
    ugb = gate.v - bulk.v;
    upper = gate.v - min(source.v, drain.v);
    lower = gate.v - max(source.v, drain.v);
    inverted = sqrt(phi - (upper - ugb));
    threshold = Vt0 + gamma*(inverted - sqrt(phi));
    us = max(upper - threshold, 0);
    ud = max(lower - threshold, 0);
    if ugb <= flat then
      qg = C*(ugb - flat);
      qs = 0;
    elseif upper <= threshold then
      qg = C*gamma*(sqrt((gamma/2)^2 + ugb - flat) - gamma/2);
      qs = 0;
    else
      qg = C*(2/3*(ud + us - ud*us/(ud + us)) + gamma*inverted);
      qs = -C/3*(ud + us - ud*us/(ud + us));
    end if;
    qd = qs;
    gate.i = der(qg);
    source.i = der(qs);
    drain.i = der(qd);
    bulk.i = -(gate.i + source.i + drain.i);
  end Mosfet;
  model Circuit
    Trapezoids pulses;
    Ground ground;
    Mosfet mosfet;
    Capacitor cs(C = 1.6), cd(C = 0.4);
  equation
    connect(pulses.p, mosfet.gate);
    connect(mosfet.source, cs.p);
    connect(mosfet.drain, cd.p);
    connect(mosfet.bulk, ground.p);
    connect(cs.n, ground.p);
    connect(cd.n, ground.p);
  initial equation
    mosfet.source.v = 0;
    mosfet.drain.v = 0;
  end Circuit;
end ChargePump;
