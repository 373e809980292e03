"""A table with dates, truth values, ordered and open categories, gaps and remarks, end to end."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pa_parquet
import pytest
from typer.testing import CliRunner

from privod.cli import app
from privod.curator import Curator
from privod.data import Domain
from privod.errors import InvalidParameter
from privod.mechanisms import seeded
from privod.privacy import AddRemove, Loss
from privod.query.catalog import QUERIES
from privod.query.query import canonical_json

N = 300
COUNTRIES = ["DE", "FR", "Atlantis", ""]
FILLED = {
    "id": None,
    "paid": {"type": "date", "low": "2020-01-01", "high": "2024-12-31", "fill": "2020-01-01"},
    "refunded": {"type": "boolean", "fill": False},
    "grade": {"type": "ordinal", "values": ["low", "mid", "high"], "fill": "low"},
    "country": {"type": "category", "values": ["DE", "FR"], "other": True, "fill": "DE"},
    "amount": {"type": "number", "low": 0, "high": 20000, "unit": "EUR", "fill": 0},
    "remark": None,
}


def frame() -> pd.DataFrame:
    chance = np.random.default_rng(5)
    days = pd.Timestamp("2020-01-01") + pd.to_timedelta(chance.integers(0, 1826, N), "D")
    amounts = np.round(chance.lognormal(6, 1, N), 2)
    amounts[::17] = np.nan
    return pd.DataFrame(
        {
            "id": np.arange(N),
            "paid": days,
            "refunded": chance.random(N) < 0.1,
            "grade": chance.choice(["low", "mid", "high"], N),
            "country": chance.choice(COUNTRIES, N),
            "amount": amounts,
            "remark": [f'said "{n}"\nand left' if n % 9 == 0 else "" for n in range(N)],
        }
    )


def filled_in(path: Path) -> None:
    """What an owner does with a draft: fill in what is known, leave out what nobody asks about."""
    draft = json.loads(path.read_text())
    given = [(entry, FILLED[entry["name"]]) for entry in draft["columns"]]
    path.write_text(json.dumps({"columns": [{**entry, **own} for entry, own in given if own]}))


def sources(tmp_path: Path) -> dict[str, list[str]]:
    """The same rows as CSV, Parquet and DuckDB, and the options that name each."""
    rows = frame()
    written = rows.assign(paid=rows["paid"].dt.strftime("%Y-%m-%d"))
    written.loc[3, "paid"] = "2024-02-31"
    written["refunded"] = written["refunded"].map({True: "yes", False: "no"})
    written.loc[4, "refunded"] = "maybe"
    written.to_csv(tmp_path / "rows.csv", index=False, quoting=csv.QUOTE_MINIMAL)
    pa_parquet.write_table(pa.Table.from_pandas(rows), tmp_path / "rows.parquet")
    duckdb = pytest.importorskip("duckdb")
    base = tmp_path / "rows.duckdb"
    with duckdb.connect(str(base)) as connection:
        connection.register("given", rows)
        connection.execute("create table payments as select * from given")
    query = ["--sql", "select * from payments", "--from", str(base)]
    return {
        "csv": [str(tmp_path / "rows.csv")],
        "parquet": [str(tmp_path / "rows.parquet")],
        "duckdb": query,
    }


def test_it_registers_from_every_source_in_one_command_after_a_draft(tmp_path: Path) -> None:
    run, curator = CliRunner(), str(tmp_path / "curator")
    for name, source in sources(tmp_path).items():
        domain = tmp_path / f"{name}.json"
        assert run.invoke(app, ["draft", *source, "--to", str(domain)]).exit_code == 0
        filled_in(domain)
        more = {"csv": ["--quoting", "multiline"], "duckdb": ["--order-by", "id"]}.get(name, [])
        options = ["--domain", str(domain), "--at", curator, "--most-records", "1000", "--json"]
        made = run.invoke(app, ["register", name, *source, *more, *options])
        assert made.exit_code == 0, (name, made.output, made.exception)
    declared = Domain.from_json(json.loads((tmp_path / "parquet.json").read_text()))
    here = Curator.open(curator)
    here.register("pandas", frame(), declared, most_records=1000)
    counts = {}
    for name in ("csv", "parquet", "duckdb", "pandas"):
        assert here.report(name).kept == N
        here.open_budget(name, AddRemove(), Loss(5000))
        kind = QUERIES["histogram"]
        asked = kind.from_parameters({"columns": ["country", "grade"], "epsilon": 1000})
        counts[name] = here.ask(asked, name).release.value.counts.tolist()
    assert counts["csv"] == counts["parquet"] == counts["duckdb"] == counts["pandas"]
    assert sum(map(sum, counts["csv"])) == N
    told = {column.name: column for column in here.report("csv").columns}
    assert (told["paid"].missing, told["refunded"].missing) == (1, 1)
    assert told["country"].undeclared > 50


def test_every_question_answers_on_it_or_says_why_not() -> None:
    from privod.data.sources import read

    columns = [{"name": name, **given} for name, given in FILLED.items() if given is not None]
    domain = Domain.from_json({"columns": columns})
    table = read(frame(), domain)
    assert len(table) == N
    for name, kind in QUERIES.items():
        examples = kind.examples(domain)
        assert examples, f"{name} has no example for such a table"
        for query in examples[:1]:
            query.check(domain)
            release = query.answer(table, seeded(1))
            assert release.sentence()
            canonical_json(release.to_json())
        refused = [each for each in domain.names if _refusal(kind, examples[0], each, domain)]
        for each in refused:
            message = _refusal(kind, examples[0], each, domain)
            assert "got" in message
            assert message.endswith((".", "?")), message


def _refusal(kind: Any, example: Any, column: str, domain: Domain) -> str:
    """What the question says when it is asked about this column alone; "" if it takes it."""
    given = example.parameters()
    if "columns" not in given or "records" in given:
        return ""
    try:
        kind.from_parameters({**given, "columns": [column], "weights": []} if "weights" in given
                             else {**given, "columns": [column]}).check(domain)  # fmt: skip
    except InvalidParameter as problem:
        return str(problem)
    return ""
