"""The questions: one folder each, with everything about it."""
