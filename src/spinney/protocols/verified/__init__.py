"""Verified growth: parties derive every question themselves, and check every sum they are told.

A coordinator only adds and relays. It tells the parties which step comes next, and what the step
before it came to. Every party checks that the told sum is the sum of the parties' replies, runs
the job's own `train` on it, and so knows the next question. It answers that question and no other.

**Who learns what.** Beside what a protocol's own table says, every party learns the sums that the
coordinator learns, because it derives the model from them. **Who never learns what.** A coordinator
that does not follow the protocol learns no more than one that does: it cannot ask about other
trees, bins or nodes, ask twice, or tell parties different sums. A party that colludes with it can
still lie about its own counts, and so steer the sums: see `docs/threats.md`.

**Rounds.** None of its own, once the parties share a key: a check is part of the next question.
"""
