"""Answers that take a while: a fair queue, jobs, uploads, and stored answers ready to serve."""
