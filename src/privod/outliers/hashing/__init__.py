"""Records without a crowd, found by random projections instead of all distances."""
