"""Joint runs as jobs of NVIDIA FLARE: its server aggregates, its clients are the parties."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path
from threading import Event, Thread
from time import monotonic
from typing import Any

from privod.data import Domain
from privod.errors import AlreadyExists, PrivodError, ProtocolAborted, Unavailable
from privod.joint.question import JointQuestion, check_one_record_each, joint_question
from privod.joint.results import keep_transcript
from privod.joint.roster import Identity, Roster
from privod.joint.run import aggregate, spared
from privod.joint.site import Site
from privod.joint.transport.channel import Channel, Meeting, Patience, host

try:
    from nvflare.apis.event_type import EventType
    from nvflare.apis.executor import Executor
    from nvflare.apis.fl_constant import FLContextKey, ReturnCode
    from nvflare.apis.impl.controller import Controller, Task
    from nvflare.apis.shareable import Shareable, make_reply
except ImportError:
    raise Unavailable("Runs as FLARE jobs need nvflare. Install privod[flare].") from None

TASK = "privod"
HELLO, TRADE, MOVED, LEAVE = (f"{TASK}.{what}" for what in ("hello", "trade", "moved", "leave"))
SITES_VARIABLE = "PRIVOD_FLARE_SITES"  # a folder of site files; the workspace's own if unset
PATIENCE = Patience(coming=300.0, stalled=600.0)
TRADE_SECONDS = 24 * 3600.0  # for all to come through a step; deadlines end it sooner
HELLO_SECONDS = 60.0
MOVED_SECONDS = 5.0
WATCH_SECONDS = 0.5


class FlareChannel(Channel):
    """A party's end inside a FLARE client: every step is one request to the FLARE server."""

    def __init__(self, engine: Any, fl_ctx: Any, name: str) -> None:
        self._engine = engine
        self._context = fl_ctx
        self._told = monotonic()
        super().__init__(name, b"")
        self.session = self._ask(HELLO, Shareable(), HELLO_SECONDS)["session"]

    def _carry(self, frames: Iterator[bytes]) -> Iterable[bytes]:
        request = Shareable()
        request["frames"] = list(frames)
        answer: list[bytes] = self._ask(TRADE, request, TRADE_SECONDS)["frames"]
        return answer

    def moved(self) -> None:
        if monotonic() - self._told > MOVED_SECONDS:
            self._told = monotonic()
            self._engine.fire_and_forget_aux_request(MOVED, Shareable(), self._context)

    def close(self, problem: str | None = None) -> None:
        request = Shareable()
        request["problem"] = problem
        self._send(LEAVE, request, HELLO_SECONDS)

    def _ask(self, topic: str, request: Any, seconds: float) -> Any:
        answer = self._send(topic, request, seconds)
        if answer is None or answer.get_return_code() != ReturnCode.OK:
            raise ProtocolAborted("The FLARE server did not answer. Run again.")
        if answer.get("problem") is not None:
            raise ProtocolAborted(str(answer["problem"]))
        return answer

    def _send(self, topic: str, request: Any, seconds: float) -> Any:
        answers = self._engine.send_aux_request(
            targets=None, topic=topic, request=request, timeout=seconds, fl_ctx=self._context
        )
        return next(iter(answers.values()), None)


class JointExecutor(Executor):  # type: ignore[misc]  # nvflare has no types
    """At a client: take part with what the site's own file says, if it approved exactly this."""

    def __init__(self, question: dict[str, Any], roster: dict[str, Any]) -> None:
        super().__init__()
        self._question = question
        self._roster = roster

    def execute(self, _task: str, _data: Any, fl_ctx: Any, _abort: Any) -> Any:
        """Go through one run; the server learns nothing but whether it ended well."""
        try:
            site = Site.load(_site_file(fl_ctx))
            site.run(
                joint_question(self._question),
                Roster.from_json(self._roster),
                lambda: FlareChannel(fl_ctx.get_engine(), fl_ctx, site.identity.name),
            )
        except PrivodError as problem:
            self.log_error(fl_ctx, f"privod: {problem}")
            return make_reply(ReturnCode.EXECUTION_EXCEPTION)
        return make_reply(ReturnCode.OK)


class JointController(Controller):  # type: ignore[misc]  # nvflare has no types
    """At the server: aggregate one run; the domain is needed unless parties hold columns."""

    def __init__(
        self,
        question: dict[str, Any],
        roster: dict[str, Any],
        domain: dict[str, Any] | None = None,
        coming: float = PATIENCE.coming,
        stalled: float = PATIENCE.stalled,
    ) -> None:
        super().__init__()
        self._question = joint_question(question)
        self._roster = Roster.from_json(roster)
        self._domain = None if domain is None else Domain.from_json(domain)
        self._meeting = Meeting(
            self._roster.names, Patience(coming, stalled), spared(self._question, self._roster)
        )

    def start_controller(self, fl_ctx: Any) -> None:
        """Listen before anybody is called."""
        engine = fl_ctx.get_engine()
        for topic in (HELLO, TRADE, MOVED, LEAVE):
            engine.register_aux_message_handler(topic, self._heard)

    def control_flow(self, abort_signal: Any, fl_ctx: Any) -> None:
        """Call every party and add up."""
        over = Event()

        def watch() -> None:
            while not over.wait(WATCH_SECONDS):
                if abort_signal.triggered:
                    self._meeting.fail("The FLARE job was aborted.")

        Thread(target=watch, daemon=True).start()
        try:
            identity, results = _aggregator(_site_file(fl_ctx))
            task = Task(name=TASK, data=Shareable())
            self.broadcast(task, fl_ctx, list(self._roster.names))
            asked, who, domain = self._question, self._roster, self._domain
            done = host(self._meeting, lambda one: aggregate(asked, one, identity, who, domain))
            if results is not None:
                keep_transcript(results, done, identity, self._roster)
            self.log_info(fl_ctx, "privod: the run is complete")
        except PrivodError as problem:
            self.system_panic(f"privod: {problem}", fl_ctx)
        finally:
            over.set()

    def stop_controller(self, _context: Any) -> None:
        """End the run for whoever still waits."""
        self._meeting.fail("The FLARE job has ended.")

    def handle_event(self, event_type: str, fl_ctx: Any) -> None:
        """Note a party that FLARE lost."""
        super().handle_event(event_type, fl_ctx)
        if event_type == EventType.CLIENT_DISCONNECTED:
            name = fl_ctx.get_prop(FLContextKey.DISCONNECTED_CLIENT_NAME)
            if name in self._roster.names:
                self._meeting.leave(name, None)

    def process_result_of_unknown_task(self, *_: Any, **__: Any) -> None:
        """Results are only whether a party ended well, which `leave` said before."""

    def _heard(self, topic: str, request: Any, fl_ctx: Any) -> Any:
        """Answer a party; who it is, FLARE says."""
        name = fl_ctx.get_peer_context().get_identity_name()
        answer = make_reply(ReturnCode.OK)
        try:
            if topic == HELLO:
                self._meeting.join(name)
                answer["session"] = self._meeting.session
            elif topic == TRADE:
                answer["frames"] = list(self._meeting.accept(name, request["frames"]))
            elif topic == MOVED:
                self._meeting.moved(name)
            else:
                problem = request["problem"]
                self._meeting.leave(name, problem, done=problem is None)
        except ProtocolAborted as problem:
            answer["problem"] = str(problem)
        return answer


def write_job(
    folder: Path,
    question: JointQuestion,
    roster: Roster,
    domain: Domain | None = None,
    patience: Patience = PATIENCE,
) -> None:
    """Write a FLARE job folder for one run."""
    if folder.exists():
        raise AlreadyExists(f"{str(folder)!r} is there already. Name a new folder for the job.")
    if domain is not None:
        check_one_record_each(domain)
    needed = sorted(question.needed(roster))
    said = {"question": question.to_json(), "roster": roster.to_json()}
    declared = {"domain": None if domain is None else domain.to_json(), **asdict(patience)}
    controller = {"path": f"{__name__}.JointController", "args": {**said, **declared}}
    executor = {"path": f"{__name__}.JointExecutor", "args": said}
    files = {
        "meta.json": {
            "name": "privod",
            "resource_spec": {},
            "min_clients": len(needed),
            "mandatory_clients": needed,
            "deploy_map": {"app": ["@ALL"]},
        },
        "app/config/config_fed_server.json": {
            "format_version": 2,
            "workflows": [{"id": TASK, **controller}],
            "components": [],
        },
        "app/config/config_fed_client.json": {
            "format_version": 2,
            "executors": [{"tasks": [TASK], "executor": executor}],
            "components": [],
        },
    }
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def _site_file(fl_ctx: Any) -> Path:
    named = os.environ.get(SITES_VARIABLE)
    folder = Path(named or Path(fl_ctx.get_prop(FLContextKey.WORKSPACE_ROOT)) / "local")
    return folder / f"privod-{fl_ctx.get_identity_name()}.json"


def _aggregator(path: Path) -> tuple[Identity, Path | None]:
    """The server's certificate and key, and where it keeps transcripts, if anywhere."""
    try:
        said = json.loads(path.read_text(encoding="utf-8"))
        files = path.parent / said["certificate"], path.parent / said["key"]
        results = path.parent / said["results"] if "results" in said else None
    except (OSError, ValueError, KeyError, TypeError):
        raise ProtocolAborted(
            f"There is no site file that can be read at {str(path)!r}. The server's names"
            " certificate and key, and results if it keeps transcripts."
        ) from None
    return Identity.load(*files), results
