"""Jobs between organisations, over NVIDIA FLARE."""
