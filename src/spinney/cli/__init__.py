"""The `spinney` command."""
