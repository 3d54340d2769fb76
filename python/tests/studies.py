"""Small studies that several tests ask, and what processes of other names must find."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable

import numpy as np

import daesy

LAG = (
    "model Lag parameter Real k = 1; parameter Real g = 1; input Real u; Real x(start = 0, fixed = true);"
    " equation der(x) = k*(g*u - x); end Lag;"
)
FALL = (
    "model Fall parameter Real c = 1; input Real w; Real v(start = 0, fixed = true); Real y;"
    " equation der(v) = 1 - c*v*abs(v) + w; y = v; end Fall;"
)


def lag_data(seed: int = 5, k: float = 2.0, g: float = 1.5) -> dict[str, np.ndarray]:
    """The answer of the lag to a square wave, with errors of 0.05, every 0.1 s for 6 s."""
    t = np.arange(0.0, 6.0, 0.1)
    u = np.where((t // 1.5) % 2 == 0, 1.0, -0.5)
    x = np.zeros_like(t)
    for at in range(len(t) - 1):
        x[at + 1] = g * u[at] + (x[at] - g * u[at]) * np.exp(-k * 0.1)
    return {"t": t, "u": u, "x": x + 0.05 * np.random.default_rng(seed).normal(size=len(t))}


def lag_study() -> daesy.Study:
    """Two unknowns of a linear model."""
    return daesy.Study(
        daesy.parse(LAG),
        unknown={"k": {"start": 1.0, "min": 0.1, "max": 20.0}, "g": {"start": 1.0, "min": 0.1, "max": 5.0}},
        inputs={"u": {"column": "u", "hold": "zoh"}},
        measurements={"x": {"column": "x", "std": 0.05}},
        estimate=["x"],
    )


def fall_study(**identify: object) -> daesy.Study:
    """One unknown of a nonlinear model under a disturbance."""
    sizes = {"realizations": 16, "noise_step": 0.1}
    unused = {"ml": ["realizations"], "output-error": ["realizations", "noise_step"]}
    for key in unused.get(str(identify.get("method")), []):
        del sizes[key]
    return daesy.Study(
        daesy.parse(FALL),
        unknown={"c": {"start": 0.6, "min": 0.1, "max": 5.0}},
        disturbances={"w": {"A": [[-2.0]], "B": [[1.0]], "C": [[0.3]]}},
        measurements={"y": {"column": "y", "std": 0.02}},
        identify={**sizes, **identify},
    )


def fall_data() -> dict[str, np.ndarray]:
    """The fall without a disturbance, v = tanh(t sqrt(c))/sqrt(c) with c = 1, with errors of 0.02."""
    t = np.arange(0.0, 4.0, 0.1)
    return {"t": t, "y": np.tanh(t) + 0.02 * np.random.default_rng(8).normal(size=len(t))}


def die(*arguments: object) -> None:
    """A task that ends its process at once."""
    os.kill(os.getpid(), signal.SIGKILL)


def slowly(function: Callable[..., object], *arguments: object) -> object:
    """A task that takes its time. Workers import it from here: they do not know the modules of the tests themselves."""
    time.sleep(0.3)
    return function(*arguments)
