"""Several holders, no curator: masks, rosters, sessions, transports and secure sums."""

from privod.errors import Unavailable

try:
    import cryptography
    import grpc
    import rbcl
except ImportError:
    raise Unavailable(
        "Runs between parties need cryptography, grpcio and rbcl. Install privod[parties]."
    ) from None

__all__: list[str] = []

del cryptography, grpc, rbcl
