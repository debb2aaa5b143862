"""Boosting from noisy sums: what private boosting and distilled private trees share.

Trees are drawn at random within public bins, one batch after another; parties add up what their
rows come to in every leaf, with noise. `private_boosting` keeps all those trees. `private_tree`
with `method="distilled"` keeps one tree that imitates them (`distilling`). Who learns what stands
in the docstrings of those two.
"""
