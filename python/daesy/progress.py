"""How far a long call is: a bar of tqdm where there is one, or a function of yours."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

Progress = Union[bool, Callable[[int, int], Any], None]
"""``True`` or ``False``, a function of (done, total), or ``None``: a bar where somebody is looking."""


def _is_watched() -> bool:
    """Whether somebody looks: a terminal or a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return bool(sys.stderr and sys.stderr.isatty())


class _Bar:
    def __init__(self, label: str) -> None:
        self._label = label
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            from tqdm.auto import tqdm

            self._bar = tqdm(total=total or None, desc=self._label, leave=False)
        self._bar.total = total or None
        self._bar.n = done
        self._bar.refresh()

    def close(self) -> None:
        if self._bar is not None:
            self._bar.close()


@contextmanager
def reporter(progress: Progress, label: str) -> Iterator[Callable[[int, int], Any] | None]:
    """The function that is called with (done, total), if any."""
    if callable(progress):
        yield progress
        return
    if progress is False or (progress is None and not _is_watched()):
        yield None
        return
    try:
        import tqdm  # noqa: F401
    except ImportError:
        yield None
        return
    bar = _Bar(label)
    try:
        yield bar
    finally:
        bar.close()
