"""Questions and answers; knows no tree, no noise."""
