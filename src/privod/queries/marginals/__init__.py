"""Release noisy histograms of single columns that score new records."""
