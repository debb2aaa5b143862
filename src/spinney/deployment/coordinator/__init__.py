"""The coordinator's side of deployed jobs: its file, runs and processes."""
