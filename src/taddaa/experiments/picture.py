"""How the studies' figures look: one size, one set of colours that colour-blind readers tell apart, one way to lay out panels."""

from typing import TYPE_CHECKING, Any

from ..errors import require
from ..show.plot import BLUE, GREEN, GREY, ORANGE, PURPLE, VERMILION
from .study import OURS, PAPER

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["BLUE", "GREEN", "GREY", "KERNEL_STYLE", "LABEL", "ORANGE", "PURPLE", "STYLE", "VERMILION", "grid"]

LABEL = {PAPER: "paper preset", OURS: "our defaults"}
STYLE: dict[str, dict[str, Any]] = {  # how a method is drawn: colour, and marker and line for print in grey
    PAPER: {"color": BLUE, "marker": "o", "linestyle": "-", "markersize": 4},
    OURS: {"color": VERMILION, "marker": "D", "linestyle": "--", "markersize": 4},
}
KERNEL_STYLE: dict[str, dict[str, Any]] = {
    "barker": {"color": BLUE, "linestyle": "-"},
    "mala": {"color": GREEN, "linestyle": "--"},
    "rwmh": {"color": ORANGE, "linestyle": "-."},
    "hmc": {"color": PURPLE, "linestyle": ":"},
}


def grid(count: int, columns: int | None = None, width: float = 2.6, height: float = 2.2) -> "tuple[Figure, list[Axes]]":
    """A figure of `count` panels, each width × height inches, in rows of `columns` (4 at most by default)."""
    columns = columns or min(count, 4)
    rows = -(-count // columns)
    # Not pyplot's: figures that a caller forgets to close would pile up there.
    figure = require("matplotlib.figure", "plot").Figure(figsize=(width * columns + 0.3, height * rows + 0.4), layout="constrained")
    panels = list(figure.subplots(rows, columns, squeeze=False).ravel())
    for axes in panels:
        axes.spines[["top", "right"]].set_visible(False)
    for axes in panels[count:]:
        axes.remove()
    return figure, panels[:count]
