"""Jobs between organisations: a coordinator, parties, and the people who start jobs."""
