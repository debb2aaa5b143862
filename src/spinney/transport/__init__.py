"""Questions and answers; this package knows nothing of trees or noise."""
