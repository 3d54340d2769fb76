"""Questions as plain data: what an executor sends to another process, and what it runs there.

A :class:`Bundle` holds texts, paths and arrays, nothing else, so that it can be pickled. A task is a function of this module with a
question, which is the same for all tasks, and points, which are rows of numbers; its answer is numbers again. A process reads and
compiles a question once and keeps it until it meets the next one. Tasks know nothing of each other, and what a point gives depends on
nothing but the question and the point, so that the result does not depend on the executor.
"""

from __future__ import annotations

import json
import os
import pickle
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, wait
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
    shares = None if executor is None else _Shares(executor, (bundle, verb, words))
    try:
        answer = _daesy.ask(bundle.source(), verb, words, tell, shares)
    finally:
        if shares is not None:
            shares.forget()
    return Answer(
        status=answer["status"],
        document=json.loads(answer["document"]),
        text=answer["text"],
        rendered=answer["rendered"],
        names=answer["names"],
        values=answer["values"],
    )


Lengths = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.float64]

#: The question that this process met last, by its key.
_kept: dict[str, _daesy.Share] = {}


def evaluate(key: str, question: bytes, points: Numbers) -> tuple[Lengths, Numbers]:
    """A task: how many numbers each point gives, and the numbers.

    The key belongs to one call of the user: files that changed between two calls are read again.
    """
    try:
        share = _kept.get(key)
        if share is None:
            bundle, verb, words = pickle.loads(question)
            share = _daesy.Share(bundle.source(), verb, words)
            _kept.clear()
            _kept[key] = share
        return share.evaluate(plain(points))
    except _daesy.Failure as wrong:
        raise from_extension(wrong.args, "study") from None
    except KeyboardInterrupt:
        # What was interrupted stays so.
        _kept.pop(key, None)
        raise


def _same(question: bytes) -> bytes:
    """A task of Dask: what others need, fetched by each worker once, and made again if all that had it are lost."""
    return question


class _Shares:
    """Hands points out to an executor, and their answers in the order of the points as they come."""

    #: Tasks of each worker, so that none waits long for the last, and little is lost with a worker.
    TASKS_PER_WORKER = 16
    #: Points of a task at most; what a task costs beside them is about a millisecond.
    MOST_POINTS = 4096
    #: Bytes of the points of a task, and of its answer, at most, where it has more than one point.
    MOST_BYTES = 1 << 22
    #: Questions with more bytes than this travel to a worker of Dask once, not with each task.
    LARGE = 1 << 20

    def __init__(self, executor: Any, question: tuple[Bundle, str, list[str]]) -> None:
        self._executor = executor
        self._key = uuid.uuid4().hex
        self._question: Any = pickle.dumps(question, protocol=pickle.HIGHEST_PROTOCOL)
        client: Any = getattr(executor, "_client", None)
        if len(self._question) > self.LARGE and _is_of_dask(client):
            self._question = client.submit(_same, self._question, pure=False)

    def forget(self) -> None:
        """Frees what tasks in this process have kept."""
        _kept.pop(self._key, None)

    def __call__(
        self, points: Numbers, n_numbers: int, is_stopped: Callable[[], bool]
    ) -> Iterator[tuple[int, Lengths, Numbers]]:
        size = self._size(len(points), max(n_numbers, points.shape[1]))
        futures: deque[Any] = deque()
        first = 0
        try:
            for at in range(0, len(points), size):
                futures.append(self._executor.submit(evaluate, self._key, self._question, points[at : at + size]))
            while futures:
                lengths, numbers = self._result(futures[0], is_stopped)
                # What has arrived is not held any longer.
                futures.popleft()
                yield first, np.require(lengths, np.int64, ["C", "A"]), plain(numbers)
                first += len(lengths)
        except (BrokenExecutor, CancelledError) as broken:
            raise self._lost(first, len(points)) from broken
        except Exception as broken:
            if not _is_of_dask(broken):
                raise
            raise self._lost(first, len(points)) from broken
        finally:
            for future in futures:
                future.cancel()

    @staticmethod
    def _lost(n_done: int, n_points: int) -> ExecutorError:
        return ExecutorError(
            f"a worker of the executor ended abruptly after {n_done} of {n_points} evaluations, and the executor "
            "is of no more use: make a new one (with `checkpoint=`, cost and uq go on where they ended); "
            "workers that use up the memory are ended by the system"
        )

    def _size(self, n_points: int, n_numbers: int) -> int:
        """Points of a task: several tasks for each worker, and messages that stay small."""
        balanced = -(-n_points // (self.TASKS_PER_WORKER * self._n_workers()))
        return max(1, min(balanced, self.MOST_POINTS, self.MOST_BYTES // (8 * n_numbers)))

    def _n_workers(self) -> int:
        for name in ("_max_workers", "num_workers"):
            known = getattr(self._executor, name, None)
            if isinstance(known, int) and known > 0:
                return known
        client: Any = getattr(self._executor, "_client", None)
        known = sum(client.nthreads().values()) if _is_of_dask(client) else 0
        # A cluster that has no workers yet will get some.
        return known or os.cpu_count() or 1

    @staticmethod
    def _result(future: Any, is_stopped: Callable[[], bool]) -> Any:
        while not future.done():
            if is_stopped():
                raise KeyboardInterrupt
            wait([future], timeout=0.2)
        return future.result()


def _is_of_dask(thing: Any) -> bool:
    return type(thing).__module__.partition(".")[0] == "distributed"
