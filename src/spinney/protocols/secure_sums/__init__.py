"""Secure sums (secure aggregation): the coordinator sees sums, no summand; see `channel`, `roster`."""
