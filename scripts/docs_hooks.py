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
from privod.query.catalog import JOINT_QUESTIONS, QUERIES
from privod.query.parameters import parameters_of, promise_of
from privod.registry import questions

__all__ = ["MARKERS", "on_config", "on_files", "on_page_markdown"]

EXAMPLE = "<!-- privod:example -->"
GUARANTEE = "<!-- privod:guarantee -->"
PARAMETERS = "<!-- privod:parameters -->"
MARKERS = (EXAMPLE, GUARANTEE, PARAMETERS)
QUESTIONS = "<!-- privod:questions -->"
PYTHON = re.compile(r"^```python\n(.*?)^```", re.MULTILINE | re.DOTALL)

_shown: dict[str, str] = {}  # page to what its example printed, with its picture


def on_config(config: Any) -> Any:
    """Put the page of every question and every proof into the navigation, by a short name."""
    parts: dict[str, list[Any]] = {}
    for section in config["nav"]:
        for entry in next(iter(section.values())):
            parts |= entry if isinstance(entry, dict) else {}
    parts["Questions"] += [{name: described.guide} for name, described in questions().items()]
    parts["Proofs"] += [
        {proof.stem.replace("_", " "): f"proofs/{proof.name}"}
        for proof in sorted(Path(config["docs_dir"]).glob("proofs/*.md"))
    ]
    return config


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
    markdown = markdown.replace(QUESTIONS, question_table())
    for name, described in questions().items():
        if described.guide == path:
            kind = kind_named(name)
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


def kind_named(name: str) -> Any:
    """The class of a question, joint or not."""
    return JOINT_QUESTIONS[name] if name in JOINT_QUESTIONS else QUERIES[name]


def question_table() -> str:
    """Every registered question with its page and its proof."""
    lines = ["| question | name | proof |", "| --- | --- | --- |"]
    for name, described in questions().items():
        guide, proof = Path(described.guide).name, Path(described.proof)
        lines.append(
            f"| {kind_named(name).question} | [{name}]({guide}) | [{proof.stem}](../{proof}) |"
        )
    return "\n".join(lines)


def parameter_table(kind: Any) -> str:
    """The parameters as a table, from the documentation of the class."""
    lines = ["| parameter | default | meaning |", "| --- | --- | --- |"]
    for each in parameters_of(kind):
        default = "required" if each.required else f"`{each.written(each.default) or 'none'}`"
        meaning = each.doc.replace("|", "\\|")
        lines.append(f"| `{each.name}` | {default} | {meaning} |")
    return "\n".join(lines)
