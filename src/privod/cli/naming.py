"""How does an error name what was typed? A parameter as its option, a verb as its command."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from privod.errors import InvalidParameter, PrivodError

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
