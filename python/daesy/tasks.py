"""Questions as plain data: what an executor sends to another process, and what it runs there.

A :class:`Bundle` holds texts, paths and arrays, nothing else, so that it can be pickled. A task is a function of this module with a
bundle and numbers. Tasks know nothing of each other; whoever hands them out puts the answers together in a fixed order, so that the
result does not depend on the executor.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from . import _daesy
from ._data import Data, Experiments, experiments
from .errors import UsageError


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
            source = source.with_data(list(table), list(table.values()))
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
    """One question, here or in another process."""
    if executor is not None:
        raise UsageError(f"`{verb}` does not take an executor yet")
    answer = _daesy.ask(bundle.source(), verb, bundle.words(arguments), tell)
    return Answer(
        status=answer["status"],
        document=json.loads(answer["document"]),
        text=answer["text"],
        rendered=answer["rendered"],
        names=answer["names"],
        values=answer["values"],
    )
