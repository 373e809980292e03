"""One self-contained page of chapters, as the story and the catalog are written."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True)
class Chapter:
    """A heading, what was found in sentences, and a picture of it."""

    title: str
    lines: tuple[str, ...]
    picture: bytes


def page(title: str, intro: str, chapters: Iterable[Chapter]) -> str:
    """The page, with its pictures inside."""
    told = "\n".join(_html(one) for one in chapters)
    return PAGE.format(title=escape(title), intro=escape(intro), chapters=told)


def _html(chapter: Chapter) -> str:
    data = base64.b64encode(chapter.picture).decode()
    lines = "\n".join(f"<p>{escape(line)}</p>" for line in chapter.lines)
    picture = (
        f'<div><img alt="{escape(chapter.title)}" src="data:image/svg+xml;base64,{data}"></div>'
    )
    return f"<section>\n<h2>{escape(chapter.title)}</h2>\n{picture}\n{lines}\n</section>"


PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>privod: {title}</title>
<style>
:root {{ color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }}
body {{ max-width: 46rem; margin: 2rem auto; padding: 0 1rem; overflow-wrap: anywhere; }}
section {{ margin: 2rem 0; padding-top: 1rem; border-top: 1px solid #8884; }}
img {{ max-width: 100%; background: white; border-radius: 6px; padding: .5rem; }}
@media (max-width: 40rem) {{ div {{ overflow-x: auto; }} img {{ max-width: none; width: 36rem; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
<p>{intro}</p>
{chapters}
</body>
</html>
"""
