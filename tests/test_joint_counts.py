"""Counts of all parties' records with noise in shares: right, equal everywhere, and private."""

from __future__ import annotations

import json
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from matplotlib.container import ErrorbarContainer
from scipy.stats import skellam
from typer.testing import CliRunner

from privod.audit import Reading, search
from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import InvalidData, InvalidParameter, NotFound, ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.counts import PHASE, JointCounts, JointRelease, noisy_share, release_counts
from privod.joint.held import HeldRecords
from privod.joint.pictures.counts import draw_counts
from privod.joint.pki import make_identities
from privod.joint.question import JointOutliers
from privod.joint.questions import joint_question
from privod.joint.results import check_one_run, transcript
from privod.joint.run import Aggregation, aggregate, rehearse
from privod.joint.secure_sum import add_up
from privod.joint.session import host_agreement
from privod.joint.transport.channel import Meeting
from privod.joint.transport.memory import meet
from privod.mechanisms import Randomness, seeded
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.skellam import SkellamShares
from privod.pictures.canvas import svg
from privod.privacy import AddRemove, Guarantee, Loss, Replace, Secrecy
from privod.query.catalog import kind_of
from privod.questions.density_sketch.query import DensitySketch
from privod.questions.density_sketch.release import NoisySketch
from privod.questions.grid_knn.query import GridKnn
from privod.questions.histogram.query import Histogram
from privod.questions.marginals.query import MarginalHistograms
from privod.questions.marginals.release import NoisyMarginals
from privod.registry import load, question

NAMES = ["p0", "p1", "p2", "p3"]
ROSTER, IDENTITIES = make_identities(NAMES, "hub", "memory:0")
DOMAIN = Domain(
    (
        Numeric("x", -4, 4, fill=0.0),
        Numeric("y", -4, 4, fill=0.0),
        Categorical("ward", ("a", "b", "c"), fill="a"),
    )
)
ASKED: list[Any] = [
    Histogram(columns=("x", "ward"), epsilon=1, bins=4),
    MarginalHistograms(columns=("x", "y"), epsilon=1, bins=8, adjacency=Replace()),
    DensitySketch(columns=("x", "y"), epsilon=2, n_tables=3, bins=32),
]


def rows(party: int, n: int = 300) -> Table:
    generator = np.random.default_rng(party)
    ward = [("a", "b", "c")[place] for place in generator.integers(0, 3, n)]
    x, y = generator.normal(size=(2, n))
    return Table(DOMAIN, {"x": x, "y": y, "ward": ward})


def run(
    asked: JointCounts, contributions: dict[str, Contributions] | None = None
) -> tuple[dict[str, JointRelease], Aggregation]:
    """Everybody's end of a run in this process, with seeds of their own."""
    hosted: list[Aggregation] = []
    kept = contributions or {name: Contributions() for name in NAMES}
    releases = meet(
        {
            name: lambda channel: release_counts(
                asked,
                rows(NAMES.index(channel.name)),
                channel,
                IDENTITIES[channel.name],
                ROSTER,
                kept[channel.name],
                seeded(NAMES.index(channel.name)),
            )
            for name in NAMES
        },
        lambda meeting: hosted.append(aggregate(asked, meeting, IDENTITIES["hub"], ROSTER, DOMAIN)),
    )
    return releases, hosted[0]


@pytest.mark.parametrize("of", ASKED, ids=lambda of: of.name)
def test_everybody_gets_the_sum_of_all_counts_and_all_shares(of: Any) -> None:
    asked = JointCounts(of=of)
    releases, hosted = run(asked)
    exact = np.sum([of.counts_before_noise(rows(party)) for party in range(4)], axis=0)
    noise = asked.noise(exact.size, 4)
    shares = np.sum([noise.draw_share(exact.size, seeded(party)) for party in range(4)], axis=0)
    for release in releases.values():
        assert np.array_equal(release.value.counts, exact + shares.reshape(exact.shape))
    assert hosted.n_records is None
    made = [transcript(releases[name], IDENTITIES[name], ROSTER) for name in NAMES]
    made.append(transcript(hosted, IDENTITIES["hub"], ROSTER))
    said = check_one_run(made, ROSTER)
    assert len({one.get("counts") for one in said[:-1]}) == 1


@pytest.mark.parametrize("of", ASKED, ids=lambda of: of.name)
def test_a_question_survives_its_file(of: Any) -> None:
    asked = JointCounts(of=of, delta="1e-7", colluders=2)
    assert joint_question(asked.to_json()) == asked
    assert asked.terms(DOMAIN) != replace(asked, colluders=1).terms(DOMAIN)
    assert asked.table_guarantee().loss == Loss(of.epsilon, Fraction(1, 10**7))
    assert "counts of all records is right to within" in asked.expectation(DOMAIN, 4)


@pytest.mark.parametrize("kind", [NoisyMarginals, NoisySketch])
def test_a_released_value_is_read_back_only_with_noise_that_keeps_its_promise(kind: Any) -> None:
    of = ASKED[1] if kind is NoisyMarginals else ASKED[2]
    asked = JointCounts(of=of)
    value = run(asked)[0]["p0"].value
    assert isinstance(value, kind)
    assert value.guarantee == Guarantee(Loss(of.epsilon, Fraction(1, 10**6)), of.adjacency)
    assert kind.from_json(value.to_json()) == value
    (part,) = value.noise.skellam
    less = MergedNoise((), (), (part._replace(variance=part.variance - 1),))
    with pytest.raises(InvalidData, match="not the one that the noise keeps"):
        kind.from_json(replace(value, noise=less).to_json())
    for wrong in ([["skellam", 5, 4, 3]], [["skellam", 0, 1, 2]], [["skellam", 1.5, 1, 2]]):
        with pytest.raises(InvalidData):
            kind.from_json({**value.to_json(), "noise": wrong})


def test_scores_of_a_merged_release_are_those_of_its_counts() -> None:
    value = run(JointCounts(of=ASKED[2]))[0]["p0"].value
    twice = value.merge(value)
    assert twice.noise.deviation == pytest.approx(2**0.5 * value.noise.deviation)
    middle, border = value.scores(np.array([[0.0, 0.0], [3.9, -3.9]]))
    assert border > middle


@pytest.mark.parametrize(("variance", "shares"), [(3, 4), (50, 3), (4000, 30)])
def test_the_law_of_the_noise_is_that_of_all_shares_together(variance: int, shares: int) -> None:
    noise = MergedNoise.of_shares(SkellamShares(variance, shares - 1), shares)
    mean = variance * shares / (shares - 1) / 2
    law = skellam(mean, mean)
    assert noise.deviation == pytest.approx(law.std())
    within = noise.quantile(0.95)
    assert law.cdf(within) - law.cdf(-within - 1) >= 0.95
    assert law.cdf(within - 2) - law.cdf(-within + 1) < 0.95
    sizes = np.arange(-5.0, 6.0)
    assert noise.density(sizes) == pytest.approx(law.pmf(sizes), rel=0.02)


COUNT = (Reading("the count", float),)
PAIRS = [([1.0] * 5, [1.0] * 6)]


def seen_by_colluders(spread_over: int) -> Any:
    """What nine of ten parties see of the last one's count: they know their own shares."""
    asked = JointCounts(of=Histogram(columns=("x",), epsilon=1, bins=1), delta="0.01", colluders=9)
    sized = asked.noise(1, 10)
    noise = SkellamShares(sized.variance, spread_over)

    def mechanism(records: list[float], randomness: Randomness) -> int:
        return int(noisy_share(np.array([len(records)]), noise, randomness).view(np.int64)[0])

    return mechanism


def test_colluders_who_know_their_shares_learn_no_more_than_the_promise() -> None:
    loss = Loss(1, "0.01")
    honest = seen_by_colluders(1)
    found = search(honest, loss, lambda: iter(PAIRS), COUNT, runs=4000, randomness=seeded(3))
    assert found.holds


def test_noise_sized_for_all_parties_is_caught() -> None:
    """The planted bug: the colluders' shares are counted on as well."""
    loss = Loss(1, "0.01")
    careless = seen_by_colluders(10)
    found = search(careless, loss, lambda: iter(PAIRS), COUNT, runs=4000, randomness=seeded(4))
    assert not found.holds


def test_the_ledger_of_runs_counts_the_loss_and_allows_other_parties_with_noise() -> None:
    kept = {name: Contributions() for name in NAMES}
    asked = JointCounts(of=ASKED[0])
    run(asked, kept)
    run(asked, kept)
    held = HeldRecords(rows(0), ("x", "ward"))
    assert kept["p0"].sent(held).promise() == Guarantee(Loss(2, "0.000002"), AddRemove())
    more = Guarantee(Loss(1, "0.1"), AddRemove())
    kept["p0"].claim(held, ["p0", "p1"], more)
    assert kept["p0"].sent(held).promise() == Guarantee(Loss(3, "0.100002"), AddRemove())
    with pytest.raises(ProtocolAborted, match="would show the rows of"):
        kept["p0"].claim(held, ["p0", "p1"])
    assert kept["p0"].sent(HeldRecords(rows(1), ("x", "ward"))).runs == ()


def test_the_answer_says_what_all_runs_of_the_same_records_lost() -> None:
    kept = {name: Contributions() for name in NAMES}
    run(JointCounts(of=Histogram(columns=("x",), bins=4, epsilon=1)), kept)
    releases, _ = run(JointCounts(of=Histogram(columns=("y",), bins=4, epsilon=2)), kept)
    sent = releases["p0"].sent
    assert sent.promise() == Guarantee(Loss(3, "0.000002"), AddRemove())
    assert "2 runs with noise, epsilon 3, delta 2e-06 (add-remove)" in sent.sentence()
    assert "sent" not in releases["p0"].to_json()  # which is published, as other runs are not


def test_what_cannot_be_counted_so_is_refused() -> None:
    with pytest.raises(InvalidParameter, match="histogram-1, marginals-1, density-sketch-1"):
        JointCounts(of=GridKnn(columns=("x", "y"), epsilon=1))  # type: ignore[arg-type]
    with pytest.raises(InvalidParameter, match="must say its bins"):
        JointCounts(of=MarginalHistograms(columns=("x",), epsilon=1))
    with pytest.raises(InvalidParameter, match="gets its noise in shares"):
        JointCounts(of=replace(ASKED[0], noise="gaussian", delta="1e-6"))
    with pytest.raises(InvalidParameter, match="fewer than the parties"):
        JointCounts(of=ASKED[0], colluders=4).check_parties(4)
    with pytest.raises(InvalidParameter, match="must be 1 in a joint run"):
        JointCounts(of=ASKED[0]).check(replace(DOMAIN, person="patient", max_rows_per_person=2))
    with pytest.raises(InvalidParameter, match="is not a parameter"):
        joint_question({"name": "joint-counts-1", "of": ASKED[0].to_json(), "radius": 1})
    with pytest.raises(InvalidParameter, match="must be a question of"):
        joint_question({"name": "joint-counts-1", "of": {"name": "grid-knn-1"}})
    with pytest.raises(InvalidParameter, match="joint-outliers-1 or joint-counts-1"):
        joint_question({"name": "joint-sums-1"})
    assert isinstance(
        joint_question(
            {"partition": "vertical", "radius": 1.0, "far_fraction": 0.9, "columns": ["x"]}
        ),
        JointOutliers,
    )


def test_adjacency_decides_how_many_counts_a_record_changes() -> None:
    both = [
        JointCounts(of=replace(ASKED[2], adjacency=adjacency)).noise(96, 4).variance
        for adjacency in (AddRemove(), Replace())
    ]
    assert 1.8 < both[1] / both[0] < 2.2


def test_the_promise_says_that_counts_are_noisy_and_a_curator_is_not_asked_for_them() -> None:
    promised = JointCounts(of=ASKED[0]).secrecy()
    assert "noisy" in promised.sentence()
    assert "not noisy" not in promised.sentence()
    assert Secrecy.from_json(promised.to_json()) == promised
    for name in ("joint-counts-1", "joint-counts"):
        with pytest.raises(NotFound, match="between several holders"):
            kind_of(name)


def test_what_counts_cost_is_planned_from_the_domain_alone(tmp_path: Path) -> None:
    asked, declared = tmp_path / "question.json", tmp_path / "domain.json"
    asked.write_text(json.dumps(JointCounts(of=ASKED[0]).to_json()))
    declared.write_text(json.dumps(DOMAIN.to_json()))
    command = ["plan", "--question", str(asked), "--parties", "4"]
    shown = CliRunner().invoke(app, [*command, "--domain", str(declared), "--json"])
    assert shown.exit_code == 0
    assert "Each of the 12 counts" in json.loads(shown.stdout)["expectation"]
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InvalidParameter)
    assert refused.exception.parameter == "domain"
    asked.write_text(
        json.dumps({"partition": "horizontal", "radius": 1, "far_fraction": 0.9, "columns": ["x"]})
    )
    refused = CliRunner().invoke(app, command)
    assert isinstance(refused.exception, InvalidParameter)
    assert refused.exception.parameter == "records"


def test_an_aggregator_that_tells_parties_different_counts_is_found_by_their_transcripts() -> None:
    of = ASKED[0]
    question = JointCounts(of=of, delta="1e-6")

    def hub(meeting: Meeting) -> None:
        host_agreement(meeting, IDENTITIES["hub"], ROSTER, question.terms(DOMAIN))
        n_values = int(np.prod(question.shape(DOMAIN)))
        total = add_up(meeting, PHASE, n_values, np.uint64).view(np.int64)
        meeting.reply({name: (total + at).tobytes() for at, name in enumerate(NAMES)})

    def party(at: int) -> Any:
        given = (rows(at), IDENTITIES[NAMES[at]])
        return lambda one: release_counts(
            question, given[0], one, given[1], ROSTER, Contributions()
        )

    got = meet({name: party(at) for at, name in enumerate(NAMES)}, hub)
    made = [transcript(got[name], IDENTITIES[name], ROSTER) for name in NAMES]
    with pytest.raises(ProtocolAborted, match="do not agree about 'counts'"):
        check_one_run(made, ROSTER)


@pytest.mark.parametrize("delta", ["1e-6", "1e-38"])
def test_what_was_released_with_a_tiny_delta_can_be_read(delta: str) -> None:
    of = ASKED[1]
    question = JointCounts(of=of, delta=delta)
    shape = question.shape(DOMAIN)
    drawn = MergedNoise.of_shares(question.noise(int(np.prod(shape)), 3), 3)
    counts = np.zeros(shape, np.int64)
    value = of.value_of(DOMAIN, counts, drawn, question.table_guarantee(), seeded=False)
    assert of.value_from_json(json.loads(json.dumps(of.value_to_json(value)))) == value


@pytest.mark.parametrize("of", ASKED, ids=lambda of: of.name)
def test_a_rehearsal_gives_everybody_the_same_counts_and_they_are_drawn(of: Any) -> None:
    answers = rehearse(JointCounts(of=of), {name: rows(at) for at, name in enumerate(NAMES)})
    (digest,) = {release.digest() for release in answers.answers.values()}
    assert len(digest) == 64
    release = answers.answers["p0"]
    assert b"<svg" in svg(load(question(release.question.name).picture)(release))


def test_error_bars_of_a_picture_are_of_the_noise_of_all_shares() -> None:
    of = Histogram(columns=("ward",), epsilon="0.1")
    release = rehearse(JointCounts(of=of), {name: rows(0) for name in NAMES}).answers["p0"]
    drawn = draw_counts(release).axes[0].containers
    (bars,) = [each for each in drawn if isinstance(each, ErrorbarContainer)]
    (lines,) = bars.lines[2]
    lengths = {float(np.diff(segment[:, 1])[0]) for segment in lines.get_segments()}
    assert lengths == {2.0 * release.noise.quantile(0.95)}
    assert release.noise.quantile(0.95) > of.count_noise.quantile(0.95)
