"""Which joint runs are refused, by what is public alone."""

# slow: left out by `make quick`

from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.run import rehearse
from tests.test_published_outliers import (
    COLUMNS,
    N,
    all_points,
    columns_apart,
    domain,
    question,
    rows_apart,
)


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("width", [30.0, 3e4, 1e9, 1e300])
def test_whether_a_run_is_refused_depends_on_the_declared_ranges_alone(
    partition: str, width: float
) -> None:
    asked = question(partition, n_tables=3, min_shared_tables=1)

    def refused(farthest: float) -> bool:
        points = all_points()
        points[0] = farthest
        tables = rows_apart(points) if partition == "horizontal" else columns_apart(points)
        wide = {
            name: Table(
                Domain(tuple(Numeric(c, -width, width, fill=0.0) for c in table.domain.names)),
                dict(zip(table.domain.names, table.numbers().T, strict=True)),
            )
            for name, table in tables.items()
        }
        try:
            rehearse(asked, wide)
        except (InvalidParameter, ProtocolAborted):
            return True
        return False

    assert refused(0.0) == refused(width)


def test_a_party_with_fewer_records_ends_a_vertical_run() -> None:
    tables = columns_apart(all_points())
    short = Table(domain(("w",)), {"w": np.zeros(N - 1)})
    with pytest.raises(ProtocolAborted, match="different numbers of rows"):
        rehearse(question("vertical"), {**tables, "p1": short})


def test_columns_must_be_each_at_one_party() -> None:
    tables = columns_apart(all_points())
    again = Table(domain(("v",)), {"v": np.zeros(N)})
    with pytest.raises(ProtocolAborted, match="columns are not the question's"):
        rehearse(question("vertical"), {**tables, "p1": again})


def test_rows_of_a_vertical_run_must_all_be_kept() -> None:
    loose = Domain((Numeric("u", 0, 1),))
    with pytest.raises(InvalidParameter, match="keep every row"):
        question("vertical").check(loose)
    with pytest.raises(InvalidParameter, match="column of the question"):
        question("vertical").check(domain(("other",)))


def test_other_ranges_are_other_parameters() -> None:
    tables = rows_apart(all_points())
    wider = Domain(tuple(Numeric(name, -31, 30, fill=0.0) for name in COLUMNS))
    odd = Table(wider, dict(zip(COLUMNS, all_points()[::3].T, strict=True)))
    with pytest.raises(ProtocolAborted, match="other parameters, column ranges or person column"):
        rehearse(question("horizontal"), {**tables, "p2": odd})


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"partition": "diagonal"}, "partition"),
        ({"radius": -1.0}, "radius"),
        ({"far_fraction": 0.0}, "far_fraction"),
        ({"columns": ()}, "columns"),
        ({"n_rounds": 0}, "n_rounds"),
        ({"n_rounds": 10**6}, "n_rounds"),
        ({"n_tables": 0}, "n_tables"),
        ({"min_shared_tables": 13}, "min_shared_tables"),
        ({"hashes_per_table": 0}, "hashes_per_table"),
    ],
)
def test_a_wrong_parameter_is_named(changed: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidParameter, match=parameter):
        question(**{"partition": "horizontal", **changed})


def test_two_players_and_the_papers_own_formulas_are_allowed_for_study() -> None:
    asked = question("horizontal", hashes_per_table=None, n_tables=None, min_shared_tables=None)
    assert set(rehearse(asked, rows_apart(all_points(), 2)).answers) == {"p0", "p1"}
