"""One look for every picture: figures without a global state, as SVG or PNG bytes."""

from __future__ import annotations

import io
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
from numpy.typing import NDArray

from privod.errors import Unavailable

try:
    import matplotlib as mpl
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.text import Text
    from matplotlib.ticker import FixedLocator
except ImportError:
    raise Unavailable(
        "Pictures are drawn by matplotlib, which is not installed. Install privod[pictures]."
    ) from None

ACCENT = "#2563a8"  # what was released
WARM = "#c2571a"  # what stands out
MUTED = "#9aa4b1"  # what is there for comparison
INK = "#1d2733"
MOST_TICKS = 16
LONGEST_TICK, LONGEST_AXIS_NAME = 32, 48  # letters, the name of an upright axis
LETTERS_AN_INCH = 9  # of a title
MOST_LABELS = 30  # of records, in one picture
MOST_ROWS = 30  # columns of a release that a picture shows, one below the other

LOOK: Any = {
    "font.family": "sans-serif",
    "font.size": 10,
    "text.parse_math": False,  # also for ticks, which are made while drawing
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": MUTED,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.titlesize": 11,
    "axes.titlelocation": "left",
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e8ee",
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": "white",
    "svg.fonttype": "none",  # text stays text: small files, readable by screen readers
    "svg.hashsalt": "privod",  # equal pictures are equal bytes
}
_settings = threading.Lock()  # matplotlib's settings are global, and a server draws in threads
_titles: ContextVar[Mapping[str, str] | None] = ContextVar("privod_column_titles", default=None)


@contextmanager
def columns_called(titles: Mapping[str, str]) -> Iterator[None]:
    """Let everything drawn inside call columns by these titles, where they have one."""
    token = _titles.set(titles)
    try:
        yield
    finally:
        _titles.reset(token)


def called(column: str) -> str:
    """What people call a column in this picture: its title, or its name."""
    return (_titles.get() or {}).get(column, column)


def blank(title: str, width: float = 7.0, height: float = 4.0) -> tuple[Figure, Axes]:
    """Return an empty figure in the house's look, with its one pair of axes."""
    with _settings, mpl.rc_context(LOOK):
        figure = Figure(figsize=(width, height), layout="constrained")
        axes = figure.add_subplot()
        axes.set_title(title)
    return figure, axes


def labels_beside(
    title: str, records: Sequence[Sequence[Any]], labels: Sequence[bool]
) -> tuple[Figure, Axes]:
    """A figure with labeled records on the left; return it with the empty axes on its right."""
    shown = labels[:MOST_LABELS]
    height = max(3.0, 1.4 + 0.28 * len(shown))
    figure, axes = blank(title, width=10.0, height=height)
    names = [", ".join(_short(entry) for entry in row[:4]) for row in records[:MOST_LABELS]]
    colors = [WARM if one else MUTED for one in shown]
    axes.scatter([int(one) for one in shown], range(len(shown)), s=120, c=colors)
    axes.set_yticks(range(len(shown)), names)
    axes.set_xticks([0, 1], ["no", "yes"])
    axes.set_xlim(-0.5, 1.5)
    axes.set_ylim(len(shown) - 0.5, -0.5)
    return figure, beside(figure, axes)


def beside(figure: Figure, axes: Axes) -> Axes:
    """Move the axes to the left half of their figure; return empty ones in its right half."""
    with _settings, mpl.rc_context(LOOK):
        grid = figure.add_gridspec(1, 2)
        axes.set_subplotspec(grid[0])
        return figure.add_subplot(grid[1])


def _short(entry: Any) -> str:
    return f"{entry:.4g}" if isinstance(entry, float) else str(entry)


def summed(counts: NDArray[np.int64], bars: int) -> NDArray[np.int64]:
    """Counts of neighboring bins added up, so that so many bars remain."""
    added: NDArray[np.int64] = np.add.reduceat(counts, np.arange(bars) * len(counts) // bars)
    return added


def few_ticks(names: Sequence[str]) -> tuple[NDArray[np.int64], list[str]]:
    """Where a row of cells is named: everywhere, or at evenly spaced cells of many."""
    step = -(-len(names) // MOST_TICKS) or 1
    places = np.arange(0, len(names), step, dtype=np.int64)
    return places, list(names[::step])


def shorten_texts(figure: Figure) -> Figure:
    """Cut names that are longer than there is room for, in the middle; returns the figure."""
    titled = [axes for axes in figure.axes if axes.get_title("left") or axes.get_title("center")]
    specs = [axes.get_subplotspec() for axes in titled]
    beside = max((spec.get_gridspec().ncols for spec in specs if spec is not None), default=1)
    letters = int(LETTERS_AN_INCH * figure.get_figwidth() / max(1, beside))
    for axes in figure.axes:
        for place in ("left", "center"):
            title = axes.get_title(place)
            if len(title) > letters:
                axes.set_title(shortened(title, letters), loc=place)
        for axis, longest in ((axes.xaxis, letters), (axes.yaxis, LONGEST_AXIS_NAME)):
            axis.set_label_text(shortened(axis.get_label_text(), longest))
            if isinstance(axis.get_major_locator(), FixedLocator):
                told = [label.get_text() for label in axis.get_ticklabels()]
                if any(len(text) > LONGEST_TICK for text in told):
                    axis.set_ticklabels([shortened(text, LONGEST_TICK) for text in told])
    return figure


def shortened(text: str, longest: int) -> str:
    """A text of at most so many letters: its beginning and its end."""
    if len(text) <= longest:
        return text
    end = longest // 3
    return f"{text[: longest - end - 1]}…{text[-end:]}"


def svg(figure: Figure) -> bytes:
    """The figure as an SVG file."""
    return _written(figure, "svg", {"Date": None, "Creator": "privod"})


def png(figure: Figure) -> bytes:
    """The figure as a PNG file."""
    return _written(figure, "png", {"Software": "privod"})


def _written(figure: Figure, kind: str, metadata: dict[str, Any]) -> bytes:
    file = io.BytesIO()
    for axes in figure.axes:
        for axis in (axes.xaxis, axes.yaxis):
            if axis.get_scale() != "linear":  # powers of ten would be written as formulas
                axis.set_major_formatter("{x:g}")
                axis.set_minor_formatter("")
    for text in figure.findobj(Text):
        text.set_parse_math(False)  # a column named "$10-$20" is a name, not a formula
    with _settings, mpl.rc_context(LOOK):
        figure.savefig(file, format=kind, dpi=150, metadata=metadata)
    return file.getvalue()
