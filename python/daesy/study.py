"""Models and studies, and the questions one can ask of them."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, Union

import numpy as np
import numpy.typing as npt

from . import _daesy, _toml, tasks
from ._data import Data, plain
from .errors import Finding, NumericsError, UsageError, failure, from_extension
from .linear import LinearDae
from .progress import Progress, reporter
from .results import (
    Check,
    Cost,
    Estimation,
    Identification,
    Linearization,
    Regularization,
    Result,
    Structure,
    Trajectory,
    Uncertainty,
    read_draws,
)

Path = Union[str, "os.PathLike[str]"]
Values = Mapping[str, float]
_R = TypeVar("_R", bound=Result)

#: The name that findings show for the text of a study.
STUDY = "study"


class Entry(dict[str, Any]):
    """One name of a model: ``value``, ``unit``, ``min``, ``max``, ``start``, ``fixed``, ``description`` and ``place``."""

    def __getattr__(self, name: str) -> Any:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(f"there is no `{name}`; there are {', '.join(self)}") from None

    def __float__(self) -> float:
        value = self["start"] if self["value"] is None else self["value"]
        if value is None:
            raise TypeError(f"`{self['name']}` has no value")
        return float(value)


class Entries(dict[str, Entry]):
    """Names of a model and what it says about them, in its order."""

    def to_frame(self, library: str = "pandas") -> Any:
        """The same as a frame with a row for each name."""
        from .results import _frame

        keys = ["name", "value", "unit", "min", "max", "start", "fixed", "description", "place"]
        return _frame({key: [entry[key] for entry in self.values()] for key in keys}, library)

    def _repr_html_(self) -> str:
        from .results import html_table

        keys = ["name", "value", "unit", "min", "max", "start", "description"]
        return html_table(keys, [[entry[key] for key in keys] for entry in self.values()])


def _values(set: Values | None) -> list[tuple[str, float]]:
    """Parameter values as numbers, or a mistake that names the parameter."""
    if set is None:
        return []
    if not isinstance(set, Mapping):
        raise TypeError(f"`set` is a dict of parameter values, such as {{\"R\": 100.0}}, not {type(set).__name__}")
    values = []
    for name, value in set.items():
        if not isinstance(name, str):
            raise TypeError(f"names of parameters are texts, not {type(name).__name__} ({name!r})")
        try:
            values.append((name, float(value)))
        except (TypeError, ValueError):
            raise TypeError(f"the value of `{name}` is no number: {value!r}") from None
    return values


class _Compiled(NamedTuple):
    """A compiled model and what every trajectory of it says."""

    simulator: _daesy.Simulator
    findings: str
    names: list[str]
    bundle: tasks.Bundle


class Subject:
    """Something with equations that questions can be asked of: a model or a study."""

    _data: Data | None = None
    """Data that answer where a question brings none."""

    def __init__(self) -> None:
        self._simulators: dict[Any, _Compiled] = {}

    def _bundle(self) -> tasks.Bundle:
        """Everything another process needs to ask the same questions."""
        raise NotImplementedError

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_simulators": {}}

    def ask(
        self,
        verb: str,
        *arguments: str,
        data: Data | None = None,
        set: Values | None = None,
        progress: Progress = None,
    ) -> Result:
        """Asks any verb of the program with the options it takes on a command line; ``FILE`` is this model or study.

        >>> model = parse("model Lag Real x(start = 1, fixed = true); equation der(x) = -x; end Lag;")
        >>> model.ask("check").document["structure"]["degrees_of_freedom"]
        1
        """
        return self._ask(Result, verb, list(arguments), data, set, progress)

    def _ask(
        self,
        kind: Callable[[dict[str, Any], str, Sequence[str] | None, Any], _R],
        verb: str,
        arguments: list[str],
        data: Data | None,
        set: Values | None,
        progress: Progress,
        accept: Callable[[dict[str, Any]], bool] = lambda document: False,
        executor: Any = None,
    ) -> _R:
        words = arguments + [f"--set={name}={value!r}" for name, value in _values(set)]
        bundle = self._bundle().with_data(self._data if data is None else data)
        with reporter(progress, verb) as tell:
            answer = tasks.ask(bundle, verb, words, tell, executor)
        result = judged(kind, answer, accept)
        result._asked = bundle.without_data()
        return result

    def check(self, *, set: Values | None = None, report: Path | None = None) -> Check:
        """Is the model sound? Index, hidden constraints, start values, inputs, well-posedness.

        Errors in the model are findings of the answer, as long as its text can be read at all.

        Args:
            set: parameter values by name
            report: writes a page to this file

        >>> model = parse("model Two Real x, y; equation der(x) = -y; y = x; end Two;")
        >>> check = model.check()
        >>> check.ok, check.size["equations"], check.structure["degrees_of_freedom"]
        (True, 2, 1)
        """
        return self._ask(Check, "check", _report(report), None, set, None, lambda document: "size" in document)

    def simulate(
        self,
        *,
        start: float | None = None,
        stop: float | None = None,
        step: float | None = None,
        times: npt.ArrayLike | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        method: str | None = None,
        max_step: float | None = None,
        data: Data | None = None,
        set: Values | None = None,
        progress: Progress = None,
        report: Path | None = None,
    ) -> Trajectory:
        """Trajectories of all variables, with jumps and impulses at discontinuities.

        What is left out is as the study or the model's ``experiment`` annotation says. The model is compiled once and kept.

        Args:
            start, stop, step: span and distance of rows, in the model's unit of time
            times: the times of the rows, ascending, shape ``(n_rows,)``, instead of ``start``, ``stop``, ``step``
            rtol, atol: tolerances; ``atol`` is multiplied by a variable's nominal value
            method: ``"auto"``, ``"explicit"``, ``"rosenbrock"`` or ``"radau"``
            max_step: the longest step
            data: data instead of what the study names
            set: parameter values by name
            progress: ``True``, or a function of (done, total)
            report: writes a page to this file

        Where the method gives up on the way, the :class:`NumericsError` has the trajectory up to there as ``partial``.

        >>> model = parse("model Lag Real x(start = 1, fixed = true); equation der(x) = -x; end Lag;")
        >>> result = model.simulate(stop=1, step=0.5, rtol=1e-9)
        >>> result["x"].round(6)
        array([1.      , 0.606531, 0.367879])
        """
        simulator, findings, names, bundle = self._simulator(data, set)
        if times is not None:
            if start is not None or stop is not None or step is not None:
                raise UsageError("give either `times`, or `start`, `stop` and `step`")
            grid = plain(times)
            if grid.ndim != 1 or len(grid) == 0 or not np.all(np.diff(grid) > 0):
                raise UsageError("`times` must be one-dimensional and ascending")
            start, stop, times = float(grid[0]), float(grid[-1]), grid
        page = None if report is None else os.fspath(report)
        # A bar that nobody asked for would cost more than a short run.
        with reporter(progress or False, "simulate") as tell:
            try:
                trace = simulator.run(start, stop, step, times, rtol, atol, method, max_step, tell, page)
            except _daesy.Failure as wrong:
                error = from_extension(wrong.args, STUDY)
                if isinstance(error, NumericsError) and len(wrong.args) > 3 and wrong.args[3] is not None:
                    error.partial = Trajectory(simulator.model, names, wrong.args[3], findings)
                    error.partial._asked = bundle
                raise error from None
        result = Trajectory(simulator.model, names, trace, findings)
        result._asked = bundle
        return result

    def linearize(
        self,
        at: float | str | Values | Sequence[Any] | None = None,
        *,
        inputs: Sequence[str] | None = None,
        outputs: Sequence[str] | None = None,
        data: Data | None = None,
        set: Values | None = None,
        report: Path | None = None,
    ) -> Linearization:
        """The model to first order at a point: ``A, B, C, D`` with the names of states, inputs and outputs.

        Args:
            at: a time of the simulation, ``"rest"``, values of variables, inputs and parameters by name, or a list of
                these; the start of the simulation when left out
            inputs, outputs: names; all inputs, and the outputs of the model (or what is measured, or the states)
            data: data instead of what the study names
            set: parameter values by name
            report: writes a page with Bode pictures to this file

        >>> model = parse("model Tank input Real u; Real h(start = 1, min = 0); equation der(h) = u - sqrt(h); end Tank;")
        >>> model.linearize(at={"h": 4.0}).A
        array([[-0.25]])
        >>> round(model.linearize(at=["rest", {"u": 3.0}]).at["states"]["h"], 6)
        9.0
        """
        words = _report(report)
        given = dict(_values(set))
        asked: list[Any] = [] if at is None else list(at) if isinstance(at, (list, tuple)) else [at]
        for one in asked:
            if isinstance(one, Mapping):
                known = self.parameters
                for name, value in _values(one):
                    if name in known:
                        given[name] = value
                    else:
                        words.append(f"--at={name}={value!r}")
            elif isinstance(one, str):
                words.append(f"--at={one}")
            else:
                words.append(f"--at={float(one)!r}")
        for option, names in (("inputs", inputs), ("outputs", outputs)):
            if names is not None:
                chosen = [names] if isinstance(names, str) else list(names)
                words += [f"--{option}={','.join(chosen)}"]
        return self._ask(Linearization, "linearize", words, data, given or None, None)

    def _described(self) -> dict[str, Any]:
        if "_names" not in self.__dict__:
            self._names = self._ask(Result, "describe", [], None, None, None).document
        return self._names

    def _entries(self, kind: str) -> Entries:
        return Entries((entry["name"], Entry(entry)) for entry in self._described()[kind])

    @property
    def parameters(self) -> Entries:
        """Parameters by name, with value, unit, bounds, description and place.

        >>> model = parse('model Lag parameter Real k(unit="1/s") = 2 "Rate"; Real x; equation der(x) = -k*x; end Lag;')
        >>> model.parameters["k"].value, model.parameters["k"].unit, model.parameters["k"].description
        (2.0, '1/s', 'Rate')
        """
        return self._entries("parameters")

    @property
    def inputs(self) -> Entries:
        """Inputs by name."""
        return self._entries("inputs")

    @property
    def outputs(self) -> Entries:
        """Variables that are declared as outputs, by name."""
        return self._entries("outputs")

    @property
    def variables(self) -> Entries:
        """All unknowns by name, outputs included."""
        return self._entries("variables")

    def _simulator(self, data: Data | None, set: Values | None) -> _Compiled:
        key = tuple(_values(set)) or None
        if data is None and key in self._simulators:
            return self._simulators[key]
        bundle = self._bundle().with_data(data)
        values = _values(set)
        try:
            simulator = _daesy.Simulator(bundle.source(), values, bundle.class_name, list(bundle.data.files))
        except _daesy.Failure as wrong:
            raise from_extension(wrong.args, STUDY) from None
        kept = _Compiled(simulator, simulator.findings, simulator.names, bundle.without_data())
        if data is None:
            if len(self._simulators) >= 16:
                self._simulators.pop(next(iter(self._simulators)))
            self._simulators[key] = kept
        return kept

    def structure(self) -> Structure:
        """Which equation holds which unknown, in the order of solution, and the constraints on the states.

        >>> model = parse("model Two Real x, y; equation der(x) = -y; y = x; end Two;")
        >>> model.structure().unknowns
        ['der(x)']
        """
        try:
            bundle = self._bundle()
            facts = _daesy.structure(bundle.source(), bundle.class_name)
        except _daesy.Failure as wrong:
            raise from_extension(wrong.args, STUDY) from None
        return Structure(facts["model"], facts)

    def regularize(
        self,
        *,
        time: float | None = None,
        remove_feedthrough: bool = False,
        feedback: bool = False,
        states: Sequence[str] = (),
        inputs: Sequence[str] = (),
        drop_redundant: bool = False,
        given_inputs: bool = False,
        set: Values | None = None,
        report: Path | None = None,
    ) -> Regularization:
        """The strangeness-free form: everything hidden written out, with states and inputs chosen anew where needed.

        >>> model = parse("model Two Real x, y; equation der(x) = -y; y = x; end Two;")
        >>> form = model.regularize()
        >>> form.mu, form.d, form.a
        (0, 1, 1)
        """
        words: list[str] = [] if time is None else [f"--time={float(time)!r}"]
        switches = {
            "--remove-feedthrough": remove_feedthrough,
            "--feedback": feedback,
            "--drop-redundant": drop_redundant,
            "--given-inputs": given_inputs,
        }
        words += [word for word, is_on in switches.items() if is_on]
        words += [f"--state={name}" for name in states] + [f"--input={name}" for name in inputs] + _report(report)
        return self._ask(Regularization, "regularize", words, None, set, None)

    def flatten(self, *, set: Values | None = None) -> str:
        """The flat model as Base Modelica: what all questions are asked of.

        >>> print(parse("model Lag Real x; equation der(x) = -x; end Lag;").flatten().splitlines()[-1])
        end Lag;
        """
        return self._ask(Result, "flatten", [], None, set, None).text

    def export(self, path: Path, *, fmi: int = 2, kind: str = "both", set: Values | None = None) -> Result:
        """Writes the model as a Functional Mock-up Unit, which needs neither a compiler nor daesy to run.

        ``fmi`` is the version of the interface, 2 or 3; ``kind`` says who integrates: the importing program (``"me"``),
        the unit (``"cs"``), or either (``"both"``).

        >>> import daesy, os, tempfile
        >>> model = daesy.parse("model A Real x(start=1, fixed=true); equation der(x) = -x; end A;")
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     model.export(os.path.join(folder, "a.fmu"), fmi=3).document["kinds"]
        ['me', 'cs']
        """
        words = ["-o", os.fspath(path), "--fmi", str(fmi), "--kind", kind]
        return self._ask(Result, "export", words, None, set, None)


def judged(
    kind: Callable[[dict[str, Any], str, Sequence[str] | None, Any], _R],
    answer: tasks.Answer,
    accept: Callable[[dict[str, Any]], bool] = lambda document: False,
) -> _R:
    """The result of an answer, or the exception that it is."""
    if answer.status != 0 and not accept(answer.document):
        findings = [Finding.read(entry) for entry in answer.document["findings"]]
        raise failure(answer.status, findings, answer.rendered, STUDY)
    return kind(answer.document, answer.text, answer.names, answer.values)


def _place(path: Path) -> str:
    """An absolute path; a name that no file has is a class of a library."""
    name = os.fspath(path)
    is_class = not os.path.exists(name) and all(part.isidentifier() for part in name.split(".")) and not name.endswith(".mo")
    return name if is_class else os.path.abspath(name)


def _report(path: Path | None) -> list[str]:
    return [] if path is None else [f"--report={os.fspath(path)}"]


class Model(Subject):
    """A Modelica model, from a file, a package folder, or text. See :func:`load` and :func:`parse`.

    >>> Model(text="model Lag Real x; equation der(x) = -x; end Lag;").name
    'Lag'
    """

    def __init__(self, path: Path | None = None, class_name: str | None = None, *, text: str | None = None) -> None:
        super().__init__()
        if (path is None) == (text is None):
            raise UsageError("a model has either a path or a text")
        if path is not None and not isinstance(path, (str, os.PathLike)):
            raise TypeError(f"`daesy.load` takes a path or a class name, not {type(path).__name__}")
        if text is not None and not isinstance(text, str):
            raise TypeError(f"`daesy.parse` takes the text of a model, not {type(text).__name__}; `daesy.load` takes a path")
        if isinstance(path, str) and "\n" in path:
            raise UsageError("this is the text of a model, not a path: use `daesy.parse(text)`")
        if text is not None and "\n" not in text and text.strip().endswith((".mo", ".fmu")):
            raise UsageError(f"this is a path, not the text of a model: use `daesy.load({text.strip()!r})`")
        self.path = None if path is None else _place(path)
        self.text = text
        self.class_name = class_name
        # Mistakes show at once, not with the first question.
        self._name = str(self._ask(Result, "flatten", [], None, None, None).document["model"])

    @property
    def name(self) -> str:
        """Full name of the model."""
        return self._name

    def __repr__(self) -> str:
        return f"<daesy.Model {self.name}>"

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if name in ("identify", "cost", "estimate", "uq"):
                raise AttributeError(
                    f"a model alone cannot answer `{name}`: say what is unknown, measured or random with "
                    "daesy.Study(model, unknown={..}, measurements={..}, random={..}, ..) and ask the study"
                )
            raise AttributeError(f"'Model' object has no attribute '{name}'")

    def _bundle(self) -> tasks.Bundle:
        return tasks.Bundle(path=self.path, model=self.text, class_name=self.class_name)


def load(path: Path, class_name: str | None = None) -> Model:
    """Reads a Modelica file or package folder, a class of the built-in library or on MODELICAPATH, or a unit (``.fmu``).

    Args:
        path: the file, or the full name of a class
        class_name: which class, when the file holds several

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "lag.mo")
    ...     _ = path.write_text("model Lag Real x; equation der(x) = -x; end Lag;")
    ...     load(path)
    <daesy.Model Lag>
    """
    return Model(path, class_name)


def parse(text: str, class_name: str | None = None) -> Model:
    """Reads the text of a Modelica model.

    >>> parse("model Lag Real x; equation der(x) = -x; end Lag;")
    <daesy.Model Lag>
    """
    return Model(text=text, class_name=class_name)


class Study(Subject):
    """What the engineer knows about a model and asks of it: from a file, or from a model and the sections of a study file.

    Args:
        model: the path of a study (``.toml``), or a :class:`Model`, a path of one, or a :class:`LinearDae`
        parameters: fixed values by name
        unknown: unknowns by name: ``{"start": .., "min": .., "max": ..}`` or just a start value
        inputs: known inputs by name: ``{"column": "u", "hold": "zoh"}``, ``{"expression": "sin(time)"}``, ..
        disturbances: disturbances by name: ``{"white": 0.1}``, ``{"A": .., "B": .., "C": ..}``, ``{"num": .., "den": ..}``
        measurements: measured signals by name: ``{"column": "y", "std": 0.1}``
        estimate: signals to estimate
        data: a path or the like; see :func:`Study.identify` for what it may be
        time: header of the time column
        initial: ``{"mode": "model"}`` and values by name
        random: distributions by name: ``{"normal": {"mean": 1, "std": 0.1}}``
        simulate, identify, uq: options as in the study file

    >>> model = parse("model Lag input Real u; Real x(start=0, fixed=true); equation der(x) = u - x; end Lag;")
    >>> study = Study(model, inputs={"u": {"expression": "1"}}, simulate={"stop": 1.0, "step": 0.5, "rtol": 1e-8})
    >>> study.simulate()["x"].round(4)
    array([0.    , 0.3935, 0.6321])
    """

    def __init__(
        self,
        model: Path | Model | LinearDae,
        *,
        parameters: Mapping[str, Any] | None = None,
        unknown: Mapping[str, Any] | None = None,
        inputs: Mapping[str, Any] | None = None,
        disturbances: Mapping[str, Any] | None = None,
        measurements: Mapping[str, Any] | None = None,
        estimate: Sequence[str] | Mapping[str, Any] | None = None,
        data: Data | None = None,
        time: str | None = None,
        initial: Mapping[str, Any] | None = None,
        random: Mapping[str, Any] | None = None,
        simulate: Mapping[str, Any] | None = None,
        identify: Mapping[str, Any] | None = None,
        uq: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__()
        given: dict[str, Any] = {
            "parameters": parameters,
            "unknown": _starts(unknown),
            "inputs": inputs,
            "disturbances": disturbances,
            "measurements": measurements,
            "estimate": {"signals": list(estimate)} if isinstance(estimate, (list, tuple)) else estimate,
            "initial": initial,
            "random": random,
            "simulate": simulate,
            "identify": identify,
            "uq": uq,
        }
        sections = {name: dict(content) for name, content in given.items() if content}
        self.path: str | None = None
        self.text: str | None = None
        self._models: list[tuple[str, str]] = []
        self._data = data
        if isinstance(model, (str, os.PathLike)) and os.fspath(model).lower().endswith(".toml"):
            if sections or time is not None:
                raise UsageError("a study file says everything itself; give only the path and data")
            self.path = os.path.abspath(os.fspath(model))
        else:
            self.text = self._write(model, sections, time)
        self._ask(Result, "flatten", [], None, None, None)

    def _write(self, model: Path | Model | LinearDae, sections: dict[str, dict[str, Any]], time: str | None) -> str:
        if isinstance(model, LinearDae):
            head: dict[str, dict[str, Any]] = {"linear": model._section()}
        else:
            if not isinstance(model, Model):
                model = Model(model)
            if model.text is not None:
                self._models = [("model.mo", model.text)]
                head = {"model": {"file": "model.mo"}}
            else:
                head = {"model": {"file": model.path}}
            if model.class_name is not None:
                head["model"]["class"] = model.class_name
        if time is not None:
            # The data itself comes from memory; only the header of its time column counts.
            sections = {**sections, "data": {"file": "data", "time": time}}
        return _toml.document({**head, **sections})

    def __repr__(self) -> str:
        return f"<daesy.Study {self.path or 'in memory'}>"

    def _bundle(self) -> tasks.Bundle:
        return tasks.Bundle(path=self.path, study=self.text, models=tuple(self._models), folder=os.getcwd())

    def _simulator(self, data: Data | None, set: Values | None) -> _Compiled:
        if data is None and self._data is not None:
            key = tuple(_values(set)) or None
            if key not in self._simulators:
                self._simulators[key] = super()._simulator(self._data, set)
            return self._simulators[key]
        return super()._simulator(data, set)


    def identify(
        self,
        data: Data | None = None,
        *,
        method: str | None = None,
        starts: int = 1,
        profile: bool = False,
        posterior: int | None = None,
        chains: int = 4,
        validation: Path | Sequence[Path] | None = None,
        set: Values | None = None,
        seed: int = 0,
        threads: int | None = None,
        executor: Any = None,
        progress: Progress = None,
        report: Path | None = None,
    ) -> Identification:
        """Unknown parameters from data, with their uncertainty.

        Args:
            data: a pandas or polars frame, an xarray dataset, a dict of arrays, the path of a CSV file, or a list of these (several
                experiments); the study's own data when left out
            method: ``"auto"``, ``"ml"``, ``"pem"`` or ``"output-error"``; what the study says when left out
            starts: searches from this many points spread over the bounds
            profile: also finds profile-likelihood intervals
            posterior: draws this many samples of the posterior by each chain; they are in :attr:`Identification.draws`
            chains: how many chains
            validation: a data file, or a list of them, to predict with what was found, instead of those the study names; the
                errors are in :attr:`Identification.validation`
            seed: seed of everything random
            threads: number of threads; all cores when left out
            executor: anything with the interface of ``concurrent.futures.Executor``, which then runs the searches from several
                starts and the data sets of a bootstrap; the result is the same
            progress: ``True``, ``False``, or a function of (done, total)
            report: writes a page to this file

        >>> model = parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
        >>> study = Study(model, unknown={"a": 1.0}, measurements={"y": {"column": "y", "std": 0.1}})
        >>> round(study.identify({"t": [0.0, 1.0, 2.0], "y": [0.0, 2.1, 3.9]}).estimate["a"], 3)
        1.98
        """
        words = _options(method=method, seed=seed, threads=threads) + _report(report)
        words += [f"--starts={int(starts)}"] if starts != 1 else []
        words += ["--profile"] if profile else []
        held_out = [validation] if isinstance(validation, (str, os.PathLike)) else validation or []
        words += [f"--validation={os.path.abspath(os.fspath(file))}" for file in held_out]
        if posterior is None:
            return self._ask(Identification, "identify", words, data, set, progress, executor=executor)
        with tempfile.TemporaryDirectory() as folder:
            file = os.path.join(folder, "draws.csv")
            words += [f"--posterior={int(posterior)}", f"--chains={int(chains)}", f"--posterior-file={file}"]
            found = self._ask(Identification, "identify", words, data, set, progress, executor=executor)
            found._draws = read_draws(file)
        found.document["posterior"]["file"] = None
        return found

    def cost(
        self,
        grid: Mapping[str, Any],
        data: Data | None = None,
        *,
        method: str | None = None,
        set: Values | None = None,
        seed: int = 0,
        threads: int | None = None,
        executor: Any = None,
        progress: Progress = None,
        checkpoint: Path | None = None,
        report: Path | None = None,
    ) -> Cost:
        """The identification cost or log-likelihood over a grid.

        Args:
            grid: for each parameter ``(first, last, number of points)``
            executor: as in :meth:`identify`; points of the grid are its tasks
            checkpoint: a file from which the same call goes on after an interruption

        The other arguments are those of :meth:`identify`.

        >>> model = parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
        >>> study = Study(model, unknown={"a": 1.0}, measurements={"y": {"column": "y", "std": 0.1}})
        >>> cost = study.cost({"a": (1.0, 3.0, 5)}, {"t": [0.0, 1.0, 2.0], "y": [0.0, 2.1, 3.9]})
        >>> cost.kind, cost.best()
        ('log-likelihood', {'a': 2.0})
        """
        words = _options(method=method, seed=seed, threads=threads, checkpoint=checkpoint) + _report(report)
        for name, axis in grid.items():
            first, last, number = axis
            words.append(f"--grid={name}={float(first)!r}:{float(last)!r}:{int(number)}")
        return self._ask(Cost, "cost", words, data, set, progress, executor=executor)

    def estimate(
        self,
        data: Data | None = None,
        *,
        identify: bool = False,
        set: Values | None = None,
        seed: int = 0,
        progress: Progress = None,
        report: Path | None = None,
    ) -> Estimation:
        """Signals nobody measured, from data: filtered and smoothed, with standard deviations.

        Args:
            data: as in :meth:`identify`
            identify: finds the unknowns first, instead of taking their start values
            set: parameter values and unknowns by name, such as the ``estimate`` of an identification

        >>> model = parse("model Walk input Real w; Real x(start = 0, fixed = true); equation der(x) = w; end Walk;")
        >>> study = Study(
        ...     model, disturbances={"w": {"white": 1.0}}, measurements={"x": {"column": "x", "std": 1.0}}, estimate=["x"]
        ... )
        >>> found = study.estimate({"t": [0.0, 1.0, 2.0], "x": [0.0, 1.0, 0.5]})
        >>> found["x"].round(4), (found["x.std"] ** 2).round(4)
        (array([0. , 0.5, 0.5]), array([0. , 0.5, 0.6]))
        """
        words = _options(seed=seed) + _report(report) + (["--identify"] if identify else [])
        return self._ask(Estimation, "estimate", words, data, set, progress)

    def watch(
        self,
        *,
        step: float | None = None,
        false_alarm_rate: float | None = None,
        horizon: float | None = None,
        set: Values | None = None,
        seed: int = 0,
    ) -> Watch:
        """The filter live: an object whose ``update`` takes one sample after the other.

        Args:
            step: the usual distance of samples, where neither study nor data say it
            false_alarm_rate: false alarms of each test per sample
            horizon: predicts this many seconds beyond each sample
            set: parameter values and unknowns by name

        >>> model = parse("model Walk input Real w; Real x(start = 0, fixed = true); equation der(x) = w; end Walk;")
        >>> study = Study(
        ...     model, disturbances={"w": {"white": 1.0}}, measurements={"x": {"column": "x", "std": 1.0}}, estimate=["x"]
        ... )
        >>> with study.watch() as filter:
        ...     for t, x in [(0.0, 0.0), (1.0, 1.0), (2.0, 0.5)]:
        ...         seen = filter.update({"t": t, "x": x})
        >>> seen["t"], [round(value, 4) for value in seen["estimates"]["x"]], seen["alarms"]
        (2.0, [0.5, 0.7746], [])
        """
        options = {"step": step, "false-alarm-rate": false_alarm_rate, "horizon": horizon}
        words = _options(seed=seed) + [f"--{key}={value!r}" for key, value in options.items() if value is not None]
        words += [f"--set={name}={float(value)!r}" for name, value in (set or {}).items()]
        bundle = self._bundle().with_data(self._data)
        return Watch(_daesy.Watcher(bundle.source(), bundle.words(words)))

    def uq(
        self,
        *,
        set: Values | None = None,
        data: Data | None = None,
        seed: int = 0,
        threads: int | None = None,
        executor: Any = None,
        progress: Progress = None,
        checkpoint: Path | None = None,
        surrogate: Path | None = None,
        report: Path | None = None,
    ) -> Uncertainty:
        """Moments, quantiles and Sobol indices under the random parameters of the study.

        Args:
            surrogate: writes the polynomials in the random parameters to this file
            executor: as in :meth:`identify`; simulations are its tasks
            checkpoint: a file from which the same call goes on after an interruption

        The other arguments are those of :meth:`identify`.

        >>> model = parse("model Line parameter Real a = 1; Real y; equation y = a*time; end Line;")
        >>> study = Study(model, random={"a": {"normal": {"mean": 2.0, "std": 0.5}}}, simulate={"stop": 2.0, "step": 1.0})
        >>> study.uq()["y.std"].round(6)
        array([0. , 0.5, 1. ])
        """
        words = _options(seed=seed, threads=threads, checkpoint=checkpoint, surrogate=surrogate) + _report(report)
        return self._ask(Uncertainty, "uq", words, data, set, progress, executor=executor)


class Watch:
    """A filter that takes samples as they come; see :meth:`Study.watch`. Close it, or use it in a ``with`` statement."""

    def __init__(self, watcher: _daesy.Watcher) -> None:
        self._watcher = watcher

    def update(self, sample: Mapping[str, float | str | None]) -> dict[str, Any]:
        """Takes a sample and gives its estimates, innovations, alarms and findings.

        Args:
            sample: the time and the columns of the study by name; ``None`` or NaN, or no entry, where a value is missing

        Raises:
            Error: when the study is at fault; samples that are at fault are told under ``findings``
        """
        text = self._watcher.update(json.dumps({name: _json(value) for name, value in sample.items()}))
        if text is None:
            self.close()
            raise UsageError("the filter is closed")
        told: dict[str, Any] = json.loads(text)
        return told

    def close(self) -> None:
        """Ends the filter.

        Raises:
            Error: when it had ended because the study was at fault
        """
        ended = self._watcher.close()
        if ended is not None and ended[0] != 0:
            status, document, rendered = ended
            findings = [Finding.read(entry) for entry in json.loads(document)["findings"]]
            if [finding for finding in findings if finding.code != "no-samples" and finding.level == "error"]:
                raise failure(status, findings, [rendered], STUDY)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _json(value: Any) -> Any:
    if value is None or isinstance(value, str):
        return value
    number = float(value)
    return None if number != number else number


def _options(**options: Any) -> list[str]:
    """Options that are given, in the words of a command line."""
    words = []
    for name, option in options.items():
        if option is not None and not (name == "seed" and option == 0):
            text = os.fspath(option) if isinstance(option, os.PathLike) else str(option)
            words.append(f"--{name}={text}")
    return words


def _starts(unknown: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A bare number among the unknowns is a start value."""
    if unknown is None:
        return None
    return {name: entry if isinstance(entry, Mapping) else {"start": entry} for name, entry in unknown.items()}
