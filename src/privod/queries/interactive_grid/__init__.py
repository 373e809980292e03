"""Scores from a grid whose cells get noise when first asked for, and keep it [Rauch 2021]."""
