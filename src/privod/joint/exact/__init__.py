"""Exact joint outliers by an engine for secure computation, a guest in its own environment."""
