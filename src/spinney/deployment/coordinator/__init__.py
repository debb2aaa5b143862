"""The coordinator's side of deployed jobs: its file, its runs, its processes."""
