"""Compiled loops over the bytes of cells; each with a plain twin in the tests."""
