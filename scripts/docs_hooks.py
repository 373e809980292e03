"""What the site shows beside the written pages: examples that were run, and what the code says.

MkDocs calls these while it builds (mkdocs.yml, `hooks`). A page of a question has three markers;
its Python is run from top to bottom, and what it prints and the picture of its `release` stand
below it. So the pictures are never out of date and none is kept in the repository.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from pathlib import Path
from typing import Any

from privod.pictures import draw, svg
from privod.queries.catalog import JOINT_QUESTIONS, QUERIES
from privod.queries.parameters import parameters_of, promise_of
from privod.questions import questions

__all__ = ["MARKERS", "on_files", "on_page_markdown"]

EXAMPLE = "<!-- privod:example -->"
GUARANTEE = "<!-- privod:guarantee -->"
PARAMETERS = "<!-- privod:parameters -->"
MARKERS = (EXAMPLE, GUARANTEE, PARAMETERS)
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

_shown: dict[str, str] = {}  # page to what its example printed, with its picture


def on_files(files: Any, config: Any) -> Any:
    """Run every question's example and add its picture to the site's files."""
    from mkdocs.structure.files import File

    for described in questions().values():
        page = files.get_file_from_path(described.guide)
        if page is None or EXAMPLE not in page.content_string:
            continue
        printed, release = run_example(page.content_string)
        name = f"questions/{Path(described.guide).stem}.svg"
        files.append(File.generated(config, name, content=svg(draw(release))))
        picture = f"![{release.sentence()}]({Path(name).name})"
        _shown[described.guide] = f"It prints:\n\n```text\n{printed}```\n\n{picture}"
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Fill the markers of a question's page."""
    path = page.file.src_uri
    for name, described in questions().items():
        if described.guide == path:
            kind: Any = JOINT_QUESTIONS[name] if described.joint else QUERIES[name]
            markdown = markdown.replace(GUARANTEE, promise_of(kind))
            markdown = markdown.replace(PARAMETERS, parameter_table(kind))
            markdown = markdown.replace(EXAMPLE, _shown.get(path, ""))
    return markdown


def run_example(text: str) -> tuple[str, Any]:
    """What the page's Python prints, and the release that it leaves."""
    names: dict[str, Any] = {}
    printed = io.StringIO()
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as directory, contextlib.redirect_stdout(printed):
        os.chdir(directory)
        try:
            exec("\n".join(PYTHON.findall(text)), names)  # noqa: S102 - our own pages
        finally:
            os.chdir(before)
    return printed.getvalue(), names["release"]


def parameter_table(kind: Any) -> str:
    """The parameters as a table, from the documentation of the class."""
    lines = ["| parameter | default | meaning |", "| --- | --- | --- |"]
    for each in parameters_of(kind):
        default = "required" if each.required else f"`{each.written(each.default) or 'none'}`"
        meaning = each.doc.replace("|", "\\|")
        lines.append(f"| `{each.name}` | {default} | {meaning} |")
    return "\n".join(lines)
