"""Which of these new records would be anomalous among those at hand? [Asif 2020]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
