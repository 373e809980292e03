"""Release, at one price, all that the detector for every day scores new records with."""
