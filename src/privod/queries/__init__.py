"""The questions: one paper, one file, one shape."""
