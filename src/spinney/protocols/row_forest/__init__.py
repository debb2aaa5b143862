"""Shared parts of horizontal forests (S1 and S5): parties, noisy counts, perturbed rows."""
