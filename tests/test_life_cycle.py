"""The life of budgets, tokens and data sets."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.curator import tokens as tokens_module
from privod.errors import (
    AlreadyExists,
    BudgetExceeded,
    InvalidParameter,
    LedgerDamaged,
    LimitReached,
    NeedsConfirmation,
    NoPromise,
    NotFound,
)
from privod.ledger import chain
from privod.ledger.acts import (
    Approve,
    CloseBudget,
    Decline,
    FileRequest,
    LimitToken,
    RaiseBudget,
    Retire,
    budgets,
    requests,
)
from privod.ledger.chain import acting
from privod.ledger.sqlite import LEDGER_FILE
from privod.privacy import AddRemove, AdmittedContexts, Loss, Replace
from tests.test_allowances import (
    CROWD,
    DOMAIN,
    ROWS,
    adjacency_of,
    allow_copies,
    copies,
    people,
    person,
    spent,
    wide,
)


def test_closing_closes_what_would_break_the_promise(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    with pytest.raises(NeedsConfirmation, match="add-remove, in-crowd"):
        curator.do(CloseBudget("people", AddRemove(), "the study ended"))
    closed = curator.do(CloseBudget("people", AddRemove(), "the study ended"), confirmed=True)
    assert [state.adjacency for state in closed] == [AddRemove(), CROWD]
    assert all(state.left == Loss(0) for state in curator.budget("people"))
    with pytest.raises(NotFound):
        curator.ask(copies(3), "people")
    with pytest.raises(NotFound, match="closed, for good"):
        curator.do(RaiseBudget("people", AddRemove(), Loss(20), "more"), confirmed=True)
    curator.verify()


def test_closing_replace_closes_add_remove_whose_charges_it_carries(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", Replace(), Loss(1), confirmed=True)
    assert len(curator.do(CloseBudget("people", Replace(), "done"), confirmed=True)) == 2


def test_closing_an_allowance_closes_nothing_else(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.open_budget("people", CROWD, Loss(1), confirmed=True)
    curator.do(CloseBudget("people", CROWD, "enough"), confirmed=True)
    curator.ask(wide(3), "people")
    with pytest.raises(NoPromise):
        curator.ask(copies(3), "people")
    curator.verify()


def test_a_raised_budget_names_what_it_replaces_and_keeps_what_was_spent(tmp_path: Path) -> None:
    curator = people(tmp_path, Loss("0.3"))
    curator.ask(wide(3), "people")
    with pytest.raises(BudgetExceeded):
        curator.ask(wide(4), "people")
    for less in (Loss("0.3"), Loss("0.2", "1e-6"), Loss(1, 1)):
        with pytest.raises(InvalidParameter, match="must allow more"):
            curator.do(RaiseBudget("people", AddRemove(), less, "more"), confirmed=True)
    state = curator.do(
        RaiseBudget("people", AddRemove(), Loss("0.6"), "the board agreed"), confirmed=True
    )
    assert (state.budget, state.spent) == (Loss("0.6"), Loss("0.3"))
    curator.ask(wide(4), "people")
    (entry,) = (entry for entry in curator.history() if entry.kind == "raise")
    assert entry.details == {"reason": "the board agreed", "replaces": Loss("0.3").to_json()}
    curator.verify()


def test_closing_names_the_versions_that_share_the_budgets(tmp_path: Path) -> None:
    curator = people(tmp_path)
    with pytest.raises(NeedsConfirmation) as alone:
        curator.do(CloseBudget("people", AddRemove(), "the end"))
    assert "share" not in str(alone.value)
    curator.register("people-2027", ROWS, DOMAIN, continues="people")
    with pytest.raises(NeedsConfirmation, match="also for 'people-2027', which shares them"):
        curator.do(CloseBudget("people", AddRemove(), "the end"))
    curator.do(CloseBudget("people", AddRemove(), "the end"), confirmed=True)
    with pytest.raises(AlreadyExists, match="closed for good"):
        curator.open_budget("people-2027", AddRemove(), Loss(1))


def test_a_retired_data_set_keeps_its_releases_and_loses_its_rows(tmp_path: Path) -> None:
    curator = people(tmp_path)
    answer = curator.ask(wide(3), "people")
    with pytest.raises(NeedsConfirmation, match="deleted for good"):
        curator.do(Retire("people", "the study ended"))
    curator.do(Retire("people", "the study ended"), confirmed=True)
    assert not list((tmp_path / "rows").iterdir())
    assert curator.ask(wide(3), "people").release == answer.release
    before = curator.head()
    with pytest.raises(NotFound, match="was retired"):
        curator.ask(wide(4), "people")
    with pytest.raises(NotFound, match="was retired"):
        curator.price(wide(4), "people")
    assert curator.price(wide(3), "people").already_answered
    with pytest.raises(AlreadyExists):
        curator.do(Retire("people", "again"), confirmed=True)
    assert curator.head() == before
    assert curator.verify().without_rows == ()


def test_a_retired_data_set_is_marked_and_its_report_says_so(tmp_path: Path) -> None:
    curator = people(tmp_path)
    curator.register("kept", ROWS, DOMAIN)
    assert not curator.dataset("people").retired
    elsewhere = Curator.open(tmp_path)
    assert not any(one.retired for one in elsewhere.datasets())
    curator.do(Retire("people", "the study ended"), confirmed=True)
    assert [one.retired for one in curator.datasets()] == [True, False]
    assert curator.dataset("people").retired
    assert any(one.retired for one in elsewhere.datasets())
    with pytest.raises(NotFound, match="'people' was retired: its rows are deleted"):
        curator.report("people")
    shown = CliRunner().invoke(app, ["datasets", "--at", str(tmp_path)], catch_exceptions=False)
    assert shown.stdout.count("retired") == 1


def test_a_question_that_waited_while_its_data_set_was_retired_is_not_charged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = people(tmp_path)
    alone = curator.database.alone

    @contextmanager
    def late(key: str) -> Iterator[None]:
        with Curator.open(tmp_path) as owner:
            owner.do(Retire("people", "the study ended"), confirmed=True)
        with alone(key):
            yield

    monkeypatch.setattr(curator.database, "alone", late)
    with pytest.raises(NotFound, match="was retired"):
        curator.ask(wide(3), "people")
    assert curator.budget("people")[0].spent == Loss(0)


def test_what_an_interrupted_upload_left_is_deleted_and_nothing_else(tmp_path: Path) -> None:
    curator = people(tmp_path)
    for name in ("old", "young"):
        (tmp_path / "rows" / name).mkdir()
    hours_ago = time.time() - 7200
    os.utime(tmp_path / "rows" / "old", (hours_ago, hours_ago))
    assert curator.clean_up() == 1
    assert not (tmp_path / "rows" / "old").exists()
    assert (tmp_path / "rows" / "young").exists()
    curator.ask(wide(3), "people")


def test_a_token_has_a_limit_within_the_budget_and_the_budget_still_rules(tmp_path: Path) -> None:
    curator = people(tmp_path, Loss(1))
    tokens = [curator.store.add_token(c * 64, "analyst", "people", f"Dr. {c}") for c in "ab"]
    for token in tokens:
        curator.do(LimitToken("people", AddRemove(), token.id, Loss("0.7")))
    ada, bob = (token.id for token in tokens)
    curator.ask(wide(3, "0.6"), "people", token=ada)
    with pytest.raises(BudgetExceeded, match=r"This token may spend epsilon 0\.7"):
        curator.ask(wide(4, "0.2"), "people", token=ada)
    with pytest.raises(BudgetExceeded, match="add-remove budget"):
        curator.ask(wide(4, "0.6"), "people", token=bob)
    curator.ask(wide(4, "0.2"), "people", token=bob)
    assert spent(curator) == {"add-remove": Loss("0.8")}
    asked = [entry.token for entry in curator.history() if entry.kind == "charge"]
    assert asked == [ada, bob]
    with pytest.raises(NotFound, match="no such token"):
        curator.do(LimitToken("people", AddRemove(), "nobody", Loss(1)))
    curator.verify()


def test_tokens_are_made_and_revoked_in_the_chain_and_expire(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = people(tmp_path)
    soon = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    curator.store.add_token("a" * 64, "analyst", "people", "Ada", expires=soon)
    curator.store.add_token("b" * 64, "analyst", "people", "Bob")
    assert curator.store.find_token("a" * 64) is not None
    curator.store.revoke_token("b" * 64)
    kinds = [entry.kind for entry in curator.history()]
    assert kinds[-3:] == ["token", "token", "revoke"]
    with monkeypatch.context() as later:
        later.setattr(tokens_module, "now", lambda: "2999-01-01T00:00:00.000000Z")
        assert curator.store.find_token("a" * 64) is None
    assert curator.store.find_token("b" * 64) is None
    with pytest.raises(InvalidParameter, match="in the future"):
        curator.store.add_token("c" * 64, "analyst", None, "Eve", expires="2020-01-01")
    with pytest.raises(InvalidParameter, match="date and time"):
        curator.store.add_token("c" * 64, "analyst", None, "Eve", expires="soon")
    curator.verify()


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tokens SET name = 'Mallory'",
        "UPDATE tokens SET revoked = NULL",
        "UPDATE token_limits SET epsilon = '9'",
        "UPDATE budgets SET closed = NULL",
        "UPDATE datasets SET retired = NULL",
    ],
)
def test_what_stands_beside_the_chain_is_checked_against_it(tmp_path: Path, statement: str) -> None:
    curator = people(tmp_path)
    token = curator.store.add_token("a" * 64, "analyst", "people", "Ada")
    curator.do(LimitToken("people", AddRemove(), token.id, Loss("0.7")))
    curator.store.revoke_token(token.hash)
    curator.do(CloseBudget("people", AddRemove(), "done"), confirmed=True)
    curator.do(Retire("people", "done"), confirmed=True)
    curator.verify()
    connection = sqlite3.connect(tmp_path / LEDGER_FILE)
    connection.execute(statement)
    connection.commit()
    connection.close()
    with pytest.raises(LedgerDamaged):
        curator.verify()


def test_a_budget_opened_after_a_main_one_was_closed_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: opening forgets to look at what was closed."""
    monkeypatch.setattr(budgets, "check_not_ended", lambda *_: None)
    with people(tmp_path) as curator:
        curator.do(CloseBudget("people", AddRemove(), "done"), confirmed=True)
        curator.verify()
        number = curator.open_budget("people", Replace(), Loss(1), confirmed=True).number
        with pytest.raises(LedgerDamaged, match=f"Entry {number} opens a budget that could not"):
            curator.verify()


def test_a_budget_that_should_have_been_closed_with_another_is_found_when_it_pays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: closing forgets the others."""
    monkeypatch.setattr(budgets, "ends_with", lambda *_: [])
    with people(tmp_path) as curator:
        curator.open_budget("people", Replace(), Loss(4), confirmed=True)
        curator.do(CloseBudget("people", AddRemove(), "done"), confirmed=True)
        curator.verify()
        curator.ask(wide(5, "0.1", Replace()), "people")
        with pytest.raises(LedgerDamaged, match="uses a budget that had to be closed with entry"):
            curator.verify()


def test_an_allowance_beside_a_replace_budget_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The planted bug: opening does not ask what else is open."""
    monkeypatch.setattr(budgets, "check_beside", lambda *_: None)
    with people(tmp_path) as curator:
        curator.open_budget("people", Replace(), Loss(4), confirmed=True)
        curator.verify()
        curator.open_budget("people", CROWD, Loss(1), confirmed=True)
        with pytest.raises(LedgerDamaged, match="could not stand beside the others"):
            curator.verify()


def test_a_clock_that_goes_back_changes_no_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hours = iter(range(23, 0, -1))

    def an_hour_earlier_each_time() -> str:
        return f"2031-05-05T{next(hours):02}:00:00.000000Z"

    monkeypatch.setattr(chain, "now", an_hour_earlier_each_time)
    with people(tmp_path) as curator:
        curator.ask(wide(3, "0.2"), "people")
        token = curator.store.add_token("a" * 64, "analyst", "people", "Ada")
        curator.do(LimitToken("people", AddRemove(), token.id, Loss("0.1")))
        curator.ask(wide(4, "0.1"), "people", token=token.id)
        with pytest.raises(BudgetExceeded, match="token"):
            curator.ask(wide(5, "0.1"), "people", token=token.id)
        curator.do(CloseBudget("people", AddRemove(), "done"), confirmed=True)
        times = [entry.time for entry in curator.history() if entry.kind != "release"]
        assert times == sorted(times, reverse=True)
        head = curator.verify().head
    with Curator.open(tmp_path) as again:
        assert again.verify(head).questions == 2
        assert again.ask(wide(3, "0.2"), "people").stored


def test_so_many_requests_wait_at_most_that_nobody_fills_the_ledger(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    curator = people(tmp_path)
    monkeypatch.setattr(requests, "MOST_OPEN", 2)
    first, _ = (curator.do(FileRequest("people", CROWD, Loss(1), "one")) for _ in range(2))
    length = len(curator.history())
    with pytest.raises(LimitReached, match="before the owner"):
        curator.do(FileRequest("people", CROWD, Loss(1), "more"))
    assert len(curator.history()) == length
    curator.do(Decline("people", first.number, reason="no"))
    curator.do(FileRequest("people", CROWD, Loss(1), "after a decision"))


def test_requests_are_entered_and_decided(tmp_path: Path) -> None:
    curator = people(tmp_path)
    with acting("Ada", "a" * 16):
        crowd = curator.do(FileRequest("people", CROWD, Loss(1), "to find copies"))
        more = curator.do(FileRequest("people", AddRemove(), Loss(20), "ten is too little"))
        with pytest.raises(NotFound, match="no budget under admitted-contexts"):
            curator.do(FileRequest("people", adjacency_of(person(9)), None, "my patient"))
    curator.open_budget("people", AdmittedContexts(), Loss(1), confirmed=True)
    with acting("Ada", "a" * 16):
        one = curator.do(FileRequest("people", adjacency_of(person(9)), None, "my patient"))
    assert {request.asked_by for request in curator.requests("people")} == {"Ada"}
    assert curator.history()[-1].token == "a" * 16
    assert [request.decision for request in curator.requests("people")] == ["open"] * 3
    with pytest.raises(NeedsConfirmation):
        curator.do(Approve("people", crowd.number, reason="fine"))
    curator.do(Approve("people", crowd.number, reason="fine"), confirmed=True)
    curator.do(Decline("people", more.number, reason="ten is enough"))
    with pytest.raises(AlreadyExists, match="was declined"):
        curator.do(Approve("people", more.number, reason="or not"))
    curator.do(Approve("people", one.number, reason="fine"), confirmed=True)
    allow_copies(curator)
    curator.ask(copies(3), "people")
    curator.ask(person(9), "people")
    decisions = [request.decision for request in curator.requests("people")]
    assert decisions == ["approved", "declined", "approved"]
    with pytest.raises(NotFound, match="no request"):
        curator.do(Approve("people", 1, reason="fine"))
    with pytest.raises(InvalidParameter, match="epsilon must be given"):
        curator.do(FileRequest("people", CROWD, None, "why not"))
    curator.verify()
