"""Compiled loops: arrays in, arrays out, no randomness; each with a plain twin in the tests."""
