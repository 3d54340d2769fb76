"""Exported units in a foreign importer, FMPy: `importer.py PROGRAM ROOT FOLDER`, with the program `daesy`, the folder
of the workspace, and a folder to write to. Run by `cargo xtask test units`."""

import csv
import ctypes
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from fmpy import extract, read_model_description, simulate_fmu
from fmpy.fmi2 import FMU2Model, FMU2Slave
from fmpy.fmi3 import FMU3Model, FMU3Slave
from fmpy.validation import validate_fmu

PROGRAM, ROOT, FOLDER = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3])

# Index 1 to 3, with and without events.
PROBLEMS = [
    "amplifier", "akzo_nobel", "andrews_squeezer", "bouncing_ball", "car_axis", "heated_room", "manipulator", "pendulum",
    "rlc", "slider_crank",
]

TANK = """model Tank "Two states, an input, events at known times and where a relation changes"
  parameter Real k(min = 0, unit = "1/s") = 0.5;
  parameter Real twice = 2*k;
  parameter Integer n = 3;
  input Real u(start = 1);
  output Real y;
  output Integer count(start = 0, fixed = true);
  output Boolean high;
  Real x(start = 2, fixed = true);
  Real z(start = 0, fixed = true);
equation
  der(x) = -k*x + u + (if time >= 1.25 then 1 else 0);
  der(z) = x^2 - twice*z;
  y = x*z + u;
  high = z > 2;
  when high then
    count = pre(count) + n;
  end when;
  annotation (experiment(StopTime = 4));
end Tank;
"""


def export(model, name, *options):
    unit = FOLDER / name
    done = subprocess.run([PROGRAM, "export", str(model), "-o", str(unit), *options], capture_output=True, text=True)
    assert done.returncode == 0, (model, done.stderr)
    return str(unit)


def simulate(model, *options):
    """Names and rows as the program itself simulates."""
    table = FOLDER / "table.csv"
    done = subprocess.run([PROGRAM, "simulate", str(model), "-o", str(table), *options], capture_output=True, text=True)
    assert done.returncode == 0, (model, done.stderr)
    with open(table, newline="") as file:
        head, *rows = csv.reader(file)
    return head, np.array(rows, dtype=float)


def deviation(own_times, own, times, values):
    """The largest distance of points from a curve, whose jumps may come earlier or later by a thousandth of the span."""
    slack, worst = 1e-3 * (own_times[-1] - own_times[0]), 0.0
    between = np.interp(times, own_times, own)
    first, last = np.searchsorted(own_times, times - slack), np.searchsorted(own_times, times + slack, side="right")
    for at, value in enumerate(values):
        near = np.append(own[first[at]:last[at]], between[at])
        worst = max(worst, near.min() - value, value - near.max())
    return worst


def compare(model, name, tolerances, **settings):
    """Compares values all along the way, relative to the largest of them, by version and kind."""
    _, rows = simulate(model)
    start, stop = rows[0, 0], rows[-1, 0]
    # A table fine enough for straight lines between its rows, with a row wherever the importer has one.
    study = FOLDER / "fine.toml"
    span = f"start = {start}\nstop = {stop}\nstep = {(stop - start) / 2000}"
    study.write_text(f"[model]\nfile = '{model}'\n[simulate]\n{span}\n")
    head, rows = simulate(study)
    for fmi in ("2", "3"):
        unit = export(model, f"{name}{fmi}.fmu", "--fmi", fmi)
        assert validate_fmu(unit) == [], validate_fmu(unit)
        states = [unknown.variable.derivative.name for unknown in read_model_description(unit).derivatives]
        states = [state for state in states if state in head]
        for kind, tolerance in tolerances.items():
            accuracy = {"relative_tolerance": 1e-8} if kind == "ModelExchange" else {}
            result = simulate_fmu(
                unit, fmi_type=kind, start_time=rows[0, 0], stop_time=rows[-1, 0], output=states,
                output_interval=(rows[-1, 0] - rows[0, 0]) / 200, **accuracy, **settings,
            )
            assert result["time"][-1] == rows[-1, 0]
            for state in states:
                own = rows[:, head.index(state)]
                error = deviation(rows[:, 0], own, result["time"], result[state]) / max(np.abs(own).max(), 1e-3)
                assert error < tolerance, (name, fmi, kind, state, error)


def problems():
    for name in PROBLEMS:
        compare(ROOT / "problems" / name / "model.mo", name, {"ModelExchange": 1e-2, "CoSimulation": 1e-4})


def constraints_hold_with_a_poor_solver():
    """Euler's method on a pendulum of index 3: its length stays, to rounding."""
    model = FOLDER / "swing.mo"
    model.write_text("""model Swing
  Real x(start = 1, fixed = true), y(start = 0), vx, vy(start = 0, fixed = true), f;
equation
  der(x) = vx; der(y) = vy; der(vx) = -f*x; der(vy) = -f*y - 9.81; x^2 + y^2 = 1;
  annotation (experiment(StopTime = 5));
end Swing;
""")
    for fmi in ("2", "3"):
        unit = export(model, f"swing{fmi}.fmu", "--fmi", fmi)
        result = simulate_fmu(unit, fmi_type="ModelExchange", solver="Euler", step_size=1e-3, stop_time=5.0,
                              output_interval=1e-2, output=["x", "y", "vx", "vy"])
        assert np.abs(result["x"] ** 2 + result["y"] ** 2 - 1).max() < 1e-12
        assert np.abs(result["x"] * result["vx"] + result["y"] * result["vy"]).max() < 1e-11


def inputs_parameters_and_start_values():
    model = FOLDER / "tank.mo"
    model.write_text(TANK)
    compare(model, "tank", {"ModelExchange": 1e-6, "CoSimulation": 1e-6})
    head, rows = simulate(model, "--set", "k=0.25")
    for fmi in ("2", "3"):
        for kind in ("ModelExchange", "CoSimulation"):
            unit = export(model, f"tank{fmi}.fmu", "--fmi", fmi)
            settings = {"fmi_type": kind, "relative_tolerance": 1e-9, "stop_time": 4.0, "output_interval": 0.02}
            outputs = ["x", "z", "y", "count", "high"]
            result = simulate_fmu(unit, start_values={"k": 0.25}, output=outputs, **settings)
            for name in outputs:
                assert abs(result[name][-1] - rows[-1, head.index(name)]) < 1e-5, (fmi, kind, name)
            # x' = -k x + u with another start and a ramp from outside: known in closed form.
            ramp = np.array([(0.0, 0.0), (1.0, 1.0)], dtype=[("time", float), ("u", float)])
            settings["stop_time"] = 1.0
            result = simulate_fmu(unit, start_values={"x": 3.0}, input=ramp, output=["x"], **settings)
            k = 0.5
            exact = 3 * np.exp(-k) + 1 / k - (1 - np.exp(-k)) / k**2
            # FMPy holds the input between its steps.
            assert abs(result["x"][-1] - exact) < 3e-2, (fmi, kind, result["x"][-1], exact)


def instance(kind, unit, description, folder, **options):
    identifier = (description.coSimulation or description.modelExchange).modelIdentifier
    token = description.guid if description.fmiVersion == "2.0" else description.instantiationToken
    return kind(guid=token, unzipDirectory=folder, modelIdentifier=identifier, instanceName="one", **options)


def jumps_of_inputs_move_what_they_must():
    """Two capacitors in series at a source that jumps: charge is kept, and the voltage divides as C1/(C1 + C2). The
    nearest point of the constraint v1 + v2 = u would divide it in halves."""
    model = FOLDER / "divider.mo"
    model.write_text("""model Divider
  parameter Real C1 = 1, C2 = 3, R = 0.1;
  input Real u;
  Real v1(start = 0), v2(start = 0, fixed = true);
equation
  C1*der(v1) = C2*der(v2) + v2/R;
  v1 + v2 = u;
  annotation (experiment(StopTime = 1));
end Divider;
""")
    jump = np.array([(0.0, 0.0), (0.5, 0.0), (0.5, 2.0), (1.0, 2.0)], dtype=[("time", float), ("u", float)])
    for fmi in ("2", "3"):
        unit = export(model, f"divider{fmi}.fmu", "--fmi", fmi)
        for kind in ("ModelExchange", "CoSimulation"):
            # Parameters that the importer sets take part in the balance.
            for c2 in (3.0, 1.5):
                result = simulate_fmu(unit, fmi_type=kind, start_values={"C2": c2}, input=jump, stop_time=1.0,
                                      relative_tolerance=1e-9, output_interval=0.01, output=["v1", "v2"])
                late = result["time"] > 0.505
                times, v1, v2 = result["time"][late], result["v1"][late], result["v2"][late]
                # FMPy gives a unit for Co-Simulation its inputs at the beginning of steps.
                begin = 0.5
                exact = 2 / (1 + c2) * np.exp(-(times - begin) / (0.1 * (1 + c2)))
                error = np.abs(v2 - exact).max()
                assert error < (1e-6 if kind == "ModelExchange" else 1e-4), (fmi, kind, c2, error)
                assert np.abs(v1 + v2 - 2).max() < 1e-9, (fmi, kind, c2)


def circuits():
    """Circuits of components of the Modelica Standard Library: a filter, and a rectifier with ideal diodes."""
    analog = "Modelica.Electrical.Analog"
    low_pass = FOLDER / "low_pass.mo"
    low_pass.write_text(f"""model LowPass
  {analog}.Sources.StepVoltage source(V = 1, startTime = 1);
  {analog}.Basic.Resistor r1(R = 1), r2(R = 1);
  {analog}.Basic.Capacitor c1(C = 1.072, v(start = 0, fixed = true)), c2(C = 1/(1.704992^2*1.304));
  {analog}.Basic.Capacitor c3(C = 1.682, v(start = 0, fixed = true)), c5(C = 0.7262, v(start = 0, fixed = true));
  {analog}.Basic.Inductor l1(L = 1.304, i(start = 0, fixed = true)), l2(L = 0.8586, i(start = 0, fixed = true));
  {analog}.Basic.Ground ground;
equation
  connect(source.p, r1.p); connect(r1.n, c1.p); connect(c1.n, ground.p); connect(r1.n, l1.p); connect(r1.n, c2.p);
  connect(l1.n, c3.p); connect(c2.n, c3.p); connect(c3.n, ground.p); connect(c3.p, l2.p); connect(l2.n, c5.p);
  connect(c5.n, ground.p); connect(c5.p, r2.p); connect(r2.n, ground.p); connect(source.n, ground.p);
  annotation (experiment(StopTime = 20));
end LowPass;
""")
    compare(low_pass, "low_pass", {"ModelExchange": 1e-4, "CoSimulation": 1e-4})
    rectifier = FOLDER / "rectifier.mo"
    rectifier.write_text(f"""model Rectifier
  {analog}.Sources.SineVoltage source(V = 10, f = 1);
  {analog}.Basic.Resistor r(R = 0.1), load(R = 10);
  {analog}.Ideal.IdealDiode d1(Ron = 1e-3, Goff = 1e-3, Vknee = 0.5), d2(Ron = 1e-3, Goff = 1e-3, Vknee = 0.5);
  {analog}.Basic.Capacitor c1(C = 0.1, v(start = 0, fixed = true)), c2(C = 0.1, v(start = 0, fixed = true));
  {analog}.Basic.Ground ground;
equation
  connect(source.n, ground.p); connect(source.p, r.p); connect(r.n, d1.p); connect(d1.n, c1.p);
  connect(c1.n, ground.p); connect(d2.n, r.n); connect(d2.p, c2.n); connect(c2.p, ground.p);
  connect(c1.p, load.p); connect(c2.n, load.n);
  annotation (experiment(StopTime = 3));
end Rectifier;
""")
    compare(rectifier, "rectifier", {"ModelExchange": 1e-3, "CoSimulation": 1e-3})


def inputs_follow_their_slopes():
    """x' = -k x + u with u = t, in one step: known in closed form."""
    unit = export(FOLDER / "tank.mo", "tank2.fmu")
    description, folder = read_model_description(unit), extract(unit)
    reference = {variable.name: variable.valueReference for variable in description.modelVariables}
    fmu = instance(FMU2Slave, unit, description, folder)
    fmu.instantiate()
    fmu.setupExperiment(startTime=0.0, tolerance=1e-9)
    fmu.setReal([reference["x"], reference["u"]], [3.0, 0.0])
    fmu.enterInitializationMode()
    fmu.exitInitializationMode()
    fmu.setRealInputDerivatives([reference["u"]], [1], [1.0])
    fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=1.0)
    k = 0.5
    exact = 3 * np.exp(-k) + 1 / k - (1 - np.exp(-k)) / k**2
    found = fmu.getReal([reference["x"], reference["u"]])
    assert np.allclose(found, [exact, 1.0], rtol=0, atol=1e-8), (found, exact)
    fmu.terminate()
    fmu.freeInstance()
    shutil.rmtree(folder, ignore_errors=True)


def derivatives():
    model = FOLDER / "tank.mo"
    for fmi, kind in (("2", FMU2Model), ("3", FMU3Model)):
        unit = export(model, f"tank{fmi}.fmu", "--fmi", fmi)
        description, folder = read_model_description(unit), extract(unit)
        reference = {variable.name: variable.valueReference for variable in description.modelVariables}
        fmu = instance(kind, unit, description, folder)
        fmu.instantiate()
        if fmi == "2":
            fmu.setupExperiment(startTime=0.0)
            fmu.enterInitializationMode()
        else:
            fmu.enterInitializationMode(startTime=0.0)
        fmu.exitInitializationMode()
        # x = 2, z = 0, u = 1, k = 0.5; der(x) = -k x + u, der(z) = x^2 - 2 k z, y = x z + u
        unknowns = [reference[name] for name in ("der(x)", "der(z)", "y")]
        knowns = [reference[name] for name in ("x", "z", "u", "k")]
        exact = np.array([[-0.5, 0, 1, -2], [4, -1, 0, 0], [0, 2, 1, 0]], dtype=float)
        columns = []
        for known in knowns:
            if fmi == "2":
                columns.append(fmu.getDirectionalDerivative(unknowns, [known], [1.0]))
            else:
                columns.append(fmu.getDirectionalDerivative(unknowns=unknowns, knowns=[known], seed=[1.0]))
        assert np.allclose(np.array(columns).T, exact, rtol=0, atol=1e-14), columns
        # A parameter that is set in continuous time, as by who takes the right-hand side for a function.
        fmu.enterContinuousTimeMode()
        (fmu.setReal if fmi == "2" else fmu.setFloat64)([reference["k"]], [0.25])
        rates = (fmu.getReal if fmi == "2" else fmu.getFloat64)(unknowns[:2])
        assert np.allclose(list(rates), [0.5, 4.0], rtol=0, atol=1e-14), rates
        (fmu.setReal if fmi == "2" else fmu.setFloat64)([reference["k"]], [0.5])
        if fmi == "3":
            for row, unknown in zip(exact, unknowns):
                adjoint = fmu.getAdjointDerivative(unknowns=[unknown], knowns=knowns, seed=[1.0], nSensitivity=4)
                assert np.allclose(adjoint, row, rtol=0, atol=1e-14), adjoint
        fmu.terminate()
        fmu.freeInstance()
        shutil.rmtree(folder, ignore_errors=True)


def saved_states_and_two_at_once():
    one = export(FOLDER / "tank.mo", "tank2.fmu")
    two = export(ROOT / "problems/bouncing_ball/model.mo", "ball2.fmu")
    running = []
    for unit in (one, two):
        description, folder = read_model_description(unit), extract(unit)
        fmu = instance(FMU2Slave, unit, description, folder)
        fmu.instantiate()
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
        fmu.exitInitializationMode()
        state = description.derivatives[0].variable.derivative.valueReference
        running.append((fmu, folder, state))
    for step in range(10):
        for fmu, _, _ in running:
            fmu.doStep(currentCommunicationPoint=0.05 * step, communicationStepSize=0.05)
    for fmu, folder, state in running:
        saved = fmu.getFMUstate()
        data = fmu.serializeFMUstate(saved)
        fmu.doStep(currentCommunicationPoint=0.5, communicationStepSize=0.25)
        first = fmu.getReal([state])[0]
        fmu.setFMUstate(saved)
        fmu.doStep(currentCommunicationPoint=0.5, communicationStepSize=0.25)
        assert abs(fmu.getReal([state])[0] - first) < 1e-6 * max(abs(first), 1)
        again = fmu.deSerializeFMUstate(data)
        fmu.setFMUstate(again)
        fmu.doStep(currentCommunicationPoint=0.5, communicationStepSize=0.25)
        assert abs(fmu.getReal([state])[0] - first) < 1e-6 * max(abs(first), 1)
        fmu.freeFMUstate(saved)
        fmu.freeFMUstate(again)
        fmu.terminate()
        fmu.freeInstance()
        shutil.rmtree(folder, ignore_errors=True)


def table_of(path):
    with open(path, newline="") as file:
        head, *rows = csv.reader(file)
    return head, np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])


def observe(study, record, columns, version, saves_at):
    """The filter of a study, stepped with its record, against the table of `estimate`. It is saved on the way, led
    astray, and restored."""
    unit = export(study, f"observer{version}.fmu", "--observer", "--fmi", version)
    assert validate_fmu(unit) == [], validate_fmu(unit)
    estimates = FOLDER / "estimates.csv"
    done = subprocess.run([PROGRAM, "estimate", str(study), "-o", str(estimates)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    head, table = table_of(estimates)
    names, data = table_of(record)
    description, folder = read_model_description(unit), extract(unit)
    reference = {variable.name: variable.valueReference for variable in description.modelVariables}
    signals = [name for name in head[1:] if f"estimate.{name}" in reference]
    inputs = [reference[name] for name in columns]
    outputs = [reference[f"{kind}.{signal}"] for signal in signals for kind in ("estimate", "std")]
    places = [head.index(name) for signal in signals for name in (signal, f"{signal}.std")]
    # Times without a measured value have no row.
    expected = {row[0]: row[places] for row in table}
    times, samples = data[:, 0], data[:, [names.index(column) for column in columns.values()]]
    assert len(expected) >= 0.1 * (len(times) - 1)
    is_two = version == "2"
    fmu = instance(FMU2Slave if is_two else FMU3Slave, unit, description, folder)
    fmu.instantiate()
    if is_two:
        fmu.setupExperiment(startTime=times[0])
        fmu.enterInitializationMode()
    else:
        fmu.enterInitializationMode(startTime=times[0])
    fmu.exitInitializationMode()
    read = fmu.getReal if is_two else fmu.getFloat64
    write = fmu.setReal if is_two else fmu.setFloat64
    worst = 0.0
    for at, (time, sample) in enumerate(zip(times, samples)):
        write(inputs, list(sample))
        row = expected.get(time)
        if row is not None:
            worst = max(worst, np.max(np.abs(np.array(read(outputs)) - row) / np.maximum(np.abs(row), 1e-3)))
        if at == saves_at:
            save, restore = (fmu.getFMUstate, fmu.setFMUstate) if is_two else (fmu.getFMUState, fmu.setFMUState)
            saved = save()
            write(inputs, [value + 1 for value in sample])
            fmu.doStep(currentCommunicationPoint=time, communicationStepSize=times[1] - times[0])
            restore(saved)
        if at + 1 < len(times):
            fmu.doStep(currentCommunicationPoint=time, communicationStepSize=times[at + 1] - time)
            # Before its sample is known, the next point is predicted, and less certain.
            row = expected.get(times[at + 1])
            assert row is None or read(outputs)[1] >= row[1] * (1 - 1e-6), time
    fmu.terminate()
    fmu.freeInstance()
    shutil.rmtree(folder, ignore_errors=True)
    return worst


def observers():
    """A linear servo and a nonlinear pendulum of index 3."""
    servo = (ROOT / "problems/servo/identify.toml").read_text()
    pendulum = (ROOT / "problems/pendulum/drag.toml").read_text()
    record = (ROOT / "problems/pendulum/drag.csv").read_text().splitlines(keepends=True)[:702]
    (FOLDER / "drag.csv").write_text("".join(record))
    shutil.copy(ROOT / "problems/servo/servo.csv", FOLDER / "servo.csv")
    for name, text, signals, columns in (
        ("servo", servo, ["spring.tau", "disk.w"], {"voltage": "u", "measured.phi": "phi"}),
        ("pendulum", pendulum, ["x1", "x3"], {"u": "u", "measured.y": "y"}),
    ):
        model = f"{name}_model.mo"
        shutil.copy(ROOT / f"problems/{name}/model.mo", FOLDER / model)
        text = text.replace('"model.mo"', f'"{model}"')
        if "[estimate]" not in text:
            text += f"\n[estimate]\nsignals = {signals}\n".replace("'", '"')
        study = FOLDER / f"{name}.toml"
        study.write_text(text)
        record = FOLDER / ("servo.csv" if name == "servo" else "drag.csv")
        for version in ("2", "3"):
            worst = observe(study, record, columns, version, saves_at=25)
            assert worst < 1e-9, (name, version, worst)


def memory():
    for line in open("/proc/self/status"):
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    return 0


def instances_leave_nothing():
    """Ten thousand instances, initialized, stepped, saved and freed."""
    unit = export(FOLDER / "tank.mo", "tank2.fmu")
    description, folder = read_model_description(unit), extract(unit)
    before = 0
    fmu = instance(FMU2Slave, unit, description, folder)
    for count in range(10_000):
        if count == 1000:
            before = memory()
        fmu.instantiate()
        if count % 10 == 0:
            fmu.setupExperiment(startTime=0.0)
            fmu.enterInitializationMode()
            fmu.exitInitializationMode()
            fmu.doStep(currentCommunicationPoint=0.0, communicationStepSize=0.1)
            fmu.freeFMUstate(fmu.getFMUstate())
        fmu.fmi2FreeInstance(fmu.component)
    assert memory() - before < 2_000_000, (before, memory())
    shutil.rmtree(folder, ignore_errors=True)


def another_model_is_refused():
    unit = export(FOLDER / "tank.mo", "tank2.fmu")
    description, folder = read_model_description(unit), extract(unit)
    fmu = FMU2Slave(guid="{0}", unzipDirectory=folder, modelIdentifier=description.coSimulation.modelIdentifier,
                    instanceName="one")
    try:
        fmu.instantiate()
    except Exception:
        pass
    else:
        raise AssertionError("a unit was instantiated under the name of another")
    library = ctypes.CDLL(str(next(Path(folder).glob("binaries/*/*.so"))))
    # Null is refused, not followed.
    assert library.fmi2GetReal(None, None, ctypes.c_size_t(1), None) == 3
    assert library.fmi3DoStep(None, ctypes.c_double(0), ctypes.c_double(1), False, None, None, None, None) == 3
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    FOLDER.mkdir(parents=True, exist_ok=True)
    for check in (
        inputs_parameters_and_start_values,
        constraints_hold_with_a_poor_solver,
        jumps_of_inputs_move_what_they_must,
        circuits,
        inputs_follow_their_slopes,
        derivatives,
        saved_states_and_two_at_once,
        observers,
        another_model_is_refused,
        instances_leave_nothing,
        problems,
    ):
        check()
        print(f"{check.__name__.replace('_', ' ')}: ok", flush=True)
