"""Which of these records, with categories, are in the data and rare there? [Asif 2020]"""

from privod.registry import described

__all__ = ["QUESTION"]

QUESTION = described(__name__)
