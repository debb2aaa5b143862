"""All compiled code: kernels take and fill arrays, never raise, and use none of our classes.

Every kernel releases the GIL and is cached on disk; callers distribute ranges of nodes or rows over
threads (`spinney.trees.threads`). Each has a plain numpy counterpart in `tests/unit/trees`.
"""
