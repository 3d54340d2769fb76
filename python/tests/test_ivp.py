"""The solver for functions written in Python."""

from __future__ import annotations

import numpy as np
import pytest

import daesy


def robertson(t, y, yp):
    return [
        yp[0] + 0.04 * y[0] - 1e4 * y[1] * y[2],
        yp[1] - 0.04 * y[0] + 1e4 * y[1] * y[2] + 3e7 * y[1] ** 2,
        y[0] + y[1] + y[2] - 1.0,
    ]


def robertson_jacobian(t, y, yp):
    by_y = np.array([
        [0.04, -1e4 * y[2], -1e4 * y[1]],
        [-0.04, 1e4 * y[2] + 6e7 * y[1], 1e4 * y[1]],
        [1.0, 1.0, 1.0],
    ])
    return by_y, np.diag([1.0, 1.0, 0.0])


@pytest.mark.parametrize("jac", [None, robertson_jacobian])
def test_a_stiff_reaction(jac):
    # Reference at t = 40: Hairer and Wanner, test problem ROBER.
    solution = daesy.solve_dae(robertson, (0.0, 40.0), [1.0, 0.0, 0.0], jac=jac, rtol=1e-8, atol=[1e-10, 1e-14, 1e-10], t_eval=[0.0, 40.0])
    assert solution.success and solution.differential == [True, True, False]
    assert solution.t.tolist() == [0.0, 40.0]
    assert np.allclose(solution.y[:, -1], [0.7158270687, 9.185534765e-6, 0.2841637458], rtol=1e-6)
    assert np.allclose(robertson(40.0, solution.y[:, -1], solution.yp[:, -1]), 0.0, atol=1e-9)


def test_arguments_exceptions_and_failures_arrive():
    solution = daesy.solve_dae(lambda t, y, yp, k: yp + k * y, (0.0, 1.0), [1.0], args=(2.0,), rtol=1e-9)
    assert np.allclose(solution.y[0], np.exp(-2.0 * solution.t), atol=1e-7)

    def broken(t, y, yp):
        if t > 0.5:
            raise RuntimeError("not beyond here")
        return yp + y

    with pytest.raises(RuntimeError, match="not beyond here"):
        daesy.solve_dae(broken, (0.0, 1.0), [1.0])
    with pytest.raises(ValueError, match="2 values for 1"):
        daesy.solve_dae(lambda t, y, yp: [0.0, 0.0], (0.0, 1.0), [1.0])
    blown = daesy.solve_dae(lambda t, y, yp: yp - y**2, (0.0, 2.0), [1.0])
    assert not blown.success and blown.status == -1 and "t = 1" in blown.message
    with pytest.raises(daesy.UsageError):
        daesy.solve_dae(broken, (1.0, 0.0), [1.0])
