package TwoBitAdder "Adds two numbers of two bits and a carry: ten gates of 39 transistors"
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
  model Junction "Between bulk and drain or source: a diode that blocks, and a charge that depends on its voltage"
    parameter Real C = 0.24, phi = 0.87, Is = 5e-11, Vt = 25.85;
    Real q;
    extends TwoPin;
  equation
    q = (if u <= 0 then C/sqrt(1 - u/phi) else C*(1 + u/(2*phi)))*u;
    i = der(q) + (if u <= 0 then Is*(exp(u/Vt) - 1) else 0);
  end Junction;
  model Channel "Current from drain to source after Shichman and Hodges"
    parameter Real Vt0, beta, gamma, delta, phi;
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
      strength = beta*(1 - delta*u);
      i = if above <= 0 then 0 elseif above <= -u then -strength*above^2 else strength*u*(2*above + u);
    end if;
  end Channel;
  model Mosfet "Resistances of the leads, capacitances of the gate, junctions to the bulk; enhancement type"
    parameter Real width = 1, Vt0 = 0.2, beta = 2.185*width, gamma = 0.035, delta = 0.02, phi = 1.01;
    parameter Real R = 8e-4, Rb = 2e-3, C = 0.6, Vb = -2.5 "Of the bulk";
    parameter Real d0, s0 "Potentials behind the resistances of drain and source at the start";
    Pin drain, gate, source;
    Junction jd, js;
    Capacitor cd(C = C), cs(C = C);
    Resistor rd(R = R), rs(R = R), rbd(R = Rb), rbs(R = Rb);
    Supply bulk(V = Vb);
    Channel channel(Vt0 = Vt0, beta = beta, gamma = gamma, delta = delta, phi = phi, ugs = cs.u, ugd = cd.u, ubs = js.u, ubd = jd.u);
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
  initial equation
    rd.n.v = d0;
    rs.n.v = s0;
    jd.p.v = Vb;
    js.p.v = Vb;
  end Mosfet;
  partial model Gate "A depletion transistor holds the output up until others pull it down"
    Supply supply(V = 5);
    Ground ground;
    Mosfet load(Vt0 = -2.43, beta = 2.675, gamma = 0.2, phi = 1.28);
    Pin out;
  equation
    connect(supply.p, load.drain);
    connect(load.gate, load.source);
    connect(load.source, out);
  end Gate;
  model Nor "not (a or b)"
    extends Gate;
    Pin a, b;
    Mosfet ta(width = 4), tb(width = 4);
  equation
    connect(a, ta.gate);
    connect(b, tb.gate);
    connect(out, ta.drain);
    connect(out, tb.drain);
    connect(ta.source, ground.p);
    connect(tb.source, ground.p);
  end Nor;
  model Nand "not (a and b)"
    extends Gate;
    Pin a, b;
    Mosfet ta(width = 8), tb(width = 8);
  equation
    connect(a, ta.gate);
    connect(b, tb.gate);
    connect(out, ta.drain);
    connect(ta.source, tb.drain);
    connect(tb.source, ground.p);
  end Nand;
  model AndOrInvert "not (a or b and c)"
    extends Gate;
    Pin a, b, c;
    Mosfet ta(width = 4), tb(width = 8), tc(width = 8);
  equation
    connect(a, ta.gate);
    connect(b, tb.gate);
    connect(c, tc.gate);
    connect(out, ta.drain);
    connect(ta.source, ground.p);
    connect(out, tb.drain);
    connect(tb.source, tc.drain);
    connect(tc.source, ground.p);
  end AndOrInvert;
  model OrAndInvert "not (a and (b or c))"
    extends Gate;
    Pin a, b, c;
    Mosfet ta(width = 8), tb(width = 8), tc(width = 8);
  equation
    connect(a, ta.gate);
    connect(b, tb.gate);
    connect(c, tc.gate);
    connect(out, ta.drain);
    connect(ta.source, tb.drain);
    connect(ta.source, tc.drain);
    connect(tb.source, ground.p);
    connect(tc.source, ground.p);
  end OrAndInvert;
  model Circuit
    Ground ground;
    Pulse a0(delay = 0, width = 5, period = 20), b0(delay = 10, width = 15, period = 40);
    Pulse a1(delay = 30, width = 35, period = 80), b1(delay = 70, width = 75, period = 160);
    Pulse carry(delay = 150, width = 155, period = 320);
    Nor nor1(load(s0 = 5, d0 = 5), ta(s0 = 0, d0 = 5), tb(s0 = 0, d0 = 5));
    AndOrInvert xor1(load(s0 = 0.215858486765796, d0 = 4.988182208251953), ta(s0 = 0.011817791748026, d0 = 0.192222903269723),
      tb(s0 = -0.228160951881239, d0 = 0.204040695017748), tc(s0 = 0, d0 = -0.228160951881239));
    Nor nor2(load(s0 = 5, d0 = 5), ta(s0 = 0, d0 = 5), tb(s0 = 0, d0 = 5));
    AndOrInvert xor2(load(s0 = 0.215858484247529, d0 = 4.988182208251953), ta(s0 = 0.011817791748035, d0 = 0.192222900751447),
      tb(s0 = -0.026041071738432, d0 = 0.204040692499482), tc(s0 = 0, d0 = -0.026041071738432));
    AndOrInvert carry1(load(s0 = 0.215858484880918, d0 = 4.988182208251953), ta(s0 = 0.011817791748026, d0 = 0.192222901384845),
      tb(s0 = -0.026041071737961, d0 = 0.204040693132870), tc(s0 = 0, d0 = -0.026041071737961));
    Nor nor3(load(s0 = 5, d0 = 5), ta(s0 = 0, d0 = 5), tb(s0 = 0, d0 = 5));
    AndOrInvert xor3(load(s0 = 0.215858481060569, d0 = 4.988182208251953), ta(s0 = 0.011817791748023, d0 = 0.192222897564498),
      tb(s0 = 4.734672533390068, d0 = 0.204040689312522), tc(s0 = 0, d0 = 4.734672533390068));
    Nand nand(load(s0 = 5, d0 = 5), ta(s0 = -0.025968303070038, d0 = 5), tb(s0 = 0, d0 = -0.025968303070038));
    OrAndInvert xor4(load(s0 = 5, d0 = 5), ta(s0 = 4.744923533081106, d0 = 5), tb(s0 = 0, d0 = 4.744923533081106),
      tc(s0 = 0, d0 = 4.744923533081106));
    AndOrInvert carry2(load(s0 = 0.215858484844162, d0 = 4.988182208251953), ta(s0 = 0.011817791748023, d0 = 0.192222901348091),
      tb(s0 = 0.204040693096045, d0 = 0.204040693096107), tc(s0 = 0, d0 = 0.204040693096037));
    Mosfet first(width = 12, s0 = -0.026017361873565, d0 = 0.204040693096114), second(width = 12, s0 = -0.026017590106916, d0 = -0.026017361873565),
      third(width = 12, s0 = 0, d0 = -0.026017590106916);
    Capacitor sum0(C = 2), sum1(C = 2), carry_out(C = 2);
  equation
    connect(a0.p, nor1.a);
    connect(b0.p, nor1.b);
    connect(nor1.out, xor1.a);
    connect(b0.p, xor1.b);
    connect(a0.p, xor1.c);
    connect(xor1.out, nor2.a);
    connect(carry.p, nor2.b);
    connect(nor2.out, xor2.a);
    connect(carry.p, xor2.b);
    connect(xor1.out, xor2.c);
    connect(xor2.out, sum0.p);
    connect(nor1.out, carry1.a);
    connect(carry.p, carry1.b);
    connect(xor1.out, carry1.c);
    connect(a1.p, nor3.a);
    connect(b1.p, nor3.b);
    connect(nor3.out, xor3.a);
    connect(b1.p, xor3.b);
    connect(a1.p, xor3.c);
    connect(carry1.out, nand.a);
    connect(xor3.out, nand.b);
    connect(nand.out, xor4.a);
    connect(carry1.out, xor4.b);
    connect(xor3.out, xor4.c);
    connect(xor4.out, sum1.p);
    connect(nor3.out, carry2.a);
    connect(nor1.out, carry2.b);
    connect(xor3.out, carry2.c);
    connect(carry2.out, first.drain);
    connect(xor3.out, first.gate);
    connect(first.source, second.drain);
    connect(xor1.out, second.gate);
    connect(second.source, third.drain);
    connect(carry.p, third.gate);
    connect(third.source, ground.p);
    connect(carry2.out, carry_out.p);
    connect(sum0.n, ground.p);
    connect(sum1.n, ground.p);
    connect(carry_out.n, ground.p);
  initial equation
    sum0.u = 0.204040692499482;
    sum1.u = 5;
    carry_out.u = 0.204040693096114;
  end Circuit;
end TwoBitAdder;
