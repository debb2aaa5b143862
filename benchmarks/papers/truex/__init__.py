"""Truex's private tree, the baseline of S4's experiments; see `tree`."""

from papers.truex.tree import ASKS, NAME, SUMMED, Party, Settings, train

__all__ = ["ASKS", "NAME", "SUMMED", "Party", "Settings", "train"]
