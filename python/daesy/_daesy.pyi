from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, TypedDict, final

import numpy as np
import numpy.typing as npt

__all__ = [
    "Share",
    "Source",
    "ask",
    "demo",
    "run_program",
    "set_program",
    "LinearSystem",
    "solve_residual",
    "Failure",
    "Simulator",
    "Watcher",
    "structure",
    "units",
    "VERSION",
]

VERSION: Final[str]

_Array = npt.NDArray[np.float64]

class Failure(Exception): ...

@final
class Source:
    @staticmethod
    def file(path: str) -> Source: ...
    @staticmethod
    def model(name: str, text: str) -> Source: ...
    @staticmethod
    def study(name: str, text: str, folder: str, models: Sequence[tuple[str, str]]) -> Source: ...
    def with_data(self, names: Sequence[str], columns: Sequence[_Array]) -> Source: ...

@final
class Share:
    def __new__(cls, source: Source, verb: str, arguments: Sequence[str]) -> Share: ...
    def evaluate(self, points: _Array) -> tuple[npt.NDArray[np.int64], _Array]: ...

@final
class Watcher:
    def __new__(cls, source: Source, arguments: Sequence[str]) -> Watcher: ...
    def update(self, sample: str) -> str | None: ...
    def close(self) -> tuple[int, str, str] | None: ...

class _Answer(TypedDict):
    status: int
    document: str
    text: str
    rendered: list[str]
    names: list[str] | None
    values: _Array | None

class _Trace(TypedDict):
    values: _Array
    steps: int
    rejected: int
    factorizations: int
    evaluations: int
    constraint_residual_max: float
    events: str | None
    initial: str
    parameters: str
    findings: str

class _Solved(TypedDict):
    times: list[float]
    rows: _Array
    differential: list[bool]
    steps: int
    rejected: int
    factorizations: int
    evaluations: int
    step_ends: list[float]
    message: str | None

def ask(
    source: Source,
    verb: str,
    arguments: Sequence[str],
    progress: Callable[[int, int], Any] | None = None,
    distribute: Callable[[_Array, int, Callable[[], bool]], Iterator[tuple[int, npt.NDArray[np.int64], _Array]]] | None = None,
) -> _Answer: ...
def structure(source: Source, class_name: str | None = None) -> dict[str, Any]: ...
def units(source: Source, class_name: str | None = None) -> dict[str, str]: ...
def demo(folder: str) -> str: ...
def run_program(arguments: Sequence[str]) -> int: ...
def set_program(words: Sequence[str]) -> None: ...
def solve_residual(
    function: Callable[[float, _Array, _Array], Any],
    times: _Array,
    values: Sequence[float],
    rates: Sequence[float],
    differential: Sequence[bool] | None,
    nominal: Sequence[float],
    rtol: float,
    atol: float,
    jacobian: Callable[[float, _Array, _Array], Any] | None,
    max_steps: int,
    max_step: float,
    keeps_steps: bool,
) -> _Solved: ...

@final
class Simulator:
    def __new__(
        cls,
        source: Source,
        set: Sequence[tuple[str, float]] = ...,
        class_name: str | None = None,
        files: Sequence[str] = ...,
    ) -> Simulator: ...
    @property
    def findings(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def names(self) -> list[str]: ...
    def run(
        self,
        start: float | None = None,
        stop: float | None = None,
        step: float | None = None,
        times: _Array | None = None,
        rtol: float | None = None,
        atol: float | None = None,
        method: str | None = None,
        max_step: float | None = None,
        progress: Callable[[int, int], Any] | None = None,
        report: str | None = None,
    ) -> _Trace: ...

@final
class LinearSystem:
    def __new__(
        cls, e: _Array, f: _Array, g: _Array | None = None, j: _Array | None = None, h: _Array | None = None
    ) -> LinearSystem: ...
    def kronecker(self) -> dict[str, Any]: ...
    def split(self) -> dict[str, Any]: ...
    def standard_form(self) -> dict[str, Any]: ...
    def well_posedness(self, pole_excess: Sequence[int], m: _Array | None = None) -> dict[str, Any]: ...
    def consistent(
        self, z0: Sequence[float], u: Sequence[Sequence[float]], insisted: Sequence[int], scales: Sequence[float] | None
    ) -> dict[str, Any]: ...
    def continued(self, z0: Sequence[float], u: Sequence[Sequence[float]]) -> _Array: ...
    def state_transfer(
        self, jumps: Sequence[Sequence[float]], impulses: Sequence[Sequence[float]], names: Sequence[str]
    ) -> dict[str, Any]: ...
    def regularize(self, given_inputs: bool = False) -> dict[str, Any]: ...
