"""Ask every question of the catalog about sample data, and write one page about it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from privod.curator import Curator
from privod.data import Domain, Table
from privod.data.examples import HOSPITAL, hospital
from privod.demo.page import Chapter, page
from privod.ledger.acts import AdmitPerson, AllowExactCounts
from privod.ledger.prices import cost_towards
from privod.pictures import draw, draw_budget, svg
from privod.privacy import AddRemove, Adjacency, AdmittedContexts, Loss, SameContexts
from privod.progress import track
from privod.query.catalog import QUERIES
from privod.query.query import Query

DATASET = "hospital-stays"
INTRO = (
    "The records are 20,000 made-up stays in a hospital, treated as private. Every answer below was"
    " charged to a budget before the data was touched, and states its guarantee."
)
DIFFER = (
    "Every answer has its own noise, so two counts of the same records can differ. Each count has a"
    " 95 % margin of error. Questions about outliers differ in their rules and radii, too."
)


@dataclass(frozen=True)
class Step:
    """One question of the demo, its answer, its promise and its price."""

    name: str
    question: str
    parameters: str
    sentence: str
    promise: str
    price: str
    picture: bytes


@dataclass(frozen=True)
class Demo:
    """All that was asked and answered, and every budget after that: its state and picture."""

    steps: tuple[Step, ...]
    budgets: tuple[Chapter, ...]

    def to_json(self) -> Any:
        """Everything but the pictures."""
        steps = [
            {key: value for key, value in vars(step).items() if key != "picture"}
            for step in self.steps
        ]
        return {"steps": steps, "budgets": [budget.lines[0] for budget in self.budgets]}

    def html(self) -> str:
        """One self-contained page."""
        chapters = [
            Chapter(
                one.question,
                (
                    f"{one.name} {one.parameters}",
                    one.sentence,
                    f"Promise. {one.promise}",
                    f"Price. {one.price}",
                ),
                one.picture,
            )
            for one in self.steps
        ]
        title = f"Outliers in private data: {len(self.steps)} questions and their promises"
        return page(title, f"{INTRO} {DIFFER}", [*chapters, *self.budgets])


def run(directory: Path) -> Demo:
    """Set up a curator in the directory and ask it everything."""
    queries = [query for kind in QUERIES.values() for query in kind.examples(HOSPITAL)]
    return ask_all(directory, hospital(), queries)


def ask_all(directory: Path, table: Table, queries: list[Query[Any]]) -> Demo:
    """Ask these questions of a new curator whose budgets are wide enough for all of them."""
    curator = Curator.open(directory)
    curator.register(DATASET, table, table.domain)
    for adjacency, budget in _budgets(queries, table.domain):
        curator.open_budget(DATASET, adjacency, budget, confirmed=True)
        paid = [query for query in queries if _paid_under(query) == adjacency]
        exact = sum(query.exact_counts(table.domain) for query in paid)
        if exact:
            reason = "the sample questions"
            curator.do(AllowExactCounts(DATASET, adjacency, exact, reason), confirmed=True)
    for person in {query.guarantee().adjacency: None for query in queries}:
        if isinstance(person, SameContexts):
            reason = "the person of a sample question"
            curator.do(AdmitPerson(DATASET, person, reason, isolating=True), confirmed=True)
    steps = tuple(_ask(curator, query) for query in track(queries, "asking"))
    return Demo(steps, tuple(_spent(curator, queries, table.domain)))


def _budgets(queries: list[Query[Any]], domain: Domain) -> Iterator[tuple[Adjacency, Loss]]:
    """A main budget, and an allowance for every narrow adjacency, wide enough for all questions."""
    adjacencies: list[Adjacency] = [AddRemove()]
    for query in queries:
        if _paid_under(query) not in adjacencies:
            adjacencies.append(_paid_under(query))
    for adjacency in adjacencies:
        needed = sum((loss for _, loss in _charged(queries, adjacency, domain)), Loss(0))
        yield adjacency, Loss(needed.epsilon, 2 * needed.delta)  # detectors take a part of it


def _paid_under(query: Query[Any]) -> Adjacency:
    """The adjacency of the budget that pays for a question."""
    adjacency = query.guarantee().adjacency
    if AddRemove().steps_of(adjacency) is not None:
        return AddRemove()
    return AdmittedContexts() if isinstance(adjacency, SameContexts) else adjacency


def _charged(
    queries: list[Query[Any]], adjacency: Adjacency, domain: Domain
) -> Iterator[tuple[str, Loss]]:
    for query in queries:
        statement, cap = query.statements(domain)[0], domain.max_rows_per_person
        cost = cost_towards(adjacency, statement, cap)
        if _paid_under(query) == adjacency and cost is not None:
            yield query.name, cost.loss


def _ask(curator: Curator, query: Query[Any]) -> Step:
    answer = curator.ask(query, DATASET)
    release = answer.release
    charged = ", ".join(f"{charge.loss} ({charge.adjacency.name})" for charge in answer.charges)
    settings = {key: value for key, value in query.parameters().items() if value not in (None, [])}
    return Step(
        name=query.name,
        question=query.question,
        parameters=", ".join(f"{key} = {_short(value)}" for key, value in settings.items()),
        sentence=release.sentence(),
        promise=release.guarantee.sentence(),
        price=charged,
        picture=svg(draw(release)),
    )


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return str(value.get("name", value))
    if isinstance(value, list):
        shown = ", ".join(_short(item) for item in value[:6])
        return f"({shown}, ...)" if len(value) > 6 else f"({shown})"
    return str(value)


def _spent(curator: Curator, queries: list[Query[Any]], domain: Domain) -> Iterator[Chapter]:
    for state in curator.budget(DATASET):
        name, charges = state.adjacency.name, list(_charged(queries, state.adjacency, domain))
        picture = svg(draw_budget(f"Spent under {name}", state.budget, charges))
        told = f"{name}: spent {state.spent} of {state.budget}, left {state.left}."
        yield Chapter(f"Budget under {name}", (told, state.adjacency.gives_up), picture)
