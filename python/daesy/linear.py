"""Linear descriptor systems ``E z' = F z + G u + J w``, ``y = H z`` on arrays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from . import _daesy
from ._data import plain
from .errors import ModelError, UsageError

if TYPE_CHECKING:
    from .results import Estimation, Trajectory
    from .study import Study

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class RankDecision:
    """A rank that was decided, with its gap: the safety factor of the decision."""

    what: str
    rank: int
    gap: float
    is_doubtful: bool


def _decisions(facts: dict[str, Any]) -> list[RankDecision]:
    return [RankDecision(*entry) for entry in facts["rank_decisions"]]


@dataclass(frozen=True)
class Split:
    """``P (s E - F) Q = diag(s I - A, s N - I)`` with nilpotent ``N``.

    Attributes:
        index: nilpotency index of ``N``; 0 for an ordinary differential equation
        P, Q: transformations, shape ``(n, n)``
        A: dynamics, shape ``(n_finite, n_finite)``
        N: nilpotent part, shape ``(n_infinite, n_infinite)``
        eigenvalues: finite eigenvalues of the pencil, shape ``(n_finite,)``, complex
        infinite_block_sizes: sizes of the Jordan blocks of ``N``
    """

    index: int
    P: Array
    Q: Array
    A: Array
    N: Array
    eigenvalues: npt.NDArray[np.complex128]
    infinite_block_sizes: list[int]
    rank_decisions: list[RankDecision]


@dataclass(frozen=True)
class SignalMap:
    """``signal = C x + sum_k D[k] u^(k) + sum_k K[k] w^(k)``."""

    C: Array
    D: list[Array]
    K: list[Array]


@dataclass(frozen=True)
class StandardForm:
    """``x' = A x + B u + L w`` with maps to all variables ``z`` and to the measured signals ``y``."""

    A: Array
    B: Array
    L: Array
    variables: SignalMap
    measured: SignalMap


@dataclass(frozen=True)
class WellPosedness:
    """The verdict on an estimation problem; true where all measured and estimated signals have finite variance."""

    well_posed: bool
    signals: list[dict[str, Any]]
    infinite_variables: list[int]
    rank_decisions: list[RankDecision]

    def __bool__(self) -> bool:
        return self.well_posed


@dataclass(frozen=True)
class Transfer:
    """How the variables answer a discontinuity of the inputs.

    Attributes:
        jump: jump of every variable, shape ``(n,)``
        impulses: ``impulses[q, i]`` is the coefficient of derivative ``q`` of delta in variable ``i``
        continuous: rows are combinations of variables that do not jump, shape ``(n_combinations, n)``
        continuous_text: the same in words
    """

    jump: Array
    impulses: Array
    continuous: Array
    continuous_text: list[str]


@dataclass(frozen=True)
class Regular:
    """``E1 z' = A1 z + B1 u``, ``0 = A2 z + B2 u + sum_k B2_derivatives[k] u^(k+1)``: everything hidden written out.

    Attributes:
        mu: strangeness index
        d, a, v: numbers of differential, algebraic and redundant equations
    """

    mu: int
    d: int
    a: int
    v: int
    E1: Array
    A1: Array
    B1: Array
    A2: Array
    B2: Array
    B2_derivatives: list[Array]
    rank_decisions: list[RankDecision]


def _matrix(values: npt.ArrayLike | None) -> Array | None:
    if values is None:
        return None
    array = np.asarray(values, dtype=np.float64)
    return plain(array if array.ndim == 2 else np.atleast_2d(array))


class LinearDae:
    """A linear descriptor system ``E z' = F z + G u + J w``, ``y = H z``.

    Args:
        E, F: coefficients of ``z'`` and ``z``, shape ``(n_equations, n)``
        G: effect of the inputs, shape ``(n_equations, n_inputs)``
        J: effect of the disturbances, shape ``(n_equations, n_disturbances)``
        H: measured combinations, shape ``(n_outputs, n)``
        names: names of the variables; ``z1, z2, ..`` when left out

    A capacitor on a voltage source, z = (voltage, current): the current is the derivative of the source.

    >>> dae = LinearDae(E=[[1, 0], [0, 0]], F=[[0, 1], [1, 0]], G=[[0], [-1]])
    >>> dae.index
    2
    >>> dae.state_transfer().impulses.ravel()
    array([0., 1.])
    """

    def __init__(
        self,
        E: npt.ArrayLike,
        F: npt.ArrayLike,
        G: npt.ArrayLike | None = None,
        J: npt.ArrayLike | None = None,
        H: npt.ArrayLike | None = None,
        *,
        names: Sequence[str] | None = None,
    ) -> None:
        e, f = _matrix(E), _matrix(F)
        assert e is not None and f is not None
        self.E, self.F, self.G, self.J, self.H = e, f, _matrix(G), _matrix(J), _matrix(H)
        self.names = list(names) if names is not None else [f"z{at + 1}" for at in range(self.E.shape[1])]
        if len(self.names) != self.E.shape[1]:
            raise ModelError(f"{len(self.names)} names for {self.E.shape[1]} variables")
        self._system = self._build()

    def _build(self) -> _daesy.LinearSystem:
        system: _daesy.LinearSystem = _refusing(lambda: _daesy.LinearSystem(self.E, self.F, self.G, self.J, self.H))
        return system

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in self.__dict__.items() if key != "_system"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._system = self._build()

    def __repr__(self) -> str:
        return f"<daesy.LinearDae with {self.E.shape[0]} equations and {self.E.shape[1]} variables>"

    def _section(self) -> dict[str, Any]:
        """The section ``[linear]`` of a study."""
        given = {"E": self.E, "F": self.F, "G": self.G, "J": self.J, "H": self.H}
        section: dict[str, Any] = {name: part for name, part in given.items() if part is not None}
        return {**section, "names": {"z": self.names}}

    @property
    def is_regular(self) -> bool:
        """Whether ``det(s E - F)`` is not identically zero: solutions exist and are unique."""
        return bool(_refusing(self._system.kronecker)["is_regular"])

    @property
    def index(self) -> int:
        """How often equations must be differentiated to get an ordinary differential equation; 0 for one."""
        return int(_refusing(self._system.split)["index"])

    def split(self) -> Split:
        """The finite and the infinite part of the pencil.

        >>> split = LinearDae([[1, 0], [0, 0]], [[-2, 0], [0, 1]]).split()
        >>> split.index, split.eigenvalues.real, split.N
        (1, array([-2.]), array([[0.]]))
        """
        facts = _refusing(self._system.split)
        eigenvalues = np.array([complex(re, im) for re, im in facts["eigenvalues"]], dtype=np.complex128)
        return Split(
            index=facts["index"],
            P=facts["P"],
            Q=facts["Q"],
            A=facts["A"],
            N=facts["N"],
            eigenvalues=eigenvalues,
            infinite_block_sizes=facts["infinite_block_sizes"],
            rank_decisions=_decisions(facts),
        )

    def standard_form(self) -> StandardForm:
        """A state-space form with derivatives of inputs.

        >>> form = LinearDae([[1, 0], [0, 0]], [[-1, 1], [0, -1]], G=[[0], [1]]).standard_form()
        >>> form.A, form.variables.D[0].ravel()          # the second variable is the input itself
        (array([[-1.]]), array([0., 1.]))
        """
        facts = _refusing(self._system.standard_form)
        return StandardForm(
            A=facts["A"],
            B=facts["B"],
            L=facts["L"],
            variables=SignalMap(**facts["variables"]),
            measured=SignalMap(**facts["measured"]),
        )

    def well_posedness(self, pole_excess: Sequence[int] | int, M: npt.ArrayLike | None = None) -> WellPosedness:
        """Whether all measured (``H z``) and estimated (``M z``) signals have finite variance, signal by signal.

        Args:
            pole_excess: one even number per column of ``J``
            M: combinations to estimate, shape ``(n_signals, n)``

        >>> dae = LinearDae([[1, 0], [0, 0]], [[-1, 1], [0, -1]], J=[[0], [1]], H=[[1, 0]])
        >>> verdict = dae.well_posedness([0], M=[[0, 1]])
        >>> [(signal["role"], signal["finite_variance"]) for signal in verdict.signals]
        [('measured', True), ('estimated', False)]
        """
        excess = [int(pole_excess)] if isinstance(pole_excess, (int, np.integer)) else [int(p) for p in pole_excess]
        facts = _refusing(lambda: self._system.well_posedness(excess, _matrix(M)))
        return WellPosedness(
            facts["well_posed"], facts["signals"], facts["infinite_variables"], _decisions(facts)
        )

    def is_well_posed(self, pole_excess: Sequence[int] | int, M: npt.ArrayLike | None = None) -> bool:
        """Whether estimation is well-posed under disturbances of the given pole excess (``2 p`` of each spectrum; 0 for white noise).

        Args:
            pole_excess: one even number per column of ``J``
            M: combinations to estimate, shape ``(n_signals, n)``

        >>> dae = LinearDae([[1, 0], [0, 0]], [[-1, 1], [0, -1]], J=[[0], [1]], H=[[1, 0]])
        >>> dae.is_well_posed([0]), dae.is_well_posed([0], M=[[0, 1]]), dae.is_well_posed([2], M=[[0, 1]])
        (True, False, True)
        """
        return bool(self.well_posedness(pole_excess, M))

    def consistent(
        self,
        z0: npt.ArrayLike,
        u: npt.ArrayLike | None = None,
        *,
        keep: Sequence[str | int] = (),
        scales: npt.ArrayLike | None = None,
    ) -> Array:
        """The consistent value nearest to a guess.

        Args:
            z0: the guess, shape ``(n,)``
            u: the inputs, shape ``(n_inputs,)``, or with their derivatives ``u, u', ..``, shape ``(n_derivatives, n_inputs)``
            keep: variables (names or positions) whose values must not change
            scales: size of a unit change of each variable, shape ``(n,)``

        >>> dae = LinearDae([[1, 0], [0, 0]], [[-1, 0], [1, -1]])
        >>> dae.consistent([2.0, 5.0], keep=["z1"])
        array([2., 2.])
        """
        insisted = [self.names.index(name) if isinstance(name, str) else int(name) for name in keep]
        facts = _refusing(
            lambda: self._system.consistent(_vector(z0), self._derivatives(u), insisted, None if scales is None else _vector(scales))
        )
        values: Array = facts["values"]
        return values

    def continued(self, z0: npt.ArrayLike, u: npt.ArrayLike | None = None) -> Array:
        """The value right after a start from ``z0``, which need not be consistent: its free part is kept, the rest jumps.

        Args:
            z0: the value before, shape ``(n,)``
            u: the inputs right after, as in :meth:`consistent`

        >>> LinearDae([[1, 0], [0, 0]], [[-1, 0], [1, -1]]).continued([2.0, 5.0])
        array([2., 2.])
        """
        after: Array = _refusing(lambda: self._system.continued(_vector(z0), self._derivatives(u)))
        return after

    def _derivatives(self, u: npt.ArrayLike | None) -> list[list[float]]:
        n_inputs = 0 if self.G is None else self.G.shape[1]
        if u is None:
            return [[0.0] * n_inputs] * (self.E.shape[1] + 1)
        array = np.asarray(u, dtype=np.float64)
        if array.ndim < 2:
            array = array.reshape(1, -1)
        return [[float(entry) for entry in row] for row in array]

    def state_transfer(
        self,
        step: npt.ArrayLike | None = None,
        *,
        jumps: npt.ArrayLike | None = None,
        impulses: npt.ArrayLike | None = None,
    ) -> Transfer:
        """Jumps and impulses of all variables at a discontinuity of the inputs.

        Args:
            step: sizes of steps of the inputs, shape ``(n_inputs,)``; ones when nothing is given
            jumps: ``jumps[k, c]`` is the jump of derivative ``k`` of input ``c``, instead of ``step``
            impulses: ``impulses[k, c]`` is the coefficient of derivative ``k`` of delta in input ``c``; a vector for delta alone

        >>> dae = LinearDae([[1, 0], [0, 0]], [[-1, 0], [0, -1]], G=[[1], [1]])
        >>> dae.state_transfer([2.0]).jump
        array([0., 2.])
        >>> dae.state_transfer(impulses=[0.5]).jump
        array([0.5, 0. ])
        """
        n_inputs = 0 if self.G is None else self.G.shape[1]
        if step is None and jumps is None and impulses is None:
            step = np.ones(n_inputs)
        given = _rows(step, n_inputs) if jumps is None else _rows(jumps, n_inputs)
        facts = _refusing(lambda: self._system.state_transfer(given, _rows(impulses, n_inputs), self.names))
        return Transfer(facts["jump"], facts["impulses"], facts["continuous"], facts["continuous_text"])

    def regularize(self, *, given_inputs: bool = False) -> Regular:
        """The strangeness-free form.

        Args:
            given_inputs: inputs are given functions of time, whose derivatives may enter, instead of variables

        >>> LinearDae([[1, 0], [0, 0]], [[0, 1], [1, 0]], G=[[0], [-1]]).regularize(given_inputs=True).a
        2
        """
        facts = _refusing(lambda: self._system.regularize(given_inputs))
        decisions = _decisions(facts)
        return Regular(**{key: part for key, part in facts.items() if key != "rank_decisions"}, rank_decisions=decisions)


    def simulate(
        self,
        t: npt.ArrayLike,
        u: npt.ArrayLike | None = None,
        z0: npt.ArrayLike | None = None,
        *,
        hold: str = "zoh",
        rtol: float | None = None,
        atol: float | None = None,
    ) -> Trajectory:
        """The trajectory at given times, with jumps and impulses where inputs jump.

        Args:
            t: times of the rows, ascending, shape ``(n_rows,)``
            u: inputs at these times, shape ``(n_rows, n_inputs)``, or ``(n_rows,)`` for one; zero when left out
            z0: values at the start, shape ``(n,)``: the nearest consistent ones are taken; zero when left out
            hold: how inputs run between rows: ``"zoh"``, ``"foh"`` or ``"cubic"``
            rtol, atol: tolerances

        >>> dae = LinearDae([[1, 0], [0, 0]], [[-1, 1], [0, -1]], G=[[0], [1]])
        >>> dae.simulate([0.0, 1.0, 2.0], u=[1.0, 1.0, 1.0], z0=[0.0, 1.0], rtol=1e-9)["z1"].round(4)
        array([0.    , 0.6321, 0.8647])
        """
        from .study import Study

        times = np.asarray(t, dtype=np.float64)
        if times.ndim != 1 or len(times) < 2 or not np.all(np.diff(times) > 0):
            raise UsageError("`t` must be one-dimensional and ascending, with two times at least")
        n_inputs = 0 if self.G is None else self.G.shape[1]
        given = np.zeros((len(times), n_inputs)) if u is None else u
        columns = _columns("u", given, n_inputs, len(times))
        start = None if z0 is None else self._start(z0, columns)
        inputs = {name: {"column": name, "hold": hold} for name in columns} or None
        # Disturbances rest at zero.
        study = Study(self, inputs=inputs, initial=start)
        data = {"t": times, **columns} if columns else None
        return study.simulate(times=times, data=data, rtol=rtol, atol=atol)

    def _start(self, z0: npt.ArrayLike, columns: dict[str, Array]) -> dict[str, float]:
        """Start values of as many variables as are free, so chosen that the others follow from them."""
        given = np.array([column[0] for column in columns.values()]) if columns else None
        z = self.consistent(z0, given)
        split = self.split()
        basis = np.array(split.Q[:, : split.A.shape[0]])
        free = []
        for _ in range(basis.shape[1]):
            sizes = np.linalg.norm(basis, axis=1)
            at = int(np.argmax(sizes))
            free.append(at)
            direction = basis[at] / sizes[at]
            basis = basis - np.outer(basis @ direction, direction)
        return {self.names[at]: float(z[at]) for at in sorted(free)}

    def kalman(
        self,
        t: npt.ArrayLike,
        y: npt.ArrayLike,
        u: npt.ArrayLike | None = None,
        *,
        std: npt.ArrayLike | None = None,
        intensity: npt.ArrayLike | None = None,
        disturbances: Mapping[str, Any] | None = None,
        hold: str = "zoh",
        initial: str | Mapping[str, Any] | None = None,
        signals: Sequence[str] | None = None,
    ) -> Estimation:
        """All variables from measurements ``y = H z + e``: filtered and smoothed, with standard deviations.

        Args:
            t: times of the samples in s, ascending, shape ``(n_rows,)``
            y: measurements, shape ``(n_rows, n_outputs)``, or ``(n_rows,)`` for one; NaN where missing
            u: known inputs, shape ``(n_rows, n_inputs)``, or ``(n_rows,)`` for one
            std: standard deviation of the error of each measurement, in its unit; exact where left out
            intensity: of the white noise on each column of ``J``: ``E w(t) w(s) = intensity delta(t - s)``; 1 when left out
            disturbances: instead of white noise, by name ``w1, w2, ..``, as in :class:`Study`
            hold: how inputs run between samples: ``"zoh"``, ``"foh"`` or ``"cubic"``
            initial: ``"model"`` (default), ``"estimate"``, ``"stationary"``, ``"zero"``, or a dict as in :class:`Study`
            signals: names to estimate; all variables that have finite variance when left out

        A random walk, measured twice with errors of one: the second estimate has a variance of ``1/(1 + 1/P)`` with
        ``P`` the variance of the prediction.

        >>> walk = LinearDae([[1.0]], [[0.0]], J=[[1.0]], H=[[1.0]], names=["x"])
        >>> found = walk.kalman([0.0, 1.0, 2.0], [0.0, 1.0, 0.5], std=1.0, initial="zero")
        >>> found["x"].round(4), (found["x.std"] ** 2).round(4)
        (array([0. , 0.5, 0.5]), array([0. , 0.5, 0.6]))
        """
        given = self._filter_study(t, y, u, std, intensity, disturbances, hold, initial)
        if signals is None:
            signals = self._estimable(given.sections["disturbances"])
        return given.study(self, list(signals)).estimate(given.data)

    def log_likelihood(
        self,
        t: npt.ArrayLike,
        y: npt.ArrayLike,
        u: npt.ArrayLike | None = None,
        *,
        std: npt.ArrayLike | None = None,
        intensity: npt.ArrayLike | None = None,
        disturbances: Mapping[str, Any] | None = None,
        hold: str = "zoh",
        initial: str | Mapping[str, Any] | None = None,
    ) -> float:
        """The logarithm of the probability density of measurements, with the constants of 2 pi; arguments as in :meth:`kalman`.

        >>> walk = LinearDae([[1.0]], [[0.0]], J=[[1.0]], H=[[1.0]])
        >>> value = walk.log_likelihood([0.0, 1.0], [0.0, 1.0], std=1.0, initial="zero")
        >>> by_hand = -0.5 * (np.log(2 * np.pi * 1.0) + 0.0) - 0.5 * (np.log(2 * np.pi * 2.0) + 1.0 / 2.0)
        >>> bool(np.isclose(value, by_hand))
        True
        """
        given = self._filter_study(t, y, u, std, intensity, disturbances, hold, initial)
        # Something must be estimated: a measured signal always can be.
        return given.study(self, ["y1"]).estimate(given.data).log_likelihood

    def _filter_study(
        self,
        t: npt.ArrayLike,
        y: npt.ArrayLike,
        u: npt.ArrayLike | None,
        std: npt.ArrayLike | None,
        intensity: npt.ArrayLike | None,
        disturbances: Mapping[str, Any] | None,
        hold: str,
        initial: str | Mapping[str, Any] | None,
    ) -> _FilterStudy:
        n_outputs, n_inputs, n_noises = (0 if part is None else part.shape[at] for part, at in ((self.H, 0), (self.G, 1), (self.J, 1)))
        if n_outputs == 0:
            raise ModelError("there is nothing measured: give `H`")
        data = {"t": np.asarray(t, dtype=np.float64)}
        data.update(_columns("y", y, n_outputs, len(data["t"])))
        if n_inputs and u is None:
            raise UsageError(f"the system has {n_inputs} inputs: give `u`, shape (n_rows, {n_inputs})")
        if u is not None:
            data.update(_columns("u", u, n_inputs, len(data["t"])))
        errors = _each("std", std, n_outputs, 0.0)
        intensities = _each("intensity", intensity, n_noises, 1.0)
        if disturbances is not None and intensity is not None:
            raise UsageError("give either `intensity` or `disturbances`")
        white = {f"w{at + 1}": {"white": float(level)} for at, level in enumerate(intensities)}
        sections: dict[str, Any] = {
            "measurements": {f"y{at + 1}": {"column": f"y{at + 1}", "std": float(error)} for at, error in enumerate(errors)},
            "inputs": {f"u{at + 1}": {"column": f"u{at + 1}", "hold": hold} for at in range(n_inputs)},
            "disturbances": dict(white if disturbances is None else disturbances),
            "initial": {"mode": initial} if isinstance(initial, str) else initial,
        }
        return _FilterStudy(sections, data)

    def _estimable(self, disturbances: Mapping[str, Any]) -> list[str]:
        """Variables whose variance is finite under white noise; all of them under other disturbances."""
        if not disturbances or any("white" not in entry for entry in disturbances.values()):
            return list(self.names)
        verdict = self.well_posedness([0] * len(disturbances), np.eye(len(self.names)))
        finite = [signal["finite_variance"] for signal in verdict.signals if signal["role"] == "estimated"]
        return [name for name, is_finite in zip(self.names, finite) if is_finite]


@dataclass(frozen=True)
class _FilterStudy:
    """What a filter is asked: sections of a study, and data."""

    sections: dict[str, Any]
    data: dict[str, Array]

    def study(self, system: LinearDae, signals: list[str]) -> Study:
        """The study about a system that estimates some signals."""
        from .study import Study

        return Study(system, estimate=signals, **self.sections)


def _columns(letter: str, values: npt.ArrayLike, n_columns: int, n_rows: int) -> dict[str, Array]:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim == 1 and n_columns == 1:
        array = array.reshape(-1, 1)
    if array.shape != (n_rows, n_columns):
        raise UsageError(f"`{letter}` has the shape {array.shape}, not ({n_rows}, {n_columns})")
    return {f"{letter}{at + 1}": np.ascontiguousarray(array[:, at]) for at in range(n_columns)}


def _each(name: str, values: npt.ArrayLike | None, n: int, default: float) -> Array:
    array = np.full(n, default) if values is None else np.asarray(values, dtype=np.float64)
    if array.ndim == 0:
        array = np.full(n, float(array))
    if array.shape != (n,):
        raise UsageError(f"`{name}` has the shape {array.shape}, not ({n},)")
    return array


def _vector(values: npt.ArrayLike) -> list[float]:
    return [float(entry) for entry in np.asarray(values, dtype=np.float64).ravel()]


def _rows(values: npt.ArrayLike | None, n_inputs: int) -> list[list[float]]:
    if values is None:
        return []
    array = np.asarray(values, dtype=np.float64)
    return [[float(entry) for entry in row] for row in (array if array.ndim == 2 else array.reshape(1, -1))]


def _refusing(question: Any) -> Any:
    """What the extension refuses is the model's fault."""
    try:
        return question()
    except ValueError as error:
        raise ModelError(str(error)) from None
