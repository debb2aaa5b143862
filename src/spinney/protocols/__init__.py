"""One folder per protocol family; only here do tables, trees, privacy and transport meet."""
