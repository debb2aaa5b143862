"""Shared fixtures: tiny tables a person can check."""
