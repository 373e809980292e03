"""What becomes of budgets and data sets: close, raise, admit, limit, request, decide, retire."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from privod import wire
from privod.cli.app import DEFAULT_LOCATION, AsJson, At, DatabaseUrl, Directory, app, curator_at
from privod.cli.output import emit, table, words
from privod.cli.owner import confirming, read_adjacency
from privod.errors import InvalidParameter

if TYPE_CHECKING:
    from privod.curator import Request

__all__ = ["accept_restored", "admit", "admitted", "approve", "clean_up", "close_budget"]
__all__ += ["decline", "file_request", "limit", "raise_budget", "requests"]
__all__ += ["retire"]

DataSet = Annotated[str, typer.Argument(help="The data set.")]
Reason = Annotated[str, typer.Option(help="Why; stands in the ledger.")]
Relation = Annotated[
    str, typer.Option("--adjacency", help="add-remove, replace, or JSON with a name.")
]
Epsilon = Annotated[str, typer.Option(help="The new limit, such as 2 or 1/3.")]
Delta = Annotated[str, typer.Option(help="The limit's delta.")]
Yes = Annotated[bool, typer.Option("--yes", help="Confirm what this gives up.")]
Number = Annotated[int, typer.Argument(help="As 'privod requests' shows it.")]


@app.command(name="close")
def close_budget(
    name: DataSet,
    reason: Reason,
    adjacency: Relation = "add-remove",
    yes: Yes = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Let a budget pay for nothing more, for good, and those that would break its promise."""
    relation = read_adjacency(adjacency)
    with curator_at(at) as curator:
        closed = confirming(
            lambda confirmed: curator.close_budget(name, relation, reason, confirmed=confirmed),
            lambda: "Close it?",
            yes,
            as_json,
        )
        numbers = {state.number for state in closed}
        states = [state for state in curator.budget(name) if state.number in numbers]
    text = f"Closed: {', '.join(state.adjacency.name for state in states)}."
    emit([wire.Budget.of(state) for state in states], as_json, words(text))


@app.command(name="raise")
def raise_budget(
    name: DataSet,
    epsilon: Epsilon,
    reason: Reason,
    delta: Delta = "0",
    adjacency: Relation = "add-remove",
    yes: Yes = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Allow more than before; what was charged so far counts, the old promise is replaced."""
    from privod.errors import NeedsConfirmation
    from privod.privacy import Loss

    limit, relation = Loss(epsilon, delta), read_adjacency(adjacency)
    with curator_at(at) as curator:
        before = [str(one.budget) for one in curator.budget(name) if one.adjacency == relation]
        if before and not yes:
            warning = f"Whoever was promised {before[0]} at most is promised {limit} from then on."
            if as_json or not typer.confirm(f"{warning}\nRaise it?"):
                raise NeedsConfirmation(f"{warning} Confirm it to raise the budget.")
        state = curator.raise_budget(name, relation, limit, reason)
    text = f"The {state.adjacency.name} budget of {name!r} allows {state.budget}{state.counted}."
    emit(wire.Budget.of(state), as_json, words(text))


@app.command()
def admit(
    name: DataSet,
    person: Annotated[
        str, typer.Argument(help="JSON, as 'privod guarantee outlier-context-...' prints it.")
    ],
    reason: Reason,
    isolating: Annotated[
        bool, typer.Option("--isolating", help="Insist on a detector that one record decides.")
    ] = False,
    yes: Yes = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Allow questions about the contexts of one person, which narrows who is protected."""
    from privod.privacy import SameContexts

    relation = read_adjacency(person)
    if not isinstance(relation, SameContexts):
        way_out = "Give the adjacency that the question about the person states."
        raise InvalidParameter("person", "must be a person", relation.name, way_out)
    with curator_at(at) as curator:
        entry = confirming(
            lambda confirmed: curator.admit_person(
                name, relation, reason, confirmed=confirmed, isolating=isolating
            ),
            lambda: "Admit this person?",
            yes,
            as_json,
        )
    emit({"entry": entry}, as_json, words(f"Admitted in entry {entry}."))


@app.command()
def admitted(name: DataSet, at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List the persons about whom contexts may be asked, which is public."""
    with curator_at(at) as curator:
        found = curator.admitted(name)
    rows = [[person.record, person.column, person.detector] for person in found]
    shown = table("Admitted", ["record", "column", "detector"], rows)
    emit([person.to_json() for person in found], as_json, shown)


@app.command()
def limit(
    name: DataSet,
    token: Annotated[str, typer.Argument(help="The token's id, as 'privod token list' shows it.")],
    epsilon: Epsilon,
    delta: Delta = "0",
    adjacency: Relation = "add-remove",
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Set how much of a budget the questions of one token may cost; the budget still rules."""
    from privod.privacy import Loss

    allowed = Loss(epsilon, delta)
    with curator_at(at) as curator:
        curator.limit_token(name, read_adjacency(adjacency), token, allowed)
    data = {"token": token, "limit": allowed.to_json()}
    emit(data, as_json, words(f"{token} may spend {allowed} of {adjacency}."))


@app.command(name="request")
def file_request(
    name: DataSet,
    reason: Reason,
    adjacency: Relation = "add-remove",
    epsilon: Annotated[
        str | None, typer.Option(help="The limit that is needed; none for a person.")
    ] = None,
    delta: Delta = "0",
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Ask the owner for a budget, an allowance or more of one, or to admit a person."""
    from privod.privacy import Loss

    needed = None if epsilon is None else Loss(epsilon, delta)
    with curator_at(at) as curator:
        made = curator.request(name, read_adjacency(adjacency), needed, reason)
    emit(wire.Request.of(made), as_json, words(f"Request {made.number} is before the owner."))


@app.command()
def requests(name: DataSet, at: At = DEFAULT_LOCATION, as_json: AsJson = False) -> None:
    """List what analysts asked for, and what became of it."""
    with curator_at(at) as curator:
        found = curator.requests(name)
    rows = [
        [
            str(one.number),
            one.asked_by,
            "a person" if one.loss is None else str(one.loss),
            json.dumps(one.adjacency.to_json()),
            one.reason,
            one.decision,
        ]
        for one in found
    ]
    headings = ["number", "asked by", "for", "under", "reason", "decision"]
    emit([wire.Request.of(one) for one in found], as_json, table("Requests", headings, rows))


@app.command()
def approve(
    name: DataSet,
    number: Number,
    reason: Reason,
    yes: Yes = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Approve a request, which does what it asks for."""
    with curator_at(at) as curator:
        decided = confirming(
            lambda confirmed: curator.decide(
                name, number, approve=True, reason=reason, confirmed=confirmed
            ),
            lambda: "Approve it?",
            yes,
            as_json,
        )
    _say(decided, as_json)


@app.command()
def decline(
    name: DataSet,
    number: Number,
    reason: Reason,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Decline a request."""
    with curator_at(at) as curator:
        decided = curator.decide(name, number, approve=False, reason=reason)
    _say(decided, as_json)


def _say(decided: Request, as_json: bool) -> None:
    text = f"Request {decided.number} was {decided.decision}."
    emit(wire.Request.of(decided), as_json, words(text))


@app.command()
def retire(
    name: DataSet,
    reason: Reason,
    yes: Yes = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Delete the rows of a data set for good; its ledger and its releases are kept."""
    with curator_at(at) as curator:
        confirming(
            lambda confirmed: curator.retire(name, reason, confirmed=confirmed),
            lambda: "Delete the rows for good?",
            yes,
            as_json,
        )
    emit({"retired": name}, as_json, words(f"{name!r} is retired. Stored answers stay free."))


@app.command(name="clean-up")
def clean_up(
    at: Directory = DEFAULT_LOCATION, database: DatabaseUrl = None, as_json: AsJson = False
) -> None:
    """Delete rows that an interrupted upload or retirement left behind."""
    from privod.curator import Curator

    with Curator.open(at, database=database, create=False) as curator:
        deleted = curator.clean_up()
    emit({"deleted": deleted}, as_json, words(f"Deleted {deleted} folders that nothing names."))


@app.command(name="accept-restored")
def accept_restored(
    reason: Reason,
    yes: Yes = False,
    at: Directory = DEFAULT_LOCATION,
    database: DatabaseUrl = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a ledger that lost entries, after charging what is missing."""
    from privod.curator import Curator
    from privod.errors import NeedsConfirmation

    if not yes:
        warning = (
            "What was asked since then has been seen by somebody. Charge it first (privod charge):"
            " afterwards the ledger sells what it says is left."
        )
        if as_json or not typer.confirm(f"{warning}\nAccept the ledger as it is?"):
            raise NeedsConfirmation(f"{warning} Confirm it to accept the ledger.")
    with Curator.open(at, database=database, restoring=True, create=False) as curator:
        head = curator.accept_restored(reason)
    emit({"head": head}, as_json, words(f"Accepted. Note the new head elsewhere: {head}"))
