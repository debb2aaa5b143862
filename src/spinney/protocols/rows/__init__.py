"""What protocols over rows share: the rounds before the trees, levels, and the last round."""
