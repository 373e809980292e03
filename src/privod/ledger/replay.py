"""Do again what every entry of a ledger did, and refuse what would have been refused."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from fractions import Fraction

from privod.errors import LedgerDamaged, NoPromise, PrivodError
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import Entry
from privod.ledger.coexistence import check_beside, check_not_ended, ends_with
from privod.ledger.prices import ELSEWHERE
from privod.ledger.store import DataSet, question_key
from privod.privacy import Cost, Loss, SameContexts
from privod.query.query import canonical_json


@dataclass
class Replay:
    """The ledger's state after the entries read so far."""

    datasets: dict[str, DataSet]
    seen: list[Entry] = field(default_factory=list)
    budgets: dict[int, BudgetState] = field(default_factory=dict)
    asks: dict[int, list[Entry]] = field(default_factory=dict)
    releases: dict[str, Entry] = field(default_factory=dict)
    admitted: dict[str, list[tuple[int, SameContexts]]] = field(default_factory=dict)


def replayed(datasets: Iterable[DataSet], entries: Iterable[Entry]) -> Replay:
    """The state that the entries lead to, if each of them was allowed."""
    replay = Replay({dataset.name: dataset for dataset in datasets})
    for entry in entries:
        _do_again(replay, entry)
    _check_life_cycle(replay)
    return replay


def _do_again(replay: Replay, entry: Entry) -> None:
    """Do what an entry did, and refuse what would have been refused."""
    dataset = replay.datasets.get(entry.dataset)
    if entry.kind == "open" and dataset and entry.adjacency and entry.loss:
        replay.budgets[entry.number] = BudgetState(
            entry.number,
            dataset.root,
            entry.adjacency,
            entry.loss,
            Loss(0),
            role=str((entry.details or {}).get("role")),
            conversion_delta=conversion_delta(entry),
        )
    elif entry.kind in ("close", "raise") and dataset and entry.budget:
        state = replay.budgets.get(entry.budget)
        if state is None or (state.dataset, state.closed) != (dataset.root, None):
            raise never_entered(entry.number)
        replay.budgets[entry.budget] = _changed(state, entry)
    elif entry.kind == "admit" and dataset and isinstance(entry.adjacency, SameContexts):
        replay.admitted.setdefault(dataset.root, []).append((entry.number, entry.adjacency))
    elif entry.kind == "exact" and dataset and entry.budget:
        state = replay.budgets.get(entry.budget)
        counts = (entry.details or {}).get("counts")
        if state is None or state.dataset != dataset.root or type(counts) is not int:
            raise never_entered(entry.number)
    elif entry.kind in ("charge", "carry") and dataset and entry.loss and entry.budget:
        state = replay.budgets.get(entry.budget)
        if state is None or (state.dataset, state.adjacency) != (dataset.root, entry.adjacency):
            raise never_entered(entry.number)
        if state.closed is not None:
            raise LedgerDamaged(f"Entry {entry.number} charges a budget that was closed.")
        elsewhere = entry.query is not None and entry.query.get("name") == ELSEWHERE
        paid = begun_late(state, entry) if entry.kind == "carry" else state.after(cost_of(entry))
        if paid is None and not elsewhere:
            raise LedgerDamaged(f"Entry {entry.number} overspends its ledger.")
        replay.budgets[entry.budget] = paid or state.overrun(cost_of(entry))
        if entry.kind == "charge" and entry.ask:
            replay.asks.setdefault(entry.ask, []).append(entry)
    elif entry.kind == "release" and entry.query is not None:
        asked = replay.asks.get(entry.ask or 0)
        if not asked or (asked[0].dataset, asked[0].query) != (entry.dataset, entry.query):
            raise LedgerDamaged(f"The release of entry {entry.number} was not charged.")
        key = question_key(entry.dataset, canonical_json(entry.query))
        if key in replay.releases:
            raise LedgerDamaged(f"Entry {entry.number} answers a question for the second time.")
        replay.releases[key] = entry
    elif entry.kind not in NOTES:
        raise never_entered(entry.number)
    replay.seen.append(entry)


NOTES = (
    "register",
    "restored",
    "retire",
    "limit",
    "request",
    "approve",
    "decline",
    "token",
    "revoke",
)
"""Kinds of entries that change no budget."""


def conversion_delta(entry: Entry) -> Fraction | None:
    """How a budget counts, as the entry that opened or raised it says."""
    written = (entry.details or {}).get("conversion_delta")
    found = None if written is None else _fraction(written, entry.number)
    if found is not None and entry.loss is not None and not 0 < found <= entry.loss.delta < 1:
        raise never_entered(entry.number)
    return found


def _fraction(written: object, number: int) -> Fraction:
    try:
        return Fraction(str(written))
    except (ValueError, ZeroDivisionError):
        raise never_entered(number) from None


def cost_of(entry: Entry) -> Cost:
    """What a charge counts; refuses an entry that says none."""
    try:
        cost = entry.cost
    except (PrivodError, KeyError, TypeError, AttributeError):
        cost = None
    if cost is None:
        raise never_entered(entry.number)
    return cost


def begun_late(state: BudgetState, entry: Entry) -> BudgetState | None:
    """A budget that opened late, as the entry says that it began."""
    assert entry.loss is not None  # noqa: S101 - looked at by the caller
    if state.spent != Loss(0):
        raise never_entered(entry.number)
    if state.zcdp is None:
        return state.after(Cost.of_loss(entry.loss))
    details = entry.details or {}
    rho = _fraction(details.get("rho"), entry.number)
    return replace(state, spent=entry.loss, spent_rho=rho, adding=bool(details.get("adding")))


def _changed(state: BudgetState, entry: Entry) -> BudgetState:
    """A budget after it was closed or raised."""
    if entry.kind == "close":
        return replace(state, closed=entry.number)
    if entry.kind == "raise" and entry.loss is not None and state.budget <= entry.loss:
        conversion = conversion_delta(entry)
        if (conversion is None) != (state.conversion_delta is None):
            raise never_entered(entry.number)
        return replace(state, budget=entry.loss, conversion_delta=conversion)
    raise never_entered(entry.number)


def as_of(state: BudgetState, ask: int) -> BudgetState | None:
    """A budget as it was when a question was asked; None if it was not open."""
    if state.number > ask or (state.closed is not None and state.closed < ask):
        return None
    return state


def _check_life_cycle(replay: Replay) -> None:
    """No budget was opened where the rules forbid it, and those that must end together did."""
    for number, state in replay.budgets.items():
        family = [one for one in replay.budgets.values() if one.dataset == state.dataset]
        others = [one for one in family if one.number != number]
        before = [_still_open(one, number) for one in others if one.number < number]
        if any(one.adjacency == state.adjacency for one in before):
            raise LedgerDamaged(f"Entry {number} opens a budget that there was already.")
        try:
            check_not_ended(state.dataset, before)
            check_beside(state.dataset, state.adjacency, before)
        except NoPromise:
            beside = "opens a budget that could not stand beside the others"
            raise LedgerDamaged(f"Entry {number} {beside}.") from None
        if state.closed is not None:
            found = [as_of(one, state.closed) for one in others]
            for one in ends_with(state, [one for one in found if one is not None]):
                for entry in replay.seen[state.closed :]:
                    if entry.kind in ("charge", "raise") and entry.budget == one.number:
                        raise LedgerDamaged(
                            f"Entry {entry.number} uses a budget that had to be closed with entry"
                            f" {state.closed}."
                        )


def _still_open(state: BudgetState, number: int) -> BudgetState:
    """A budget as the entry of this number found it: what closed later was open."""
    later = state.closed is not None and state.closed > number
    return replace(state, closed=None) if later else state


def never_entered(number: int) -> LedgerDamaged:
    """What to raise of an entry that no version would have made."""
    return LedgerDamaged(f"Entry {number} was changed: the ledger would not have entered it.")
