"""What people do to a ledger, as commands: one for each act, made from its fields."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.main import get_command

from privod.cli.options import DEFAULT_LOCATION, AsJson, At, DatabaseUrl, Directory, curator_at
from privod.cli.output import emit, words
from privod.curator import Curator
from privod.curator.protection import crowd_figures
from privod.errors import InvalidParameter, NeedsConfirmation
from privod.ledger.acts import ACTS, Act, OpenBudget, Part, parts_of
from privod.privacy import adjacency_from_text
from privod.wire.acts import shown

if TYPE_CHECKING:
    from privod.client import AnyCurator

Done = TypeVar("Done")

TYPES = {"count": int, "flag": bool}
Yes = Annotated[bool, typer.Option("--yes", help="Confirm what this means and gives up.")]


@cache
def commands() -> dict[str, Any]:
    """Every act as a command, by its name."""
    app = typer.Typer()
    for act in ACTS.values():
        app.command(name=act.name)(_command(act))
    made: dict[str, Any] = get_command(app).commands  # type: ignore[attr-defined]
    return made


def _command(act: type[Act[Any]]) -> Callable[..., None]:
    """The function that typer makes a command of; what it takes follows from the act's fields."""
    told = parts_of(act)
    here = act.path is None  # done at the machine, also to a ledger that is to be restored

    def run(
        name: str, at: str, as_json: bool, yes: bool = False, database: Any = None, **typed: Any
    ) -> None:
        given = {part.name: _read(part, typed[part.name]) for part in told}
        one = act.read(name, given)
        with _opened(at, here, database) as curator:
            done = _confirmed(curator, one, yes, as_json)
        emit(shown(one, done), as_json, words(one.said(done)))

    taken = [_parameter("name", Annotated[str, typer.Argument(help="The data set.")])]
    taken += [_told(part) for part in sorted(told, key=lambda part: not part.first)]
    taken += [_parameter("yes", Yes, False)] if act.asks() else []
    taken += [_parameter("at", Directory if here else At, DEFAULT_LOCATION)]
    taken += [_parameter("database", DatabaseUrl, None)] if here else []
    taken += [_parameter("as_json", AsJson, False)]
    run.__signature__ = inspect.Signature(taken)  # type: ignore[attr-defined]
    run.__doc__ = act.__doc__
    return run


def _opened(at: str, here: bool, database: str | None) -> AnyCurator:
    if here:
        return Curator.open(at, database=database, restoring=True, create=False)
    return curator_at(at)


def _parameter(name: str, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=kind, default=default)


def _told(part: Part) -> inspect.Parameter:
    kind: Any = TYPES.get(part.kind, str)
    if part.first:
        return _parameter(part.name, Annotated[kind, typer.Argument(help=part.doc)])
    named = [f"--{part.name}"] if part.kind == "flag" else []
    option = typer.Option(*named, help=part.doc)
    if part.required and part.usual is None:
        return _parameter(part.name, Annotated[kind, option])
    default = part.usual if part.required else part.default
    return _parameter(
        part.name, Annotated[kind if default is not None else kind | None, option], default
    )


def _read(part: Part, typed: Any) -> Any:
    if part.kind == "adjacency" and part.first and not typed.lstrip().startswith("{"):
        way_out = "`privod guarantee outlier-context` with the question's parameters prints it."
        raise InvalidParameter(part.name, "must be JSON", typed, way_out)
    return adjacency_from_text(typed).to_json() if part.kind == "adjacency" else typed


def _confirmed(curator: AnyCurator, act: Act[Done], yes: bool, as_json: bool) -> Done:
    """Do an act; what it means is said first, and what it gives up must be confirmed."""
    meaning = "" if yes or as_json else act.means(curator)
    if meaning:
        sys.stderr.write(meaning + "\n")
        if sys.stdin.isatty() and not typer.confirm(f"{act.title}?"):
            raise typer.Abort
    try:
        return curator.do(act, confirmed=yes)
    except NeedsConfirmation as needed:
        if as_json or not typer.confirm(f"{needed}\n{_figures(curator, act)}{act.title}?"):
            raise
        return curator.do(act, confirmed=True)


def _figures(curator: AnyCurator, act: Act[Any]) -> str:
    """How many records a crowd protects, for an owner beside the rows."""
    if not isinstance(curator, Curator) or not isinstance(act, OpenBudget):
        return ""
    return "".join(f"{line}\n" for line in crowd_figures(curator, act.of, act.adjacency))
