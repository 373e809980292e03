"""Score new records against a release that was carried away; needs no curator and costs nothing."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

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
    from privod.queries.private_detector.release import NoisyProfile

__all__ = ["released_from", "score"]

MOST_SHOWN = 10
MOST_REASONS = 3


@app.command()
def score(
    records: Annotated[Path, typer.Argument(help="The new records: a .csv or .parquet file.")],
    grid: Annotated[
        Path,
        typer.Option(
            help="A release of grid-knn, marginals or private-detector: its .privod or .json file."
        ),
    ],
    target: Annotated[
        float, typer.Option(help="About which share of the reference to flag.")
    ] = 0.1,
    n_neighbors: Annotated[int, typer.Option(help="Which neighbor gives the score of a grid.")] = 5,
    why: Annotated[
        bool, typer.Option(help="Say which columns made the scores (private-detector only).")
    ] = False,
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
    released = released_from(grid)
    profile = _is_profile(released)
    if why and not profile:
        way_out = "Ask for private-detector."
        raise InvalidParameter("why", "needs a release of private-detector", str(grid), way_out)
    columns = released.layout.columns if profile else _geometry(released).columns
    names = [column.name for column in columns]
    points = _points(records, columns, missing=profile)
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
    reasons = _reasons(released, points[order]) if why else [""] * len(order)
    shown = [
        [
            str(place + 1),
            f"{scores[place]:.4g}",
            *([reason] if why else []),
            *(_cell(x, column) for x, column in zip(points[place][:6], columns, strict=False)),
        ]
        for place, reason in zip(order.tolist(), reasons, strict=True)
    ]
    data = {
        "limit": limit,
        "scores": scores.tolist(),
        "stands_out": flagged.tolist(),
        "guarantee": released.guarantee.to_json(),
        "seeded": released.seeded,
        "hidden_share": hidden,
    }
    if why:
        explained = released.explain(points)
        data["why"] = {"columns": list(explained.columns), "shares": explained.shares.tolist()}
    warning = "Made with a test seed: it protects nobody." if released.seeded else ""
    doubt = f"About {hidden:.0%} of the reference cannot be told from noise: the limit is a guess."
    emit(
        data,
        as_json,
        words(
            f"{int(flagged.sum())} of {len(scores)} records stand out (score above {limit:.4g}).",
            "bold",
        ),
        table("The most outlying", ["row", "score", *(["why"] if why else []), *names[:6]], shown),
        words(f"About the reference: {released.guarantee.sentence()} Scoring cost nothing more."),
        words(doubt if hidden > target else ""),
        words(warning, "red"),
    )


def released_from(path: Path) -> Any:
    """The release in a file, of one of the questions that score."""
    from privod.queries.catalog import release_from_json
    from privod.queries.grid_knn.release import NoisyGrid
    from privod.queries.marginals.release import NoisyMarginals
    from privod.queries.private_detector.release import NoisyProfile
    from privod.queries.release_file import kind_of_file

    if not path.is_file():
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.")
    if path.suffix != ".json":
        kinds: dict[str, Any] = {
            "grid": NoisyGrid,
            "marginals": NoisyMarginals,
            "profile": NoisyProfile,
        }
        found: NoisyGrid | NoisyMarginals | NoisyProfile = kinds[kind_of_file(path)].load(path)
        return found
    try:
        value = release_from_json(json.loads(path.read_text(encoding="utf-8"))).value
    except (PrivodError, OSError):
        raise
    except Exception:  # a file from anywhere can be wrong in any way
        raise InvalidData(f"{str(path)!r} is not a release of privod.") from None
    if not isinstance(value, NoisyGrid | NoisyMarginals | NoisyProfile):
        way_out = "Ask for grid-knn, marginals or private-detector."
        raise InvalidParameter("grid", "must be a release that can score", str(path), way_out)
    return value


def _is_profile(released: Any) -> bool:
    from privod.queries.private_detector.release import NoisyProfile

    return isinstance(released, NoisyProfile)


def _reasons(released: NoisyProfile, points: NDArray[np.float64]) -> list[str]:
    """The columns that add most to each record's score, with their shares of it."""
    explained = released.explain(points)
    texts = []
    for shares in explained.shares:
        order = (-shares).argsort(kind="stable")[:MOST_REASONS].tolist()
        whole = max(float(shares.sum()), 1e-12)
        said = [f"{explained.columns[at]} {shares[at] / whole:.0%}" for at in order]
        texts.append(", ".join(said))
    return texts


def _cell(value: float, column: Any) -> str:
    """A value as it was written: a category by its name, a missing one as a dash."""
    if value != value:  # NaN
        return "-"
    values = getattr(column, "values", None)
    return f"{value:.4g}" if values is None else str(values[int(value)])


def _geometry(released: NoisyGrid | NoisyMarginals) -> Grid:
    from privod.outliers.grid.grid import Grid
    from privod.queries.grid_knn.release import NoisyGrid

    if isinstance(released, NoisyGrid):
        return released.grid
    return Grid(released.columns, released.counts.shape[1])


def _scored(
    released: Any,
    points: NDArray[np.float64],
    target: float,
    n_neighbors: int,
) -> tuple[NDArray[np.float64], float, float]:
    """Scores, the limit beyond which they stand out, and the share of the reference in noise."""
    from privod.queries.grid_knn.release import NoisyGrid

    if _is_profile(released):
        return released.scores(points), released.threshold(target), 0
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
    released: Any,
    points: NDArray[np.float64],
    target: float,
    n_neighbors: int,
) -> Figure:
    """The records upon a grid of two columns; of any other release, how their scores are spread."""
    from privod.pictures.grid_knn import draw_score_histogram, draw_scored
    from privod.queries.grid_knn.release import NoisyGrid

    if _is_profile(released):
        from privod.pictures.private_detector import draw_explained

        return draw_explained(released, points)
    if isinstance(released, NoisyGrid) and released.grid.n_axes == 2:
        return draw_scored(released, points, n_neighbors, target)
    scores, limit, _ = _scored(released, points, target, n_neighbors)
    return draw_score_histogram(scores, limit)


def _points(path: Path, columns: tuple[Any, ...], missing: bool) -> NDArray[np.float64]:
    """Read the columns of the asker's own records, in order; rows may miss values or must not."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    names = [column.name for column in columns]
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
        read = [_read(frame[column.name], column) for column in columns]
    except pa.ArrowException:
        message = f"{str(path)!r} cannot be read as numbers in {', '.join(names[:6])}."
        raise InvalidData(f"{message} Check its header and cells.") from None
    points = np.column_stack(read) if len(frame) else np.empty((0, len(names)))
    wrong = np.isinf(points) if missing else ~np.isfinite(points)
    absent_in = np.flatnonzero(wrong.any(axis=1))
    if len(absent_in):
        raise InvalidData(
            f"Row {absent_in[0] + 1} of the new records misses a value. Fill it first."
        )
    return points


def _read(column: Any, declared: Any) -> Any:
    """A column's numbers, or the places of its categories; NaN where nothing known is said."""
    import numpy as np
    import pyarrow as pa

    values = getattr(declared, "values", None)
    if values is None:
        return column.cast(pa.float64()).to_numpy()
    places = {value: float(place) for place, value in enumerate(values)}
    places |= {str(value): place for value, place in places.items()}
    return np.array([places.get(value, np.nan) for value in column.to_pylist()])
