"""A party's side of deployed jobs: its file, policy, processes and records."""
