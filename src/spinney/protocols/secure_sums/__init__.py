"""Secure aggregation: the coordinator sees sums and no summand; see `channel` and `roster`."""
