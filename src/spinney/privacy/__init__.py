"""Noise, accounts and secrets; knows no tree, no network."""
