"""HTML for notebooks: a value as a few lines that need nothing else."""

from __future__ import annotations

import base64
from html import escape
from typing import Any

from privod.errors import NotFound, Unavailable
from privod.registry import load, question


def paragraphs(bold: str, *others: str, picture: bytes = b"") -> str:
    """A bold line, a picture, and further lines; empty ones are left out."""
    lines = [f"<p><strong>{escape(bold)}</strong></p>"]
    if picture:
        data = base64.b64encode(picture).decode()
        style = "max-width: 36rem; background: white"
        source = f"data:image/svg+xml;base64,{data}"
        lines.append(f'<img alt="{escape(bold)}" style="{style}" src="{source}">')
    lines += [f"<p>{escape(line)}</p>" for line in others if line]
    return "<div>" + "".join(lines) + "</div>"


def release_html(release: Any, *others: str) -> str:
    """Sentence, picture and guarantee of a release, whom it leaves out, and further lines."""
    left_out = release.query.not_protected()
    told = (release.guarantee.sentence(), f"Not protected: {left_out}" if left_out else "")
    return paragraphs(release.sentence(), *told, *others, picture=_picture(release))


def _picture(release: Any) -> bytes:
    """The release as SVG, or nothing where it cannot be drawn: pictures are an extra."""
    try:
        drawn: bytes = load("privod.pictures.canvas:svg")(figure(release))
    except (NotFound, Unavailable):
        return b""
    return drawn


def figure(release: Any) -> Any:
    """The release drawn by what its question registered; pictures lie above queries."""
    drawn = load(question(release.query.name).picture)(release)
    if getattr(release.query, "where", ()):
        drawn.text(0.01, 0.01, f"records where {release.query.conditions.words()}", fontsize=8)
    return drawn
