"""What an analyst does: look at the questions, price one, ask it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod import wire
from privod.cli.app import app
from privod.cli.options import DEFAULT_LOCATION, AsJson, At, check_written, curator_at, server_at
from privod.cli.output import emit, moment, progress_bars, table, words
from privod.errors import InvalidParameter, NeedsConfirmation, Unavailable
from privod.texts import check_text, did_you_mean, listed

if TYPE_CHECKING:
    from privod.query.query import Query

Dataset = Annotated[str, typer.Argument(help="The data set.")]
Question = Annotated[str, typer.Argument(help="The question's name: see 'privod questions'.")]
Settings = Annotated[
    list[str] | None,
    typer.Argument(help="Parameters as NAME=VALUE, such as columns=age,weight epsilon=0.5."),
]

Records = Annotated[
    int | None,
    typer.Option(help="About how many records there are, if that is public; else the declared."),
]
Expect = Annotated[
    int | None,
    typer.Option(
        min=1,
        help="How many records you expect in what is counted; 1 % of all for outliers unless said.",
    ),
]
ENDED = {"waiting": "waiting", "answering": "under way", "done": "answered", "failed": "failed"}


@app.command()
def questions(
    name: Annotated[str | None, typer.Argument(help="One question, with its parameters.")] = None,
    as_json: AsJson = False,
) -> None:
    """List the questions that can be asked, or explain one."""
    from privod.query.catalog import JOINT_QUESTIONS, QUERIES, kind_of
    from privod.query.parameters import parameters_of
    from privod.wire.reading import describe

    if name is None:
        known = [describe(kind) for kind in QUERIES.values()]
        notes = []
        for joint in JOINT_QUESTIONS:
            try:
                known.append(describe(JOINT_QUESTIONS[joint]))
            except Unavailable as problem:
                notes.append(f"{joint} is left out. {problem}")
        rows = [[one.name, one.question] for one in known]
        listed = table("Questions", ["name", "question"], rows)
        emit(known, as_json, listed, *(words(note) for note in notes))
        return
    kind: Any = JOINT_QUESTIONS[name] if name in JOINT_QUESTIONS else kind_of(name)
    described = describe(kind)
    rows = [
        [each.name, "required" if each.required else each.written(each.default), each.doc]
        for each in parameters_of(kind)
    ]
    emit(
        described,
        as_json,
        words(described.question, "bold"),
        words(described.guarantee),
        table(described.name, ["parameter", "default", "meaning"], rows),
    )


def _query(name: str, settings: list[str] | None) -> Any:
    """Build the question from what was typed."""
    from privod.query.catalog import kind_of
    from privod.query.parameters import parameters_of

    kind = kind_of(name)
    known = {parameter.name: parameter for parameter in parameters_of(kind)}
    given: dict[str, Any] = {}
    for setting in settings or []:
        check_text(setting, "a parameter", lines=True)
        key, equals, text = setting.partition("=")
        if not equals or key not in known:
            near = did_you_mean(key, known) if key not in known else ""
            way_out = f"{near} Write NAME=VALUE with one of {', '.join(known)}.".strip()
            raise InvalidParameter("a parameter", "must be one of the question's", setting, way_out)
        if key in given:
            raise InvalidParameter(key, "must be given once", setting, "Leave one of them out.")
        given[key] = known[key].read(text)
    return kind.from_parameters(given)


@app.command()
def guarantee(question: Question, settings: Settings = None, as_json: AsJson = False) -> None:
    """Say what a question guarantees and to whom, and which budget its owner must open for it."""
    query = _query(question, settings)
    given = query.guarantee()
    emit(
        wire.Guarantee.of(given),
        as_json,
        words(given.sentence()),
        words(_not_protected(query)),
        *map(words, _opening(query)),
    )


def _opening(query: Query[Any]) -> Iterator[str]:
    """What an owner types so that the question can be asked, and of which data it never can."""
    from privod.privacy import SameContexts
    from privod.query.query import Query

    adjacency = query.guarantee().adjacency
    written = shlex.quote(json.dumps(adjacency.to_json()))
    if isinstance(adjacency, SameContexts):
        yield "A budget for it: privod open DATA --epsilon LIMIT --adjacency admitted-contexts"
        yield f"and then: privod admit DATA {written} --reason WHY"
        return
    yield f"A budget for it: privod open DATA --epsilon LIMIT --adjacency {written}"
    if type(query).exact_counts is not Query.exact_counts:
        yield (
            "and, where it tells counts exactly: privod allow-exact DATA --counts N"
            f" --adjacency {written} --reason WHY"
        )
    if not adjacency.stretches_to_persons:
        yield "It can be asked only of data that declare at most 1 row per person."


@app.command()
def price(
    dataset: Dataset,
    question: Question,
    settings: Settings = None,
    within: Annotated[
        int | None,
        typer.Option(help="Find the least epsilon whose answer is right to within this."),
    ] = None,
    records: Records = None,
    expect: Expect = None,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Say what a question would cost and be worth; looks at no data and charges nothing."""
    from privod.ledger.prices import BEGUN
    from privod.privacy import decimal_text
    from privod.query.as_code import typed
    from privod.query.preview import epsilon_within, time_told, worth
    from privod.query.size import size_offer

    if within is not None and not any(one.startswith("epsilon=") for one in settings or []):
        settings = [*(settings or []), "epsilon=1"]
    asked = _query(question, settings)
    with curator_at(at) as curator:
        domain = curator.dataset(dataset).domain
        if within is not None:
            asked = replace(asked, epsilon=epsilon_within(asked, domain, within))
        query: Any = curator.adapted(asked, dataset)
        found = curator.price(query, dataset)
    rows = [
        [
            charge.adjacency.name,
            str(charge.loss),
            "not enough" if charge.left is None else str(charge.left),
            "without end" if charge.questions_left is None else str(charge.questions_left),
        ]
        for charge in found.charges
    ]
    remark = "It was answered before: asking again is free." if found.already_answered else ""
    if found.begun:
        remark = BEGUN
    if not found.affordable:
        remark = "It is over budget."
    assumed = expect is None and query.preview(domain).noise is not None
    offer, count = size_offer(found, domain) if records is None and assumed else ("", None)
    if count is not None:
        offer += f": privod ask {shlex.quote(dataset)} {typed(count.to_json())}"
    emit(
        wire.Price.about(found, query, domain),
        as_json,
        words(worth(query, domain, records or found.records or found.most_records, expect), "bold"),
        words("Name what you expect with --expect." if assumed else ""),
        words(f"Epsilon: {decimal_text(query.epsilon)}." if within is not None else ""),
        words(query.guarantee().of_persons(domain.max_rows_per_person).sentence()),
        words(_not_protected(query)),
        table("Price", ["budget", "cost", "would be left", "such questions left"], rows),
        words(time_told(found)),
        words(offer),
        words(remark),
    )


@app.command()
def ask(
    dataset: Annotated[str | None, typer.Argument(help="The data set.")] = None,
    question: Annotated[
        str | None, typer.Argument(help="The question's name; without it, all are listed.")
    ] = None,
    settings: Settings = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Also write the release here, as JSON; what can score also as .privod."),
    ] = None,
    csv: Annotated[
        Path | None, typer.Option(help="Also write the answer here as a table, labels in columns.")
    ] = None,
    picture: Annotated[Path | None, typer.Option(help="Also draw it: .svg or .png.")] = None,
    request_id: Annotated[
        str | None, typer.Option(help="Your own name for this request; a retry never pays twice.")
    ] = None,
    records: Records = None,
    expect: Expect = None,
    yes: Annotated[bool, typer.Option("--yes", help="Pay also for what is mostly noise.")] = False,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """Ask a question: charge its price, then answer. Without one, list what can be asked.

    You are asked to confirm where the answer would be mostly noise, even in as many records as
    were declared. Say with --expect how many records you expect in what is counted.
    """
    from privod.query.preview import noise_remark

    if dataset is None or question is None:
        _list_offers(dataset, at, as_json)
        return
    query = _query(question, settings)
    check_written(out, csv, picture=picture)
    with curator_at(at) as curator:
        domain = curator.dataset(dataset).domain
        adapted = curator.adapted(query, dataset)
        priced = curator.price(adapted, dataset)
        known = records or priced.records or priced.most_records
        if not yes and priced.affordable and priced.charges and not priced.begun:
            remark = noise_remark(adapted, domain, known, expect)
            if remark and (as_json or not typer.confirm(f"{remark}\nAsk it all the same?")):
                raise NeedsConfirmation(
                    f"{remark} Nothing was charged. Confirm it to ask it all the same."
                )
        with progress_bars(as_json):
            answer = curator.ask(query, dataset, request_id=request_id)
    release = answer.release
    if out is not None and out.suffix == ".privod" and hasattr(release.value, "save"):
        release.value.save(out)
    elif out is not None:
        out.write_text(json.dumps(release.to_json(), indent=2) + "\n", encoding="utf-8")
    if csv is not None:
        csv.write_text(release.to_csv(), encoding="utf-8", newline="")
    if picture is not None:
        from privod import pictures

        write = pictures.svg if picture.suffix == ".svg" else pictures.png
        picture.write_bytes(write(pictures.draw(release, domain.titles)))
    written = [str(file) for file in (out, csv, picture) if file is not None]
    paid = "It was answered before and cost nothing." if answer.stored else _paid(answer)
    emit(
        wire.Answer.with_cost(answer),
        as_json,
        words(release.sentence(), "bold"),
        words(noise_remark(release.query, domain, known, expect)),
        words(release.guarantee.sentence()),
        words(_not_protected(query)),
        words(paid),
        words(f"Written: {listed(written)}." if written else ""),
    )


def _list_offers(dataset: str | None, at: str, as_json: bool) -> None:
    """What can be asked of a data set, what is left, and from which epsilon on it is useful."""
    from privod.privacy import decimal_text
    from privod.query.as_code import as_settings
    from privod.query.offers import GOALS, NEVER, offers

    with curator_at(at) as curator:
        known = [one.name for one in curator.datasets() if not one.retired]
        if dataset is None and len(known) != 1:
            way_out = f"Name one of {', '.join(known)}." if known else "See `privod register`."
            raise InvalidParameter("the data set", "must be named", None, way_out)
        name = known[0] if dataset is None else dataset
        found = offers(curator.dataset(name).domain, lambda query: curator.price(query, name))
        budgets = [state for state in curator.budget(name) if state.closed is None]
    listed = [(goal, offer) for goal, some in found.items() for offer in some]
    rows = [
        [
            GOALS[goal] if offer is found[goal][0] else "",
            offer.query.name,
            decimal_text(offer.epsilon),
            offer.why or "yes",
        ]
        for goal, offer in listed
    ]
    left = "; ".join(f"{one.adjacency.name}: {one.left} left of {one.budget}" for one in budgets)
    headings = ["what you want", "question", "useful from epsilon", "can be paid"]
    never = {offer.refused for _, offer in listed if budgets and offer.why == NEVER}
    payable = [as_settings(offer.query) for _, offer in listed if not offer.why]
    example = f"privod price {shlex.quote(name)} {min(payable, key=len, default='QUESTION')}"
    emit(
        [
            {"goal": goal, "query": offer.query.to_json(), "refused": offer.refused}
            for goal, offer in listed
        ],
        as_json,
        table(f"What you can ask of {name}", headings, rows),
        *(words(f"{NEVER.capitalize()}: {why}") for why in sorted(never)),
        words(left or "No budget is open. The owner opens one: privod open."),
        words("Next: privod questions QUESTION, or see a price:"),
        words(example),
    )


def _not_protected(query: Any) -> str:
    told = query.not_protected()
    return f"Not protected: {told}" if told else ""


def _paid(answer: Any) -> str:
    charged = "; ".join(f"{charge.loss} to {charge.adjacency.name}" for charge in answer.charges)
    return (
        f"Charged: {charged}. The ledger now ends in {answer.head}. Keep that: `privod verify"
        " --head` finds with it whether an entry is missing later."
    )


@app.command()
def jobs(
    most: Annotated[int, typer.Option(min=1, max=1000, help="How many, the newest first.")] = 20,
    at: At = DEFAULT_LOCATION,
    as_json: AsJson = False,
) -> None:
    """List what your token asked of a server, answered, under way or failed."""
    from privod.query.as_code import typed

    with server_at(at) as server:
        found = server.jobs()[:most]
    rows = [
        [moment(job.time), job.dataset, typed(job.query), ENDED[job.state], job.message or ""]
        for job in found
    ]
    headings = ["asked (UTC)", "data", "question", "state", "why there is no answer"]
    shown = headings if any(job.message for job in found) else headings[:-1]
    emit(
        found,
        as_json,
        table("Your questions", shown, [row[: len(shown)] for row in rows], whole=["asked (UTC)"]),
        words("Asking again what was answered, or is under way, costs nothing."),
    )
