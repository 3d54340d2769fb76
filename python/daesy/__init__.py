"""daesy: physical models and data.

Differential-algebraic equations of any index, checked, simulated, identified::

    import daesy
    model = daesy.load("servo.mo", "Servo")            # or daesy.parse(text), daesy.build(..), daesy.LinearDae(E, F)
    study = daesy.Study("servo.toml")                  # or daesy.Study(model, unknown={..}, ..)
    study.check()
    study.simulate().plot()

Every answer has ``.summary()``, ``.findings``, ``.document`` (what the program prints with ``--json``), a table as NumPy arrays,
``.to_frame()`` and ``.plot()``.
"""

from __future__ import annotations

import os as _os
import sys as _sys

from . import _daesy
from .errors import DataError, Error, ExecutorError, Finding, ModelError, NumericsError, StudyError, UsageError
from .ivp import Solution, solve_dae
from .linear import LinearDae
from .results import (
    Check,
    Cost,
    Estimation,
    Identification,
    Linearization,
    Regularization,
    Result,
    Structure,
    Trajectory,
    Uncertainty,
)
from .study import Model, Study, load, parse
from .symbolic import (
    atan2,
    build,
    cos,
    der,
    exp,
    if_else,
    input,
    log,
    maximum,
    minimum,
    parameter,
    sin,
    sqrt,
    tan,
    tanh,
    time,
    variable,
    variables,
)

__version__ = _daesy.VERSION

# Units of other tools run in processes of the program.
if _sys.executable:
    _daesy.set_program([_sys.executable, "-m", "daesy"])

# `input` stays out of this list: `from daesy import *` must not replace Python's own.
__all__ = [
    "Check",
    "Cost",
    "DataError",
    "Error",
    "Estimation",
    "ExecutorError",
    "Finding",
    "Identification",
    "LinearDae",
    "Linearization",
    "Model",
    "ModelError",
    "NumericsError",
    "Regularization",
    "Result",
    "Solution",
    "Structure",
    "Study",
    "StudyError",
    "Trajectory",
    "Uncertainty",
    "UsageError",
    "atan2",
    "build",
    "cos",
    "demo",
    "der",
    "exp",
    "if_else",
    "load",
    "log",
    "maximum",
    "minimum",
    "parameter",
    "parse",
    "sin",
    "solve_dae",
    "sqrt",
    "tan",
    "tanh",
    "time",
    "variable",
    "variables",
]


def demo(folder: str | _os.PathLike[str] = "daesy-demo") -> None:
    """The whole workflow on an embedded example: writes a model, a study and a report into a folder and says what it found.

    Args:
        folder: where to write; made if it is not there

    >>> import contextlib, io, os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()) as told:
    ...     demo(folder)
    ...     files = os.listdir(folder)
    >>> told.getvalue()[:11], "report.html" in files
    ('Model Servo', True)
    """
    print(_daesy.demo(_os.fspath(folder)))
