"""Jobs over tables on this machine: all parties in one process, compared and reported."""
