"""Score new records against a release that was carried away; needs no curator and costs nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from privod.cli.app import AsJson, app
from privod.cli.output import emit, table, words
from privod.errors import InvalidData, InvalidParameter, PrivodError

if TYPE_CHECKING:
    import numpy as np
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from privod.outliers.grid.grid import Grid
    from privod.queries.grid_knn.release import NoisyGrid
    from privod.queries.marginals.release import NoisyMarginals

__all__ = ["score"]

MOST_SHOWN = 10


@app.command()
def score(
    records: Annotated[Path, typer.Argument(help="The new records: a .csv or .parquet file.")],
    grid: Annotated[
        Path,
        typer.Option(help="A release of grid-knn or marginals: its .privod or .json file."),
    ],
    target: Annotated[
        float, typer.Option(help="About which share of the reference to flag.")
    ] = 0.1,
    n_neighbors: Annotated[int, typer.Option(help="Which neighbor gives the score of a grid.")] = 5,
    out: Annotated[Path | None, typer.Option(help="Also write every score here, as CSV.")] = None,
    picture: Annotated[
        Path | None, typer.Option(help="Also draw the records and their scores: .svg or .png.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Score new records against a released grid: free, offline, higher is more outlying.

    A record outside the ranges is scored at their border, plus how far outside it lies.
    """
    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise InvalidParameter("picture", "must end in .svg or .png", str(picture), "Rename it.")
    released = _released(grid)
    names = [column.name for column in _geometry(released).columns]
    points = _points(records, names)
    scores, limit, hidden = _scored(released, points, target, n_neighbors)
    flagged = scores > limit
    if out is not None:
        with out.open("w", newline="", encoding="utf-8") as file:
            written = csv.writer(file)
            written.writerow(["row", "score", "stands_out"])
            written.writerows(
                [place, f"{value:.9g}", int(value > limit)] for place, value in enumerate(scores, 1)
            )
    if picture is not None:
        from privod import pictures

        drawn = _drawn(released, points, target, n_neighbors)
        picture.write_bytes(
            pictures.svg(drawn) if picture.suffix == ".svg" else pictures.png(drawn)
        )
    order = (-scores).argsort(kind="stable")[:MOST_SHOWN]
    shown = [
        [str(place + 1), f"{scores[place]:.4g}", *(f"{x:.4g}" for x in points[place][:6])]
        for place in order.tolist()
    ]
    data = {
        "limit": limit,
        "scores": scores.tolist(),
        "stands_out": flagged.tolist(),
        "guarantee": released.guarantee.to_json(),
        "seeded": released.seeded,
        "hidden_share": hidden,
    }
    warning = "Made with a test seed: it protects nobody." if released.seeded else ""
    doubt = f"About {hidden:.0%} of the reference cannot be told from noise: the limit is a guess."
    emit(
        data,
        as_json,
        words(
            f"{int(flagged.sum())} of {len(scores)} records stand out (score above {limit:.4g}).",
            "bold",
        ),
        table("The most outlying", ["row", "score", *names[:6]], shown),
        words(f"About the reference: {released.guarantee.sentence()} Scoring cost nothing more."),
        words(doubt if hidden > target else ""),
        words(warning, "red"),
    )


def _released(path: Path) -> NoisyGrid | NoisyMarginals:
    from privod.queries.catalog import release_from_json
    from privod.queries.grid_knn.release import NoisyGrid
    from privod.queries.marginals.release import NoisyMarginals
    from privod.queries.release_file import kind_of_file

    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    if path.suffix != ".json":
        return NoisyGrid.load(path) if kind_of_file(path) == "grid" else NoisyMarginals.load(path)
    try:
        value = release_from_json(json.loads(path.read_text(encoding="utf-8"))).value
    except (PrivodError, OSError):
        raise
    except Exception:  # a file from anywhere can be wrong in any way
        raise InvalidData(f"{str(path)!r} is not a release of privod.") from None
    if not isinstance(value, NoisyGrid | NoisyMarginals):
        way_out = "Ask for grid-knn or marginals."
        raise InvalidParameter("grid", "must be a release that can score", str(path), way_out)
    return value


def _geometry(released: NoisyGrid | NoisyMarginals) -> Grid:
    from privod.outliers.grid.grid import Grid
    from privod.queries.grid_knn.release import NoisyGrid

    if isinstance(released, NoisyGrid):
        return released.grid
    return Grid(released.columns, released.counts.shape[1])


def _scored(
    released: NoisyGrid | NoisyMarginals,
    points: NDArray[np.float64],
    target: float,
    n_neighbors: int,
) -> tuple[NDArray[np.float64], float, float]:
    """Scores, the limit beyond which they stand out, and the share of the reference in noise."""
    from privod.queries.grid_knn.release import NoisyGrid

    outside = _geometry(released).overshoot(points)
    if isinstance(released, NoisyGrid):
        limit = float(released.threshold(target, n_neighbors).graded[0])
        scores = released.scores(points, n_neighbors).graded + outside
        return scores, limit, released.hidden_share
    return (
        released.scores(points).density + outside,
        float(released.threshold(target).density[0]),
        0,
    )


def _drawn(
    released: NoisyGrid | NoisyMarginals,
    points: NDArray[np.float64],
    target: float,
    n_neighbors: int,
) -> Figure:
    """The records upon a grid of two columns; of any other release, how their scores are spread."""
    from privod.pictures.grid_knn import draw_score_histogram, draw_scored
    from privod.queries.grid_knn.release import NoisyGrid

    if isinstance(released, NoisyGrid) and released.grid.n_axes == 2:
        return draw_scored(released, points, n_neighbors, target)
    scores, limit, _ = _scored(released, points, target, n_neighbors)
    return draw_score_histogram(scores, limit)


def _points(path: Path, names: list[str]) -> NDArray[np.float64]:
    """Read the columns of the asker's own records, in order; every row must be complete."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    readers = {".csv": pyarrow.csv.read_csv, ".parquet": pyarrow.parquet.read_table}
    if path.suffix.lower() not in readers:
        way_out = "Convert it to CSV or Parquet."
        raise InvalidParameter("records", "must end in .csv or .parquet", path.name, way_out)
    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    try:
        frame = readers[path.suffix.lower()](path)
        absent = [name for name in names if name not in frame.column_names]
        if absent:
            raise InvalidData(f"{str(path)!r} has no column {', '.join(map(repr, absent))}.")
        columns = [frame[name].cast(pa.float64()).to_numpy() for name in names]
    except pa.ArrowException:
        message = f"{str(path)!r} cannot be read as numbers in {', '.join(names[:6])}."
        raise InvalidData(f"{message} Check its header and cells.") from None
    points = np.column_stack(columns) if len(frame) else np.empty((0, len(names)))
    missing = np.flatnonzero(~np.isfinite(points).all(axis=1))
    if len(missing):
        raise InvalidData(f"Row {missing[0] + 1} of the new records misses a value. Fill it first.")
    return points
