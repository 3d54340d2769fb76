"""How far a long call is: a bar of tqdm where there is one, or a function of yours."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Union

Progress = Union[bool, Callable[[int, int], Any], None]
"""``True`` or ``False``, a function of (done, total), or ``None``: a bar if a user is looking."""


def _is_watched() -> bool:
    """Whether a user looks: a terminal or a notebook."""
    if "ipykernel" in sys.modules:
        return True
    return bool(sys.stderr and sys.stderr.isatty())


def _tqdm() -> Any:
    """The bar of notebooks where they can show it, the plain one everywhere else."""
    if "ipykernel" in sys.modules:
        try:
            import ipywidgets  # noqa: F401
            from tqdm.notebook import tqdm as bar

            return bar
        except ImportError:
            pass
    from tqdm import tqdm

    return tqdm


class _Bar:
    def __init__(self, label: str, delay: float) -> None:
        self._label = label
        self._delay = delay
        self._begin = time.monotonic()
        self._bar: Any = None

    def __call__(self, done: int, total: int) -> None:
        if time.monotonic() - self._begin < self._delay:
            return
        if self._bar is None:
            self._bar = _tqdm()(total=total or None, desc=self._label, leave=False, unit="", unit_scale=True)
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
    # Short calls show nothing, unless a bar was asked for.
    bar = _Bar(label, 0.0 if progress else 1.0)
    try:
        yield bar
    finally:
        bar.close()
