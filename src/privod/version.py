"""Which version is this? The one number that everything else reads, the thin client too."""

__version__ = "0.1.0"
