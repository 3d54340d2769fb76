"""Shared by all tests: no display, and the problems of the repository."""

from __future__ import annotations

import pathlib
import signal

import matplotlib
import pytest

matplotlib.use("agg")

# A shell starts jobs in the background with interrupts ignored: tests of Ctrl-C would wait for ever.
signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture
def problems() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2] / "problems"
