"""The private detector over the records of several holders: one release's noise in all."""
