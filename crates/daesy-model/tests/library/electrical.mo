package Electrical "Circuits for the tests of the library"
  import Modelica.Electrical.Analog.{Basic,Ideal,Semiconductors,Sensors,Sources};

  model HeatedResistor "A resistor heats a body and thereby its own resistance"
    Sources.SineVoltage source(V=220, f=50, phase=0.5);
    Basic.Resistor resistor(R=100, T_ref=293.15, alpha=4e-3, useHeatPort=true);
    Basic.Ground ground;
    Modelica.Thermal.HeatTransfer.Components.HeatCapacitor body(C=10, T(start=300, fixed=true));
    Modelica.Thermal.HeatTransfer.Components.ThermalConductor loss(G=2);
    Modelica.Thermal.HeatTransfer.Sources.FixedTemperature ambient(T=293.15);
  equation
    connect(source.p, resistor.p);
    connect(resistor.n, source.n);
    connect(source.n, ground.p);
    connect(resistor.heatPort, body.port);
    connect(body.port, loss.port_a);
    connect(loss.port_b, ambient.port);
  end HeatedResistor;

  model Rectifier "A half-wave rectifier with ideal and exponential diode in series"
    Sources.SineVoltage source(V=10, f=50);
    Ideal.IdealDiode ideal(Ron=1e-3, Goff=1e-6, Vknee=0.5);
    Semiconductors.Diode diode;
    Basic.Capacitor capacitor(C=1e-3, v(start=0, fixed=true));
    Basic.Conductor load(G=0.01);
    Basic.Ground ground;
    Sensors.VoltageSensor meter;
    Sensors.CurrentSensor current;
  equation
    connect(source.p, ideal.p);
    connect(ideal.n, diode.p);
    connect(diode.n, current.p);
    connect(current.n, capacitor.p);
    connect(capacitor.p, load.p);
    connect(load.n, capacitor.n);
    connect(capacitor.n, source.n);
    connect(source.n, ground.p);
    connect(meter.p, capacitor.p);
    connect(meter.n, capacitor.n);
  end Rectifier;

  model Coupled "Transformers, gyrators and controlled sources in a chain"
    Sources.SignalVoltage source(v=5);
    Basic.Ground ground;
    Basic.Transformer transformer(L1=1, L2=4, M=1.5, i1(fixed=true), i2(fixed=true));
    Ideal.IdealTransformer ideal(n=2, Lm1=1);
    Basic.Gyrator gyrator(G1=0.1, G2=0.2);
    Basic.VCV vcv(gain=3);
    Basic.VCC vcc(transConductance=0.5);
    Basic.Resistor load(R=7);
  equation
    connect(source.p, transformer.p1);
    connect(source.n, transformer.n1);
    connect(transformer.p2, ideal.p1);
    connect(transformer.n2, ideal.n1);
    connect(ideal.p2, gyrator.p1);
    connect(ideal.n2, gyrator.n1);
    connect(gyrator.p2, vcv.p1);
    connect(gyrator.n2, vcv.n1);
    connect(vcv.p2, vcc.p1);
    connect(vcv.n2, vcc.n1);
    connect(vcc.p2, load.p);
    connect(vcc.n2, load.n);
    for n in 1:1 loop
      connect(source.n, ground.p);
    end for;
    connect(transformer.n2, ground.p);
    connect(ideal.n2, ground.p);
    connect(gyrator.n2, ground.p);
    connect(vcv.n2, ground.p);
    connect(vcc.n2, ground.p);
  end Coupled;

  model Inverting "An inverting amplifier"
    Sources.StepVoltage source(V=1, startTime=0.5);
    Ideal.IdealOpAmp3Pin amplifier;
    Basic.Resistor r1(R=1000);
    Basic.Resistor r2(R=5000);
    Basic.Ground ground;
    Sensors.PotentialSensor output_voltage;
  equation
    connect(source.p, r1.p);
    connect(r1.n, amplifier.in_n);
    connect(amplifier.in_n, r2.p);
    connect(r2.n, amplifier.out);
    connect(amplifier.in_p, ground.p);
    connect(source.n, ground.p);
    connect(output_voltage.p, amplifier.out);
  end Inverting;

  model Switched "A coil that a switch connects"
    Sources.ConstantVoltage source(V=12);
    Ideal.IdealClosingSwitch switch;
    Basic.Inductor coil(L=0.1, i(fixed=true));
    Basic.Resistor resistor(R=5);
    Ideal.IdealDiode diode;
    Basic.Ground ground;
    Modelica.Blocks.Sources.BooleanPulse pulse(period=0.1, width=30);
  equation
    connect(source.p, switch.p);
    connect(switch.n, coil.p);
    connect(coil.n, resistor.p);
    connect(resistor.n, source.n);
    connect(source.n, ground.p);
    connect(diode.n, coil.p);
    connect(diode.p, ground.p);
    connect(pulse.y, switch.control);
  end Switched;
end Electrical;
