"""Release a noisy grid that scores new records against private ones [Rauch 2021]."""
