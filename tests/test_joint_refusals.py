"""Which joint runs are refused, by what is public alone."""

# slow: left out by `make quick`

from typing import Any

import numpy as np
import pytest

from privod.data import Domain, Numeric, Table
from privod.errors import InvalidParameter, ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.held import HeldRecords
from privod.joint.pki import make_identities
from privod.joint.question import Seat
from privod.joint.run import aggregate, rehearse
from privod.joint.transport.channel import Channel
from privod.joint.transport.memory import meet
from tests.test_published_outliers import (
    COLUMNS,
    N,
    all_points,
    columns_apart,
    domain,
    question,
    rows_apart,
)


def seat(name: str, tables: dict[str, Table], channel: Channel, **more: Any) -> Seat:
    return Seat(table=tables[name], domain=tables[name].domain, channel=channel, **more)


def test_a_rerun_with_fewer_parties_is_refused_because_it_would_reveal_the_missing_one() -> None:
    tables = rows_apart(all_points(), 4)
    records = {name: Contributions() for name in tables}

    def run(names: list[str], columns: tuple[str, ...] = COLUMNS) -> dict[str, Any]:
        roster, identities = make_identities(names, "hub", "memory:0")
        asked = question("horizontal", columns=columns)

        def party(channel: Channel) -> Any:
            name = channel.name
            more = {"identity": identities[name], "contributions": records[name]}
            return asked.take_part(seat(name, tables, channel, roster=roster, **more))

        hub = identities["hub"]
        return meet(
            dict.fromkeys(names, party), lambda it: aggregate(asked, it, hub, roster, domain())
        )

    assert len(run(["p0", "p1", "p2", "p3"])) == 4
    for columns in (COLUMNS, COLUMNS[:1], COLUMNS[1:]):
        with pytest.raises(ProtocolAborted, match="would show the rows of p3"):
            run(["p0", "p1", "p2"], columns)


def test_whom_records_went_to_before_is_told_to_their_party_alone() -> None:
    tables = rows_apart(all_points())
    asked = question("horizontal")
    roster, identities = make_identities(sorted(tables), "hub", "memory:0")
    records = {name: Contributions() for name in tables}
    records["p0"].claim(HeldRecords(tables["p0"], COLUMNS), ["p0", "elsewhere"])
    read: dict[str, str] = {}

    def party(channel: Channel) -> None:
        name = channel.name
        more = {"identity": identities[name], "contributions": records[name]}
        try:
            asked.take_part(seat(name, tables, channel, roster=roster, **more))
        except ProtocolAborted as problem:
            read[name] = str(problem)
            raise

    with pytest.raises(ProtocolAborted, match="would show the rows of elsewhere"):
        meet(
            dict.fromkeys(tables, party),
            lambda it: aggregate(asked, it, identities["hub"], roster, domain()),
        )
    assert "elsewhere" in read["p0"]
    assert read["p1"] == read["p2"]
    assert read["p1"].startswith("'p0' ended the run: its ledger of runs refuses")


def test_the_same_rows_are_known_again_in_another_order() -> None:
    table = rows_apart(all_points())["p0"]
    turned = Table(domain(), dict(zip(COLUMNS, table.numbers()[::-1].T, strict=True)))
    held, other = HeldRecords(table, COLUMNS), HeldRecords(turned, COLUMNS)
    assert held.marks() == other.marks()


@pytest.mark.parametrize("partition", ["horizontal", "vertical"])
@pytest.mark.parametrize("width", [30.0, 3e4, 1e9, 1e300])
def test_whether_a_run_is_refused_depends_on_the_declared_ranges_alone(
    partition: str, width: float
) -> None:
    asked = question(partition)

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
    with pytest.raises(ProtocolAborted, match="different numbers of records"):
        rehearse(question("vertical"), {**tables, "p1": short})


def test_columns_must_be_each_at_one_party() -> None:
    tables = columns_apart(all_points())
    again = Table(domain(("v",)), {"v": np.zeros(N)})
    with pytest.raises(ProtocolAborted, match="each at one party"):
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
