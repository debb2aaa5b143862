"""Questions and answers between organisations, carried by NVIDIA FLARE.

`wire` and `resident` and `channel` are ours and know no engine; the other modules bind them to it.
"""
