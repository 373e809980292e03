"""The joint detector: one release over all holders, whoever is lost, and nothing else is opened."""

# slow: left out by `make quick`

import json
import sys
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.data import Categorical, Domain, Numeric, Table
from privod.errors import BudgetExceeded, InvalidParameter, ProtocolAborted
from privod.joint.contributions import Contributions
from privod.joint.detector import question as joint
from privod.joint.detector import sums
from privod.joint.detector.question import JointDetector, JointProfile
from privod.joint.question import JointResult, Seat, joint_question
from privod.joint.run import rehearse
from privod.joint.transport import channel as transport
from privod.joint.transport.channel import Channel, Meeting
from privod.mechanisms import DiscreteGaussian, seeded
from privod.mechanisms.merged import MergedNoise
from privod.mechanisms.shared import SharedGaussian
from privod.privacy import Replace
from privod.query.stages import Stage, count_rows, go_through
from privod.questions.detector_profile.release import NoisyProfile

COLUMNS = ("u", "v", "w", "ward")
DOMAIN = Domain(
    (*(Numeric(name, -50, 50) for name in COLUMNS[:3]), Categorical("ward", ("a", "b", "c")))
)
NAMES = ["ahus", "bern", "cork", "dale"]
NOISY = JointDetector(columns=COLUMNS, epsilon=1)
QUIET = JointDetector(columns=COLUMNS, epsilon=10**5)  # noise rounds to none


def table(seed: int, n: int = 300, shift: float = 0.0) -> Table:
    """A cloud, and one stranger."""
    generator = np.random.default_rng(seed)
    points = generator.normal(size=(n, 3)) + shift
    points[0] = 30.0
    wards = ["abc"[place] for place in generator.integers(0, 3, n)]
    return Table(DOMAIN, {**dict(zip(COLUMNS, points.T, strict=False)), "ward": wards})


def pooled(tables: list[Table]) -> Table:
    numbers = np.vstack([one.numbers() for one in tables])
    wards = ["abc"[code] for one in tables for code in one.codes(["ward"])[:, 0]]
    return Table(DOMAIN, {**dict(zip(COLUMNS, numbers.T, strict=False)), "ward": wards})


@pytest.fixture(scope="module")
def tables() -> dict[str, Table | None]:
    return {name: table(at, shift=at / 2) for at, name in enumerate(NAMES)}


def lost_at(stage: str) -> Callable[[Seat], JointResult]:
    """Take part until a stage, then go away without a word."""

    def act(seat: Seat) -> JointResult:
        plain = seat.channel.trade

        def trade(phase: str, payload: bytes | memoryview, most: int) -> bytes:
            if phase == f"shares of {stage}":
                raise ConnectionError
            return plain(phase, payload, most)

        seat.channel.trade = trade  # type: ignore[method-assign]
        return NOISY.take_part(seat)

    return act


def test_without_noise_it_is_the_curators_release_over_all_records(
    tables: dict[str, Table | None],
) -> None:
    run = rehearse(QUIET, tables)
    everything = pooled([one for one in tables.values() if one is not None])
    stages = QUIET.of.stages(DOMAIN, drawn=MergedNoise.of_shares)
    expected = go_through(stages, lambda stage: everything.sums(COLUMNS, stage.sums))
    assert expected.noise_of_products is not None
    for name, answer in run.answers.items():
        assert answer.value.total == expected.total
        assert np.array_equal(answer.value.counts, expected.counts)
        apart = np.abs(answer.value.products - expected.products)
        assert apart.max() < 9 * expected.noise_of_products.deviation  # large even at this epsilon
        assert answer.value == run.answers["ahus"].value
        assert 0 in answer.rows
        own = tables[name]
        assert own is not None
        assert len(own) == answer.own_records
    assert run.aggregator.said["opened"] == run.answers["bern"].stated()["opened"]


def test_what_a_party_finds_alone_comes_first_and_its_release_is_kept(
    tables: dict[str, Table | None], tmp_path: Path
) -> None:
    answer = rehearse(NOISY, tables).answers["cork"]
    own = tables["cork"]
    assert own is not None
    first = answer.sentences()[0]
    assert first.startswith(f"Alone {len(answer.alone)} of your 300 records are outliers, together")
    assert NOISY.alone(own).startswith(f"Alone {len(answer.alone)} of your 300 records")
    again = NoisyProfile.from_json(json.loads(json.dumps(answer.to_json()))["value"])
    assert again == answer.value
    answer.write(tmp_path, "run", [f"n{row}" for row in range(300)])
    lines = (tmp_path / "run.csv").read_text().splitlines()
    found = sorted({*answer.rows, *answer.alone})
    assert lines == ["row,id,together,alone"] + [
        f"{row + 1},n{row},{int(row in answer.rows)},{int(row in answer.alone)}" for row in found
    ]
    assert NoisyProfile.load(tmp_path / "run.privod") == again
    assert (tmp_path / "run.privod").stat().st_mode & 0o077 == 0


def test_a_computing_party_may_hold_no_records(tables: dict[str, Table | None]) -> None:
    run = rehearse(QUIET, {**tables, "ahus": None})
    assert run.answers["bern"].value.total == 900
    assert len(run.answers["ahus"].rows) == run.answers["ahus"].own_records == 0
    assert run.answers["ahus"].sent is None
    assert set(run.answers["cork"].holders["records"]) == {"bern", "cork", "dale"}


def test_thirty_parties_and_five_lost_in_the_middle() -> None:
    names = [f"p{at:02}" for at in range(30)]
    held: dict[str, Table | None] = {name: table(at, 60) for at, name in enumerate(names)}
    gone = {"p07": "records", "p11": "counts", "p12": "counts", "p20": "products", "p29": "scores"}
    run = rehearse(NOISY, held, acts={name: lost_at(stage) for name, stage in gone.items()})
    assert set(run.answers) == set(names) - set(gone)
    assert set(run.aggregator.lost) == set(gone)
    first = run.answers["p00"]
    assert len({answer.stated()["opened"] for answer in run.answers.values()}) == 1
    for name, stage in gone.items():
        stages = list(first.holders)
        for at, holders in first.holders.items():
            assert (name in holders) == (stages.index(at) < stages.index(stage))
    said = " ".join(first.sentences())
    assert "29 holders took part" in said
    assert "p11 from counts on" in said
    assert abs(first.value.total - 29 * 60) < 6 * first.value.noise_of_total.deviation
    assert run.aggregator.stated()["lost"].keys() == gone.keys()


def test_a_lost_computing_party_ends_the_run_and_a_restart_draws_fresh_noise(
    tables: dict[str, Table | None],
) -> None:
    with pytest.raises(ConnectionError):
        rehearse(NOISY, tables, acts={"bern": lost_at("counts")})
    first, second = (rehearse(NOISY, tables).answers["ahus"].value for _ in range(2))
    shared = min(len(first.counts), len(second.counts))
    assert not np.array_equal(first.counts[:shared], second.counts[:shared])


def test_two_honest_shares_hide_as_much_as_one_release_whoever_is_lost() -> None:
    size, sigma2 = 20_000, Fraction(50)
    stage = Stage("sums", size, count_rows, 1, 1, DiscreteGaussian(sigma2))
    own = np.arange(size)
    names = ("ahus", "bern", "cork")
    for holders in (["ahus"], ["ahus", "dale", "eton"]):
        shared = {name: sums._shared(own, names, "nobody")[0] for name in holders}
        opened = []
        for place, computing in enumerate(names):
            shares = {name: letters[computing] for name, letters in shared.items()}
            opening = sums._opening(stage, place, shares, seeded(place))
            opened.append(sums._read(opening, size, holders)[1])
        curious = SharedGaussian(sigma2).draw(size, seeded(1))  # what bern drew, and knows
        hidden = sum(opened, np.zeros(size, np.int64)) - curious - 2 * len(holders) * own
        # The variance of 20,000 draws strays by 1 %; the limits were set before looking.
        assert 0.95 < hidden.var() / 4 / float(sigma2) < 1.05
        assert len(np.unique(opened[0] >> 40)) > size // 2  # one opening alone is uniform


def test_the_aggregator_and_one_computing_party_see_uniform_words(
    tables: dict[str, Table | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[bytes] = []
    lock = Lock()
    plain = sums._shared

    def spied(own: Any, computing: Any, name: str) -> Any:
        letters, kept = plain(own, computing, name)
        if name == "dale":
            with lock:
                seen.extend(letters[one] for one in computing)
        return letters, kept

    monkeypatch.setattr(sums, "_shared", spied)
    rehearse(NOISY, tables)
    assert len(seen) % 3 == 0
    for first, second, third in zip(seen[::3], seen[1::3], seen[2::3], strict=True):
        assert (len(first), len(second)) == (32, 32)
        words = np.frombuffer(third, "<u8")
        assert (words > 2**32).mean() > 0.9  # the counts themselves are below a thousand
    assert len(set(seen)) == len(seen)


def test_parties_that_were_told_different_totals_open_nothing_together(
    tables: dict[str, Table | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Meeting.reply_all

    def lying(self: Meeting, answer: bytes) -> None:
        if self._phase != "opening of records":
            return plain(self, answer)
        other = answer[:-8] + (int.from_bytes(answer[-8:], "little") + 2).to_bytes(8, "little")
        answers = dict.fromkeys(self.names, answer)
        return self.reply({**answers, "dale": other})

    monkeypatch.setattr(Meeting, "reply_all", lying)
    with pytest.raises(ProtocolAborted, match="altered on its way"):
        rehearse(NOISY, tables)


@pytest.mark.parametrize("listed", [(*NAMES, "\x1b[2Jall others"), (*NAMES, "ahus")])
def test_an_aggregator_that_names_holders_who_are_not_there_is_refused(
    tables: dict[str, Table | None], monkeypatch: pytest.MonkeyPatch, listed: tuple[str, ...]
) -> None:
    """Its list stands in everybody's results."""
    plain = sums._written

    def lying(holders: tuple[str, ...], words: Any) -> bytes:
        answers = sys._getframe(1).f_code.co_name == "host_stage"
        return plain(listed if answers else holders, words)

    monkeypatch.setattr(sums, "_written", lying)
    with pytest.raises(ProtocolAborted, match="cannot be read"):
        rehearse(NOISY, tables)


def test_sums_that_no_records_have_end_the_run(
    tables: dict[str, Table | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = sums._shared

    def poisoned(own: Any, computing: Any, name: str) -> Any:
        return plain(own + 2**61 if name == "dale" else own, computing, name)

    monkeypatch.setattr(sums, "_shared", poisoned)
    with pytest.raises(ProtocolAborted, match="impossibly large"):
        rehearse(NOISY, tables)


def test_counts_that_do_not_fit_the_number_of_records_are_told(
    tables: dict[str, Table | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    honest = rehearse(NOISY, tables).answers["ahus"]
    assert honest.columns_in_doubt() == []
    plain = joint._sums

    def poisoned(asked: JointDetector, stage: Stage, own: Table) -> Any:
        false = plain(asked, stage, own).copy()
        if stage.name == "counts" and own is tables["dale"]:
            false[:3] += 5000  # cells of the first column
        return false

    monkeypatch.setattr(joint, "_sums", poisoned)
    answer = rehearse(NOISY, tables).answers["ahus"]
    assert answer.columns_in_doubt() == ["u"]
    assert "Do not rely on u" in " ".join(answer.sentences())


def test_a_run_is_charged_before_the_first_share_leaves_and_by_a_refusal_not_at_all(
    tables: dict[str, Table | None],
) -> None:
    events: list[str] = []
    kept = Contributions()
    plain = Channel.trade

    def noted(self: Channel, phase: str, payload: bytes | memoryview, most: int) -> bytes:
        if self.name == "dale":
            events.append(phase)
        return plain(self, phase, payload, most)

    def charging(refuse: bool) -> Callable[[Seat], JointResult]:
        def charge() -> None:
            events.append("charge")
            if refuse:
                raise BudgetExceeded("'patients' allows epsilon 1 in all.")

        return lambda seat: NOISY.take_part(replace(seat, charge=charge, contributions=kept))

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(transport.Channel, "trade", noted)
        run = rehearse(NOISY, tables, acts={"dale": charging(False)})
        assert events[:3] == ["greeting", "charge", "shares of records"]
        assert "epsilon 1, delta 1e-6" in run.answers["dale"].sent.sentence()
        events.clear()
        left = rehearse(NOISY, tables, acts={"dale": charging(True)})
    assert events == ["greeting", "charge"]
    assert "dale" in left.aggregator.lost  # the others go on, and are not told whose budget it was
    assert len(kept.sent().runs) == 1


def test_a_holder_whose_rows_declare_something_else_is_refused(
    tables: dict[str, Table | None],
) -> None:
    wider = Domain((*(Numeric(name, -51, 50) for name in COLUMNS[:3]), DOMAIN["ward"]))
    own = tables["dale"]
    assert own is not None
    odd = Table(wider, {name: own.columns()[name] for name in COLUMNS})
    with pytest.raises(ProtocolAborted, match="'dale' has other parameters, column ranges"):
        rehearse(NOISY, {**tables, "dale": odd})


@pytest.mark.parametrize(
    ("changed", "parameter"),
    [
        ({"delta": 0}, "delta"),
        ({"epsilon": 0}, "epsilon"),
        ({"columns": ()}, "columns"),
        ({"target_fraction": 2.0}, "target_fraction"),
        ({"adjacency": "both"}, "adjacency"),
    ],
)
def test_a_wrong_parameter_is_named(changed: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidParameter, match=parameter):
        replace(NOISY, **changed)


def test_a_question_survives_json_and_says_what_a_coalition_of_two_learns() -> None:
    asked = replace(NOISY, adjacency=Replace(), epsilon="1/3")
    assert joint_question(json.loads(json.dumps(asked.to_json()))) == asked
    sentence = asked.secrecy().sentence()
    assert "half of the noise's variance" in sentence
    assert "every holder's sums, without noise" in sentence
    with pytest.raises(InvalidParameter, match="columns must be given"):
        JointDetector.from_json({"epsilon": 1})
    with pytest.raises(InvalidParameter, match=r"one of .* Did you mean 'joint-detector'\?"):
        joint_question({"name": "joint-detectors"})
    with pytest.raises(InvalidParameter, match=r"one of .* Name one of these"):
        joint_question({"name": 3})


def test_two_parties_are_too_few_to_share_among(tables: dict[str, Table | None]) -> None:
    with pytest.raises(InvalidParameter, match="3 computing parties"):
        rehearse(NOISY, {name: tables[name] for name in NAMES[:2]})


def test_a_plan_says_what_one_finds_alone_before_anything_else(tmp_path: Path) -> None:
    own = table(1)
    rows = np.column_stack([own.numbers(), own.codes(["ward"])[:, 0]])
    lines = [",".join(COLUMNS)]
    lines += [f"{u!r},{v!r},{w!r},{'abc'[int(ward)]}" for u, v, w, ward in rows.tolist()]
    (tmp_path / "own.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "question.json").write_text(json.dumps(NOISY.to_json()))
    (tmp_path / "domain.json").write_text(json.dumps(DOMAIN.to_json()))
    asked = ["plan", "--question", str(tmp_path / "question.json"), "--records", "1200"]
    shown = " ".join(CliRunner().invoke(app, asked).stdout.split())
    assert shown.startswith("Alone: name your rows with --data")
    asked += ["--domain", str(tmp_path / "domain.json"), "--data", str(tmp_path / "own.csv")]
    shown = " ".join(CliRunner().invoke(app, asked).stdout.split())
    assert shown.startswith("Alone ")
    assert "of your 300 records are outliers" in shown
    assert "with the noise of one release" in shown
    assert "About 12 of 1,200 records will be flagged" in shown


def test_results_are_results(tables: dict[str, Table | None]) -> None:
    answer = rehearse(NOISY, tables).answers["dale"]
    assert isinstance(answer, JointProfile)
    phases = {phase["phase"] for phase in answer.to_json()["traffic"]}
    assert {"shares of counts", "opening of counts"} <= phases
