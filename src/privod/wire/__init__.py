"""One JSON model of every noun: command line, server and client write and read the same."""

from . import nouns, problems, requests
from .codec import decode, encode, to_text
from .nouns import *  # noqa: F403 - its __all__ names them
from .problems import *  # noqa: F403
from .requests import *  # noqa: F403

__all__ = ["decode", "encode", "to_text"]
__all__ += nouns.__all__ + problems.__all__ + requests.__all__
