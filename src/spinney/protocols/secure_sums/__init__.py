"""Secure aggregation: the coordinator sees sums but no summand; see `channel` and `roster`."""
