"""The arithmetic of trees; this package knows nothing of parties, noise or networks."""
