"""Every command, given what is not there, cannot be, or is misspelled: a sentence, no traceback."""

from __future__ import annotations

# slow: left out by `make quick`
import json
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

from privod.cli import app, main
from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric
from privod.privacy import AddRemove, Loss

DOMAIN = Domain((Numeric("age", 0, 120), Categorical("sex", ("f", "m"))))
ROWS = {"age": [30.0, 40.0, 50.0], "sex": ["f", "m", "m"]}
NUMBERS = ("-1", "99999999999999999999999999")
FILES = ("missing.csv", "no/folder/here.json", "rows.csv/x.csv", "folder", "garbage.json")
TEXTS = ("patinets", "", "{", "-1")
GIVEN = {
    "name": "patients",
    "dataset": "patients",
    "file": "rows.csv",
    "files": "garbage.json",
    "domain": "domain.json",
    "question": "histogram",
    "settings": "columns=sex epsilon=0.1",
    "analysis": "analysis.json",
    "records": "rows.csv",
    "release": "missing.json",
    "roster": "pki/roster.json",
    "certificate": "pki/a/certificate.pem",
    "key": "pki/a/key.pem",
    "out": "out.csv",
    "folder": "new",
    "destination": "copy",
    "kept": "copy",
    "role": "analyst",
    "at": "http://127.0.0.1:9",
    "epsilon": "1",
    "adjacency": "add-remove",
    "counts": "1",
    "number": "1",
    "approvals": "approvals.json",
    "coming": "0.1",
    "stalled": "0.1",
    "pairs": "1",
    "sample": "1",
    "party": "a",
}
"""What a parameter is given while another one is tried."""


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, inner in sorted(getattr(command, "commands", {}).items()):
        yield from leaves(inner, (*path, name))
    if not getattr(command, "commands", {}):
        yield path, command


COMMANDS = get_command(app)
TREE = dict(leaves(COMMANDS))


def kind_of(parameter: Any) -> str:
    said = str(parameter.type_descriptor.annotation)
    numbers = any(word in said for word in ("'int'", "'float'"))
    return "number" if numbers else "path" if "Path" in said else "text"


def usual(parameter: Any) -> list[str]:
    """What a parameter that is not tried is given."""
    kind, name = kind_of(parameter), parameter.name
    given = GIVEN.get(name, "x")
    if kind == "path" and name == "question":
        given = "joint.json"
    if kind == "number" and not given.replace(".", "").isdigit():
        given = "5"
    return given.split() if name == "settings" else [given]


def trials(path: tuple[str, ...], command: Any) -> Iterator[list[str]]:
    """Whole command lines, each with one parameter that does not fit."""
    parameters = [one for one in command.params if not getattr(one, "is_flag", False)]
    nonsense = {"number": NUMBERS, "path": FILES, "text": TEXTS}
    for tried in parameters:
        for value in nonsense[kind_of(tried)]:
            line, options = list(path), []
            for one in parameters:
                needed = one.required or one.name in ("coming", "stalled", "pairs")
                values = [value] if one is tried else usual(one)
                if one.param_type_name == "argument":
                    line += values
                elif one is tried or needed:
                    word = next(word for word in one.opts if word.startswith("--"))
                    options += [f"{word}={each}" for each in values]
            yield [*line, *options]


@pytest.fixture
def house(furnished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a curator, a data set in it, and files of every kind."""
    shutil.copytree(furnished, tmp_path, dirs_exist_ok=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVOD_AT", str(tmp_path / "curator"))
    _without_long_work(monkeypatch)
    return tmp_path


@pytest.fixture(scope="module")
def furnished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same, made once."""
    tmp_path = tmp_path_factory.mktemp("house")
    with Curator.open(tmp_path / "curator") as curator:
        curator.register("patients", ROWS, DOMAIN, most_records=1000)
        curator.open_budget("patients", AddRemove(), Loss(3))
    told = {"name": "joint-detector", "epsilon": "1", "delta": "1e-6", "columns": ["age"]}
    asked = [{"name": "histogram", "columns": ["sex"], "epsilon": "0.1"}]
    for name, value in (("domain", DOMAIN.to_json()), ("joint", told), ("analysis", asked)):
        (tmp_path / f"{name}.json").write_text(json.dumps(value))
    (tmp_path / "rows.csv").write_text("age,sex\n30,f\n40,m\n")
    (tmp_path / "garbage.json").write_bytes(bytes(range(256)) * 4)
    (tmp_path / "folder").mkdir()
    return tmp_path


def _without_long_work(monkeypatch: pytest.MonkeyPatch) -> None:
    told = SimpleNamespace(chapters=(), html=str, to_json=list)
    monkeypatch.setattr("privod.demo.story.tell", lambda _: told)
    monkeypatch.setattr("privod.server.serve.serve", lambda *_, **__: None)
    monkeypatch.setattr("privod.agent.agent_server", lambda _: SimpleNamespace(run=int))
    monkeypatch.setattr("privod.joint.exact.engine._do", lambda *_: None)
    for place in ("typer.main", "privod.cli.app"):  # which make the tree again for each line
        monkeypatch.setattr(sys.modules[place], "get_command", lambda _: COMMANDS)


def said(line: list[str], monkeypatch: pytest.MonkeyPatch, capsys: Any) -> str:
    """What a command says on the error stream, once it ended without a traceback."""
    monkeypatch.setattr("sys.argv", ["privod", *line])
    code: Any = 0
    try:
        main()
    except SystemExit as ended:
        code = ended.code
    except BaseException as problem:
        raise AssertionError(f"{line} ended with {problem!r}") from problem
    assert code in (0, 1, 2, 3), line
    return str(capsys.readouterr().err)


def test_what_cannot_be_written_is_refused_before_anything_is_charged(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    asked = ["ask", "patients", "histogram", "columns=sex", "epsilon=1", "--yes"]
    for option in ("--out", "--csv", "--picture"):
        for file in ("no/here.svg", "rows.csv/here.svg"):
            told = said([*asked, option, file], monkeypatch, capsys)
            assert "There is no folder" in told
    assert "it is a folder" in said([*asked, "--out", "folder"], monkeypatch, capsys)
    assert "is a file" in said(["demo", "--report", "rows.csv/x.html"], monkeypatch, capsys)
    with Curator.open(house / "curator") as curator:
        assert curator.budget("patients")[0].spent == Loss(0)


def test_a_file_that_cannot_be_read_is_named_with_a_reason_and_a_way_out(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    told = said(["rehearse", "folder", "--domain", "domain.json"], monkeypatch, capsys)
    assert told.startswith("privod: Cannot read or write 'folder': Is a directory. Check")
    told = said(["open", "patients", "--epsilon", "-1"], monkeypatch, capsys)
    assert told == "privod: --epsilon must be at least 0, got '-1'. Try 1.\n"
    assert house.is_dir()


@pytest.mark.parametrize("path", TREE, ids=" ".join)
def test_no_command_ends_in_a_traceback_whatever_is_typed(
    house: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, path: tuple[str, ...]
) -> None:
    if "roster" in {one.name for one in TREE[path].params}:
        said(["pki", "pki", "--party", "a", "--party", "b", "--party", "c"], monkeypatch, capsys)
    for line in trials(path, TREE[path]):
        assert "Traceback" not in said(line, monkeypatch, capsys), line
