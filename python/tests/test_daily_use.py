"""What somebody meets in the first days: names and values, linearization, partial results, events, missing packages."""

from __future__ import annotations

import builtins
import importlib
import pickle

import numpy as np
import pytest

import daesy

TANK = """model Tank
  parameter Real a(unit = "m2") = 2 "Area of the outlet";
  input Real inflow(unit = "m3/s");
  Real h(start = 1, fixed = true, unit = "m") "Level";
  output Real outflow(unit = "m3/s");
equation
  der(h) = inflow - outflow;
  outflow = a*sqrt(h);
end Tank;"""


def test_a_model_lists_its_names_with_values_and_units():
    model = daesy.parse(TANK)
    area = model.parameters["a"]
    assert (area.value, area["unit"], area.description, float(area)) == (2.0, "m2", "Area of the outlet", 2.0)
    assert list(model.inputs) == ["inflow"] and list(model.outputs) == ["outflow"]
    assert list(model.variables) == ["h", "outflow"] and model.variables["h"].start == 1.0
    frame = model.parameters.to_frame()
    assert frame["value"].tolist() == [2.0]
    with pytest.raises(AttributeError, match="description"):
        _ = area.vallue


def test_linearization_at_values_at_rest_and_at_a_time():
    model = daesy.parse(TANK)
    found = model.linearize(at={"h": 4.0, "a": 3.0})
    # outflow = a sqrt(h): its slope is a/(2 sqrt(h))
    assert found.A.shape == (1, 1) and np.isclose(found.A[0, 0], -0.75) and np.isclose(found.C[0, 0], 0.75)
    assert found.B.tolist() == [[1.0]] and found.D.tolist() == [[0.0]]
    assert (found.states, found.inputs, found.outputs) == (["h"], ["inflow"], ["outflow"])
    rest = model.linearize(at=["rest", {"inflow": 6.0}])
    assert np.isclose(rest.at["states"]["h"], 9.0) and rest.at["rest"] and np.isclose(rest.poles[0], -1 / 3)
    assert np.isclose(rest.response([0.0])[0, 0, 0], 1.0)
    assert model.linearize(at=0.5).at["time"] == 0.5
    assert model.linearize(outputs="h").outputs == ["h"]
    assert len(rest.plot().axes) == 2
    with pytest.raises(daesy.Error, match="did you mean `h`"):
        model.linearize(at={"hh": 1.0})


def test_a_failed_simulation_keeps_what_there_was():
    model = daesy.parse("model Burst Real x(start = 1, fixed = true); equation der(x) = x^2; end Burst;")
    with pytest.raises(daesy.NumericsError) as caught:
        model.simulate(stop=2.0, step=0.1)
    part = caught.value.partial
    rows = part.t < 0.95
    assert rows.sum() == 10 and np.allclose(part["x"][rows], 1 / (1 - part.t[rows]), rtol=1e-4)
    assert pickle.loads(pickle.dumps(caught.value)).partial.t[-1] == part.t[-1]


def test_a_simulation_takes_a_method_reports_progress_and_writes_a_page(tmp_path):
    model = daesy.parse(TANK)
    told = []
    page = tmp_path / "page.html"
    model.simulate(stop=0.5, method="radau", max_step=0.005, progress=lambda done, total: told.append(done), report=page)
    assert "<svg" in page.read_text()
    assert model.simulate(stop=0.5, max_step=0.005).steps >= 100
    with pytest.raises(daesy.UsageError, match="rosenbrock"):
        model.simulate(method="euler")


def test_a_linear_system_is_simulated_from_the_nearest_consistent_start():
    # A capacitor on a voltage source: the current is the derivative of the voltage.
    dae = daesy.LinearDae(E=[[1, 0], [0, 0]], F=[[0, 1], [1, 0]], G=[[0], [-1]], names=["v", "i"])
    t = np.linspace(0.0, 1.0, 11)
    run = dae.simulate(t, u=3 * t, hold="foh")
    assert np.allclose(run["v"], 3 * run.t) and np.allclose(run["i"][1:-1], 3.0)
    oscillator = daesy.LinearDae(np.eye(2), [[0, 1], [-4, 0]], names=["x", "v"])
    run = oscillator.simulate(t, z0=[1.0, 0.0], rtol=1e-9)
    assert np.allclose(run["x"], np.cos(2 * t), atol=1e-6)
    with pytest.raises(daesy.UsageError, match="shape"):
        dae.simulate(t, u=np.zeros((3, 1)))


def test_solve_dae_gives_a_function_of_time_and_finds_events():
    def ball(t, y, yp):
        return [yp[0] - y[1], yp[1] + 9.81, y[2] - y[0] * 2]

    def ground(t, y):
        return y[0]

    ground.terminal = True
    ground.direction = -1

    def top(t, y):
        return y[1]

    solution = daesy.solve_dae(ball, (0.0, 5.0), [1.0, 4.0, 0.0], rtol=1e-9, dense_output=True, events=[ground, top])
    fall = (4 + np.sqrt(16 + 2 * 9.81)) / 9.81
    assert solution.status == 1 and solution.success
    assert np.isclose(solution.t[-1], fall, rtol=1e-7) and np.isclose(solution.t_events[0][0], fall, rtol=1e-7)
    assert np.isclose(solution.t_events[1][0], 4 / 9.81, rtol=1e-7)
    assert np.isclose(solution.yp[1, -1], -9.81)
    t = np.linspace(0.0, fall, 57)
    assert np.allclose(solution.sol(t)[0], 1 + 4 * t - 9.81 / 2 * t**2, atol=1e-8)
    with pytest.raises(daesy.UsageError, match="known from"):
        solution.sol(50.0)


def test_solve_dae_keeps_what_it_solved_and_points_to_models_of_higher_index():
    blown = daesy.solve_dae(lambda t, y, yp: yp - y**2, (0.0, 2.0), [1.0])
    assert not blown.success and 0.9 < blown.t[-1] < 1.01 and len(blown.t) > 40
    # x' = y, x = sin(t): index 2
    refused = daesy.solve_dae(lambda t, y, yp: [yp[0] - y[1], y[0] - np.sin(t)], (0.0, 1.0), [0.0, 1.0])
    assert not refused.success and "daesy.build" in refused.message


def test_a_wildcard_import_leaves_input_alone():
    names: dict[str, object] = {}
    exec("from daesy import *", names)
    assert names.get("input", builtins.input) is builtins.input
    assert callable(daesy.input)


def test_mistakes_in_arguments_are_named():
    model = daesy.parse(TANK)
    with pytest.raises(TypeError, match="`a` is no number"):
        model.simulate(set={"a": "wide"})
    with pytest.raises(TypeError, match="dict of parameter values"):
        model.simulate(set=[1.0])
    with pytest.raises(daesy.UsageError, match="daesy.parse"):
        daesy.load(TANK)
    with pytest.raises(daesy.UsageError, match="daesy.load"):
        daesy.parse("tank.mo")
    with pytest.raises(TypeError, match="path or a class name"):
        daesy.load(3)


def test_units_are_in_frames_and_a_missing_package_is_named(monkeypatch):
    frame = daesy.parse(TANK).simulate(stop=0.5).to_frame()
    assert frame.attrs["units"]["h"] == "m" and frame.attrs["units"]["t"] == "s"
    run = daesy.parse(TANK).simulate(stop=0.5)

    def without(name, *arguments):
        raise ImportError(name)

    monkeypatch.setattr(importlib, "import_module", without)
    with pytest.raises(ImportError, match=r"pip install 'pandas'"):
        run.to_frame()
    with pytest.raises(ImportError, match="control"):
        daesy.parse(TANK).linearize().to_control()


def test_a_notebook_shows_one_table():
    study = daesy.Study(
        daesy.parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;"),
        unknown={"a": 1.0},
        measurements={"y": {"column": "y", "std": 0.1}},
    )
    found = study.identify({"t": [0.0, 1.0, 2.0], "y": [0.0, 2.1, 3.9]})
    shown = found._repr_html_()
    assert shown.count("<table") == 1 and found.summary() not in shown


def test_a_class_of_the_library_is_loaded_by_its_name():
    resistor = daesy.load("Modelica.Electrical.Analog.Basic.Resistor")
    assert "R" in resistor.parameters


@pytest.mark.parametrize("fmi", [2, 3])
def test_the_filter_of_a_result_gives_its_estimates_in_another_importer(tmp_path, fmi):
    from fmpy import extract, read_model_description
    from fmpy.fmi2 import FMU2Slave
    from fmpy.fmi3 import FMU3Slave

    model = daesy.parse(
        "model Lag parameter Real a = 1; input Real u; input Real w; Real x(start = 0, fixed = true); "
        "equation der(x) = u + w - a*x; end Lag;"
    )
    random = np.random.default_rng(1)
    t = 0.1 * np.arange(80)
    u = np.where(t % 4 < 2, 1.0, 0.0)
    x = [0.0]
    for before in u[:-1]:
        x.append(before / 2 + (x[-1] - before / 2) * np.exp(-0.2))
    data = {"t": t, "u": u, "x": np.array(x) + 0.01 * random.standard_normal(len(t))}
    study = daesy.Study(
        model, unknown={"a": 1.0}, inputs={"u": {"column": "u"}}, disturbances={"w": {"std": 0.1, "time_constant": 1.0}},
        measurements={"x": {"column": "x", "std": 0.01}}, estimate=["x", "w"],
    )
    found = study.identify(data)
    unit = tmp_path / "filter.fmu"
    assert found.export_observer(unit, fmi=fmi).document["fmi"] == f"{fmi}.0"
    fixed = daesy.Study(
        model, unknown={"a": found.estimate["a"]}, inputs={"u": {"column": "u"}},
        disturbances={"w": {"std": 0.1, "time_constant": 1.0}},
        measurements={"x": {"column": "x", "std": 0.01}}, estimate=["x", "w"],
    )
    table = fixed.estimate(data)
    expected = np.array([table[name] for name in ("x", "x.std", "w", "w.std")]).T

    description = read_model_description(str(unit))
    reference = {variable.name: variable.valueReference for variable in description.modelVariables}
    token = description.guid if fmi == 2 else description.instantiationToken
    kind = FMU2Slave if fmi == 2 else FMU3Slave
    fmu = kind(guid=token, unzipDirectory=extract(str(unit), str(tmp_path / "unit")), instanceName="one",
               modelIdentifier=description.coSimulation.modelIdentifier)
    fmu.instantiate()
    if fmi == 2:
        fmu.setupExperiment(startTime=0.0)
        fmu.enterInitializationMode()
    else:
        fmu.enterInitializationMode(startTime=0.0)
    fmu.exitInitializationMode()
    write, read = (fmu.setReal, fmu.getReal) if fmi == 2 else (fmu.setFloat64, fmu.getFloat64)
    inputs = [reference["u"], reference["measured.x"]]
    outputs = [reference[name] for name in ("estimate.x", "std.x", "estimate.w", "std.w")]
    for at, time in enumerate(t):
        write(inputs, [float(data["u"][at]), float(data["x"][at])])
        assert np.allclose(read(outputs), expected[at], rtol=1e-9, atol=1e-12), time
        if at + 1 < len(t):
            fmu.doStep(currentCommunicationPoint=time, communicationStepSize=t[at + 1] - time)
    fmu.terminate()
    fmu.freeInstance()
