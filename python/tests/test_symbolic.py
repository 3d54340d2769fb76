"""Models built in Python are the same models as their Modelica twins."""

from __future__ import annotations

import numpy as np
import pytest

import daesy
from daesy import der


def pendulum():
    x, y = daesy.variables("x y", start=[0.8, -0.6])
    u, v = daesy.variables("u v")
    force = daesy.variable("force")
    g = daesy.parameter("g", 9.81, unit="m/s2")
    return daesy.build(
        "Pendulum",
        [der(x) == u, der(y) == v, der(u) == -force * x, der(v) == -force * y - g, x**2 + y**2 == 1],
    )


def test_a_pendulum_of_index_three_keeps_its_energy():
    model = pendulum()
    check = model.check()
    assert check.regularity["differentiation_index"] == 3
    assert check.structure["degrees_of_freedom"] == 2
    result = model.simulate(stop=2.0, step=0.1, rtol=1e-9)
    energy = 0.5 * (result["u"] ** 2 + result["v"] ** 2) + 9.81 * result["y"]
    assert np.allclose(energy, energy[0], atol=1e-6)
    assert np.allclose(result["x"] ** 2 + result["y"] ** 2, 1.0, atol=1e-11)
    assert model.simulate(stop=1.0, set={"g": 1.62})["y"][-1] != pytest.approx(result["y"][10])


def test_functions_choices_and_numpy_work():
    x, y = daesy.variables("x y", start=[1.0, 0.0], fixed=True)
    z = daesy.variable("z")
    A = np.array([[0.0, 1.0], [-4.0, 0.0]])
    right = A @ np.array([x, y])
    model = daesy.build("M", [der(x) == right[0], der(y) == right[1], z == np.sin(x) + daesy.if_else(x > 0, x, -x) + np.float64(2.0) * daesy.time])
    result = model.simulate(stop=2.0, step=0.25, rtol=1e-10)
    assert np.allclose(result["x"], np.cos(2 * result.t), atol=1e-7)
    assert np.allclose(result["z"], np.sin(result["x"]) + np.abs(result["x"]) + 2 * result.t, atol=1e-9)


def test_inputs_parameters_of_parameters_and_initial_equations():
    level = daesy.variable("level")
    flow = daesy.input("inflow")
    area = daesy.parameter("area", 2.0)
    rate = daesy.parameter("rate", 0.5 * area)
    tank = daesy.build("Tank", [area * der(level) == flow - rate * level], initial=[der(level) == 0])
    study = daesy.Study(tank, inputs={"inflow": {"expression": "if time < 1 then 1 else 2", "breaks": [1.0]}}, simulate={"stop": 3.0, "rtol": 1e-9})
    result = study.simulate(times=[0.0, 1.0, 3.0])
    assert np.isclose(result["level"][0], 1.0)
    assert np.isclose(result["level"][-1], 2.0 - np.exp(-1.0), atol=1e-7)


def test_names_are_quoted_and_mistakes_are_told():
    odd = daesy.variable("my level", start=1.0, fixed=True)
    model = daesy.build("Odd", [der(odd) == -odd])
    assert "'my level'" in model.simulate(stop=1.0).names
    x = daesy.variable("x")
    with pytest.raises(daesy.UsageError, match="two different"):
        daesy.build("Twice", [der(x) == -daesy.variable("x")])
    with pytest.raises(TypeError, match="truth value"):
        bool(x > 0)
    with pytest.raises(TypeError, match="truth value"):
        bool(x == 1)
    with pytest.raises(daesy.UsageError):
        daesy.build("None", [True])
    with pytest.raises(daesy.UsageError):
        x + float("nan")
