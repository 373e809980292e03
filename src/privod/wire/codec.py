"""Nouns to JSON and back, by the types of their fields; reading trusts nothing."""

from __future__ import annotations

import json
import types
from dataclasses import MISSING, fields, is_dataclass
from fractions import Fraction
from functools import cache
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import InvalidData, InvalidParameter
from ..privacy import Adjacency, adjacency_from_json, exact

Noun = TypeVar("Noun")

SCALARS = (str, int, float, bool)


def encode(value: Any) -> Any:
    """A noun, or a list of nouns, as plain JSON values."""
    if isinstance(value, Adjacency):
        return encode(value.to_json())
    if isinstance(value, Fraction):
        return str(value)
    if isinstance(value, dict):
        return {key: encode(item) for key, item in value.items()}
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: encode(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, tuple | list):
        return [encode(item) for item in value]
    return value


def to_text(value: Any) -> str:
    """A noun, or a list of nouns, as JSON text; there is no NaN in it."""
    return json.dumps(encode(value), allow_nan=False)


def decode(kind: type[Noun], data: Any) -> Noun:
    """Read a noun from plain JSON values."""
    noun: Noun = _read(kind, data, kind.__name__)
    return noun


def _read(hint: Any, data: Any, place: str) -> Any:
    origin = get_origin(hint)
    if hint is Any:
        return data
    if origin is Annotated:
        return _read(get_args(hint)[0], data, place)
    if origin in (Union, types.UnionType):
        members = [member for member in get_args(hint) if member is not type(None)]
        if data is None and len(members) < len(get_args(hint)):
            return None
        return _read(members[0], data, place)  # a noun has at most one other kind beside None
    if origin is Literal:
        if data in get_args(hint):
            return data
        raise _misfit(place)
    if origin is tuple:
        if not isinstance(data, list):
            raise _misfit(place)
        inner = get_args(hint)[0]
        return tuple(_read(inner, item, f"{place}[{index}]") for index, item in enumerate(data))
    if origin is dict:
        if not isinstance(data, dict):
            raise _misfit(place)
        return data
    if hint in (Adjacency, Fraction):
        try:
            return exact(str(data), place) if hint is Fraction else adjacency_from_json(data)
        except (InvalidParameter, TypeError, AttributeError):
            raise _misfit(place) from None
    if is_dataclass(hint) and isinstance(hint, type):
        return _read_fields(hint, data, place)
    return _read_scalar(hint, data, place)


def _read_fields(kind: Any, data: Any, place: str) -> Any:
    if not isinstance(data, dict):
        raise _misfit(place)
    given = {}
    for name, (hint, required) in _fields(kind).items():
        if name in data:
            given[name] = _read(hint, data[name], f"{place}.{name}")
        elif required:
            raise _misfit(f"{place}.{name}")
    try:
        return kind(**given)
    except InvalidParameter:  # such as a loss below 0
        raise _misfit(place) from None


@cache
def _fields(kind: Any) -> dict[str, tuple[Any, bool]]:
    """Each field with its type and whether it must be there."""
    hints = get_type_hints(kind, include_extras=True)
    return {
        field.name: (
            hints[field.name],
            field.default is MISSING and field.default_factory is MISSING,
        )
        for field in fields(kind)
    }


def _read_scalar(kind: Any, data: Any, place: str) -> Any:
    if kind is float and isinstance(data, int) and not isinstance(data, bool):
        return float(data)
    if kind not in SCALARS or type(data) is not kind:
        raise _misfit(place)
    return data


def _misfit(place: str) -> InvalidData:
    return InvalidData(f"{place} is missing or is not what privod writes there.")
