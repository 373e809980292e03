"""A server on loopback for the length of a test, and a browser without a screen to visit it."""

from __future__ import annotations

import re
import ssl
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import httpx
import uvicorn

from privod.curator import Curator
from privod.data import Categorical, Domain, Numeric
from privod.privacy import AddRemove, Loss
from privod.query.query import Query
from privod.server.authentication import create_token
from privod.server.jobs import workers
from privod.server.jobs.jobs import Job
from privod.server.jobs.workers import load_library
from privod.server.limits import Limits, Rate
from privod.server.provider import Provider
from privod.server.serve import Listening, configured
from privod.server.site import Site
from tests.patience import PATIENCE, eventually

NO_AUTHORITIES = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # http needs none, and loading all is slow
CANARY = "canary-4711"  # stands in private rows only, so it may never be seen outside
DOMAIN = Domain((Numeric("age", 0, 120), Categorical("sex", ("female", "male"))))
ROWS = {
    "age": [20.0, 30.0, 40.0, 47.11] * 25,
    "sex": ["female", "male", CANARY, "male"] * 25,
}
GENEROUS = Limits(
    requests=Rate(1e6, 10**6),
    strangers=Rate(1e6, 10**6),
    failures=Rate(1e6, 10**6),
    picture_seconds=PATIENCE,
    picture_wait_seconds=PATIENCE,
    body_seconds=PATIENCE,
)


@dataclass
class Running:
    """A running server and what is needed to visit it."""

    url: str
    curator: Curator
    site: Site

    def token(self, role: str, of: str | None = None) -> str:
        """A new token."""
        return create_token(self.curator, role, of, f"test {role}")

    def api(self, token: str | None = None) -> httpx.Client:
        """A client of the JSON interface."""
        headers = {} if token is None else {"authorization": f"Bearer {token}"}
        url = f"{self.url}/api/v1"
        return httpx.Client(base_url=url, headers=headers, timeout=PATIENCE, verify=NO_AUTHORITIES)

    def browser(self, token: str | None = None) -> Browser:
        """A browser, signed in if there is a token."""
        browser = Browser(self.url)
        if token is not None and browser.post("/sign-in", token=token).status_code != 303:
            browser.close()
            raise AssertionError("could not sign in")
        return browser


class Browser(httpx.Client):
    """Keeps cookies and sends forms with the code of the page they are on."""

    def __init__(self, url: str) -> None:
        super().__init__(base_url=url, timeout=PATIENCE, verify=NO_AUTHORITIES)
        self._codes: dict[str, str] = {}

    def __enter__(self) -> Browser:  # it may have been used before
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def code(self) -> str:
        """The code that a form of this browser carries."""
        cookie = self.cookies.get("privod", "")
        if cookie not in self._codes:
            page = self.get("/sign-in", follow_redirects=True)
            found = re.search(r'name="code" value="([0-9a-f]+)"', page.text)
            assert found is not None
            cookie = self.cookies["privod"]
            self._codes[cookie] = found.group(1)
        return self._codes[cookie]

    def post(self, path: str, files: Any = None, **fields: Any) -> httpx.Response:  # type: ignore[override]
        """Send a form."""
        return self.request("POST", path, data={"code": self.code(), **fields}, files=files)

    def ask(self, path: str, **fields: Any) -> httpx.Response:
        """Send a question's form, confirm its price, and wait for the answer."""
        response = self.post(path, **fields)
        found = re.search(r'name="confirmed" value="([0-9a-f]+)"', response.text)
        if found is not None:
            response = self.post(path, **fields, confirmed=found.group(1))
        job = response.headers.get("location", "")
        while job.startswith("/jobs/") and response.status_code in (200, 303):
            response = self.get(job)
            if response.status_code == 303:
                return response
            time.sleep(0.05)
        return response


_wait = Job.wait


async def _wait_patiently(job: Job[Any], seconds: float) -> bool:
    """Let a request that would wait long for its answer wait until the answer is there."""
    return await _wait(job, PATIENCE if seconds >= 10 else seconds)


@contextmanager
def running(
    directory: Path,
    limits: Limits = GENEROUS,
    listening: Listening | None = None,
    *,
    data: bool = True,
    database: str | None = None,
    provider: Provider | None = None,
) -> Iterator[Running]:
    """Serve a curator; its data set "patients", if wanted, has an open budget of epsilon 1000."""
    with (
        Curator.open(directory, database=database) as curator,
        patch.object(Job, "wait", _wait_patiently),
        patch.object(workers, "END_SECONDS", PATIENCE),  # by then a process says that it is there
    ):
        if data:
            curator.register("patients", ROWS, DOMAIN, most_records=10_000)
            curator.open_budget("patients", AddRemove(), Loss("1000"))
        if not curator.store.tokens():
            create_token(curator, "owner", None, "first owner")
        load_library()  # once in this process; a first answer may otherwise outlast its wait
        listening = listening or Listening(port=0)
        config = configured(curator, listening, limits, provider)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run)
        thread.start()
        try:
            eventually(lambda: server.started or not thread.is_alive())
            assert server.started, "the server did not start"
            port = server.servers[0].sockets[0].getsockname()[1]
            scheme = "https" if listening.certificate else "http"
            app: Any = config.app
            yield Running(f"{scheme}://127.0.0.1:{port}", curator, app.state.site)
        finally:
            server.should_exit = True
            thread.join()


def is_unfinished(curator: Curator, query: Query[Any], of: str) -> bool:
    """Whether a question was charged and whoever asks it next goes on with its answer."""
    return curator.asking.state(query, curator.dataset(of)) == "charged"
