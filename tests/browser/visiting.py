"""A person at a screen: signs in, takes pictures of every page, and notices what is broken."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

from tests.patience import PATIENCE

SCREENSHOTS = os.environ.get("PRIVOD_SCREENSHOTS")  # a folder, if somebody wants to see them
WIDE, NARROW, HEIGHT = 1280, 390, 800
Look = tuple[Literal["light", "dark"], int]
EVERY_LOOK: tuple[Look, ...] = (
    ("light", WIDE),
    ("light", NARROW),
    ("dark", WIDE),
    ("dark", NARROW),
)
TWO_LOOKS: tuple[Look, ...] = (("light", WIDE), ("dark", NARROW))
"""Looks that are photographed, and all looks of pages that differ from others in a few words."""
LEAST_CONTRAST = 4.5  # WCAG 2.2, level AA, for text of usual size

LOADED = "() => [...document.images].every(image => image.complete)"

UNLABELED = """() => [...document.querySelectorAll('input, select, textarea, button')]
    .filter(e => e.type !== 'hidden' && !e.hidden && !e.closest('[hidden]'))
    .filter(e => !(e.labels && e.labels.length) && !e.getAttribute('aria-label')
                 && !(e.tagName === 'BUTTON' && e.textContent.trim()))
    .map(e => e.outerHTML)"""

PALE = """(least) => {
    const canvas = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
    const read = css => { canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = css;
        canvas.fillRect(0, 0, 1, 1); return [...canvas.getImageData(0, 0, 1, 1).data]; };
    const known = new Map();  // a page has few colors and many elements
    const rgba = css => known.get(css) || known.set(css, read(css)).get(css);
    const light = c => { const s = c.slice(0, 3).map(v => { v /= 255;
        return v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4; });
        return 0.2126 * s[0] + 0.7152 * s[1] + 0.0722 * s[2]; };
    const behind = e => { for (; e; e = e.parentElement) {
        const c = rgba(getComputedStyle(e).backgroundColor); if (c[3] > 250) return c; }
        return rgba(getComputedStyle(document.body).backgroundColor); };
    const found = [];
    for (const e of document.querySelectorAll('body *')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        if (!own || !e.checkVisibility() || e.classList.contains('skip')) continue;
        const [a, b] = [light(rgba(getComputedStyle(e).color)), light(behind(e))];
        const contrast = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (contrast < least) found.push(`${contrast.toFixed(2)}: ${e.outerHTML.slice(0, 120)}`);
    }
    return found; }"""


MILLISECONDS = 1000 * PATIENCE  # a busy machine draws and renders slowly


@dataclass
class Visit:
    """One person's window."""

    page: Page
    url: str
    context: BrowserContext
    complaints: list[str] = field(default_factory=list)

    @classmethod
    def begin(cls, browser: Browser, url: str, token: str | None = None, **options: Any) -> Visit:
        """Open a window, and sign in if there is a token."""
        screen: Any = {"width": WIDE, "height": HEIGHT}
        still: Any = {"reduced_motion": "reduce"}  # no color in between
        context = browser.new_context(viewport=screen, **still, **options)
        context.set_default_timeout(MILLISECONDS)
        visit = cls._in(context, url)
        visit.page.goto(url)
        if token is not None:
            visit.page.fill("#token", token)
            visit.follow("main button")
        return visit

    @classmethod
    def _in(cls, context: BrowserContext, url: str) -> Visit:
        visit = cls(context.new_page(), url, context)
        visit.page.on("console", visit._hear)
        visit.page.on("pageerror", lambda error: visit.complaints.append(str(error)))
        visit.page.on("request", visit._watch)
        return visit

    @contextmanager
    def another(self) -> Iterator[Visit]:
        """A further window of the same person, who has signed in already."""
        visit = Visit._in(self.context, self.url)
        try:
            yield visit
        finally:
            visit.page.close()
        assert visit.complaints == []

    def go(self, path: str) -> None:
        """Open a page of the server."""
        self.page.goto(self.url + path)

    def follow(self, what: str) -> None:
        """Click, and wait for the page that it leads to: a click alone ends before that."""
        with self.page.expect_navigation():
            self.page.click(what)

    def photograph(self, name: str, looks: Sequence[Look] = EVERY_LOOK) -> None:
        """Check in some looks what can be checked without eyes; photograph two of them for eyes."""
        self.page.wait_for_load_state()  # a page is there before its end is
        for scheme, width in looks:
            self.page.set_viewport_size({"width": width, "height": HEIGHT})
            self.page.emulate_media(color_scheme=scheme)
            self.page.wait_for_function(LOADED)
            if SCREENSHOTS and (scheme, width) in TWO_LOOKS:
                path = Path(SCREENSHOTS) / f"{name}-{scheme}.png"
                self.page.screenshot(path=path, full_page=True, animations="disabled")
            beyond = self.page.evaluate("document.documentElement.scrollWidth")
            assert beyond <= width, f"{name} is {beyond} wide on a screen of {width}"
            pale = self.page.evaluate(PALE, LEAST_CONTRAST)
            assert pale == [], f"{name}, {scheme}: too pale"
        self.page.set_viewport_size({"width": WIDE, "height": HEIGHT})
        self.page.emulate_media(color_scheme="light")
        assert self.page.evaluate(UNLABELED) == [], f"{name}: no label"

    def end(self) -> None:
        """Close the window; whatever the browser complained about is an error."""
        self.context.close()
        assert self.complaints == []

    def _hear(self, message: ConsoleMessage) -> None:
        expected = "the server responded with a status of 4" in message.text
        if message.type in ("error", "warning") and not expected:
            self.complaints.append(message.text)

    def _watch(self, request: Request) -> None:
        if urlsplit(request.url).netloc != urlsplit(self.url).netloc:
            self.complaints.append(f"asked a third party: {request.url}")
