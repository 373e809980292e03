"""A privacy sheet of a data set, for data protection officers: from the ledger, never from rows."""

from __future__ import annotations

import json
from collections.abc import Sequence

from privod.ledger.acts.consequences import guessed_right
from privod.ledger.budget_state import BudgetState
from privod.ledger.chain import Entry
from privod.ledger.prices import ELSEWHERE
from privod.ledger.store import DataSet
from privod.privacy import AddRemove, Loss, Replace
from privod.privacy.loss import decimal_text
from privod.version import __version__

SHEET = """# Privacy sheet: {title}

Data set `{name}`, registered {registered}. privod {version} made this sheet from declarations and
the ledger. It read no row. The ledger ends in `{head}`. `privod verify` recomputes it.

## What is released, and to whom

Answers, never rows. An answer has noise or is a random choice. Counts of rare values are exact
where the owner allowed it.

{releases}

Asked by: {askers}. Anyone may pass an answer on, so treat it as public. It cannot be taken back.

## Under which guarantee

Differential privacy, for those whom a budget protects. The unit is {unit}. A question is charged
before rows are read, and a charge is never refunded.

{budgets}

## How often a guess can be right

Somebody thinks 50:50, sees the answers and guesses. The guess is right at most this often. Tossing
a coin is right 50 % of the time.

{guesses}

These are guesses, not posteriors: with a delta, posteriors have no bound.

## What is not protected

{left_out}
- What follows about a person from the records of relatives or of everybody.
- The data from anyone who can read the curator's directory or its host's memory.
- What ranges and categories reveal, if somebody read them off the data.
- How long an answer takes, in part, and side channels of the machine.
- What is released about the same people from data sets that do not continue this one.

## Outline of a data protection impact assessment

| point | answer |
| --- | --- |
| Purpose and lawful basis | [fill in] |
| Personal data | columns {columns}; versions {versions} |
| Who decides, who asks | [fill in]; asked so far: {askers} |
| Kept for how long | [fill in]; `privod retire` deletes rows, releases stay |
| Necessary and proportionate | limit: {limits}; why this much: [fill in] |
| Risk: membership or values inferred | of the protected: a guess is right at most {whole} |
| Risk: people outside the guarantee | the list above; how many: `privod protected` |
| Risk: access to the rows | who can read the directory and its backups: [fill in] |
| Measures | noise and random choices of proved size; charge before reading; ledger; audit |
| Opinion of the officer, date | [fill in] |

## The questions of NIST SP 800-226

| question | answer |
| --- | --- |
| Epsilon and delta? | {limits} |
| Unit of privacy? | {unit} |
| Which data sets are neighbors? | the adjacencies above |
| How do losses compose? | adaptively; by sums, or by zCDP where a budget says so |
| Are the algorithms correct? | each has a proof and an audit (`privod audit`) |
| Exact arithmetic? | integers between a count and its noise |
| Source of randomness? | the operating system; a server derives a stream from it |
| Utility? | answers state a margin of error where it does not depend on rows |
| Bias? | small groups have the largest relative error; who is affected: [fill in] |
| Trust model? | central: the curator and its host see the rows |
| Side channels? | times depend on rows in part; nothing else is defended |
| Access control? | tokens with roles; the directory and its host: [fill in] |
| Data collection? | [fill in] |

## Entry for the public registry of deployments

In the form of <https://github.com/opendp/deployments-registry-data>; its other fields are yours.

```yaml
url_slug: {quoted[name]}
deployment:
  basic:
    name: {quoted[title]}
    data_product_type: "Summary statistics"
    publication_date: "{published}"
  dp_variant:
    variant_name: "{variant}"
    data_domain: {quoted[columns]}
    unprotected_quantities: {quoted[but]}
  privacy_loss:
    privacy_unit: {quoted[unit]}
    privacy_parameters: {{epsilon: {epsilon}, delta: {delta}}}
  deployment_model:
    model_name: "Central"
    trust_assumptions: "The curator and its host see the rows."
    release_type: "Many releases"
    access_type: "Interactive"
  implementation:
    mechanisms: "privod {version}: exact integer noise and exact private selection"
    composition: "adaptive, in a ledger that is charged before rows are read"
  administrative:
    status: "Draft"
```

## For the people in the data

We answer statistical questions about records such as yours. Your record stays with us. We add
chance to answers. This limits how much they depend on one {one} that is protected. Somebody who
sees every answer and guesses {whether} is then right at most {whole} of the time. Tossing a coin is
right 50 % of the time. {but}
"""


def written(
    dataset: DataSet, budgets: Sequence[BudgetState], entries: Sequence[Entry], head: str
) -> str:
    """The sheet as Markdown."""
    domain = dataset.domain
    charges = [one for one in entries if one.kind == "charge"]
    entered = any((one.query or {}).get("name") == ELSEWHERE for one in charges)
    mains = sorted((one for one in budgets if one.role == "main"), key=lambda one: one.number)
    narrow = [one for one in budgets if one.role != "main"]
    beside = sum((_in_the_end(one, entered) for one in narrow), Loss(0))
    loss = _in_the_end(mains[0], entered) + beside if mains else Loss(0)
    values = bool(mains) and mains[0].adjacency == Replace()
    one = "row" if domain.person is None else "person"
    left_out = list(dict.fromkeys(filter(None, (each.adjacency.gives_up for each in budgets))))
    if domain.person is None:
        left_out.append("A person with several rows can lose as many times as much.")
    zcdp = any(each.accounting == "zcdp" for each in mains)
    limits = "; ".join(f"{each.budget} under {each.adjacency.name}" for each in mains)
    facts = {
        "name": dataset.name,
        "title": domain.title or dataset.name,
        "unit": domain.unit,
        "columns": ", ".join(each.name for each in domain.columns),
        "but": " ".join(left_out),
    }
    return SHEET.format(
        **facts,
        quoted={key: json.dumps(text) for key, text in facts.items()},
        registered=dataset.registered[:10],
        version=__version__,
        head=head,
        releases=_releases(charges),
        askers=", ".join(sorted({each.asked_by for each in charges})) or "nobody yet",
        budgets=_budgets(budgets),
        guesses=_guesses(mains, beside, entered, one),
        left_out="\n".join(f"- {each}" for each in left_out),
        versions=", ".join(sorted({each.dataset for each in entries})),
        limits=limits or "no budget is open",
        whole=_guessed(loss),
        published=charges[0].time[:10] if charges else "[fill in]",
        variant="Zero-concentrated DP" if zcdp else "Approximate DP" if loss.delta else "Pure DP",
        epsilon=decimal_text(loss.epsilon),
        delta=decimal_text(loss.delta),
        one=one,
        whether=f"which of two values your {one} has" if values else f"if your {one} is there",
    )


def _in_the_end(budget: BudgetState, entered: bool) -> Loss:
    """What a budget bounds: its limit, or what passed it, since owners enter what got out."""
    if budget.accounting == "zcdp" and not entered:
        return budget.budget  # the plain sum may pass it while the guarantee holds
    whole, spent = budget.budget, budget.spent
    if budget.closed is not None:
        return spent
    return Loss(max(whole.epsilon, spent.epsilon), max(whole.delta, spent.delta))


def _releases(charges: Sequence[Entry]) -> str:
    found: dict[tuple[str, str], list[Entry]] = {}
    for one in charges:
        name = (one.query or {}).get("name", "")
        found.setdefault((name, one.adjacency.name if one.adjacency else ""), []).append(one)
    rows = []
    for (name, adjacency), those in sorted(found.items()):
        together = sum((one.loss for one in those if one.loss is not None), Loss(0))
        rows.append((name, str(len({one.ask for one in those})), adjacency, str(together)))
    return _table(("question", "answers", "charged under", "together"), rows)


def _budgets(budgets: Sequence[BudgetState]) -> str:
    rows = []
    for one in budgets:
        role = one.role if one.closed is None else f"{one.role}, closed"
        spent = f"{one.spent} of {one.budget}, by {one.accounting}"
        rows.append((one.adjacency.name, role, spent, f"{one.adjacency.protected}."))
    return _table(("adjacency", "role", "spent", "protected"), rows)


def _guesses(mains: Sequence[BudgetState], beside: Loss, entered: bool, unit: str) -> str:
    rows = []
    for main in mains:
        about = "is in the data" if main.adjacency == AddRemove() else "has one of two values"
        whole = _in_the_end(main, entered)
        parts = {"so far": main.spent, "with the whole budget": whole}
        if beside != Loss(0):
            parts["with all allowances, for those they protect"] = whole + beside
        for when, loss in parts.items():
            rows.append((f"a {unit} {about}, {when}", str(loss), _guessed(loss)))
    return _table(("a guess whether", "loss", "is right at most"), rows)


def _guessed(loss: Loss) -> str:
    return f"{float(guessed_right(loss) * 100):.1f} %".replace(".0 %", " %")


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *(rows or [["none yet"] * len(headings)])]
    return "\n".join(f"| {' | '.join(cell.replace('|', '/') for cell in line)} |" for line in lines)
