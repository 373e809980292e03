"""Every question that can be asked, by name; what is stored or sent is read back through here."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from privod.errors import InvalidData, InvalidParameter, NoPromise, NotFound
from privod.privacy import Guarantee
from privod.query.checks import checked_truth
from privod.query.query import NOT_PARAMETERS, Query, Release
from privod.registry import load, questions
from privod.texts import did_you_mean

WRITTEN = {"query", "value", "guarantee", "seeded"}  # of every release, since the first one


class Catalog(Mapping[str, Any]):
    """Names to query classes, read off the registry; a class is loaded when it is asked for."""

    def __init__(self, *, joint: bool) -> None:
        self._joint = joint

    def __getitem__(self, name: str) -> Any:
        described = questions()[name]
        if described.joint is not self._joint:
            raise KeyError(name)
        return load(described.query)

    def __iter__(self) -> Iterator[str]:
        return (name for name, one in questions().items() if one.joint is self._joint)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __contains__(self, name: object) -> bool:
        described = questions().get(name) if isinstance(name, str) else None
        return described is not None and described.joint is self._joint


QUERIES: Mapping[str, type[Query[Any]]] = Catalog(joint=False)
"""Name to query."""

JOINT_QUESTIONS: Mapping[str, Any] = Catalog(joint=True)
"""Between several holders: listed and described like the others, but never asked of a curator and
never charged, because there is no curator and the promise is not a loss (`privod party`)."""


def kind_of(name: str) -> type[Query[Any]]:
    """The question of that name."""
    if name in QUERIES:
        return QUERIES[name]
    if name in JOINT_QUESTIONS:
        raise NotFound(
            f"{name!r} is asked between several holders, not of a curator"
            " (`privod plan --help`, `privod party --help`)."
        )
    near = did_you_mean(name, QUERIES)
    raise NotFound(f"There is no question {name!r}.{near} There are: {', '.join(sorted(QUERIES))}.")


def known_kind(data: dict[str, Any]) -> type[Query[Any]] | None:
    """The question that a ledger's entry asks; None if this privod does not know that version."""
    kind = QUERIES.get(str(data.get("name")))
    return kind if kind is not None and data.get("version") == kind.version else None


def query_from_json(data: dict[str, Any]) -> Query[Any]:
    """Build a question from its name and parameters; without a version, ours is meant."""
    if not isinstance(data, dict) or not isinstance(data.get("name"), str):
        way_out = "Write {'name': 'histogram', ...}."
        raise InvalidParameter("query", "must have a name", type(data).__name__, way_out)
    kind = kind_of(data["name"])
    version = data.get("version", kind.version)
    if version != kind.version or isinstance(version, bool):
        rule = f"of {kind.name} must be {kind.version}"
        raise InvalidParameter("version", rule, version, "Use the privod that has this version.")
    return kind.from_parameters({key: data[key] for key in data if key not in NOT_PARAMETERS})


def release_from_json(data: dict[str, Any]) -> Release[Any]:
    """Read back a release; its promise must be the one its question makes."""
    if not isinstance(data, dict) or not data.keys() >= WRITTEN:
        way_out = " Read the text with json.loads first." if isinstance(data, str) else ""
        written = ", ".join(sorted(WRITTEN))
        raise InvalidData(f"This is not a release: a JSON object with {written}.{way_out}")
    query = query_from_json(data["query"])
    guarantee = query.promised
    if data["guarantee"] != guarantee.to_json():  # as where a person may have several rows
        guarantee = Guarantee.from_json(data["guarantee"])
        if guarantee.of_persons(1) != query.promised:
            raise NoPromise(
                "The stored promise is not the one that its question makes."
                " The release was altered, or written by another version."
            )
    value, seeded = query.value_from_json(data["value"]), checked_truth(data["seeded"])
    own = getattr(value, "guarantee", guarantee), getattr(value, "seeded", seeded)
    if own != (guarantee, seeded):  # of a value that carries its noise, which keeps its own promise
        raise NoPromise("The release was made under another promise. It was altered.")
    return Release(query, value, guarantee, seeded)
