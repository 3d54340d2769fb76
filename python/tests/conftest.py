"""Shared by all tests: no display, and the problems of the repository."""

from __future__ import annotations

import pathlib

import matplotlib
import pytest

matplotlib.use("agg")


@pytest.fixture
def problems() -> pathlib.Path:
    return pathlib.Path(__file__).resolve().parents[2] / "problems"
