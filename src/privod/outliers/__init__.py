"""What is outlying: exact, deterministic definitions that know nothing about noise."""
