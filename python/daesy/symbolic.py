"""Models without Modelica: variables, equations with ``==`` and derivatives, in Python.

What is built becomes the text of a Modelica model, so that it is the same model for every question.

>>> x, v = variables("x v", start=[1.0, 0.0], fixed=True)
>>> k = parameter("k", 4.0)
>>> oscillator = build("Oscillator", [der(x) == v, der(v) == -k * x])
>>> oscillator.simulate(times=[0.0, 1.0], rtol=1e-9)["x"].round(6)
array([ 1.      , -0.416147])
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any, Union

import numpy as np

from .errors import UsageError
from .study import Model

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
_RESERVED = frozenset(
    "algorithm and annotation assert block break class connect connector constant constrainedby der discrete each else "
    "elseif elsewhen encapsulated end enumeration equation expandable extends external false final flow for function if "
    "import impure in initial inner input loop model not operator or outer output package parameter partial protected "
    "public pure record redeclare replaceable return stream then true type when while within time".split()
)

Number = Union[int, float, "np.floating[Any]", "np.integer[Any]"]
Operand = Union["Expression", Number]


def _quoted(name: str) -> str:
    if _IDENTIFIER.match(name) and name not in _RESERVED:
        return name
    if not name or "'" in name or "\\" in name or "\n" in name:
        raise UsageError(f"`{name}` cannot be a name")
    return f"'{name}'"


def _number(value: Any) -> str:
    number = float(value)
    if not math.isfinite(number):
        raise UsageError(f"{number} cannot stand in an equation")
    return repr(number) if number >= 0 and not repr(number).startswith("-") else f"({number!r})"


class Symbol:
    """A declared name: a variable, a parameter or an input."""

    def __init__(self, name: str, prefix: str, value: Any = None, **attributes: Any) -> None:
        self.name = name
        self.prefix = prefix
        self.value = value
        self.attributes = {key: entry for key, entry in attributes.items() if entry is not None}

    def declaration(self) -> str:
        """The line that declares it."""
        parts = []
        for key, entry in self.attributes.items():
            if isinstance(entry, bool):
                parts.append(f"{key} = {'true' if entry else 'false'}")
            elif isinstance(entry, str):
                parts.append(f'{key} = "{entry}"')
            else:
                parts.append(f"{key} = {_text(entry)}")
        modifiers = f"({', '.join(parts)})" if parts else ""
        binding = "" if self.value is None else f" = {_text(self.value)}"
        return f"  {self.prefix}Real {_quoted(self.name)}{modifiers}{binding};"


class Expression:
    """Anything that has a value: variables, parameters, inputs, and what is computed from them."""

    __slots__ = ("_text", "_symbols")

    def __init__(self, text: str, symbols: dict[str, Symbol]) -> None:
        self._text = text
        self._symbols = symbols

    def modelica(self) -> str:
        """The expression in Modelica."""
        return self._text

    def __repr__(self) -> str:
        return self._text

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise TypeError("an expression has no truth value; use `if_else` for a choice")

    def _combine(self, operator: str, other: Operand, swapped: bool = False) -> Expression:
        if not isinstance(other, (Expression, int, float, np.floating, np.integer)):
            return NotImplemented
        left, right = (other, self) if swapped else (self, other)
        return Expression(f"({_text(left)} {operator} {_text(right)})", _symbols(left, right))

    def __add__(self, other: Operand) -> Expression:
        return self._combine("+", other)

    def __radd__(self, other: Operand) -> Expression:
        return self._combine("+", other, True)

    def __sub__(self, other: Operand) -> Expression:
        return self._combine("-", other)

    def __rsub__(self, other: Operand) -> Expression:
        return self._combine("-", other, True)

    def __mul__(self, other: Operand) -> Expression:
        return self._combine("*", other)

    def __rmul__(self, other: Operand) -> Expression:
        return self._combine("*", other, True)

    def __truediv__(self, other: Operand) -> Expression:
        return self._combine("/", other)

    def __rtruediv__(self, other: Operand) -> Expression:
        return self._combine("/", other, True)

    def __pow__(self, other: Operand) -> Expression:
        return self._combine("^", other)

    def __rpow__(self, other: Operand) -> Expression:
        return self._combine("^", other, True)

    def __neg__(self) -> Expression:
        return Expression(f"(-{self._text})", self._symbols)

    def __pos__(self) -> Expression:
        return self

    def __abs__(self) -> Expression:
        return _call("abs", self)

    def __eq__(self, other: object) -> Equation:  # type: ignore[override]
        if not isinstance(other, (Expression, int, float, np.floating, np.integer)):
            return NotImplemented
        return Equation(self, other)

    def __ne__(self, other: object) -> bool:
        raise TypeError("`!=` makes no equation")

    def __lt__(self, other: Operand) -> Condition:
        return Condition(f"({self._text} < {_text(other)})", _symbols(self, other))

    def __le__(self, other: Operand) -> Condition:
        return Condition(f"({self._text} <= {_text(other)})", _symbols(self, other))

    def __gt__(self, other: Operand) -> Condition:
        return Condition(f"({self._text} > {_text(other)})", _symbols(self, other))

    def __ge__(self, other: Operand) -> Condition:
        return Condition(f"({self._text} >= {_text(other)})", _symbols(self, other))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        # NumPy's functions work element by element on objects.
        wrapped = [_boxed(entry) if isinstance(entry, Expression) else entry for entry in inputs]
        return getattr(ufunc, method)(*wrapped, **options)

    def sin(self) -> Expression:
        """Sine; also ``numpy.sin(x)``."""
        return _call("sin", self)

    def cos(self) -> Expression:
        """Cosine."""
        return _call("cos", self)

    def tan(self) -> Expression:
        """Tangent."""
        return _call("tan", self)

    def exp(self) -> Expression:
        """Exponential."""
        return _call("exp", self)

    def log(self) -> Expression:
        """Natural logarithm."""
        return _call("log", self)

    def sqrt(self) -> Expression:
        """Square root."""
        return _call("sqrt", self)

    def tanh(self) -> Expression:
        """Hyperbolic tangent."""
        return _call("tanh", self)


def _boxed(entry: Expression) -> Any:
    box = np.empty((), dtype=object)
    box[()] = entry
    return box


def _text(operand: Any) -> str:
    return operand._text if isinstance(operand, Expression) else _number(operand)


def _symbols(*operands: Any) -> dict[str, Symbol]:
    merged: dict[str, Symbol] = {}
    for operand in operands:
        for name, symbol in getattr(operand, "_symbols", {}).items():
            if merged.setdefault(name, symbol) is not symbol:
                raise UsageError(f"two different symbols are called `{name}`")
    return merged


def _call(function: str, *operands: Operand) -> Expression:
    return Expression(f"{function}({', '.join(_text(operand) for operand in operands)})", _symbols(*operands))


class Condition:
    """A relation such as ``x > 0``; combine with ``&``, ``|`` and ``~``."""

    def __init__(self, text: str, symbols: dict[str, Symbol]) -> None:
        self._text = text
        self._symbols = symbols

    def __and__(self, other: Condition) -> Condition:
        return Condition(f"({self._text} and {other._text})", _symbols(self, other))

    def __or__(self, other: Condition) -> Condition:
        return Condition(f"({self._text} or {other._text})", _symbols(self, other))

    def __invert__(self) -> Condition:
        return Condition(f"(not {self._text})", self._symbols)

    def __bool__(self) -> bool:
        raise TypeError("a relation has no truth value before the simulation; use `if_else` for a choice")


class Equation:
    """``left == right``, for :func:`build`."""

    def __init__(self, left: Operand, right: Operand) -> None:
        self.left = left
        self.right = right

    def __repr__(self) -> str:
        return f"{_text(self.left)} == {_text(self.right)}"

    def __bool__(self) -> bool:
        raise TypeError("an equation has no truth value")


class Variable(Expression):
    """A declared name as an expression."""

    __slots__ = ("symbol",)

    def __init__(self, symbol: Symbol) -> None:
        super().__init__(_quoted(symbol.name), {symbol.name: symbol})
        self.symbol = symbol


def variable(
    name: str,
    *,
    start: float | Expression | None = None,
    fixed: bool | None = None,
    unit: str | None = None,
    nominal: float | None = None,
    min: float | None = None,
    max: float | None = None,
) -> Variable:
    """A variable.

    Args:
        start: its value at the start, in its unit
        fixed: whether to insist on that; otherwise it is a guess that changes as little as possible
        unit: shown in reports
        nominal: its typical size, for tolerances
        min, max: bounds that are checked

    >>> variable("x", start=1.0, fixed=True, unit="m").symbol.declaration()
    '  Real x(start = 1.0, fixed = true, unit = "m");'
    """
    return Variable(Symbol(name, "", start=start, fixed=fixed, unit=unit, nominal=nominal, min=min, max=max))


def variables(
    names: str | Iterable[str],
    *,
    start: float | Sequence[float] | None = None,
    fixed: bool | None = None,
    unit: str | None = None,
) -> list[Variable]:
    """Several variables: names separated by spaces or commas, and one start value for all or one for each.

    >>> variables("x y")
    [x, y]
    """
    words = names.replace(",", " ").split() if isinstance(names, str) else list(names)
    starts: list[Any] = list(start) if isinstance(start, (list, tuple, np.ndarray)) else [start] * len(words)
    if len(starts) != len(words):
        raise UsageError(f"{len(starts)} start values for {len(words)} variables")
    return [variable(name, start=value, fixed=fixed, unit=unit) for name, value in zip(words, starts)]


def parameter(name: str, value: float | Expression, *, unit: str | None = None) -> Variable:
    """A parameter with its value, which a study or ``set=`` may change.

    >>> k = parameter("k", 2.0, unit="1/s")
    >>> x = variable("x", start=1.0, fixed=True)
    >>> build("Decay", [der(x) == -k * x]).simulate(times=[0, 1], set={"k": 1.0}, rtol=1e-9)["x"].round(6)
    array([1.      , 0.367879])
    """
    return Variable(Symbol(name, "parameter ", value, unit=unit))


def input(name: str, *, start: float | None = None, unit: str | None = None) -> Variable:
    """An input, whose values a study gives; without one it rests at its start value.

    >>> import daesy
    >>> u, x = input("u"), variable("x", start=0.0, fixed=True)
    >>> study = daesy.Study(build("Lag", [der(x) == u - x]), inputs={"u": {"expression": "1"}}, simulate={"rtol": 1e-9})
    >>> study.simulate(times=[0, 1])["x"].round(6)
    array([0.      , 0.632121])
    """
    return Variable(Symbol(name, "input ", start=start, unit=unit))


#: Time.
time = Expression("time", {})


def der(expression: Operand) -> Expression:
    """The derivative with respect to time.

    >>> der(variable("x"))
    der(x)
    """
    return _call("der", expression)


def sin(x: Operand) -> Expression:
    """Sine of an angle in rad.

    >>> sin(variable("x"))
    sin(x)
    """
    return _call("sin", x)


def cos(x: Operand) -> Expression:
    """Cosine of an angle in rad.

    >>> cos(variable("x"))
    cos(x)
    """
    return _call("cos", x)


def tan(x: Operand) -> Expression:
    """Tangent of an angle in rad.

    >>> tan(variable("x"))
    tan(x)
    """
    return _call("tan", x)


def exp(x: Operand) -> Expression:
    """Exponential.

    >>> exp(variable("x"))
    exp(x)
    """
    return _call("exp", x)


def log(x: Operand) -> Expression:
    """Natural logarithm.

    >>> log(variable("x"))
    log(x)
    """
    return _call("log", x)


def sqrt(x: Operand) -> Expression:
    """Square root.

    >>> sqrt(variable("x") + 1)
    sqrt((x + 1.0))
    """
    return _call("sqrt", x)


def tanh(x: Operand) -> Expression:
    """Hyperbolic tangent.

    >>> tanh(variable("x"))
    tanh(x)
    """
    return _call("tanh", x)


def atan2(y: Operand, x: Operand) -> Expression:
    """Angle of the point (x, y).

    >>> atan2(variable("y"), variable("x"))
    atan2(y, x)
    """
    return _call("atan2", y, x)


def minimum(x: Operand, y: Operand) -> Expression:
    """The smaller of two.

    >>> minimum(variable("x"), 1)
    min(x, 1.0)
    """
    return _call("min", x, y)


def maximum(x: Operand, y: Operand) -> Expression:
    """The larger of two.

    >>> maximum(variable("x"), 0)
    max(x, 0.0)
    """
    return _call("max", x, y)


def if_else(condition: Condition, then: Operand, otherwise: Operand) -> Expression:
    """A choice: one expression where the condition holds, another where it does not.

    >>> x = variable("x")
    >>> if_else(x > 0, x, -x)
    (if (x > 0.0) then x else (-x))
    """
    text = f"(if {condition._text} then {_text(then)} else {_text(otherwise)})"
    return Expression(text, _symbols(condition, then, otherwise))


def build(name: str, equations: Iterable[Equation], *, initial: Iterable[Equation] = ()) -> Model:
    """A model from equations; all symbols in them are declared.

    Args:
        name: name of the model
        equations: ``left == right``, as many as there are variables
        initial: equations that hold at the start only

    >>> x, y = variables("x y")
    >>> model = build("Circle", [x**2 + y**2 == 1, der(x) == y])
    >>> model.check().structure["degrees_of_freedom"]
    1
    """
    lists = {"equation": list(equations), "initial equation": list(initial)}
    symbols: dict[str, Symbol] = {}
    lines: list[str] = []
    for section, entries in lists.items():
        if not entries:
            continue
        body = []
        for entry in entries:
            if not isinstance(entry, Equation):
                raise UsageError(f"{entry!r} is no equation: write `left == right`")
            for known, symbol in _symbols(entry.left, entry.right).items():
                if symbols.setdefault(known, symbol) is not symbol:
                    raise UsageError(f"two different symbols are called `{known}`")
            body.append(f"  {_text(entry.left)} = {_text(entry.right)};")
        lines += [section, *body]
    # Symbols that only stand in values and start values of others.
    waiting = list(symbols.values())
    while waiting:
        symbol = waiting.pop()
        for entry in [symbol.value, *symbol.attributes.values()]:
            for known, other in getattr(entry, "_symbols", {}).items():
                if known not in symbols:
                    symbols[known] = other
                    waiting.append(other)
                elif symbols[known] is not other:
                    raise UsageError(f"two different symbols are called `{known}`")
    declarations = [symbol.declaration() for symbol in symbols.values()]
    quoted = _quoted(name)
    return Model(text="\n".join([f"model {quoted}", *declarations, *lines, f"end {quoted};", ""]))
