"""Release noisy counts of hashed bins that say how densely records lie around a new one."""
