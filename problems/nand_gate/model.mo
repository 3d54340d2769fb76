package NandGate "A NAND gate of one depletion and two enhancement transistors, from components"
  connector Pin
    Real v "Potential";
    flow Real i "Current into the component";
  end Pin;
  model Ground
    Pin p;
  equation
    p.v = 0;
  end Ground;
  model Supply "A constant voltage against ground"
    parameter Real V;
    Pin p;
  equation
    p.v = V;
  end Supply;
  model Pulse "A voltage against ground that rises, stays, falls and waits, again and again"
    parameter Real high = 5, delay, rise = 5, width, fall = 5, period;
    Real tau "Time within the period";
    Pin p;
  equation
    tau = mod(time, period);
    p.v =
      if tau < delay then 0
      elseif tau < delay + rise then high*(tau - delay)/rise
      elseif tau < delay + rise + width then high
      elseif tau < delay + rise + width + fall then high*(delay + rise + width + fall - tau)/fall
      else 0;
  end Pulse;
  partial model TwoPin
    Real u "Voltage", i "Current";
    Pin p, n;
  equation
    u = p.v - n.v;
    i = p.i;
    p.i + n.i = 0;
  end TwoPin;
  model Resistor
    parameter Real R;
    extends TwoPin;
  equation
    u = R*i;
  end Resistor;
  model Capacitor
    parameter Real C;
    extends TwoPin;
  equation
    C*der(u) = i;
  end Capacitor;
  model Junction "Between bulk and drain or source: a diode that blocks, and a capacitance that depends on its voltage"
    parameter Real C = 2.4e-5, phi = 0.87, Is = 1e-14, Vt = 25.85;
    Real capacitance;
    extends TwoPin;
  equation
    capacitance = if u <= 0 then C/sqrt(1 - u/phi) else C*(1 + u/(2*phi));
    i = capacitance*der(u) + (if u <= 0 then Is*(exp(u/Vt) - 1) else 0);
  end Junction;
  model Channel "Current from drain to source after Shichman and Hodges"
    parameter Real Vt0, beta, reverse "Instead of beta where the current flows backwards", gamma, delta, phi;
    input Real ugs, ugd, ubs, ubd;
    Real above "How far the gate is above its threshold";
    Real strength;
    extends TwoPin;
  equation
    if u >= 0 then
      above = ugs - Vt0 - gamma*(sqrt(phi - ubs) - sqrt(phi));
      strength = beta*(1 + delta*u);
      i = if above <= 0 then 0 elseif above <= u then strength*above^2 else strength*u*(2*above - u);
    else
      above = ugd - Vt0 - gamma*(sqrt(phi - ubd) - sqrt(phi));
      strength = reverse*(1 - delta*u);
      i = if above <= 0 then 0 elseif above <= -u then -strength*above^2 else strength*u*(2*above + u);
    end if;
  end Channel;
  model Mosfet "Resistances of the leads, capacitances of the gate, junctions to the bulk"
    parameter Real Vt0 = 0.2, beta = 1.748e-3, reverse = beta, gamma = 0.035, delta = 0.02, phi = 1.01;
    parameter Real R = 4, Rb = 10, C = 6e-5, Vb = -2.5 "Of the bulk";
    Pin drain, gate, source;
    Junction jd, js;
    Capacitor cd(C = C), cs(C = C);
    Resistor rd(R = R), rs(R = R), rbd(R = Rb), rbs(R = Rb);
    Supply bulk(V = Vb);
    Channel channel(Vt0 = Vt0, beta = beta, reverse = reverse, gamma = gamma, delta = delta, phi = phi, ugs = cs.u, ugd = cd.u, ubs = js.u, ubd = jd.u);
  equation
    connect(gate, cd.p);
    connect(gate, cs.p);
    connect(drain, rd.p);
    connect(drain, jd.n);
    connect(source, rs.p);
    connect(source, js.n);
    connect(rd.n, cd.n);
    connect(rd.n, channel.p);
    connect(rs.n, cs.n);
    connect(rs.n, channel.n);
    connect(bulk.p, rbd.p);
    connect(bulk.p, rbs.p);
    connect(rbd.n, jd.p);
    connect(rbs.n, js.p);
  end Mosfet;
  model Circuit
    Supply supply(V = 5);
    Ground ground;
    Pulse first(delay = 5, width = 5, period = 20), second(delay = 15, width = 15, period = 40);
    Mosfet load(Vt0 = -2.43, beta = 5.35e-4, gamma = 0.2, phi = 1.28), upper(reverse = 1.748e-4), lower(reverse = 1.748e-4);
    Capacitor result(C = 5e-5), middle(C = 5e-5);
  equation
    connect(supply.p, load.drain);
    connect(load.gate, load.source);
    connect(load.source, upper.drain);
    connect(upper.gate, first.p);
    connect(upper.source, lower.drain);
    connect(lower.gate, second.p);
    connect(lower.source, ground.p);
    connect(result.p, load.source);
    connect(result.n, ground.p);
    connect(middle.p, upper.source);
    connect(middle.n, ground.p);
  initial equation
    result.u = 5;
    middle.u = 3.62385;
    load.rs.n.v = 5;
    load.rd.n.v = 5;
    load.js.p.v = -2.5;
    load.jd.p.v = -2.5;
    upper.rs.n.v = 3.62385;
    upper.rd.n.v = 5;
    upper.js.p.v = -2.5;
    upper.jd.p.v = -2.5;
    lower.rs.n.v = 0;
    lower.rd.n.v = 3.62385;
    lower.js.p.v = -2.5;
    lower.jd.p.v = -2.5;
  end Circuit;
end NandGate;
