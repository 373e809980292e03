"""The command line: one app, its commands in groups, and errors without tracebacks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from privod.cli.output import complain
from privod.errors import BudgetExceeded, InvalidData, InvalidParameter, PrivodError

REFUSED, WRONG = 3, 2  # exit codes: over budget; anything else that was asked wrongly


GROUPS = {
    "Everyday": "register open price ask score serve",
    "Ask": "questions guarantee request jobs rehearse mock mcp",
    "Own data": "draft datasets report protected sheet retire",
    "Budgets": "budget raise close limit requests approve decline admit admitted allow-exact"
    " charge charge-ahead",
    "Serve": "token backup restore accept-restored clean-up",
    "Joint runs": "plan pki approve-run party aggregate runs transcript flare-job engine",
    "Check": "history verify audit demo sample",
}
"""Every command under the heading that `privod --help` shows it by, in order."""


class Commands(TyperGroup):
    """All commands in groups; those of acts are made when one is looked for that is not here."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002 - as typer calls it
        """The names of all commands, group by group."""
        commands, names = self.commands, []
        for group, words in GROUPS.items():
            for name in filter(commands.__contains__, words.split()):
                commands[name].rich_help_panel = group
                names.append(name)
        return [*names, *(name for name in commands if name not in names)]

    @property
    def commands(self) -> Any:
        """Every command by its name."""
        from privod.cli.acts import commands

        return self._here | commands()

    @commands.setter
    def commands(self, here: Any) -> None:
        self._here = here

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002 - as typer calls it
        """The command of this name."""
        return self._here.get(cmd_name) or self.commands.get(cmd_name)


app = typer.Typer(
    name="privod",
    cls=Commands,
    help="Outlier detection with differential privacy. Ask questions about outliers in private"
    " data; every answer states its guarantee.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"privod {import_module('privod').__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Say the version."),
    ] = False,
) -> None:
    """Read what stands before the command."""


def main() -> None:
    """Run the command line; an expected error is one sentence and an exit code."""
    as_json = "--json" in sys.argv
    try:
        app()
    except PrivodError as problem:
        complain(problem, as_json, in_shell(problem, get_command(app), sys.argv[1:]))
        sys.exit(REFUSED if isinstance(problem, BudgetExceeded) else WRONG)
    except BrokenPipeError:
        sys.stderr.close()  # whoever read us has gone; there is nobody left to tell
        sys.exit(WRONG)
    except OSError as problem:
        refused = not_at_hand(problem)
        complain(refused, as_json, str(refused))
        sys.exit(WRONG)


def not_at_hand(problem: OSError) -> InvalidData:
    """A file that cannot be read or written, in words."""
    named = "" if problem.filename is None else f" {os.fsdecode(problem.filename)!r}"
    why = problem.strerror or str(problem)
    way_out = "Check the path, who may read or write there, and the room on the disk."
    return InvalidData(f"Cannot read or write{named}: {why}. {way_out}")


NAMED = re.compile(r"`([a-z_]+)`")
SETTINGS = "settings"  # the argument of commands that take the parameters of a question


def in_shell(problem: PrivodError, group: Any, typed: Sequence[str]) -> str:
    """The message of an error in the words of the shell; `group` holds all of its commands."""
    options = _options(_command(group, typed))
    text = str(problem)
    if isinstance(problem, InvalidParameter) and problem.parameter in options:
        text = f"{options[problem.parameter]}{text.removeprefix(problem.parameter)}"

    def written(found: re.Match[str]) -> str:
        word = found.group(1)
        if word in options:
            return options[word]
        return f"`privod {word}`" if word in group.commands else found.group()

    return NAMED.sub(written, text)


def _command(group: Any, typed: Sequence[str]) -> Any:
    """The command that was typed, as far as it is one."""
    command = group
    for word in typed:
        command = getattr(command, "commands", {}).get(word, command)
    return command


def _options(command: Any) -> dict[str, str]:
    """The options of a command by the names of their parameters."""
    options = {
        parameter.name: next(word for word in parameter.opts if word.startswith("--"))
        for parameter in command.params
        if parameter.param_type_name == "option"
    }
    if SETTINGS in {parameter.name for parameter in command.params}:
        from privod.query.catalog import QUERIES
        from privod.query.parameters import parameters_of

        theirs = {one.name for kind in QUERIES.values() for one in parameters_of(kind)}
        return {name: word for name, word in options.items() if name not in theirs}
    return options
