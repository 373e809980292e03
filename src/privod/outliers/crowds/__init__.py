"""Records with few others near them: exact counts within a radius, and how far they can move."""
