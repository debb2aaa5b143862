"""What forests over rows share (S1 and S5): parties, noise while trees grow, noise on rows."""
