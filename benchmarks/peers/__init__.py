"""The peers that run, on the same rows, parties and cores as we: `python -m peers`.

Every peer is an adapter of a few lines in adapters/, run by `child.py` in a process of its own, in
this environment or in one made for it. They take turns; one that is missing or crashes gets a row
that says so, and the others go on.
"""
