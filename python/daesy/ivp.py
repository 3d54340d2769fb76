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
        success, status, message: whether the end or a terminal event was reached; 0, 1 or -1; and why not
        nfev: evaluations of the residual by the solver
        differential: which variables are differential
        sol: the solution as a function of time, with ``dense_output=True`` or ``events``
        t_events, y_events: for each event function the times of its zeros and the values there; None without ``events``

    Where the solver gives up, ``t`` and ``y`` hold the solution up to there.
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
    sol: DenseSolution | None = None
    t_events: list[Array] | None = None
    y_events: list[Array] | None = None


class DenseSolution:
    """A solution as a function of time: polynomials through points of the solver within each of its steps.

    >>> solution = solve_dae(lambda t, y, yp: yp + y, (0.0, 1.0), [1.0], rtol=1e-9, dense_output=True)
    >>> bool(abs(solution.sol(0.3)[0] - np.exp(-0.3)) < 1e-8)
    True
    """

    #: Points within a step: enough for the solver's highest usual order.
    _NODES = 0.5 - 0.5 * np.cos(np.linspace(0.0, np.pi, 9))

    def __init__(self, ends: Array, t: Array, values: Array) -> None:
        # Values and derivatives side by side.
        self._n = values.shape[-1] // 2
        self.t_min, self.t_max = float(ends[0]), float(ends[-1])
        self._ends = ends
        self._t = t.reshape(len(ends) - 1, len(self._NODES))
        self._values = values.reshape(len(ends) - 1, len(self._NODES), -1)
        weights = (-1.0) ** np.arange(len(self._NODES))
        weights[[0, -1]] *= 0.5
        self._weights = weights

    @classmethod
    def times(cls, ends: Array) -> Array:
        """The times at which values are needed, step by step; neighbours share their common end."""
        return np.asarray(ends[:-1, None] + np.diff(ends)[:, None] * cls._NODES)

    def __call__(self, t: npt.ArrayLike) -> Array:
        """All variables at times within the span, shape ``(n,)`` for one time and ``(n, n_times)`` for several."""
        found = self._all(np.atleast_1d(np.asarray(t, dtype=np.float64)))[:, : self._n]
        return found[0] if np.ndim(t) == 0 else np.ascontiguousarray(found.T)

    def _all(self, at: Array) -> Array:
        slack = 1e-9 * max(abs(self.t_min), abs(self.t_max), self.t_max - self.t_min)
        if np.any(at < self.t_min - slack) or np.any(at > self.t_max + slack):
            raise UsageError(f"the solution is known from t = {self.t_min:g} to {self.t_max:g}")
        found = np.empty((len(at), self._values.shape[2]))
        steps = np.clip(np.searchsorted(self._ends, at, side="right") - 1, 0, len(self._ends) - 2)
        for row, (time, step) in enumerate(zip(at, steps)):
            gaps = time - self._t[step]
            exact = np.flatnonzero(gaps == 0.0)
            if len(exact):
                found[row] = self._values[step, exact[0]]
            else:
                weights = self._weights / gaps
                found[row] = weights @ self._values[step] / weights.sum()
        return found


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
    max_step: float = np.inf,
    dense_output: bool = False,
    events: Callable[..., Any] | Sequence[Callable[..., Any]] | None = None,
) -> Solution:
    """Solves ``fun(t, y, yp) = 0`` for equations of index 1 (or 0).

    Models of higher index, such as mechanisms and ideal circuits, are for :func:`daesy.build` and :func:`daesy.parse`:
    they find hidden constraints and solve any index.

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
        max_step: the longest step
        dense_output: also gives ``sol``, the solution as a function of time
        events: functions ``event(t, y, *args)`` whose zeros are found; attributes ``terminal`` and ``direction`` as in
            ``scipy.integrate.solve_ivp``

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
    given: Any = () if events is None else events
    watched: list[Callable[..., Any]] = [given] if callable(given) else list(given)

    def solve(times: Array) -> _daesy._Solved:
        return _daesy.solve_residual(
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
            float(max_step),
            dense_output or bool(watched),
        )

    # The solver starts at the first of its times and ends at the last.
    solved = solve(np.unique(np.concatenate([[first], wanted, [last]])))
    message = solved["message"]
    times = np.asarray(solved["times"], dtype=np.float64)
    rows = solved["rows"]
    keep = np.isin(times, wanted) if len(times) else np.zeros(0, dtype=bool)
    if message is not None and len(times):
        # Where it gave up is worth knowing.
        keep[-1] = True
    solution = Solution(
        t=times[keep],
        y=np.ascontiguousarray(rows[keep, :n].T),
        yp=np.ascontiguousarray(rows[keep, n:].T),
        success=message is None,
        status=0 if message is None else -1,
        message=message or "The end of the span was reached.",
        nfev=solved["evaluations"],
        nsteps=solved["steps"],
        differential=solved["differential"],
    )
    ends = np.unique(np.concatenate([[first], solved["step_ends"]]))
    if (dense_output or watched) and len(ends) > 1:
        nodes = DenseSolution.times(ends)
        again = solve(np.unique(np.concatenate([nodes.ravel(), [last]])))
        found = np.asarray(again["times"], dtype=np.float64)
        # Both runs give up at the same place, up to rounding of their steps.
        n_steps = int(np.searchsorted(ends, found[-1], side="right")) - 1 if len(found) else 0
        if n_steps > 0:
            at = np.searchsorted(found, nodes[:n_steps].ravel())
            dense = DenseSolution(ends[: n_steps + 1], nodes[:n_steps], again["rows"][at])
            solution.sol = dense
            if watched:
                _find_events(solution, dense, watched, args)
    if watched and solution.t_events is None:
        solution.t_events, solution.y_events = [np.empty(0)] * len(watched), [np.empty((0, n))] * len(watched)
    return solution


def _find_events(solution: Solution, dense: DenseSolution, events: Sequence[Callable[..., Any]], args: tuple[Any, ...]) -> None:
    """Zeros of the event functions along the solution; the first terminal one ends it."""
    grid = np.unique(dense._t.ravel())
    path = dense(grid)
    times: list[Array] = []
    end = np.inf
    for event in events:
        def value(t: float, event: Callable[..., Any] = event) -> float:
            return float(event(t, dense(t), *args))

        sides = np.array([float(event(t, y, *args)) for t, y in zip(grid, path.T)])
        wanted = float(getattr(event, "direction", 0.0) or 0.0)
        zeros = []
        for at in np.flatnonzero((sides[:-1] * sides[1:] < 0) | ((sides[1:] == 0) & (sides[:-1] != 0))):
            if wanted * (sides[at + 1] - sides[at]) >= 0:
                zeros.append(_bisect(value, grid[at], grid[at + 1], sides[at]))
        # As in scipy, `terminal` may say after how many zeros.
        terminal = getattr(event, "terminal", False)
        if terminal and len(zeros) >= int(terminal):
            end = min(end, zeros[int(terminal) - 1])
        times.append(np.array(zeros))
    solution.t_events = [zeros[zeros <= end] for zeros in times]
    n = path.shape[0]
    solution.y_events = [dense(zeros).T if len(zeros) else np.empty((0, n)) for zeros in solution.t_events]
    if np.isfinite(end):
        before = solution.t < end
        there = dense._all(np.array([end]))[0]
        solution.t = np.append(solution.t[before], end)
        solution.y = np.column_stack([solution.y[:, before], there[:n]])
        solution.yp = np.column_stack([solution.yp[:, before], there[n:]])
        solution.success, solution.status, solution.message = True, 1, "A terminal event was reached."


def _bisect(value: Callable[[float], float], low: float, high: float, side: float) -> float:
    """A zero between two times at which a function has different signs."""
    for _ in range(200):
        middle = 0.5 * (low + high)
        if middle in (low, high):
            break
        found = value(middle)
        if found == 0.0:
            return middle
        if (found > 0) == (side > 0):
            low = middle
        else:
            high = middle
    return high
