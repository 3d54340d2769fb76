"""Answers of the verbs: small objects with NumPy arrays that can be pickled, printed, framed and drawn."""

from __future__ import annotations

import csv
import html
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from . import _daesy
from .errors import Finding, UsageError, missing_package

if TYPE_CHECKING:
    from .tasks import Bundle
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Array = npt.NDArray[np.float64]


class Result:
    """What a verb answered.

    >>> import daesy
    >>> model = daesy.parse("model Lag Real x(start = 1, fixed = true); equation der(x) = -x; end Lag;")
    >>> result = model.simulate(stop=1, step=0.5)
    >>> result.names, result.values.shape
    (['t', 'x', 'der(x)'], (3, 3))
    >>> result["x"].round(3)
    array([1.   , 0.607, 0.368])

    Attributes:
        document: the JSON document that the program prints with ``--json``, as a dict
        findings: diagnostics on the way, also in the document
        names: column names of the table, time first; empty where a verb has no table
        values: the table, shape ``(len(names), n_rows)``: one row of this array per column of the table
    """

    verb = ""
    _asked: Bundle | None = None

    def __init__(self, document: dict[str, Any], text: str, names: Sequence[str] | None, values: Array | None) -> None:
        self.document = document
        self.text = text
        self.findings = tuple(Finding.read(entry) for entry in document.get("findings", ()))
        self.names: list[str] = list(names or ())
        self.values: Array = values if values is not None else np.empty((0, 0))

    @property
    def model(self) -> str:
        """Full name of the model."""
        return str(self.document.get("model"))

    @property
    def t(self) -> Array:
        """Times of the rows of the table, in the model's unit of time (seconds), shape ``(n_rows,)``."""
        return self["t"]

    @property
    def units(self) -> dict[str, str]:
        """Units of the model's variables, by name, where the model declares them.

        >>> import daesy
        >>> x = daesy.variable("x", start=1.0, unit="m")
        >>> daesy.build("Lag", [daesy.der(x) == -x]).simulate(stop=1).units
        {'x': 'm'}
        """
        if "_units" not in self.__dict__:
            try:
                asked = self._asked
                self._units = {} if asked is None else _daesy.units(asked.source(), asked.class_name)
            except _daesy.Failure:
                # The files are not there any more, as on another machine.
                self._units = {}
        return self._units

    def unit(self, name: str) -> str | None:
        """The unit of a variable or of its derivative; None where the model declares none.

        >>> import daesy
        >>> x = daesy.variable("x", start=1.0, unit="m")
        >>> daesy.build("Lag", [daesy.der(x) == -x]).simulate(stop=1).unit("der(x)")
        'm/s'
        """
        if name.startswith("der(") and name.endswith(")"):
            unit = self.unit(name[4:-1])
            return None if unit is None else f"{unit}/s" if "/" not in unit else f"({unit})/s"
        return self.units.get(name)

    def __getitem__(self, name: str) -> Array:
        """A column of the table by name, shape ``(n_rows,)``; no copy."""
        try:
            return cast(Array, self.values[self.names.index(name)])
        except ValueError:
            raise KeyError(f"no column `{name}`; {_nearest(name, self.names)}") from None

    def __contains__(self, name: object) -> bool:
        return name in self.names

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)

    def keys(self) -> list[str]:
        """Names of the columns."""
        return list(self.names)

    def summary(self) -> str:
        """The answer in words."""
        return self.text.rstrip()

    def __repr__(self) -> str:
        return f"<daesy.{type(self).__name__} of {self.model}>"

    def __str__(self) -> str:
        return self.summary()

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<li><b>{html.escape(finding.level)}</b> {html.escape(str(finding))}</li>" for finding in self.findings
        )
        findings = f"<ul>{rows}</ul>" if rows else ""
        table = self._html_table()
        # The summary holds the same table in plain text: one of both is enough.
        words = self.summary().split("\n")[0] if table else self.summary()
        return f"<pre style='white-space:pre-wrap'>{html.escape(words)}</pre>{table}{findings}"

    def _html_table(self) -> str:
        return ""

    def to_frame(self, library: str = "pandas") -> Any:
        """The table as a frame, one column per name.

        Args:
            library: ``"pandas"`` (default), ``"polars"``, or ``"xarray"`` for a dataset over the time

        Units are in ``frame.attrs["units"]`` of pandas, and in ``attrs["units"]`` of every variable of xarray.

        >>> import daesy
        >>> model = daesy.parse("model Lag Real x(start = 1, fixed = true); equation der(x) = -x; end Lag;")
        >>> list(model.simulate(stop=1, step=1).to_frame().columns)
        ['t', 'x', 'der(x)']
        """
        columns = {name: self.values[at] for at, name in enumerate(self.names)}
        units = {name: unit for name in self.names if (unit := "s" if name == "t" else self.unit(name))}
        return _frame(columns, library, units)

    def to_json(self) -> str:
        """The JSON document as text."""
        return json.dumps(self.document, indent=2)

    def plot(self, *arguments: Any, **options: Any) -> Figure:
        """A figure one would print."""
        raise UsageError(f"`{self.verb}` has nothing to draw")


def _frame(columns: dict[str, Any], library: str, units: dict[str, str] | None = None) -> Any:
    if library not in ("pandas", "polars", "xarray"):
        raise UsageError(f"`{library}` is no frame library: say \"pandas\", \"polars\" or \"xarray\"")
    try:
        module = importlib.import_module(library)
    except ImportError:
        raise missing_package(library, "frames", f"`to_frame(\"{library}\")`") from None
    if library != "xarray":
        frame = module.DataFrame(columns)
        if library == "pandas" and units:
            frame.attrs["units"] = units
        return frame
    dimension = next(iter(columns), "row") if "t" in columns or "name" in columns else "row"
    described = {name: {"units": unit} for name, unit in (units or {}).items()}
    content = {
        name: (dimension, column, described.get(name, {})) for name, column in columns.items() if name != dimension
    }
    axis = {dimension: (dimension, columns[dimension], described.get(dimension, {}))} if dimension in columns else None
    return module.Dataset(content, coords=axis)


def _nearest(name: str, names: Sequence[str]) -> str:
    import difflib

    near = difflib.get_close_matches(name, names, n=3, cutoff=0.5)
    return f"did you mean {', '.join(f'`{word}`' for word in near)}?" if near else f"there are {len(names)} columns"


def html_table(head: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    """A small table for notebooks."""
    cells = "".join(f"<th style='text-align:right'>{html.escape(str(cell))}</th>" for cell in head)
    body = "".join(
        "<tr>" + "".join(f"<td style='text-align:right'>{html.escape(show(cell))}</td>" for cell in row) + "</tr>"
        for row in rows
    )
    return f"<table><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"


def show(cell: Any) -> str:
    """A number as people write it, anything else as text."""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    if isinstance(cell, (list, tuple)):
        return " .. ".join(show(part) for part in cell)
    return "" if cell is None else str(cell)


class Trajectory(Result):
    """A simulated trajectory: all variables of the flat model, and ``der(x)`` of every state, over time.

    At a discontinuity there are two rows with the same time, before and after.

    >>> import daesy
    >>> model = daesy.parse("model Lag Real x(start = 1, fixed = true); equation der(x) = -x; end Lag;")
    >>> result = model.simulate(stop=1, step=0.5)
    >>> result.states(), result.events
    (['x'], [])
    >>> print(result.summary())                                     # doctest: +ELLIPSIS
    Simulated Lag from t = 0 to 1: ... steps (0 rejected), 3 rows, 3 columns.
    """

    verb = "simulate"

    def __init__(self, model: str, names: list[str], trace: Any, findings: str) -> None:
        self.names = names
        self.values = trace["values"]
        self.steps: int = trace["steps"]
        self.rejected: int = trace["rejected"]
        self._model = model
        self._trace = {key: trace[key] for key in ("factorizations", "evaluations", "constraint_residual_max")}
        self._events: str | None = trace["events"]
        self._initial: str = trace["initial"]
        self._parameters: str = trace["parameters"]
        self._findings = (findings, trace["findings"])

    @property
    def model(self) -> str:
        """Full name of the model."""
        return self._model

    @property
    def events(self) -> list[dict[str, Any]]:
        """Discontinuities on the way: time, kind, what stays continuous, jumps and impulses by variable."""
        return json.loads(self._events) if self._events else []

    @property
    def findings(self) -> tuple[Finding, ...]:  # type: ignore[override]
        """Diagnostics on the way."""
        return tuple(Finding.read(entry) for part in self._findings if part for entry in json.loads(part))

    @property
    def document(self) -> dict[str, Any]:  # type: ignore[override]
        """The JSON document that the program prints with ``--json``, as a dict."""
        findings = [entry for part in self._findings if part for entry in json.loads(part)]
        head = {"daesy": _daesy.VERSION, "command": "simulate", "model": self._model, "findings": findings}
        return {**head, "steps": self.steps, "rejected": self.rejected, **self._trace, "events": self.events,
                "initial": json.loads(self._initial), "parameters": json.loads(self._parameters)}

    def summary(self) -> str:
        """How far, in how many steps, and what happened on the way."""
        times = self.t
        lines = [
            f"Simulated {self.model} from t = {times[0]:g} to {times[-1]:g}: {self.steps} steps "
            f"({self.rejected} rejected), {len(times)} rows, {len(self.names)} columns."
        ]
        for event in self.events:
            moved = ", ".join(f"{name}: {a:.4g} -> {b:.4g}" for name, (a, b) in list(event["jumps"].items())[:6])
            impulses = ", ".join(f"{name}: {c}" for name, c in list(event["impulses"].items())[:6])
            lines.append(f"  t = {event['time']:g} {event['kind']}" + (f"; jumps {moved}" if moved else "")
                         + (f"; impulses {impulses}" if impulses else ""))
            if len(lines) > 20:
                lines.append(f"  and {len(self.events) - 20} more events")
                break
        return "\n".join(lines)

    def states(self) -> list[str]:
        """Names whose derivatives are in the table."""
        return [name for name in self.names if f"der({name})" in self.names]

    def plot(self, names: str | Sequence[str] | None = None, *, axes: Axes | None = None) -> Figure:
        """Variables over time, one panel each; without names the states (at most eight)."""
        from . import plotting

        return plotting.trajectory(self, [names] if isinstance(names, str) else names, axes)


class Check(Result):
    """Is the model sound? ``ok`` says whether no finding is an error; the figures are in the attributes.

    >>> import daesy
    >>> check = daesy.parse("model Two Real x, y; equation der(x) = -y; y = x; end Two;").check()
    >>> check.ok, check.size, check.structure["degrees_of_freedom"]
    (True, {'equations': 2, 'unknowns': 2, 'parameters': 0, 'inputs': 0}, 1)
    """

    verb = "check"

    @property
    def ok(self) -> bool:
        """Whether no finding is an error."""
        return not any(finding.level == "error" for finding in self.findings)

    @property
    def size(self) -> dict[str, int]:
        """Numbers of equations, unknowns, parameters and inputs of the flat model."""
        return cast("dict[str, int]", self.document["size"])

    @property
    def structure(self) -> dict[str, Any] | None:
        """Structural index, degrees of freedom, hidden constraints, blocks; None when equations and unknowns do not fit."""
        return cast("dict[str, Any] | None", self.document["structure"])

    @property
    def regularity(self) -> dict[str, Any] | None:
        """What numbers say at a consistent start: indices, d, a, v, and every rank decision with its gap."""
        return cast("dict[str, Any] | None", self.document["regularity"])

    @property
    def inputs(self) -> dict[str, Any] | None:
        """For every input how often it is differentiated and how smooth it is declared to be."""
        return cast("dict[str, Any] | None", self.document["inputs"])

    @property
    def initial(self) -> dict[str, Any] | None:
        """Whether a consistent start was found, which values are free, and which had to change."""
        return cast("dict[str, Any] | None", self.document["initial"])

    @property
    def stochastic(self) -> dict[str, Any] | None:
        """Whether estimation is well-posed, signal by signal; None without disturbances."""
        return cast("dict[str, Any] | None", self.document["stochastic"])

    def _html_table(self) -> str:
        structure = self.structure or {}
        regularity = self.regularity or {}
        return html_table(
            ["equations", "unknowns", "index", "free start values", "hidden constraints"],
            [[
                self.size["equations"],
                self.size["unknowns"],
                regularity.get("differentiation_index", structure.get("structural_index")),
                structure.get("degrees_of_freedom"),
                structure.get("hidden_constraints"),
            ]],
        )

    def plot(self) -> Figure:
        """The rank decisions with their gaps: how safe the verdict is."""
        from . import plotting

        return plotting.rank_decisions(self)


class Structure:
    """Which equation holds which unknown, how often each is differentiated, and what is solved together.

    Attributes:
        equations, unknowns: texts of the differentiated equations and names of what they determine, in the order of solution
        rows, columns: places of the entries of the matrix, shape ``(n_entries,)``
        blocks: pairs (start, length) of what is solved together
        differentiated: pairs (equation, how often) for the equations behind hidden constraints
        constraints: texts of all constraints, hidden ones included, with ``constraint_rows`` and ``constraint_columns`` over ``states``

    >>> import daesy
    >>> structure = daesy.parse("model Two Real x, y; equation der(x) = -y; y = x; end Two;").structure()
    >>> print(structure.summary())
    Two: 1 unknowns in 1 blocks, the largest of 1; 0 constraints on 1 states, 0 of them hidden.
    """

    def __init__(self, model: str, facts: dict[str, Any]) -> None:
        self.model = model
        self.equations: list[str] = facts["equations"]
        self.unknowns: list[str] = facts["unknowns"]
        self.states: list[str] = facts["states"]
        self.rows: npt.NDArray[np.int64] = np.asarray(facts["rows"], dtype=np.int64)
        self.columns: npt.NDArray[np.int64] = np.asarray(facts["columns"], dtype=np.int64)
        self.blocks: list[tuple[int, int]] = [tuple(block) for block in facts["blocks"]]
        self.differentiated: list[tuple[str, int]] = [tuple(entry) for entry in facts["differentiated"]]
        self.constraints: list[str] = facts["constraints"]
        self.constraint_orders: list[int] = facts["constraint_orders"]
        self.constraint_rows: npt.NDArray[np.int64] = np.asarray(facts["constraint_rows"], dtype=np.int64)
        self.constraint_columns: npt.NDArray[np.int64] = np.asarray(facts["constraint_columns"], dtype=np.int64)

    def __repr__(self) -> str:
        return f"<daesy.Structure of {self.model}: {len(self.unknowns)} unknowns in {len(self.blocks)} blocks>"

    def __str__(self) -> str:
        return self.summary()

    def summary(self) -> str:
        """Sizes in words."""
        largest = max((length for _, length in self.blocks), default=0)
        hidden = sum(order > 0 for order in self.constraint_orders)
        return (
            f"{self.model}: {len(self.unknowns)} unknowns in {len(self.blocks)} blocks, the largest of {largest}; "
            f"{len(self.constraints)} constraints on {len(self.states)} states, {hidden} of them hidden."
        )

    def plot(self, kind: str = "both") -> Figure:
        """``"blocks"``: the block-triangular matrix; ``"constraints"``: which constraint holds which state; or both."""
        from . import plotting

        return plotting.structure(self, kind)


class Regularization(Result):
    """The model with everything hidden written out, and its states and inputs; keys of the document are attributes.

    >>> import daesy
    >>> form = daesy.parse("model Two Real x, y; equation der(x) = -y; y = 2*x; end Two;").regularize()
    >>> form.kind, form.mu, form.matrices["E1"].shape
    ('linear-constant', 0, (1, 2))
    """

    verb = "regularize"

    def __getattr__(self, name: str) -> Any:
        try:
            return self.__dict__["document"][name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def matrices(self) -> dict[str, Array]:
        """``E1, A1, B1, f1, A2, B2, f2`` of a linear model as arrays."""
        entries = self.document.get("matrices") or {}
        return {
            name: np.asarray(entry, dtype=float) for name, entry in entries.items() if isinstance(entry, list)
        }


class Linearization(Result):
    """A model to first order at a point: changes from it follow ``x' = A x + B u``, ``y = C x + D u``.

    Attributes:
        A, B, C, D: the matrices
        states, inputs, outputs: names of x, u and y; ``der(u)`` among the inputs where one acts through its derivative
        poles: eigenvalues of ``A``, complex, by size
        at: the point: ``time``, ``rest``, and values of ``states``, ``inputs`` and ``outputs``

    >>> import daesy
    >>> model = daesy.parse("model Lag input Real u; output Real y; equation 2*der(y) = 3*u - y; end Lag;")
    >>> found = model.linearize()
    >>> found.A, found.B, found.states, found.poles.real
    (array([[-0.5]]), array([[1.5]]), ['y'], array([-0.5]))
    """

    verb = "linearize"

    def __init__(self, document: dict[str, Any], text: str, names: Sequence[str] | None, values: Array | None) -> None:
        super().__init__(document, text, names, values)
        self.states: list[str] = list(document["states"])
        self.inputs: list[str] = list(document["inputs"])
        self.outputs: list[str] = list(document["outputs"])
        n, m, q = len(self.states), len(self.inputs), len(self.outputs)
        self.A: Array = np.asarray(document["A"], dtype=float).reshape(n, n)
        self.B: Array = np.asarray(document["B"], dtype=float).reshape(n, m)
        self.C: Array = np.asarray(document["C"], dtype=float).reshape(q, n)
        self.D: Array = np.asarray(document["D"], dtype=float).reshape(q, m)
        self.poles: npt.NDArray[np.complex128] = np.array([complex(*pole) for pole in document["poles"]], dtype=complex)
        self.at: dict[str, Any] = document["at"]

    def response(self, frequencies: npt.ArrayLike) -> npt.NDArray[np.complex128]:
        """``C (s I - A)^-1 B + D`` at ``s = i w`` for angular frequencies w, shape ``(n_frequencies, n_outputs, n_inputs)``."""
        s = 1j * np.atleast_1d(np.asarray(frequencies, dtype=float))[:, None, None]
        solved = np.linalg.solve(s * np.eye(len(self.states)) - self.A, np.broadcast_to(self.B, (len(s), *self.B.shape)))
        return cast("npt.NDArray[np.complex128]", self.C @ solved + self.D)

    def to_control(self) -> Any:
        """The same as a ``StateSpace`` of python-control; dots of names become underscores."""
        try:
            control = importlib.import_module("control")
        except ImportError:
            raise missing_package("control", "control", "`to_control()`") from None
        plain = [[name.replace(".", "_") for name in part] for part in (self.states, self.inputs, self.outputs)]
        return control.ss(self.A, self.B, self.C, self.D, states=plain[0], inputs=plain[1], outputs=plain[2])

    def _html_table(self) -> str:
        head = ["pole", "size in rad/s", "damping"]
        rows = [[f"{pole:.6g}", float(abs(pole)), float(-pole.real / abs(pole)) if pole else None] for pole in self.poles]
        return html_table(head, rows)

    def plot(self, frequencies: npt.ArrayLike | None = None) -> Figure:
        """Gain and phase over the frequency, a curve for each pair of output and input."""
        from . import plotting

        return plotting.bode(self, frequencies)


@dataclass(frozen=True)
class Fit:
    """One measurement against its prediction: times, measured and predicted values, and the prediction's standard deviation."""

    name: str
    t: Array
    measured: Array
    predicted: Array
    std: Array | None

    @property
    def errors(self) -> Array:
        """Measured minus predicted."""
        return self.measured - self.predicted


def read_draws(path: str) -> dict[str, Array]:
    """The columns of a table of samples by name, of shape ``(chains, draws)``."""
    with open(path, encoding="utf-8", newline="") as file:
        names = next(csv.reader(file))
        values = np.loadtxt(file, delimiter=",", ndmin=2)
    n_chains = int(values[:, names.index("chain")].max())
    columns = {name: values[:, at].reshape(n_chains, -1) for at, name in enumerate(names)}
    return {name: column for name, column in columns.items() if name not in ("chain", "draw")}


class Identification(Result):
    """Unknown parameters from data, with their uncertainty; see :meth:`Study.identify`.

    >>> import daesy
    >>> model = daesy.parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
    >>> study = daesy.Study(model, unknown={"a": 1.0}, measurements={"y": {"column": "y", "std": 0.1}})
    >>> found = study.identify({"t": [0.0, 1.0, 2.0], "y": [0.0, 2.1, 3.9]})
    >>> round(found.estimate["a"], 3), round(found.std_error["a"], 3)
    (1.98, 0.045)
    >>> found.fits()[0].errors.round(3)
    array([ 0.  ,  0.12, -0.06])
    """

    verb = "identify"

    @property
    def parameters(self) -> list[dict[str, Any]]:
        """For each unknown its name, estimate, std_error, ci95, start and at_bound."""
        return cast("list[dict[str, Any]]", self.document["parameters"])

    @property
    def estimate(self) -> dict[str, float]:
        """Estimates by name."""
        return {entry["name"]: entry["estimate"] for entry in self.parameters}

    @property
    def std_error(self) -> dict[str, float]:
        """Standard errors by name."""
        return {entry["name"]: entry["std_error"] for entry in self.parameters}

    @property
    def covariance(self) -> Array:
        """Covariance of the estimates in the order of :attr:`parameters`; NaN where there is none."""
        return np.array(self.document["covariance"], dtype=float).reshape(len(self.parameters), len(self.parameters))

    @property
    def correlation(self) -> Array:
        """Correlations of the estimates in the order of :attr:`parameters`; NaN where there are none."""
        return np.array(self.document["correlation"], dtype=float).reshape(len(self.parameters), len(self.parameters))

    @property
    def validation(self) -> list[dict[str, Any]]:
        """Errors on records that were not used: file, name, horizon (samples or ``"free"``), fit_percent, rmse."""
        return cast("list[dict[str, Any]]", self.document["validation"])

    @property
    def converged(self) -> bool:
        """Whether the search ended at a minimum."""
        return bool(self.document["converged"])

    #: Draws of the posterior, where they were asked for.
    _draws: dict[str, Array] | None = None

    @property
    def draws(self) -> dict[str, Array]:
        """Samples of the posterior by name, of shape ``(chains, draws)``; ask for them with ``identify(posterior=N)``."""
        if self._draws is None:
            raise UsageError("there are no samples of the posterior: ask for them with identify(posterior=1000)")
        return {name: values for name, values in self._draws.items() if name != "log_density"}

    def export_observer(self, path: str | os.PathLike[str], *, fmi: int = 2, step: float | None = None) -> Result:
        """Writes the filter of the study at these estimates as a Functional Mock-up Unit for Co-Simulation.

        Its inputs are the known inputs and, as ``measured.NAME``, the measurements; its outputs are ``estimate.NAME`` and
        ``std.NAME`` for the signals of the study. It needs neither a compiler nor daesy to run.

        Args:
            path: the file to write, ending in ``.fmu``
            fmi: version of the interface, 2 or 3
            step: the usual distance of samples; that of the data when left out

        >>> import daesy, os, tempfile
        >>> model = daesy.parse("model Lag parameter Real a = 1; input Real u; Real x(start = 0, fixed = true); "
        ...                     "equation der(x) = u - a*x; end Lag;")
        >>> study = daesy.Study(model, unknown={"a": 1.0}, inputs={"u": {"column": "u"}},
        ...                     measurements={"x": {"column": "x", "std": 0.1}}, estimate=["x"])
        >>> found = study.identify({"t": [0.0, 1.0, 2.0], "u": [1.0, 1.0, 1.0], "x": [0.0, 0.6, 0.9]})
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     found.export_observer(os.path.join(folder, "a.fmu")).document["kinds"]
        ['cs']
        """
        from . import tasks
        from .study import judged

        if self._asked is None:
            raise UsageError("this result does not know its study any more: export the filter with the study's file")
        if step is None:
            distances = [float(np.diff(fit.t).min()) for fit in self.fits() if len(fit.t) > 1]
            step = min(distances, default=None)
        words = ["-o", os.fspath(path), "--fmi", str(fmi), "--observer"]
        words += [] if step is None else [f"--step={step!r}"]
        words += [f"--set={name}={value!r}" for name, value in self.estimate.items()]
        return judged(Result, tasks.ask(self._asked, "export", words))

    def to_arviz(self) -> Any:
        """Samples of the posterior as an ``InferenceData`` of ArviZ, with the logarithm of the density."""
        draws = self.draws
        try:
            import arviz
        except ImportError:
            raise missing_package("arviz", "arviz", "`to_arviz()`") from None
        assert self._draws is not None
        return arviz.from_dict(posterior=draws, sample_stats={"lp": self._draws["log_density"]})

    def to_frame(self, library: str = "pandas") -> Any:
        """The parameters as a frame: name, estimate, std_error, lower and upper end of the 95 % interval, start."""
        rows = self.parameters
        interval = [entry.get("ci95") or (None, None) for entry in rows]
        columns = {key: [entry.get(key) for entry in rows] for key in ("name", "estimate", "std_error", "start", "at_bound")}
        columns["ci95_low"] = [low for low, _ in interval]
        columns["ci95_high"] = [high for _, high in interval]
        return _frame(columns, library)

    def _html_table(self) -> str:
        keys = ["name", "estimate", "std_error", "ci95", "start", "at_bound"]
        return html_table(keys, [[entry.get(key) for key in keys] for entry in self.parameters])

    def fits(self) -> list[Fit]:
        """Measured and predicted values, per measurement and experiment."""
        fits = []
        for name in [name for name in self.names if f"{name}.predicted" in self.names]:
            experiment = self["experiment"] if "experiment" in self else np.ones_like(self.t)
            for number in np.unique(experiment):
                rows = experiment == number
                label = name if np.all(rows) else f"{name}, experiment {int(number)}"
                std = self[f"{name}.residual.std"][rows] if f"{name}.residual.std" in self else None
                fits.append(Fit(label, self.t[rows], self[name][rows], self[f"{name}.predicted"][rows], std))
        return fits

    def plot_parameters(self) -> Figure:
        """Estimates with their 95 % intervals."""
        from . import plotting

        return plotting.parameters(self)

    def plot(self) -> Figure:
        """Measured against predicted with a band, and residuals with their autocorrelation."""
        from . import plotting

        return plotting.identification(self)


class Cost(Result):
    """The identification cost or log-likelihood over a grid of parameters; see :meth:`Study.cost`.

    >>> import daesy
    >>> model = daesy.parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
    >>> study = daesy.Study(model, unknown={"a": 1.0}, measurements={"y": {"column": "y", "std": 0.1}})
    >>> cost = study.cost({"a": (1.0, 3.0, 5)}, {"t": [0.0, 1.0, 2.0], "y": [0.0, 2.1, 3.9]}, method="output-error")
    >>> cost.kind, cost.best(), cost.cost.round(3)
    ('output-error', {'a': 2.0}, array([1.607, 0.39 , 0.007, 0.457, 1.74 ]))
    """

    verb = "cost"

    @property
    def grid(self) -> dict[str, Array]:
        """Grid points by parameter name."""
        return {name: np.asarray(points, dtype=float) for name, points in self.document["grid"].items()}

    @property
    def cost(self) -> Array:
        """The values, one dimension per parameter of the grid, NaN where there is none."""
        values = np.asarray([np.nan if value is None else value for value in self.document["values"]], dtype=float)
        return values.reshape([len(points) for points in self.grid.values()])

    @property
    def kind(self) -> str:
        """``log-likelihood``, ``prediction-error`` or ``output-error``."""
        return str(self.document["kind"])

    def best(self) -> dict[str, float]:
        """The grid point with the best value: the largest log-likelihood or the smallest error."""
        values = self.cost
        if np.all(np.isnan(values)):
            raise UsageError("no grid point has a value")
        flat = np.nanargmax(values) if self.kind == "log-likelihood" else np.nanargmin(values)
        at = np.unravel_index(int(flat), values.shape)
        return {name: float(points[k]) for (name, points), k in zip(self.grid.items(), at)}

    def to_frame(self, library: str = "pandas") -> Any:
        """One row per grid point: the parameters and the value."""
        points = np.meshgrid(*self.grid.values(), indexing="ij")
        columns = {name: part.ravel() for name, part in zip(self.grid, points)}
        return _frame({**columns, self.kind: self.cost.ravel()}, library)

    def plot(self) -> Figure:
        """A curve for one parameter, a map with profiles for two."""
        from . import plotting

        return plotting.cost(self)


class Estimation(Result):
    """Signals nobody measured: filtered and smoothed, with standard deviations (columns ``x``, ``x.std``, ``x.smoothed``, ..).

    >>> import daesy
    >>> walk = daesy.LinearDae([[1.0]], [[0.0]], J=[[1.0]], H=[[1.0]], names=["x"])
    >>> found = walk.kalman([0.0, 1.0, 2.0], [0.0, 1.0, 0.5], std=1.0, initial="zero")
    >>> found.signals, found.names
    (['x'], ['t', 'x', 'x.std', 'x.smoothed', 'x.smoothed.std'])
    """

    verb = "estimate"

    @property
    def signals(self) -> list[str]:
        """Names of the signals."""
        ending = ".smoothed"
        return [
            name
            for name in self.names
            if f"{name}.std" in self.names and not (name.endswith(ending) and name[: -len(ending)] in self.names)
        ]

    @property
    def log_likelihood(self) -> float:
        """Of the data, with the 2 pi constants."""
        return float(self.document["log_likelihood"])

    def plot(self, names: str | Sequence[str] | None = None) -> Figure:
        """Each signal with a band of two standard deviations, filtered and smoothed."""
        from . import plotting

        return plotting.estimation(self, [names] if isinstance(names, str) else names)


class Uncertainty(Result):
    """Moments, quantiles and Sobol indices (columns ``x.mean``, ``x.std``, ``x.q05``, ``x.q95``); see :meth:`Study.uq`.

    >>> import daesy
    >>> model = daesy.parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
    >>> study = daesy.Study(model, random={"a": {"normal": {"mean": 2.0, "std": 0.5}}}, simulate={"stop": 2.0, "step": 1.0})
    >>> answer = study.uq()
    >>> answer["y.mean"].round(6), answer["y.std"].round(6), answer.variables
    (array([0., 2., 4.]), array([0. , 0.5, 1. ]), ['y'])
    """

    verb = "uq"

    @property
    def sobol(self) -> dict[str, dict[str, dict[str, float]]]:
        """Sobol indices at the final time: ``sobol[variable][parameter]["first" | "total"]``."""
        return cast("dict[str, dict[str, dict[str, float]]]", self.document["sobol"])

    @property
    def variables(self) -> list[str]:
        """Names of the variables with moments."""
        return [name[: -len(".mean")] for name in self.names if name.endswith(".mean")]

    def plot(self, names: str | Sequence[str] | None = None) -> Figure:
        """Mean, standard deviation and quantiles over time."""
        from . import plotting

        return plotting.uncertainty(self, [names] if isinstance(names, str) else names)

    def plot_sobol(self, names: str | Sequence[str] | None = None) -> Figure:
        """First-order and total Sobol indices at the final time."""
        from . import plotting

        return plotting.sobol(self, [names] if isinstance(names, str) else names)
