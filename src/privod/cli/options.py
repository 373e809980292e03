"""What many commands take: where the curator is, how a file is written."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod.errors import InvalidData, InvalidParameter

if TYPE_CHECKING:
    from privod.client import AnyCurator, Client
    from privod.data import Domain
    from privod.data.sources import CsvDialect

LOCATION_VARIABLE = "PRIVOD_AT"
DATABASE_VARIABLE = "PRIVOD_DATABASE"
WITNESS_VARIABLE = "PRIVOD_WITNESS"
ENGINE_VARIABLE = "PRIVOD_ENGINE"
TOKEN_VARIABLE = "PRIVOD_TOKEN"  # noqa: S105 - the name of a variable, not a secret
DEFAULT_LOCATION = "privod-curator"

At = Annotated[
    str,
    typer.Option(
        "--at",
        envvar=LOCATION_VARIABLE,
        help="Where the curator is: a directory, or the address of a server.",
    ),
]
Directory = Annotated[
    str,
    typer.Option("--at", envvar=LOCATION_VARIABLE, help="The directory that holds the curator."),
]
DatabaseUrl = Annotated[
    str | None,
    typer.Option(
        "--database",
        envvar=DATABASE_VARIABLE,
        help="A postgresql:// URL, where the ledger is not in the directory.",
    ),
]
Encoding = Annotated[str, typer.Option(help="Of a CSV file, such as latin-1.")]
Separator = Annotated[str, typer.Option(help="Of a CSV file: , ; | or tab.")]
DecimalMark = Annotated[str, typer.Option("--decimal", help="Before a fraction: . or ,")]
Thousands = Annotated[str | None, typer.Option(help="Between groups of three digits, if at all.")]
Quoting = Annotated[
    str, typer.Option(help="Of a CSV file: line, or multiline if quoted cells hold line ends.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def dialect_of(separator: str, **given: Any) -> CsvDialect:
    """How a CSV file is written, by what was typed."""
    from privod.data.sources import CsvDialect

    return CsvDialect(separator="\t" if separator == "tab" else separator, **given)


def check_written(*files: Path | None, picture: Path | None = None) -> None:
    """Refuse files that cannot be written, before anything is paid or computed for them."""
    if picture is not None and picture.suffix not in (".svg", ".png"):
        raise InvalidParameter("picture", "must end in .svg or .png", str(picture), "Rename it.")
    if picture is not None:
        import privod.pictures.canvas  # noqa: F401 - without matplotlib it says what to install
    for file in filter(None, (*files, picture)):
        folder = file.absolute().parent
        if not folder.is_dir():
            raise InvalidData(f"There is no folder {str(file.parent)!r} to write to. Make it.")
        if file.is_dir() or not os.access(file if file.exists() else folder, os.W_OK):
            why = "it is a folder" if file.is_dir() else "you may not write there"
            raise InvalidData(f"Cannot write {str(file)!r}: {why}. Name another file.")


def check_folders(*folders: Path | None) -> None:
    """The same of folders, which are made if they are missing."""
    for folder in filter(None, folders):
        near = next(one for one in (folder.absolute(), *folder.absolute().parents) if one.exists())
        if not near.is_dir() or not os.access(near, os.W_OK):
            why = "you may not write there" if near.is_dir() else f"{str(near)!r} is a file"
            raise InvalidData(f"Cannot write to a folder {str(folder)!r}: {why}. Name another.")


def read_json(path: Path, name: str, way_out: str) -> Any:
    """What a JSON file holds."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidData(f"There is no file {str(path)!r}. Check the path.") from None
    except (ValueError, RecursionError) as problem:
        rule = f"must be JSON ({problem})"
        raise InvalidParameter(name, rule, str(path), way_out) from None


def read_domain(path: Path) -> Domain:
    """The domain that a JSON file declares."""
    from privod.data import Domain

    way_out = 'Write {"columns": [{"name": "age", "low": 0, "high": 120}, ...]} in JSON.'
    return Domain.from_json(read_json(path, "domain", way_out))


def curator_at(
    location: str, *, read_only: bool = False, restoring: bool = False, create: bool = False
) -> AnyCurator:
    """The curator in a directory, or a client of the one behind an address."""
    if location.startswith(("http://", "https://")):
        from privod.client import connect

        return connect(location, os.environ.get(TOKEN_VARIABLE, ""))
    from privod.curator import Curator

    return Curator.open(
        location,
        database=os.environ.get(DATABASE_VARIABLE) or None,
        witness=os.environ.get(WITNESS_VARIABLE) or None,
        read_only=read_only,
        restoring=restoring,
        engine=os.environ.get(ENGINE_VARIABLE) or None,
        create=create,
    )


def server_at(location: str) -> Client:
    """A client of the server behind an address; a directory is none."""
    from privod.client import connect

    if "://" not in location:
        way_out = "A curator in a directory answers at once: see `privod history`."
        raise InvalidParameter("at", "must be the address of a server", location, way_out)
    return connect(location, os.environ.get(TOKEN_VARIABLE, ""))
