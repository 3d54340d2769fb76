"""What can go wrong, with the findings that say where, why and what to do.

Every exception of daesy is an :class:`Error`. Its ``findings`` are the same diagnostics that the program prints::

    Error
    +-- ModelError      the model is at fault
    +-- StudyError      the study is at fault
    +-- DataError       the data is at fault
    +-- NumericsError   the numerical method gave up, and says when and where
    +-- ExecutorError   a worker of an executor died
    +-- UsageError      an argument makes no sense (also a ValueError)
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Finding:
    """One diagnostic: how grave, what kind, the cause, the place, the names of the model, and the remedy.

    >>> import daesy
    >>> try:
    ...     daesy.parse("model A Real power; equation der(power) = powr; end A;")
    ... except daesy.ModelError as wrong:
    ...     finding = wrong.findings[0]
    >>> finding.code, finding.line, finding.column, finding.help
    ('unknown-name', 1, 43, 'did you mean `power`?')
    """

    level: str
    code: str
    message: str
    file: str | None = None
    line: int | None = None
    column: int | None = None
    names: tuple[str, ...] = ()
    help: str | None = None

    @staticmethod
    def read(entry: dict[str, Any]) -> Finding:
        """A finding from an entry of ``findings`` in a JSON document."""
        return Finding(
            level=entry["level"],
            code=entry["code"],
            message=entry["message"],
            file=entry.get("file"),
            line=entry.get("line"),
            column=entry.get("column"),
            names=tuple(entry.get("names") or ()),
            help=entry.get("help"),
        )

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}:{self.column}: " if self.file else ""
        remedy = f" ({self.help})" if self.help else ""
        return f"{place}{self.level}[{self.code}]: {self.message}{remedy}"


class Error(Exception):
    """Anything daesy refuses to do. ``findings`` lists the diagnostics, ``str(error)`` shows them with source lines.

    >>> import daesy
    >>> try:
    ...     daesy.parse("model A Real x; equation der(x) = y; end A;")
    ... except Error as wrong:
    ...     type(wrong).__name__, len(wrong.findings)
    ('ModelError', 1)
    """

    def __init__(self, message: str, findings: Sequence[Finding] = ()) -> None:
        super().__init__(message)
        self.findings: tuple[Finding, ...] = tuple(findings)

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.findings))


class ModelError(Error):
    """The model is at fault."""


class StudyError(Error):
    """The study is at fault."""


class DataError(Error):
    """The data is at fault."""


class NumericsError(Error):
    """The numerical method gave up. ``partial`` is the trajectory up to there, where a simulation failed on the way."""

    def __init__(self, message: str, findings: Sequence[Finding] = (), partial: Any = None) -> None:
        super().__init__(message, findings)
        self.partial = partial

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), (str(self), self.findings, self.partial))


class ExecutorError(Error):
    """A worker of an executor died, and the executor cannot go on."""


class UsageError(Error, ValueError):
    """An argument makes no sense."""


def failure(status: int, findings: Sequence[Finding], rendered: Sequence[str], study: str | None) -> Error:
    """The exception for an exit status and its findings."""
    errors = [finding for finding in findings if finding.level == "error"] or list(findings)
    message = "\n".join(text.rstrip() for text in rendered) or "daesy refused without saying why"
    kind: type[Error] = ModelError
    if status == 2:
        kind = UsageError
    elif status == 3:
        kind = NumericsError
    elif any(finding.code.startswith("data") for finding in errors):
        kind = DataError
    elif any((finding.file or "").endswith(".toml") or finding.file == study for finding in errors if finding.file):
        kind = StudyError
    return kind("\n" + message, findings)


def missing_package(package: str, extra: str, purpose: str) -> ImportError:
    """What to say where a package is missing that only some functions need."""
    return ImportError(f"{purpose} needs {package}: pip install '{package}' (or pip install 'daesy[{extra}]')")


def from_extension(arguments: tuple[Any, ...], study: str | None) -> Error:
    """The exception for what the extension raised."""
    status, rendered, document = arguments[:3]
    return failure(status, [Finding.read(entry) for entry in json.loads(document)], rendered, study)
