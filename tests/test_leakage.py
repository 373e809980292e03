"""The attacks on the published protocols: they succeed there and fail against the sealed ones.

Every attacker is honest but curious: it takes part as told and then uses only what it received, its
own rows, and what is public.
"""

from collections import defaultdict
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.decomposition import FastICA

from privod.data import Domain, Numeric, Table
from privod.joint import horizontal as joint_horizontal
from privod.joint import vertical as joint_vertical
from privod.joint.counters import count_slots, others_in_bins, publishable, slots_of
from privod.joint.published import protocols as joint_paper
from privod.joint.published.union import point_of
from privod.joint.question import DEPTH, JointOutliers
from privod.joint.run import rehearse
from privod.joint.sharing import from_fixed, masked
from privod.joint.transport.channel import Channel
from privod.outliers.hashing.outliers import crowd_limit
from privod.outliers.hashing.tables import HashFamily, draw_family

Views = dict[str, dict[str, list[bytes]]]
SIDE = 12.0


def test_next_to_its_own_crowd_a_party_reads_even_one_record_of_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(1)
    domain = Domain((Numeric("x", 0, 1000), Numeric("y", 0, 1000)))
    seen: list[NDArray[np.int64]] = []
    plain = others_in_bins

    def spied(
        published: NDArray[np.uint32],
        own: NDArray[np.uint32],
        slots: NDArray[np.int64],
        rows: NDArray[np.int64],
    ) -> NDArray[np.int64]:
        if own.sum() == 20 * DEPTH * 101:  # the curious party, which knows all of this
            mine = np.array([np.bincount(line[60:, 0]).argmax() for line in slots])
            tables = np.arange(len(slots))
            seen.append(published[tables, 0, mine].astype(np.int64) - own[tables, 0, mine])
        return plain(published, own, slots, rows)

    def table(n_elsewhere: int, near: NDArray[np.float64]) -> Table:
        rows = np.vstack([generator.uniform(0, 200, (n_elsewhere, 2)), near])
        return Table(domain, {"x": rows[:, 0], "y": rows[:, 1]})

    monkeypatch.setattr(joint_horizontal, "others_in_bins", spied)
    asked = JointOutliers(
        partition="horizontal", radius=40.0, far_fraction=0.85, columns=("x", "y"), n_tables=20
    )
    for target in (np.empty((0, 2)), np.array([[500.0, 500.0]])):
        crowd = generator.normal(500, 3, (41, 2))
        rehearse(
            asked, {"p0": table(60, crowd), "p1": table(90, target), "p2": table(110, target[:0])}
        )
    absent, present = seen
    assert (present == 1).sum() >= 15  # what docs/leakage.md says it can
    assert (absent == 0).sum() >= 15


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Views:
    """What every party receives, by party and step."""
    seen: Views = defaultdict(lambda: defaultdict(list))
    plain = Channel.trade

    def trade(self: Channel, label: str, payload: bytes, most: int) -> bytes:
        answer = plain(self, label, payload, most)
        seen[self.name][label].append(answer)
        return answer

    monkeypatch.setattr(Channel, "trade", trade)
    return seen


def isolated_and_crowd(seed: int) -> tuple[NDArray[np.float64], dict[str, Table]]:
    """Three parties with a crowd each; the second and third also have isolated records."""
    generator = np.random.default_rng(seed)
    places = np.array([[-9.0, -8], [9, 7], [-8, 8.5], [8, -9], [0, 10], [10, 0.5]])
    tables = {}
    domain = Domain((Numeric("x", -SIDE, SIDE), Numeric("y", -SIDE, SIDE)))
    for number, alone in enumerate((places[:0], places[:3], places[3:])):
        rows = np.vstack([0.3 * generator.normal(size=(200, 2)), alone])
        tables[f"p{number}"] = Table(domain, {"x": rows[:, 0], "y": rows[:, 1]})
    return places, tables


def horizontal(**changed: Any) -> JointOutliers:
    parameters: dict[str, Any] = {
        "partition": "horizontal",
        "radius": 1.5,
        "far_fraction": 0.9,
        "columns": ("x", "y"),
        "n_tables": 24,
        "hashes_per_table": 2,
        "min_shared_tables": 16,
    }
    return JointOutliers(**{**parameters, **changed})


def grid() -> NDArray[np.float64]:
    """Everywhere a record could be."""
    steps = np.linspace(-SIDE, SIDE, 161)
    return np.array([(x, y) for x in steps for y in steps])


def located(scores: NDArray[np.int64], places: NDArray[np.float64]) -> list[float]:
    """How far the nearest suspicious spot is from each isolated record."""
    spots = grid()[scores >= 0.85 * 24]
    if len(spots) == 0:
        return [np.inf] * len(places)
    return [float(np.linalg.norm(spots - place, axis=1).min()) for place in places]


def test_published_bin_counts_locate_the_others_isolated_records(views: Views) -> None:
    places, tables = isolated_and_crowd(1)
    asked = horizontal(protocol="paper")
    rehearse(asked, tables)
    view = views["p0"]  # which has no isolated record itself
    family = draw_family(asked.plan(606), 2, view["hash parameters"][0], origin=np.zeros(2))
    opened = view["opening the union"][-1]
    where = {opened[at : at + 32]: at // 32 for at in range(0, len(opened), 32)}
    counts = np.frombuffer(view["bin counts"][0], np.uint64)
    keys = family.keys(grid())
    lonely = np.zeros(keys.shape, bool)
    for table, line in enumerate(keys):
        found, inverse = np.unique(line, return_inverse=True)
        labels = [table.to_bytes(4, "big") + int(key).to_bytes(8, "big") for key in found]
        at = [where.get(point_of(label), -1) for label in labels]
        alone = np.array([place >= 0 and counts[place] <= 2 for place in at])
        lonely[table] = alone[inverse]
    errors = located(lonely.sum(axis=0), places)
    assert sum(error < 0.5 for error in errors) >= 5  # w is 2: found to a quarter of it


def test_sealed_counts_show_nothing_where_isolated_records_are(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    places, tables = isolated_and_crowd(1)
    known: dict[str, Any] = {}
    module: Any = joint_horizontal
    plain_slots, plain_family = module.slots_of, module.draw_family

    def slots(mixed: NDArray[np.uint32], key: bytes, bits: int) -> NDArray[np.int64]:
        known.update(key=key, bits=bits)  # every party has it
        found: NDArray[np.int64] = plain_slots(mixed, key, bits)
        return found

    def family(*arguments: Any, **named: Any) -> HashFamily:
        known["family"] = plain_family(*arguments, **named)
        drawn: HashFamily = known["family"]
        return drawn

    monkeypatch.setattr(joint_horizontal, "slots_of", slots)
    monkeypatch.setattr(joint_horizontal, "draw_family", family)
    rehearse(horizontal(), tables)
    bits, key, drawn = known["bits"], known["key"], known["family"]
    shape = (24, DEPTH, 1 << bits)
    published = np.frombuffer(views["p0"]["bin counts"][0], np.uint32).reshape(shape)
    assert not ((published > 0) & (published < 10)).any()

    probed = slots_of(drawn.mixed_codes(grid()), key, bits)
    tables_, depth = np.arange(24)[:, None, None], np.arange(DEPTH)[None, None, :]
    shown = published[tables_, depth, probed].min(axis=2)
    lonely = (shown > 0) & (shown <= 12)  # the best an attacker can now look for
    errors = located(lonely.sum(axis=0), places)
    assert all(error > 1 for error in errors)

    # and but for a crowd's bin that one of them happens to share, they leave no trace at all
    rows = np.vstack([table.numbers()[:200] for table in tables.values()])
    without = count_slots(slots_of(drawn.mixed_codes(rows), key, bits), bits).astype(np.int64)
    limit = crowd_limit(0.9, 606)
    changed = np.count_nonzero(publishable(without, limit) != published)
    assert changed <= 12  # of the 288 slots that six records in 24 tables stand in


def vertical_tables(n: int) -> tuple[NDArray[np.float64], dict[str, Table]]:
    """The first party attacks; the others' four columns are independent and not Gaussian."""
    generator = np.random.default_rng(3)
    hidden = generator.laplace(size=(n, 4)).clip(-20, 20)
    own = generator.normal(size=(n, 1)).clip(-20, 20)
    columns = {"p0": (("a",), own), "p1": (("b", "c"), hidden[:, :2])}
    columns["p2"] = (("d", "e"), hidden[:, 2:])
    return hidden, {
        name: Table(
            Domain(tuple(Numeric(c, -20, 20, fill=0.0) for c in names)),
            dict(zip(names, values.T, strict=True)),
        )
        for name, (names, values) in columns.items()
    }


def vertical(**changed: Any) -> JointOutliers:
    parameters: dict[str, Any] = {
        "partition": "vertical",
        "radius": 4.0,
        "far_fraction": 0.95,
        "columns": ("a", "b", "c", "d", "e"),
        "n_tables": 12,
        "min_shared_tables": 4,
    }
    return JointOutliers(**{**parameters, **changed})


def best_correlations(
    found: NDArray[np.float64], hidden: NDArray[np.float64]
) -> NDArray[np.float64]:
    """For each hidden column the best absolute correlation with anything that was found."""
    together = np.corrcoef(found.T, hidden.T)
    best: NDArray[np.float64] = np.abs(together[: found.shape[1], found.shape[1] :]).max(axis=0)
    return best


def test_opened_projections_give_the_columns_and_every_value(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    hidden, tables = vertical_tables(3000)
    own: list[NDArray[np.float64]] = []
    plain = joint_paper.own_directions

    def directions(plan: Any, n_columns: int, seed: bytes) -> NDArray[np.float64]:
        drawn = plain(plan, n_columns, seed)
        if n_columns == 1:
            own.append(drawn)  # the attacker's own
        return drawn

    monkeypatch.setattr(joint_paper, "own_directions", directions)
    rehearse(vertical(protocol="paper"), tables)
    opened = from_fixed(np.frombuffer(views["p0"]["projections"][0], np.uint64)).reshape(48, -1)
    others = opened - own[0] @ tables["p0"].numbers().T

    distances = np.linalg.norm(others[:, :50, None] - others[:, None, :50], axis=0) / np.sqrt(48)
    truth = np.linalg.norm(hidden[:50, None] - hidden[None, :50], axis=2)
    apart = truth > 0
    assert np.abs(distances[apart] / truth[apart] - 1).mean() < 0.25  # nothing known: distances

    sources = FastICA(4, random_state=0, max_iter=1000).fit_transform(others.T)
    assert (best_correlations(sources, hidden) > 0.98).all()  # nothing known: the columns

    mixing = others[:, :4] @ np.linalg.inv(hidden[:4].T)  # four records known: every value
    recovered = np.linalg.lstsq(mixing, others, rcond=None)[0].T
    assert np.abs(recovered - hidden).max() < 1e-2


def test_sealed_tags_give_nobody_a_value(views: Views, monkeypatch: pytest.MonkeyPatch) -> None:
    hidden, tables = vertical_tables(3000)
    sums: list[NDArray[np.uint64]] = []
    module: Any = joint_vertical
    plain = module.bin_records

    def bins(keys: NDArray[np.uint64]) -> Any:
        sums.append(keys)
        return plain(keys)

    monkeypatch.setattr(joint_vertical, "bin_records", bins)
    rehearse(vertical(), tables)
    for name in tables:  # parties receive row numbers and nothing else
        assert views[name]["tags"] == [b""]
    tags = sums[0].astype(np.float64).T / 2.0**64  # what the aggregator has
    sources = FastICA(4, random_state=0, max_iter=1000, tol=0.1).fit_transform(tags)
    assert (best_correlations(sources, hidden) < 0.5).all()  # bins, not values, and in no order
    known = np.arange(3000) < 400
    design = np.column_stack([tags, np.ones(3000)])
    fitted = np.linalg.lstsq(design[known], hidden[known], rcond=None)[0]
    missed = np.sqrt(((design[~known] @ fitted - hidden[~known]) ** 2).mean(axis=0))
    assert (missed > 0.6 * hidden.std(axis=0)).all()  # near ones are alike; values stay unknown


def test_all_but_two_colluding_with_the_aggregator_still_see_noise() -> None:
    names = ["a", "b", "c", "d"]
    keys = {
        frozenset((p, q)): bytes([i + j] * 32)
        for i, p in enumerate(names)
        for j, q in enumerate(names)
        if i < j
    }
    vector = np.zeros(1000, np.uint64)
    hidden = masked(vector, "a", {q: keys[frozenset(("a", q))] for q in "bcd"}, 1)
    for colluder in "cd":  # they know their own masks with "a" and take them off
        hidden = hidden - masked(vector, "a", {colluder: keys[frozenset(("a", colluder))]}, 1)
    assert len(np.unique(hidden)) == 1000
    assert (hidden > 2**40).mean() > 0.99
