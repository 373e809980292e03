"""What answers are written in, as headers say it."""

from __future__ import annotations

JSON = "application/json"
SVG = "image/svg+xml"
CSV = "text/csv; charset=utf-8"
METRICS = "text/plain; version=0.0.4; charset=utf-8"
NOTEBOOK = "application/x-ipynb+json"
# A picture carries its style inside; it may load and run nothing.
PICTURE_HEADERS = {
    "content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"
}
