"""Questions as plain data: what an executor sends to another process, and what it runs there.

A :class:`Bundle` holds texts, paths and arrays, nothing else, so that it can be pickled. A task is a function of this module with a
bundle and numbers. Tasks know nothing of each other; whoever hands them out puts the answers together in a fixed order, so that the
result does not depend on the executor.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, wait
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _daesy
from ._data import Data, Experiments, experiments, plain
from .errors import ExecutorError, from_extension


@dataclass(frozen=True)
class Bundle:
    """A model or a study with its data, as plain data."""

    path: str | None = None
    model: str | None = None
    study: str | None = None
    models: tuple[tuple[str, str], ...] = ()
    folder: str = ""
    class_name: str | None = None
    data: Experiments = Experiments()

    def with_data(self, data: Data | None) -> Bundle:
        """The same with data instead of what the study names."""
        return self if data is None else replace(self, data=experiments(data))

    def without_data(self) -> Bundle:
        """The model and the study alone."""
        return replace(self, data=Experiments())

    def source(self) -> _daesy.Source:
        """What the extension reads."""
        if self.study is not None:
            source = _daesy.Source.study("study", self.study, self.folder, list(self.models))
        elif self.model is not None:
            source = _daesy.Source.model("model.mo", self.model)
        else:
            assert self.path is not None
            source = _daesy.Source.file(self.path)
        for table in self.data.tables:
            source = source.with_data(list(table), [plain(column) for column in table.values()])
        return source

    def words(self, arguments: list[str]) -> list[str]:
        """The arguments of a verb, with those that belong to the model and the data."""
        chosen = [] if self.class_name is None else [f"--class={self.class_name}"]
        return arguments + chosen + [f"--data={file}" for file in self.data.files]


@dataclass(frozen=True)
class Answer:
    """What a verb answered, as plain data."""

    status: int
    document: dict[str, Any]
    text: str
    rendered: list[str]
    names: list[str] | None
    values: npt.NDArray[np.float64] | None


def ask(bundle: Bundle, verb: str, arguments: list[str], tell: Any = None, executor: Any = None) -> Answer:
    """One question; with an executor, the evaluations behind it are its tasks."""
    words = bundle.words(arguments)
    distribute = None if executor is None else _Shares(executor, bundle, verb, words)
    answer = _daesy.ask(bundle.source(), verb, words, tell, distribute)
    return Answer(
        status=answer["status"],
        document=json.loads(answer["document"]),
        text=answer["text"],
        rendered=answer["rendered"],
        names=answer["names"],
        values=answer["values"],
    )


def evaluate(bundle: Bundle, verb: str, words: list[str], points: list[list[float]]) -> list[npt.NDArray[np.float64]]:
    """A task: the numbers behind a question at some of its points."""
    try:
        return _daesy.evaluate(bundle.source(), verb, words, points)
    except _daesy.Failure as wrong:
        raise from_extension(wrong.args, "study") from None


class _Shares:
    """Hands points out to an executor and puts the answers together in the order of the points."""

    def __init__(self, executor: Any, bundle: Bundle, verb: str, words: list[str]) -> None:
        self._executor = executor
        self._bundle = bundle
        self._verb = verb
        self._words = words

    def __call__(self, points: list[list[float]], is_stopped: Callable[[], bool]) -> list[npt.NDArray[np.float64]]:
        size = max(1, min(64, -(-len(points) // (4 * self._n_workers()))))
        shares = [points[at : at + size] for at in range(0, len(points), size)]
        futures: list[Any] = []
        found: list[npt.NDArray[np.float64]] = []
        try:
            for share in shares:
                futures.append(self._executor.submit(evaluate, self._bundle, self._verb, self._words, share))
            for future in futures:
                found += self._result(future, is_stopped)
        except BrokenExecutor as broken:
            raise ExecutorError(
                f"a worker of the executor ended abruptly after {len(found)} of {len(points)} evaluations, and the executor "
                "is of no more use: make a new one (with `checkpoint=`, cost and uq go on where they ended); "
                "workers that use up the memory are ended by the system"
            ) from broken
        finally:
            for future in futures:
                future.cancel()
        return found

    def _n_workers(self) -> int:
        known = getattr(self._executor, "_max_workers", None)
        return known if isinstance(known, int) and known > 0 else (os.cpu_count() or 1) * 4

    @staticmethod
    def _result(future: Any, is_stopped: Callable[[], bool]) -> list[npt.NDArray[np.float64]]:
        while not future.done():
            if is_stopped():
                raise KeyboardInterrupt
            wait([future], timeout=0.2)
        return [plain(numbers) for numbers in future.result()]
