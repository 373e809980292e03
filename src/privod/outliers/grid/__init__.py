"""A uniform grid over public ranges: cells, their counts, and the walk outward from a point."""
