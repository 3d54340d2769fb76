"""Figures that notebooks show by themselves."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class Picture(Figure):
    """A figure that belongs to no window: notebooks show it, scripts save it."""

    def _repr_png_(self) -> bytes:
        content = io.BytesIO()
        self.savefig(content, format="png", dpi=110, bbox_inches="tight")
        return content.getvalue()
