"""Noise, privacy accounts and cryptography; this package knows nothing of trees or networks."""
