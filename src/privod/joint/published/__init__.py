"""The protocols as published [Raval 2011], for study only: they reveal what they should protect."""

from privod.errors import Unavailable

try:
    import rbcl
except ImportError:
    raise Unavailable("The published protocols need rbcl. Install privod[published].") from None

__all__: list[str] = []

del rbcl
