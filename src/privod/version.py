"""Which version is this? The one number that everything else reads, the thin client too."""

__all__ = ["__version__"]

__version__ = "0.1.0"
