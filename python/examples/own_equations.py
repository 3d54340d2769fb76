"""A pendulum of index 3, written in Python, and the same motion from a residual function."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

import daesy
from daesy import der


def pendulum() -> daesy.Model:
    """A point mass on a rod, in Cartesian coordinates."""
    x, y = daesy.variables("x y", start=[0.6, -0.8], unit="m")
    u, v = daesy.variables("u v", unit="m/s")
    force = daesy.variable("force")
    g = daesy.parameter("g", 9.81, unit="m/s2")
    return daesy.build(
        "Pendulum",
        [der(x) == u, der(y) == v, der(u) == -force * x, der(v) == -force * y - g, x**2 + y**2 == 1],
    )


def angle(t: float, y: npt.NDArray[np.float64], yp: npt.NDArray[np.float64]) -> list[float]:
    """The same pendulum by its angle."""
    return [yp[0] - y[1], yp[1] + 9.81 * float(np.sin(y[0]))]


def main() -> None:
    model = pendulum()
    print(model.check().summary())
    result = model.simulate(stop=2.0, step=0.5, rtol=1e-9)
    solution = daesy.solve_dae(angle, (0.0, 2.0), [np.arcsin(0.6), 0.0], t_eval=result.t, rtol=1e-9)
    print("largest difference:", float(np.max(np.abs(np.sin(solution.y[0]) - result["x"]))))


if __name__ == "__main__":
    main()
