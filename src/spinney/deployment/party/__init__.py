"""A party's own side of a deployed job: its file, its policy, its processes, its records."""
