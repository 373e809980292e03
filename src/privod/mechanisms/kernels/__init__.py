"""Compiled loops over candidates: arrays in, arrays out; each with a plain twin in the tests."""
