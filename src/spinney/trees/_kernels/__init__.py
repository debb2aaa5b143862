"""All compiled code: arrays in, arrays out; never raises, knows no object of ours.

Every kernel releases the GIL and is cached on disk; callers spread ranges of nodes or rows over
threads (`spinney.trees.threads`). Each has a plain numpy twin in `tests/unit/trees`.
"""
