"""Is everything that people can use still there? What changes, changes its list in one commit."""

from __future__ import annotations

from scripts.write_capabilities import LIST, capabilities


def test_what_can_be_used_is_what_the_list_says() -> None:
    assert capabilities().splitlines() == LIST.read_text().splitlines(), "Run `make capabilities`."
