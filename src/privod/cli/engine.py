"""Install the engine of exact joint runs, in an environment of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from privod.cli.app import AsJson, app
from privod.cli.output import emit, words
from privod.errors import InvalidParameter

engine = typer.Typer(help="Engines for secure computation.", no_args_is_help=True)
app.add_typer(engine, name="engine")


@engine.command()
def install(
    name: Annotated[str, typer.Argument(help="The engine: spu.")],
    python: Annotated[
        Path | None, typer.Option(help="Python 3.10 or 3.11, if privod runs in another.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Install an engine for your user, from a list of packages with their hashes."""
    from privod.joint.exact.engine import install as make

    if name != "spu":
        raise InvalidParameter("engine", "must be spu", name, "Run `privod engine install spu`.")
    place = make(python, None if as_json else typer.echo)
    emit({"installed": str(place)}, as_json, words(f"SPU is installed in {str(place)!r}."))
