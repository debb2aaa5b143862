"""Shared parts of horizontal protocols: the rounds before the trees, levels, the last round."""
