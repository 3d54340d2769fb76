"""The solver alone, for residual functions F(t, x, x') = 0 written in Python."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _daesy
from .errors import UsageError

Array = npt.NDArray[np.float64]


@dataclass
class Solution:
    """A solution in the shape of ``scipy.integrate.solve_ivp``.

    Attributes:
        t: times, shape ``(n_times,)``
        y: values, shape ``(n, n_times)``
        yp: derivatives of the differential variables, zero for the others, same shape
        success, status, message: whether the end was reached, 0 or -1, and why not
        nfev: evaluations of the residual by the solver
        differential: which variables are differential
    """

    t: Array
    y: Array
    yp: Array
    success: bool
    status: int
    message: str
    nfev: int
    nsteps: int
    differential: list[bool]


def solve_dae(
    fun: Callable[..., Any],
    t_span: tuple[float, float],
    y0: npt.ArrayLike,
    yp0: npt.ArrayLike | None = None,
    *,
    t_eval: npt.ArrayLike | None = None,
    args: tuple[Any, ...] = (),
    rtol: float = 1e-6,
    atol: float | npt.ArrayLike = 1e-9,
    jac: Callable[..., Any] | None = None,
    differential: Sequence[bool] | None = None,
    max_steps: int = 100_000_000,
) -> Solution:
    """Solves ``fun(t, y, yp) = 0`` for equations of index 1 (or 0).

    Args:
        fun: ``fun(t, y, yp, *args)`` gives as many residuals as there are variables
        t_span: first and last time
        y0: start values, shape ``(n,)``: kept for differential variables, guesses for the others
        yp0: guesses for the derivatives, shape ``(n,)``
        t_eval: times of the result, ascending, within the span; 101 equidistant ones when left out
        args: further arguments of ``fun`` and ``jac``
        rtol, atol: tolerances; ``atol`` may be an array with one entry per variable
        jac: ``jac(t, y, yp, *args)`` gives ``(dF/dy, dF/dyp)``, shape ``(n, n)`` each; differences when left out
        differential: which variables have derivatives in ``fun``; found out when left out

    An exception in ``fun`` ends the solver and arrives unchanged.

    >>> def pendulum(t, y, yp):                      # angle, speed, and the force in the rod
    ...     return [yp[0] - y[1], yp[1] + 9.81 * np.sin(y[0]), y[2] - y[1] ** 2 - 9.81 * np.cos(y[0])]
    >>> solution = solve_dae(pendulum, (0.0, 1.0), [0.1, 0.0, 0.0], rtol=1e-8)
    >>> bool(solution.success), solution.differential
    (True, [True, True, False])
    >>> round(float(solution.y[0, -1]), 3)
    -0.1
    """
    values = np.atleast_1d(np.asarray(y0, dtype=np.float64))
    n = len(values)
    rates = np.zeros(n) if yp0 is None else np.atleast_1d(np.asarray(yp0, dtype=np.float64))
    if values.ndim != 1 or rates.shape != values.shape:
        raise UsageError("`y0` and `yp0` must be vectors of the same length")
    if differential is not None and len(differential) != n:
        raise UsageError(f"`differential` has {len(differential)} entries for {n} variables")
    first, last = float(t_span[0]), float(t_span[1])
    if not last > first:
        raise UsageError("the span must end after it begins")
    wanted = np.linspace(first, last, 101) if t_eval is None else np.asarray(t_eval, dtype=np.float64)
    if wanted.ndim != 1 or len(wanted) == 0 or wanted[0] < first or wanted[-1] > last or np.any(np.diff(wanted) <= 0):
        raise UsageError("`t_eval` must ascend within the span")
    absolute = np.broadcast_to(np.asarray(atol, dtype=np.float64), (n,))
    if not (rtol > 0 and np.all(absolute > 0)):
        raise UsageError("`rtol` and `atol` must be greater than zero")
    scale = float(absolute.max())
    # The solver starts at the first of its times and ends at the last.
    times = np.unique(np.concatenate([[first], wanted, [last]]))
    solved = _daesy.solve_residual(
        (lambda t, y, yp: fun(t, y, yp, *args)) if args else fun,
        times,
        values.tolist(),
        rates.tolist(),
        None if differential is None else [bool(entry) for entry in differential],
        (absolute / scale).tolist(),
        rtol,
        scale,
        (lambda t, y, yp: jac(t, y, yp, *args)) if jac is not None else None,
        max_steps,
    )
    message = solved["message"]
    rows = solved["rows"]
    keep = np.isin(np.asarray(solved["times"]), wanted) if message is None else np.zeros(0, dtype=bool)
    return Solution(
        t=np.asarray(solved["times"])[keep],
        y=np.ascontiguousarray(rows[keep, :n].T),
        yp=np.ascontiguousarray(rows[keep, n:].T),
        success=message is None,
        status=0 if message is None else -1,
        message=message or "The end of the span was reached.",
        nfev=solved["evaluations"],
        nsteps=solved["steps"],
        differential=solved["differential"],
    )
