"""Studies as text: dicts of numbers, strings, lists and arrays written as TOML."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import UsageError

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")


def key(name: str) -> str:
    """A key, quoted where needed."""
    return name if _BARE.match(name) else json.dumps(name, ensure_ascii=False)


def value(item: Any) -> str:
    """A value on one line."""
    if isinstance(item, Mapping):
        return "{ " + ", ".join(f"{key(str(name))} = {value(part)}" for name, part in item.items()) + " }"
    if isinstance(item, np.ndarray):
        return value(item.tolist())
    if isinstance(item, (list, tuple)):
        return "[" + ", ".join(value(part) for part in item) + "]"
    if isinstance(item, (bool, np.bool_)):
        return "true" if item else "false"
    if isinstance(item, (int, np.integer)):
        return str(int(item))
    if isinstance(item, (float, np.floating)):
        number = float(item)
        if math.isnan(number) or math.isinf(number):
            raise UsageError(f"a study cannot hold the number {number}")
        return repr(number)
    if isinstance(item, str):
        return json.dumps(item, ensure_ascii=False)
    text = getattr(item, "modelica", None)
    if callable(text):
        return json.dumps(text(), ensure_ascii=False)
    raise UsageError(f"a study cannot hold {item!r} ({type(item).__name__})")


def document(sections: Mapping[str, Mapping[str, Any]]) -> str:
    """Sections of keys and values.

    >>> print(document({"simulate": {"stop": 2.0}, "unknown": {"spring.c": {"start": 10}}}))
    [simulate]
    stop = 2.0
    [unknown]
    "spring.c" = { start = 10 }
    <BLANKLINE>
    """
    lines: list[str] = []
    for section, content in sections.items():
        lines.append(f"[{section}]")
        lines.extend(f"{key(str(name))} = {value(item)}" for name, item in content.items())
    return "\n".join(lines) + "\n"
