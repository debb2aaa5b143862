"""Running it for real: configuration, policy, party, coordinator, command line."""
