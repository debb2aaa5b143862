"""Questions and answers between organisations, carried by NVIDIA FLARE.

`wire`, `resident` and `channel` do not depend on the engine; the other modules connect them to it.
"""
