"""What `make demo` runs: a story on sample data, and a page of every question of the catalog."""
