"""Jobs between organisations: what each side runs, and the files that say what it may do."""
