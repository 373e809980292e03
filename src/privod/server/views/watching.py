"""What an operator may see of a running server, gathered for Prometheus."""

from __future__ import annotations

import shutil
from collections.abc import Mapping

from privod.query.query import canonical_json
from privod.server.authentication import Visitor
from privod.server.metrics import Sample
from privod.server.site import Site


def gathered(site: Site, visitor: Visitor) -> dict[str, list[Sample]]:
    """The samples that a visitor may see: of one data set its budgets alone, else the server's too.

    Room on the disk is told to those alone who may see every report: rows take some, and questions
    about rows that are not held in memory take more by how many meet their conditions.
    """
    found = _of_server(site) if visitor.of is None else {}
    if visitor.role == "owner" and visitor.of is None:
        free = shutil.disk_usage(site.curator.directory).free
        found["disk_free_bytes"] = [((), float(free))]
    budgets = ("charges_total", "budget_left_epsilon", "budget_left_delta")
    found |= {name: [] for name in budgets}
    seen = [one.name for one in site.curator.datasets() if visitor.sees(one.name)]
    states = {state.number: state for name in seen for state in site.budget(name)}
    for state in states.values():  # versions of a data set share their budgets
        adjacency = canonical_json(state.adjacency.to_json())
        named = {"adjacency": adjacency, "budget": str(state.number), "dataset": state.dataset}
        left = (float(state.n_charges), float(state.left.epsilon), float(state.left.delta))
        for name, value in zip(budgets, left, strict=True):
            if state.closed is None or name == "charges_total":
                found[name].append((tuple(named.items()), value))
    return found


def _of_server(site: Site) -> dict[str, list[Sample]]:
    """What goes on here, whichever data sets it is about."""
    counted = ("requests_total", "refusals_total", "questions_ended_total")
    found = {name: site.metrics.samples(name) for name in counted}
    waiting = site.answers.writers.lengths()
    workers = {"answer": site.limits.workers, "write": site.limits.writers}
    return found | {
        "questions": _by("state", site.jobs.under_way()),
        "workers": _by("task", workers),
        "writing_tasks": [((), waiting["all"])],
        "writing_tasks_of_one_token": [((), waiting["longest"])],
        "can_write": [((), float(site.is_present))],
        "ledger_entries": [((), float(site.curator.witnessed.head().number))],
    }


def _by(label: str, counts: Mapping[str, int]) -> list[Sample]:
    return [(((label, name),), float(number)) for name, number in counts.items()]
