"""Shared parts of protocols with noise: a party's account, prices, replies and rows."""
