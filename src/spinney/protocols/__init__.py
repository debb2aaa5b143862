"""One paper, one file; the only place where tables, trees, privacy and transport meet."""
