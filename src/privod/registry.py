"""The registry of questions: ours, and those of other packages.

A question is described once, by a `Question`: where its query, its picture and its worst cases are,
and which further names it makes public. The description holds references, "module:name", so that
listing the questions loads none of them. Everything that treats all questions alike reads the
registry: the catalog, the root of the package, command line, console, audit, demo, contract tests
and documentation.

Our own descriptions are the folders of `privod.questions`. Another package brings its own by an
entry point of the group "privod.questions" that names a `Question`; a program may call `register`.
"""

from __future__ import annotations

import pkgutil
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from privod.errors import AlreadyExists, NotFound

GROUP = "privod.questions"
"""The entry point group by which other packages bring questions."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """Where everything about one question is.

    Parameters
    ----------
    name : str
        The query's name, such as "histogram".
    query : str
        Reference to the query class, such as "privod.questions.histogram.query:Histogram".
    picture : str
        Reference to the function that draws a release; "" only for joint questions.
    worst_cases : str
        Reference to the function that returns the audit's worst cases; "" only for joint questions.
    adjacent : str
        Reference to the function that says whether two tables, which differ in one record, are
        adjacent under a question's own adjacency; "" where it has a usual one.
    value : str
        Reference to the class of released values that score records, a `Scorable`; "" if none.
    exports : tuple of str
        References to further public names: the type of the release, estimators.
    guide, proof : str
        The pages of the documentation, below `docs/`; "" where another package has its own.
    joint : bool
        Asked between several holders, never of a curator.
    """

    name: str
    query: str
    picture: str
    worst_cases: str = ""
    adjacent: str = ""
    value: str = ""
    exports: tuple[str, ...] = ()
    guide: str = ""
    proof: str = ""
    joint: bool = False

    def public_names(self) -> dict[str, str]:
        """Each public name with its reference."""
        return {
            reference.rpartition(":")[2]: reference
            for reference in (self.query, self.value, *self.exports)
            if reference
        }


def described(folder: str, **more: Any) -> Question:
    """The description of one of our questions: a folder, a class and two pages of one name."""
    stem = folder.rpartition(".")[2]
    kind = "".join(word.capitalize() for word in stem.split("_"))
    usual = {
        "name": stem.replace("_", "-"),
        "query": f"{folder}.query:{kind}",
        "picture": f"{folder}.picture:draw",
        "worst_cases": f"{folder}.audit:worst_cases",
        "guide": f"questions/{stem}.md",
        "proof": f"proofs/{stem}.md",
    }
    return Question(**{**usual, **more})


def load(reference: str) -> Any:
    """Import what a reference "module:name" names."""
    module, _, name = reference.partition(":")
    return getattr(import_module(module), name)


def register(one: Question) -> None:
    """Add a question for the rest of this process."""
    known = questions()
    if known.get(one.name, one) != one:
        raise AlreadyExists(f"There is a question {one.name!r} already. Give yours another name.")
    known[one.name] = one


def question(name: str) -> Question:
    """The description of the question of that name."""
    known = questions()
    if name not in known:
        raise NotFound(f"There is no question {name!r}. There are: {', '.join(sorted(known))}.")
    return known[name]


@cache
def questions() -> dict[str, Question]:
    """Every registered question by name, ours first; `register` adds one."""
    known: dict[str, Question] = {}
    folder = Path(__file__).parent / "questions"
    ours = sorted(one.name for one in pkgutil.iter_modules([str(folder)]) if one.ispkg)
    found = [import_module(f"{GROUP}.{name}").QUESTION for name in ours]
    found += [point.load() for point in sorted(entry_points(group=GROUP))]
    for one in found:
        if one.name in known:
            raise AlreadyExists(f"Two packages bring a question {one.name!r}. Uninstall one.")
        known[one.name] = one
    return known
