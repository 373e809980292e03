"""Groups of a population in which a person's record stands out."""
