"""`spinney audit`: the attacks that a reviewer would try, tried first, at home.

**Views.** *A reader of the model* has the model alone. *The coordinator* has every sum that it was
given while the model grew. *Another party* is told the same sums, since parties check them
(`protocols.verified`), and knows its own rows besides; with two parties it subtracts them.

**Attacks.** Membership: likelihood ratios with models trained on half the rows (Carlini et al.
2022). Reconstruction: rows that a count singles out, and the boxes of their leaves over all trees
(after Ferry et al. 2024, without their solver), or the cells of their histograms. Attributes: the
value that makes a row's label likeliest (Fredrikson et al. 2014, Yeom et al. 2018). Small groups:
counted. Epsilon: runs with and without one row.

An audit finds what it tried, on the rows that it had. It proves no privacy.
"""
