"""Release noisy means and products of columns that score new records."""
