"""Outliers in the data of several holders, without a curator and without pooling the data."""

from privod.errors import Unavailable

try:
    import cryptography
except ImportError:
    raise Unavailable("Joint runs need cryptography. Install privod[joint].") from None

__all__: list[str] = []

del cryptography
