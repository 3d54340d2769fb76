"""Data from wherever it is: frames, dicts of arrays, files."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Union

import numpy as np
import numpy.typing as npt

from .errors import DataError

Columns = dict[str, npt.NDArray[np.float64]]
Data = Union[str, "os.PathLike[str]", Mapping[str, Any], Sequence[Any], Any]
"""A pandas or polars frame (anything with the dataframe protocol), an xarray dataset, a dict of arrays, a path of a CSV file, or a list of these."""


def plain(array: Any) -> npt.NDArray[np.float64]:
    """Doubles one after the other, at addresses the processor likes; arrays that come from files or networks may lie anywhere."""
    return np.require(array, np.float64, ["C_CONTIGUOUS", "ALIGNED"])


def _seconds(moments: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
    """Seconds since the first of some moments, or lengths of time in seconds."""
    if moments.dtype.kind == "M" and len(moments):
        moments = moments - moments[0]
    seconds: npt.NDArray[np.float64] = moments / np.timedelta64(1, "s")
    return seconds


def _column(values: Any, name: str) -> npt.NDArray[np.float64]:
    try:
        kind = getattr(np.asarray(values), "dtype", np.dtype(float)).kind
        if kind in "mM":
            return plain(_seconds(np.asarray(values)))
        if hasattr(values, "to_numpy"):
            try:
                values = values.to_numpy(dtype=float, na_value=np.nan)
            except TypeError:
                values = values.to_numpy()
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"the column `{name}` does not hold numbers: {error}") from None
    if array.ndim != 1:
        raise DataError(f"the column `{name}` has {array.ndim} dimensions, not one")
    return plain(array)


def columns(data: Any) -> Columns:
    """The columns of one table as arrays of doubles; missing values are NaN, dates are seconds since the first.

    >>> columns({"t": [0, 1], "u": [1.5, None]})["u"]
    array([1.5, nan])
    """
    if hasattr(data, "data_vars") and hasattr(data, "coords"):
        # A dataset of xarray: the time is a coordinate.
        parts = {**dict(data.coords.items()), **dict(data.data_vars.items())}
        return {str(name): _column(part.values, str(name)) for name, part in parts.items() if part.ndim == 1}
    if isinstance(data, Mapping):
        return {str(name): _column(values, str(name)) for name, values in data.items()}
    if not hasattr(data, "columns") and hasattr(data, "__dataframe__"):
        frame = data.__dataframe__()
        import pandas.api.interchange as interchange

        data = interchange.from_dataframe(frame)
    if hasattr(data, "column_names"):
        return {str(name): _column(data[name], str(name)) for name in data.column_names}
    if not hasattr(data, "columns"):
        raise DataError(f"{type(data).__name__} is no data: give a frame, a dict of arrays, or the path of a CSV file")
    table = {str(name): _column(data[name], str(name)) for name in data.columns}
    index = getattr(data, "index", None)
    index_name = getattr(index, "name", None)
    if isinstance(index_name, str) and index_name not in table:
        table[index_name] = _column(index, index_name)
    return table


@dataclass(frozen=True)
class Experiments:
    """Data instead of what a study names: tables in memory, or files; one per experiment."""

    tables: tuple[Columns, ...] = ()
    files: tuple[str, ...] = ()


def experiments(data: Data | None) -> Experiments:
    """Data of any kind, read as far as Python must."""
    if data is None:
        return Experiments()
    entries: list[Any] = list(data) if isinstance(data, (list, tuple)) else [data]
    if not entries:
        raise DataError("the list of experiments is empty")
    is_file = [isinstance(entry, (str, os.PathLike)) for entry in entries]
    if all(is_file):
        return Experiments(files=tuple(os.path.abspath(os.fspath(entry)) for entry in entries))
    if any(is_file):
        raise DataError("experiments are either all files or all in memory")
    return Experiments(tables=tuple(columns(entry) for entry in entries))
