"""What boosted trees have in common, whether parties hold different rows or different columns."""
