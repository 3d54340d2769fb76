"""Pictures of answers: figures one would print.

Every function returns a ``matplotlib.figure.Figure``; nothing is shown or written. matplotlib is needed for these only.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from .errors import UsageError, missing_package

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from ._picture import Picture
    from .results import Check, Cost, Estimation, Identification, Linearization, Result, Structure, Trajectory, Uncertainty

Array = npt.NDArray[np.float64]

#: Colours of series, told apart also by people who see few colours.
COLORS = ["#1f6feb", "#d1570a", "#1a7f5a", "#8250df", "#b8264f", "#7a6a00", "#0b7285", "#59636e"]

_STYLE: dict[Any, Any] = {
    "axes.edgecolor": "#6b7686",
    "axes.labelcolor": "#39424f",
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 10,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.labelsize": 9,
    "grid.color": "#e4e8ee",
    "xtick.color": "#6b7686",
    "ytick.color": "#6b7686",
    "xtick.labelsize": 8,
    "ytick.labelsize": 8,
    "legend.fontsize": 8,
    "legend.frameon": False,
    "lines.linewidth": 1.5,
    "figure.dpi": 110,
    "savefig.dpi": 150,
    "savefig.bbox": "tight",
    "axes.formatter.useoffset": False,
}


@contextmanager
def _styled() -> Iterator[Any]:
    try:
        import matplotlib
        from cycler import cycler
    except ImportError:
        raise missing_package("matplotlib", "plot", "a picture") from None
    from matplotlib import figure

    with matplotlib.rc_context({**_STYLE, "axes.prop_cycle": cycler(color=COLORS)}):
        yield figure.Figure


def _panels(n: int, height: float = 1.7, width: float = 7.0, share_x: bool = True) -> tuple[Picture, list[Axes]]:
    """A column of panels over the same abscissa, two columns when there are many."""
    from ._picture import Picture

    n_columns = 1 if n <= 4 else 2
    n_rows = -(-n // n_columns)
    figure = Picture(figsize=(width if n_columns == 1 else 9.0, max(2.6, height * n_rows + 0.7)), layout="constrained")
    grid = figure.subplots(n_rows, n_columns, sharex=share_x, squeeze=False)
    axes = [grid[at % n_rows, at // n_rows] for at in range(n_rows * n_columns)]
    for unused in axes[n:]:
        unused.set_visible(False)
    for at in range(n):
        if at % n_rows == n_rows - 1 or at == n - 1:
            axes[at].tick_params(labelbottom=True)
    return figure, axes[:n]


def _chosen(names: Sequence[str] | None, known: Sequence[str], default: Sequence[str], limit: int = 8) -> list[str]:
    if names is None:
        return list(default)[:limit]
    for name in names:
        if name not in known:
            import difflib

            near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.4)
            hint = f"; did you mean `{near[0]}`?" if near else ""
            raise UsageError(f"there is no `{name}` to draw{hint}")
    return list(names)


def _last_row(axes: Sequence[Axes], label: str) -> None:
    for at, ax in enumerate(axes):
        if ax.get_subplotspec() is not None and (ax.get_subplotspec().is_last_row() or at == len(axes) - 1):  # type: ignore[union-attr]
            ax.set_xlabel(label)


def _time_axis(axes: Sequence[Axes], t: Array) -> str:
    """Few ticks, in a unit that suits the span; returns the label."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator

    span = float(np.nanmax(t) - np.nanmin(t)) if len(t) else 1.0
    unit, factor = "s", 1.0
    for unit, factor in (("s", 1.0), ("ms", 1e3), ("\u00b5s", 1e6), ("ns", 1e9)):
        if span * factor >= 0.5:
            break
    for ax in axes:
        ax.xaxis.set_major_locator(MaxNLocator(6))
        if factor != 1.0:
            ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x * factor:g}"))
    return f"time in {unit}"


def _titled(result: Result, name: str) -> str:
    """A name with its unit."""
    unit = result.unit(name)
    return name if unit is None else f"{name} in {unit}"


def trajectory(result: Trajectory, names: Sequence[str] | None, axes: Axes | None) -> Figure:
    """Variables over time; a dashed line at every discontinuity, an arrow where a variable has an impulse."""
    own = [name for name in result.names[1:] if not name.startswith("der(")]
    wanted = _chosen(names, result.names[1:], result.states() or own)
    if not wanted:
        raise UsageError("the trajectory has no variables")
    events = result.events
    with _styled():
        if axes is not None:
            figure: Figure = cast("Figure", axes.get_figure())
            panels = [axes] * len(wanted)
        else:
            figure, panels = _panels(len(wanted))
        for at, (name, ax) in enumerate(zip(wanted, panels)):
            color = COLORS[at % len(COLORS)]
            ax.plot(result.t, result[name], color=color, label=name)
            if axes is None:
                ax.set_title(_titled(result, name))
            if len(events) <= 60:
                for event in events:
                    ax.axvline(event["time"], color="#6b7686", linewidth=0.8, linestyle=(0, (4, 4)), zorder=0)
            for event in events:
                strength = event["impulses"].get(name)
                if strength:
                    _arrow(ax, result, name, event["time"], strength[0], color)
        if axes is not None and len(wanted) > 1:
            axes.legend()
        _last_row(panels, _time_axis(panels, result.t))
    return figure


def _arrow(ax: Axes, result: Trajectory, name: str, time: float, area: float, color: str) -> None:
    """An impulse as people draw it."""
    low, high = ax.get_ylim()
    span = high - low
    base = float(result[name][np.searchsorted(result.t, time)])
    tip = base + (0.5 if area > 0 else -0.5) * span
    ax.set_ylim(min(low, tip - 0.15 * span), max(high, tip + 0.15 * span))
    ax.annotate("", (time, tip), (time, base), arrowprops={"arrowstyle": "-|>", "color": color, "linewidth": 1.6})
    ax.annotate(f" area {area:.3g}", (time, tip), color=color, fontsize=8, va="center")


def rank_decisions(check: Check) -> Figure:
    """The gap of every rank decision against the line where a decision becomes doubtful."""
    from ._picture import Picture

    decisions = (check.regularity or {}).get("rank_decisions") or []
    if not decisions:
        raise UsageError("no ranks were decided")
    decisions = sorted(decisions, key=lambda entry: entry["gap"] or 0.0)[:20]
    with _styled():
        figure = Picture(figsize=(7.0, 0.34 * len(decisions) + 1.3), layout="constrained")
        ax = figure.subplots()
        gaps = [max(entry["gap"] or 1.0, 1.0) for entry in decisions]
        colors = ["#b3261e" if gap < 1e3 else COLORS[0] for gap in gaps]
        places = np.arange(len(gaps))
        ax.hlines(places, 1.0, gaps, color=colors, linewidth=2)
        ax.scatter(gaps, places, color=colors, zorder=3, s=22)
        ax.set_xscale("log")
        ax.set_yticks(places, [f"{_short(entry['what'], 44)}: rank {entry['rank']}" for entry in decisions])
        ax.axvline(1e3, color="#6b7686", linewidth=0.8, linestyle=(0, (4, 4)))
        ax.set_xlim(left=1.0)
        ax.set_ylim(-0.7, len(gaps) - 0.3)
        ax.set_xlabel("gap of the decision (left of the dashed line: doubtful)")
        ax.set_title(f"Rank decisions about {check.model}")
        ax.grid(axis="y", visible=False)
    return figure


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 2].rstrip() + " .."


def structure(facts: Structure, kind: str) -> Figure:
    """The block-triangular matrix and the map of constraints."""
    from ._picture import Picture

    kinds = {"both": ["blocks", "constraints"], "blocks": ["blocks"], "constraints": ["constraints"]}.get(kind)
    if kinds is None:
        raise UsageError(f"`{kind}` is no picture of a structure: say \"blocks\", \"constraints\" or \"both\"")
    if kind == "both" and not facts.constraints:
        kinds = ["blocks"]
    if kinds == ["constraints"] and not facts.constraints:
        raise UsageError("the model has no constraints on its states")
    with _styled():
        n = len(facts.unknowns)
        side = float(np.clip(0.2 * n + 2.0, 4.0, 8.0))
        widths = [side if one == "blocks" else float(np.clip(0.25 * len(facts.states) + 3.0, 4.5, 8.0)) for one in kinds]
        figure = Picture(figsize=(sum(widths) + 0.6, side + 0.9), layout="constrained")
        panels = figure.subplots(1, len(kinds), squeeze=False, width_ratios=widths)[0]
        for one, ax in zip(kinds, panels):
            ax.set_anchor("N")
            if one == "blocks":
                _blocks(ax, facts)
            else:
                _constraints(ax, facts)
                figure.legend(handles=ax.get_legend_handles_labels()[0], loc="outside lower right", ncols=3)
    return figure


def _marks(ax: Axes, rows: Any, columns: Any, shape: tuple[int, int], color: str, label: str | None = None) -> None:
    size = float(np.clip(2200.0 / max(shape) ** 1.6, 0.4, 60.0))
    ax.scatter(columns, rows, s=size, marker="s", color=color, linewidths=0, zorder=3, label=label)
    ax.set_xlim(-0.6, shape[1] - 0.4)
    ax.set_ylim(shape[0] - 0.4, -0.6)
    ax.grid(visible=False)
    for side in ("top", "right"):
        ax.spines[side].set_visible(True)


def _blocks(ax: Axes, facts: Structure) -> None:
    from matplotlib.patches import Rectangle

    n = len(facts.unknowns)
    largest = max((length for _, length in facts.blocks), default=1)
    for start, length in facts.blocks:
        if n <= 400 or length > 1:
            shade = "#dbe7fd" if length < max(2, largest) else "#ffe3cf"
            ax.add_patch(Rectangle((start - 0.5, start - 0.5), length, length, facecolor=shade, edgecolor="none", zorder=1))
    _marks(ax, facts.rows, facts.columns, (n, n), "#1c2330")
    ax.set_aspect("equal")
    if n <= 40:
        ax.set_xticks(range(n), [_short(name, 24) for name in facts.unknowns], rotation=90, fontsize=6)
        ax.set_yticks(range(n), [_short(text, 34) for text in facts.equations], fontsize=6)
    else:
        ax.set_xlabel("unknowns in the order of solution")
        ax.set_ylabel("equations")
    ax.set_title(f"{n} unknowns in {len(facts.blocks)} blocks, the largest of {largest}")


def _constraints(ax: Axes, facts: Structure) -> None:
    shape = (len(facts.constraints), len(facts.states))
    orders = np.asarray(facts.constraint_orders)
    row_orders = orders[facts.constraint_rows] if len(facts.constraint_rows) else np.zeros(0, dtype=int)
    for order in sorted(set(orders.tolist())):
        pick = row_orders == order
        color = COLORS[order % len(COLORS)]
        words = {0: "as written", 1: "differentiated once"}.get(order, f"differentiated {order} times")
        _marks(ax, facts.constraint_rows[pick], facts.constraint_columns[pick], shape, color, words)
    if shape[1] <= 60:
        ax.set_xticks(range(shape[1]), [_short(name, 24) for name in facts.states], rotation=90, fontsize=6)
    else:
        ax.set_xlabel("states")
    if shape[0] <= 60:
        ax.set_yticks(range(shape[0]), [_short(text, 34) for text in facts.constraints], fontsize=6)
    ax.set_title(f"{shape[0]} constraints on {shape[1]} states")


def cost(result: Cost) -> Figure:
    """One parameter: the curve. Two: a map with the profile of each parameter beside it. More: the profile of each."""
    from ._picture import Picture

    grid = result.grid
    values = result.cost
    is_likelihood = result.kind == "log-likelihood"
    best = result.best()
    label = {"log-likelihood": "log-likelihood", "prediction-error": "prediction-error cost"}.get(result.kind, "cost")
    with _styled():
        if len(grid) == 2:
            (x_name, x), (y_name, y) = grid.items()
            figure = Picture(figsize=(7.2, 5.6), layout="constrained")
            axes = figure.subplots(2, 2, width_ratios=[4, 1.4], height_ratios=[1.2, 4], sharex="col", sharey="row")
            main = axes[1, 0]
            # Likelihoods are told apart near the top, costs near the bottom.
            shown = -(values - np.nanmax(values)) if is_likelihood else values - np.nanmin(values)
            levels = np.nanquantile(shown, np.linspace(0.0, 1.0, 14) ** 1.5)
            levels = np.unique(levels)
            if len(levels) > 2:
                main.contourf(x, y, shown.T, levels=levels, cmap="Blues_r", alpha=0.85)
                main.contour(x, y, shown.T, levels=levels, colors="#ffffff", linewidths=0.4)
            main.plot(best[x_name], best[y_name], "o", color=COLORS[1], markersize=6)
            main.set_xlabel(x_name)
            main.set_ylabel(y_name)
            main.annotate(
                f"best: {x_name} = {best[x_name]:.4g}, {y_name} = {best[y_name]:.4g}",
                (best[x_name], best[y_name]), (0, 9), textcoords="offset points", ha="center", fontsize=8, color="#1c2330",
                bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "none", "alpha": 0.8},
            )
            reduce = np.nanmax if is_likelihood else np.nanmin
            axes[0, 0].plot(x, reduce(values, axis=1), color=COLORS[0])
            axes[0, 0].set_title(f"{result.model}: {label}, map and profiles")
            axes[0, 0].set_ylabel("best" if is_likelihood else "lowest")
            axes[1, 1].set_xlabel("best" if is_likelihood else "lowest")
            axes[1, 1].plot(reduce(values, axis=0), y, color=COLORS[0])
            axes[1, 1].tick_params(axis="x", rotation=60)
            axes[0, 1].set_visible(False)
            return figure
        figure, panels = _panels(len(grid), height=2.6, share_x=False)
        for at, ((name, points), ax) in enumerate(zip(grid.items(), panels)):
            others = tuple(axis for axis in range(len(grid)) if axis != at)
            profile = values if not others else (np.nanmax if is_likelihood else np.nanmin)(values, axis=others)
            ax.plot(points, profile, color=COLORS[0], marker="o" if len(points) <= 60 else None, markersize=3)
            ax.axvline(best[name], color=COLORS[1], linewidth=1.0, linestyle=(0, (4, 3)))
            ax.set_xlabel(f"{name} (dashed: best of the grid, {best[name]:.4g})")
            ax.set_ylabel(label if not others else f"profile of the {label}")
        panels[0].set_title(f"{result.model}: {label}")
    return figure


def estimation(result: Estimation, names: Sequence[str] | None) -> Figure:
    """Filtered and smoothed signals with bands of two standard deviations."""
    wanted = _chosen(names, result.signals, result.signals)
    if not wanted:
        raise UsageError("the answer has no signals")
    with _styled():
        from ._picture import Picture

        figure = Picture(figsize=(9.0, 2.1 * len(wanted) + 0.9), layout="constrained")
        grid = figure.subplots(len(wanted), 2, sharex=True, squeeze=False, width_ratios=[1.7, 1])
        t = result.t
        for name, (left, right) in zip(wanted, grid):
            parts = [("filtered", name, COLORS[1])]
            if f"{name}.smoothed" in result:
                parts.append(("smoothed", f"{name}.smoothed", COLORS[0]))
            for label, column, color in parts:
                _band(left, t, result[column], result[f"{column}.std"], color, label)
                right.plot(t, result[f"{column}.std"], color=color)
            left.set_title(_titled(result, name))
            right.set_title("standard deviation")
            right.set_ylim(bottom=0.0)
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        label = _time_axis([ax for row in grid for ax in row], t)
        for ax in grid[-1]:
            ax.set_xlabel(label)
    return figure


def _band(ax: Axes, t: Array, mean: Array, std: Array, color: str, label: str) -> None:
    ax.fill_between(t, mean - 2 * std, mean + 2 * std, color=color, alpha=0.18, linewidth=0)
    ax.plot(t, mean, color=color, label=f"{label} (band: 2 std)")


def uncertainty(result: Uncertainty, names: Sequence[str] | None) -> Figure:
    """Mean with the 5 % to 95 % band, and the standard deviation beside it."""
    moving = [name for name in result.variables if float(np.nanmax(result[f"{name}.std"], initial=0.0)) > 0.0]
    own = [name for name in moving if not name.startswith("der(")]
    wanted = _chosen(names, result.variables, own or result.variables, limit=5)
    if not wanted:
        raise UsageError("the answer has no variables")
    with _styled():
        from ._picture import Picture

        figure = Picture(figsize=(9.0, 1.9 * len(wanted) + 0.8), layout="constrained")
        grid = figure.subplots(len(wanted), 2, sharex=True, squeeze=False, width_ratios=[1.5, 1])
        for at, name in enumerate(wanted):
            color = COLORS[at % len(COLORS)]
            left, right = grid[at]
            if f"{name}.q05" in result:
                left.fill_between(result.t, result[f"{name}.q05"], result[f"{name}.q95"], color=color, alpha=0.2, linewidth=0, label="5 % to 95 %")
            left.plot(result.t, result[f"{name}.mean"], color=color, label="mean")
            left.set_title(_titled(result, name))
            right.plot(result.t, result[f"{name}.std"], color=color)
            right.set_title("standard deviation")
            right.set_ylim(bottom=0.0)
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        label = _time_axis([ax for row in grid for ax in row], result.t)
        for ax in grid[-1]:
            ax.set_xlabel(label)
    return figure


def sobol(result: Uncertainty, names: Sequence[str] | None) -> Figure:
    """Shares of the variance at the final time: of a parameter alone, and with its interactions."""
    indices = result.sobol
    # What is not random has no shares.
    random = [name for name in indices if any(entry["total"] for entry in indices[name].values())]
    own = [name for name in random if not name.startswith("der(")]
    wanted = _chosen(names, list(indices), own or random or list(indices), limit=6)
    if not wanted:
        raise UsageError("the answer has no Sobol indices")
    parameters = list(indices[wanted[0]])
    with _styled():
        figure, panels = _panels(len(wanted), height=0.3 * len(parameters) + 0.9, share_x=False)
        places = np.arange(len(parameters))
        for name, ax in zip(wanted, panels):
            first = [indices[name][parameter]["first"] or 0.0 for parameter in parameters]
            total = [indices[name][parameter]["total"] or 0.0 for parameter in parameters]
            ax.barh(places - 0.19, first, 0.36, color=COLORS[0], label="alone (first order)")
            ax.barh(places + 0.19, total, 0.36, color=COLORS[1], label="with interactions (total)")
            ax.set_yticks(places, parameters)
            ax.set_ylim(len(parameters) - 0.4, -0.6)
            ax.set_xlim(0.0, max(1.0, 1.05 * max(total, default=1.0)))
            ax.set_title(name)
            ax.grid(axis="y", visible=False)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
        _last_row(panels, "share of the variance at the final time")
    return figure


def identification(result: Identification) -> Figure:
    """Measured against predicted with a band, the errors, their autocorrelation and their distribution, per measurement."""
    from ._picture import Picture

    fits = result.fits()
    if not fits:
        return parameters(result)
    with _styled():
        figure = Picture(figsize=(9.5, 2.9 * len(fits) + 0.5), layout="constrained")
        grid = figure.subplots(len(fits), 3, squeeze=False, width_ratios=[2.2, 1.2, 1.0])
        for at, fit in enumerate(fits):
            left, middle, right = grid[at]
            step = max(1, len(fit.t) // 2000)
            left.plot(fit.t[::step], fit.measured[::step], ".", color="#59636e", markersize=2.5, label="measured")
            if fit.std is not None:
                left.fill_between(fit.t, fit.predicted - 2 * fit.std, fit.predicted + 2 * fit.std, color=COLORS[0], alpha=0.2, linewidth=0)
            left.plot(fit.t, fit.predicted, color=COLORS[0], label="predicted" + (" (band: 2 std)" if fit.std is not None else ""))
            share = result.document.get("fit_percent", {}).get(fit.name)
            left.set_title(_titled(result, fit.name) + (f": fit {share:.1f} %" if share is not None else ""))
            left.set_xlabel(_time_axis([left], fit.t))
            _autocorrelation(middle, fit.errors)
            middle.set_title("errors: autocorrelation")
            finite = fit.errors[np.isfinite(fit.errors)]
            right.hist(finite, bins=min(40, max(8, len(finite) // 20)), color=COLORS[0], alpha=0.7, density=True)
            if len(finite) > 1 and finite.std() > 0:
                x = np.linspace(finite.min(), finite.max(), 200)
                right.plot(x, np.exp(-0.5 * ((x - finite.mean()) / finite.std()) ** 2) / finite.std() / np.sqrt(2 * np.pi), color=COLORS[1])
            right.set_title("errors: distribution")
            right.set_xlabel(_titled(result, fit.name))
            right.set_yticks([])
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside upper right", ncols=2)
    return figure


def _autocorrelation(ax: Axes, errors: Array) -> None:
    finite = errors[np.isfinite(errors)]
    n = len(finite)
    n_lags = min(30, n - 1)
    if n_lags < 1:
        return
    centred = finite - finite.mean()
    power = float(centred @ centred) or 1.0
    lags = np.arange(n_lags + 1)
    values = np.array([float(centred[: n - lag] @ centred[lag:]) / power for lag in lags])
    bound = 1.96 / np.sqrt(n)
    ax.axhspan(-bound, bound, color="#59636e", alpha=0.15, linewidth=0)
    ax.vlines(lags, 0.0, values, color=COLORS[0], linewidth=1.5)
    ax.scatter(lags, values, color=COLORS[0], s=9, zorder=3)
    ax.axhline(0.0, color="#6b7686", linewidth=0.8)
    ax.set_xlabel("lag in samples")


def parameters(result: Identification) -> Figure:
    """Estimates with their 95 % intervals, relative to the estimate."""
    from ._picture import Picture

    rows = result.parameters
    with _styled():
        figure = Picture(figsize=(6.5, 0.45 * len(rows) + 1.4), layout="constrained")
        ax = figure.subplots()
        for at, row in enumerate(rows):
            estimate = row["estimate"]
            scale = abs(estimate) or 1.0
            low, high = row.get("ci95") or (None, None)
            if low is not None and high is not None:
                ax.plot([(low - estimate) / scale * 100, (high - estimate) / scale * 100], [at, at], color=COLORS[0], linewidth=3, alpha=0.5)
            ax.plot(0.0, at, "o", color=COLORS[0])
        ax.set_yticks(range(len(rows)), [f"{row['name']} = {row['estimate']:.5g}" for row in rows])
        ax.set_ylim(len(rows) - 0.4, -0.6)
        ax.grid(axis="y", visible=False)
        ax.set_xlabel("95 % interval in percent of the estimate")
        ax.set_title(f"Parameters of {result.model}")
    return figure


def bode(result: Linearization, frequencies: npt.ArrayLike | None) -> Figure:
    """Gain in dB and phase in degrees over the angular frequency."""
    if not result.inputs or not result.outputs:
        raise UsageError("there is no pair of input and output to draw")
    sizes = np.abs(result.poles)
    sizes = sizes[sizes > 1e-9 * sizes.max()] if sizes.size and sizes.max() > 0 else np.ones(1)
    if frequencies is None:
        frequencies = np.geomspace(0.01 * sizes.min(), 100 * sizes.max(), 400)
    at = np.asarray(frequencies, dtype=float)
    with _styled():
        figure, (gain, phase) = _panels(2, height=2.4)
        response = result.response(at)
        for output, y in enumerate(result.outputs):
            for column, u in enumerate(result.inputs):
                curve = response[:, output, column]
                if np.any(curve != 0):
                    gain.semilogx(at, 20 * np.log10(np.abs(curve)), label=f"{y} by {u}")
                    phase.semilogx(at, np.degrees(np.unwrap(np.angle(curve))))
        gain.set_ylabel("gain in dB")
        phase.set_ylabel("phase in degrees")
        phase.set_xlabel("angular frequency in rad/s")
        if gain.get_legend_handles_labels()[0]:
            gain.legend()
    return figure
