"""Joint questions over the network: make a test PKI, take part as a party, or aggregate."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Annotated, Any

import typer

from privod.cli.app import app
from privod.cli.options import (
    DEFAULT_LOCATION,
    AsJson,
    At,
    check_folders,
    curator_at,
    read_domain,
    read_json,
)
from privod.cli.output import emit, progress_bars, words
from privod.errors import InvalidData, InvalidParameter, ProtocolAborted
from privod.progress import listening

if TYPE_CHECKING:
    from privod.joint.contributions import SentRecords
    from privod.joint.question import JointQuestion
    from privod.joint.roster import Roster
    from privod.privacy import Guarantee

LONGEST_WAIT = 1e6  # seconds
WAIT_SECONDS = 1.0  # until a daemon looks again
RECORD = Path("privod-contributions.json")

RosterFile = Annotated[Path, typer.Option("--roster", help="Who takes part: roster.json.")]
CertificateFile = Annotated[Path, typer.Option("--certificate", help="Your own, in PEM.")]
KeyFile = Annotated[Path, typer.Option("--key", help="Its private key, in PEM.")]
QuestionFile = Annotated[Path, typer.Option("--question", help="The question, in JSON.")]
DomainFile = Annotated[
    Path, typer.Option("--domain", help="A JSON file that declares the public domain.")
]
ApprovalsFile = Annotated[Path, typer.Option("--approvals", help="Where approvals are kept.")]
SentBefore = Annotated[
    Path | None, typer.Option("--record", help="Your ledger of runs, to say what was spent before.")
]
Coming = Annotated[
    float, typer.Option(min=0, max=LONGEST_WAIT, help="Seconds to wait until everybody is there.")
]
Stalled = Annotated[
    float, typer.Option(min=0, max=LONGEST_WAIT, help="Seconds that a party may make no progress.")
]


@app.command()
def pki(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    party: Annotated[list[str], typer.Option(help="A party's name; give one per party.")],
    computing: Annotated[
        list[str] | None,
        typer.Option(help="A computing party's name, three times; the first three if not given."),
    ] = None,
    aggregator: Annotated[str, typer.Option(help="The aggregator's name.")] = "aggregator",
    address: Annotated[str, typer.Option(help="Its host and port.")] = "127.0.0.1:7443",
    as_json: AsJson = False,
) -> None:
    """Make test certificates for everyone and the roster that pins them."""
    from privod.joint.pki import write_pki

    made = write_pki(folder, party, aggregator, address, computing or ())
    written = [str(path) for path in made]
    text = "\n".join(["Wrote test certificates, good for 90 days:", *written])
    emit({"written": written}, as_json, words(text))


@app.command()
def plan(
    question: QuestionFile,
    records: Annotated[
        int | None, typer.Option(help="Roughly how many records all parties have.")
    ] = None,
    parties: Annotated[int, typer.Option(help="How many parties there are.")] = 3,
    domain: Annotated[Path | None, typer.Option(help="The public domain.")] = None,
    data: Annotated[
        Path | None, typer.Option(help="Your rows, to say what you find alone; nothing is sent.")
    ] = None,
    record: SentBefore = None,
    as_json: AsJson = False,
) -> None:
    """Say before a run what you find alone, what the run opens, and what it costs."""
    from privod.data.sources import read
    from privod.joint.question import joint_question

    asked = joint_question(_read_json(question, "question"))
    declared = None if domain is None else read_domain(domain)
    alone = "Alone: name your rows with --data and --domain to see what you find without a run."
    if data is not None:
        if declared is None:
            way_out = "Name the public domain with --domain."
            raise InvalidParameter("domain", "is needed to read your rows", None, way_out)
        asked.check(declared)
        alone = asked.alone(read(data, declared))
    told = asked.expectation(records, parties, declared)
    before, said = _before(record, asked.table_guarantee(), 1)
    lines = [alone, *told, asked.secrecy().sentence(), *before]
    emit({"alone": alone, "expectation": told, **said}, as_json, words("\n".join(lines)))


@app.command()
def approve_run(
    roster: RosterFile,
    question: QuestionFile,
    domain: DomainFile,
    approvals: ApprovalsFile,
    runs: Annotated[int, typer.Option(help="How many runs.")] = 1,
    days: Annotated[
        float, typer.Option(min=0, max=3650, help="For how many days from its beginning.")
    ] = 1.0,
    begins: Annotated[
        datetime | None, typer.Option(help="From when, in local time; now if not given.")
    ] = None,
    record: SentBefore = None,
    as_json: AsJson = False,
) -> None:
    """Let `privod party --daemon` take part in runs of exactly this question and roster."""
    from privod.joint.approvals import Approvals, subject_of

    asked, everyone = _meant(question, roster)
    declared = read_domain(domain)
    asked.check(declared)
    if asked.approved_singly and (runs != 1 or record is None):
        rule = "must be one at a time for this question, with your ledger of runs"
        way_out = "Leave --runs out, and name the ledger with --record."
        raise InvalidParameter("runs", rule, runs, way_out)
    start = datetime.now(UTC) if begins is None else begins.astimezone(UTC)
    subject = subject_of(asked, declared, everyone)
    before, said = _before(record, asked.table_guarantee(), runs)
    Approvals(approvals).approve(subject, runs, start, start + timedelta(days=days))
    end = (start + timedelta(days=days)).isoformat(timespec="seconds")
    lines = [
        f"Approved {runs} {'run' if runs == 1 else 'runs'} with {', '.join(everyone.names)} from"
        f" {start.isoformat(timespec='seconds')} to {end}.",
        asked.secrecy().sentence(),
        *([asked.warning()] if asked.warning() else []),
        *before,
    ]
    told = {"subject": subject, "runs": runs, "until": end, **said}
    emit(told, as_json, words("\n".join(lines)))


@app.command()
def runs(
    record: Annotated[Path, typer.Option(help="Your ledger of runs.")] = RECORD,
    as_json: AsJson = False,
) -> None:
    """List the joint runs that your records went to, and what they lost together."""
    sent = _ledger(record)
    lines = [sent.sentence(), *(f"  {run.sentence()}" for run in sent.runs)]
    emit(sent.to_json(), as_json, words("\n".join(lines)))


@app.command()
def flare_job(
    folder: Annotated[Path, typer.Argument(help="A new folder.")],
    roster: RosterFile,
    question: QuestionFile,
    domain: DomainFile,
    coming: Coming = 300.0,
    stalled: Stalled = 600.0,
    as_json: AsJson = False,
) -> None:
    """Write a job of NVIDIA FLARE for a joint run."""
    from privod.joint.flare import write_job
    from privod.joint.transport.channel import Patience

    asked, everyone = _meant(question, roster)
    write_job(folder, asked, everyone, read_domain(domain), Patience(coming, stalled))
    lines = [f"Wrote the job {str(folder)!r}.", asked.secrecy().sentence()]
    emit({"written": str(folder)}, as_json, words("\n".join(lines)))


@app.command()
def transcript(
    files: Annotated[
        list[Path], typer.Argument(help="Transcripts that parties or the aggregator signed.")
    ],
    roster: RosterFile,
    as_json: AsJson = False,
) -> None:
    """Check who signed transcripts of a joint run, and that several agree; print what they say."""
    from privod.joint.results import check_one_run
    from privod.joint.roster import Roster

    read = [_read_json(file, "transcript") for file in files]
    checked = check_one_run(read, Roster.load(roster))
    lines: list[str] = []
    for said in checked:
        lines.append(f"{said['party']} signed this:")
        lines += [f"{key}: {value}" for key, value in said.items()]
    if len(checked) > 1:
        lines.append(f"The {len(checked)} transcripts are about one run and agree.")
    emit({"transcripts": checked}, as_json, words("\n".join(lines)))


@app.command()
def party(
    roster: RosterFile,
    certificate: CertificateFile,
    key: KeyFile,
    question: QuestionFile,
    domain: DomainFile,
    data: Annotated[
        Path | None,
        typer.Option(help="Your rows: a .csv or .parquet file; none if you only compute."),
    ] = None,
    record: Annotated[Path, typer.Option(help="Your ledger of runs: what went to whom.")] = RECORD,
    ids: Annotated[
        str | None, typer.Option(help="A column of the file that names your rows; it stays here.")
    ] = None,
    results: Annotated[
        Path | None, typer.Option(help="A folder for the result and the signed transcript.")
    ] = None,
    daemon: Annotated[
        bool, typer.Option("--daemon", help="Wait for approved runs until none is left.")
    ] = False,
    approvals: Annotated[
        Path | None, typer.Option(help="What `privod approve-run` wrote; needed by --daemon.")
    ] = None,
    charge: Annotated[
        str | None,
        typer.Option(help="A data set of your curator, whose budgets pay for what is opened."),
    ] = None,
    at: At = DEFAULT_LOCATION,
    coming: Coming = 60.0,
    as_json: AsJson = False,
) -> None:
    """Take part in a joint run with your own rows; they stay here."""
    from privod.joint.approvals import Approvals, subject_of
    from privod.joint.contributions import Contributions
    from privod.joint.roster import Identity
    from privod.joint.site import Site
    from privod.joint.transport.channel import Patience
    from privod.joint.transport.grpc import GrpcChannel

    check_folders(results)
    asked, everyone = _meant(question, roster)
    site = Site(
        identity=Identity.load(certificate, key),
        data=data,
        domain=read_domain(domain),
        contributions=Contributions(record),
        ids=ids,
        results=results,
        approvals=None if approvals is None else Approvals(approvals),
        charge=None if charge is None else partial(_charge, asked, charge, everyone.names, at),
    )

    def run_once() -> None:
        with _progress(as_json):
            answer = site.run(
                asked,
                everyone,
                lambda: GrpcChannel(everyone, site.identity, Patience(coming=coming)),
            )
        lines = [*answer.sentences(), answer.question.secrecy().sentence()]
        lines += [] if answer.sent is None else [answer.sent.sentence()]
        lines += answer.traffic.lines()
        sent = None if answer.sent is None else answer.sent.to_json()
        emit({**answer.to_json(), "sent": sent}, as_json, words("\n".join(lines)))

    if not daemon:
        run_once()
        return
    if site.approvals is None:
        way_out = "Name the file that `privod approve-run` wrote with --approvals."
        raise InvalidParameter("daemon", "needs approvals", daemon, way_out)
    subject = subject_of(asked, site.domain, everyone)
    while site.approvals.left(subject):
        if not site.approvals.good_now(subject):
            sleep(WAIT_SECONDS)
            continue
        try:
            run_once()
        except ProtocolAborted as problem:  # the next run may be better
            typer.echo(f"privod: {problem}", err=True)
            sleep(WAIT_SECONDS)


def _meant(question: Path, roster: Path) -> tuple[JointQuestion, Roster]:
    """The question and the roster of a run that these participants can make."""
    from privod.joint.question import joint_question
    from privod.joint.roster import Roster

    asked, everyone = joint_question(_read_json(question, "question")), Roster.load(roster)
    asked.check_roster(everyone)
    return asked, everyone


def _ledger(record: Path) -> SentRecords:
    """What a ledger of runs says."""
    from privod.joint.contributions import Contributions

    if not record.is_file():
        way_out = "Name the ledger of runs that `privod party --record` keeps."
        raise InvalidData(f"There is no file {str(record)!r}. {way_out}")
    return Contributions(record).sent()


def _before(
    record: Path | None, promise: Guarantee | None, times: int
) -> tuple[list[str], dict[str, Any]]:
    """What was spent before, and what so many runs more would make of it, if a ledger is named."""
    if record is None:
        return [], {}
    if not record.exists():
        return [f"There is no ledger of runs at {str(record)!r} yet."], {"sent": None}
    sent = _ledger(record)
    lines = [sent.sentence() + sent.after(promise, times)]
    return [*lines, *(f"  {run.sentence()}" for run in sent.runs)], {"sent": sent.to_json()}


def _charge(asked: JointQuestion, data_set: str, parties: Sequence[str], at: str) -> None:
    """Pay for what a run publishes about the rows, before it begins; a run that fails has paid."""
    promise = asked.table_guarantee()
    if promise is None:
        way_out = "Ask with epsilon and delta, or leave --charge out."
        rule = "needs a run with noise: no budget counts what an exact one tells"
        raise InvalidParameter("charge", rule, data_set, way_out)
    from privod.ledger.acts import ChargeAhead

    with curator_at(at) as curator:
        curator.do(ChargeAhead(data_set, promise, f"a joint run with {len(parties)} parties"))


@app.command()
def aggregate(
    roster: RosterFile,
    certificate: CertificateFile,
    key: KeyFile,
    question: QuestionFile,
    domain: Annotated[
        Path | None, typer.Option(help="The public domain; needed for a horizontal run.")
    ] = None,
    listen: Annotated[
        str | None, typer.Option(help="Host and port; the roster's address if not given.")
    ] = None,
    results: Annotated[Path | None, typer.Option(help="A folder for signed transcripts.")] = None,
    coming: Coming = 60.0,
    stalled: Stalled = 600.0,
    as_json: AsJson = False,
) -> None:
    """Add up what parties send, for one run; you need no data, and see only hidden numbers."""
    from privod.joint.results import keep_transcript
    from privod.joint.roster import Identity
    from privod.joint.run import aggregate as run
    from privod.joint.run import spared
    from privod.joint.transport.channel import Patience, host
    from privod.joint.transport.grpc import GrpcAggregator

    check_folders(results)
    asked, everyone = _meant(question, roster)
    identity = Identity.load(certificate, key)
    declared = None if domain is None else read_domain(domain)
    identity.check_on(everyone)
    asked.check_hosting(everyone, declared)
    patience, may_leave = Patience(coming, stalled), spared(asked, everyone)
    with _progress(as_json), GrpcAggregator(everyone, identity, listen, patience, may_leave) as hub:
        if not as_json:
            typer.echo(f"privod: listening on port {hub.port}", err=True)
        done = host(hub.meeting, lambda meeting: run(asked, meeting, identity, everyone, declared))
    if results is not None:
        keep_transcript(results, done, identity, everyone)
    lost = [f"The run went on without {name}, lost in {at!r}." for name, at in done.lost.items()]
    lines = ["The run is complete.", *lost, *done.traffic.lines()]
    data = {"run": done.run.hex(), "traffic": done.traffic.to_json(), **done.stated()}
    emit(data, as_json, words("\n".join(lines)))


@contextmanager
def _progress(as_json: bool) -> Iterator[None]:
    """Show bars on a terminal, and in a log one line per step that is done."""
    if as_json or sys.stderr.isatty():
        with progress_bars(as_json):
            yield
        return

    def note(phase: str, done: int, total: int | None) -> None:
        if done == total:
            typer.echo(f"privod: {phase}: done", err=True)

    with listening(note):
        yield


def _read_json(path: Path, what: str) -> Any:
    way_out = "docs/deployment.md shows one."
    data = read_json(path, what, way_out)
    if not isinstance(data, dict):
        raise InvalidParameter(what, "must be a JSON file", str(path), way_out)
    return data


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
