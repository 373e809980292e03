"""The attacks on the published protocols: they succeed.

Every attacker is honest but curious: it takes part as told and then uses only what it received, its
own rows, and what is public.
"""

# slow: left out by `make quick`

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import kurtosis
from sklearn.decomposition import FastICA

from privod.data import Domain, Numeric, Table
from privod.joint.published import protocols as joint_paper
from privod.joint.published.question import PublishedOutliers
from privod.joint.published.union import point_of
from privod.joint.run import rehearse
from privod.joint.transport.channel import Channel
from privod.outliers.hashing.tables import draw_family

Views = dict[str, dict[str, list[bytes]]]
SIDE = 12.0


@pytest.fixture
def views(monkeypatch: pytest.MonkeyPatch) -> Views:
    """What every party receives, by party and step."""
    seen: Views = defaultdict(lambda: defaultdict(list))
    plain = Channel.trade

    def trade(self: Channel, phase: str, payload: bytes, most: int) -> bytes:
        answer = plain(self, phase, payload, most)
        seen[self.name][phase].append(answer)
        return answer

    monkeypatch.setattr(Channel, "trade", trade)
    return seen


def isolated_and_crowd(seed: int, crowd: int = 200) -> tuple[NDArray[np.float64], dict[str, Table]]:
    """Three parties with a crowd each; the second and third also have isolated records."""
    generator = np.random.default_rng(seed)
    places = np.array([[-9.0, -8], [9, 7], [-8, 8.5], [8, -9], [0, 10], [10, 0.5]])
    tables = {}
    domain = Domain((Numeric("x", -SIDE, SIDE), Numeric("y", -SIDE, SIDE)))
    for number, alone in enumerate((places[:0], places[:3], places[3:])):
        rows = np.vstack([0.3 * generator.normal(size=(crowd, 2)), alone])
        tables[f"p{number}"] = Table(domain, {"x": rows[:, 0], "y": rows[:, 1]})
    return places, tables


def horizontal(**changed: Any) -> PublishedOutliers:
    parameters: dict[str, Any] = {
        "partition": "horizontal",
        "radius": 1.5,
        "far_fraction": 0.9,
        "columns": ("x", "y"),
        "n_tables": 24,
        "hashes_per_table": 2,
        "min_shared_tables": 16,
    }
    return PublishedOutliers(**{**parameters, **changed})


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


def test_published_bin_counts_locate_the_others_isolated_records(
    views: Views, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One draw of hashes in twenty locates five of the six only, one in a thousand fewer."""
    monkeypatch.setattr(joint_paper, "os", SimpleNamespace(urandom=bytes))
    places, tables = isolated_and_crowd(1)
    asked = horizontal()
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
        names = [table.to_bytes(4, "big") + int(key).to_bytes(8, "big") for key in found]
        at = [where.get(point_of(name), -1) for name in names]
        alone = np.array([place >= 0 and counts[place] <= 2 for place in at])
        lonely[table] = alone[inverse]
    errors = located(lonely.sum(axis=0), places)
    assert sum(error < 0.5 for error in errors) >= 5  # w is 2: found to a quarter of it


PROBE = 11  # where a dishonest party asks: of 240 a crowd, a count of 12 is published


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


def vertical(**changed: Any) -> PublishedOutliers:
    parameters: dict[str, Any] = {
        "partition": "vertical",
        "radius": 4.0,
        "far_fraction": 0.95,
        "columns": ("a", "b", "c", "d", "e"),
        "n_tables": 12,
        "hashes_per_table": 4,
        "min_shared_tables": 4,
    }
    return PublishedOutliers(**{**parameters, **changed})


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
    rehearse(vertical(), tables)
    opened = joint_paper.from_fixed(
        np.frombuffer(views["p0"]["projections"][0], np.uint64)
    ).reshape(48, -1)
    others = opened - own[0] @ tables["p0"].numbers().T

    distances = np.linalg.norm(others[:, :50, None] - others[:, None, :50], axis=0) / np.sqrt(48)
    truth = np.linalg.norm(hidden[:50, None] - hidden[None, :50], axis=2)
    apart = truth > 0
    assert np.abs(distances[apart] / truth[apart] - 1).mean() < 0.25  # nothing known: distances

    starts = [
        FastICA(4, random_state=start, max_iter=1000).fit_transform(others.T) for start in range(5)
    ]  # one in some hundreds ends with two columns mixed, which are less far from Gaussian
    sources = max(starts, key=lambda found: np.abs(kurtosis(found)).sum())
    assert (best_correlations(sources, hidden) > 0.98).all()  # nothing known: the columns

    mixing = others[:, :4] @ np.linalg.inv(hidden[:4].T)  # four records known: every value
    recovered = np.linalg.lstsq(mixing, others, rcond=None)[0].T
    assert np.abs(recovered - hidden).max() < 1e-2
