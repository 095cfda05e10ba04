"""What is kept for later calls and later processes, and the keys under which it is kept."""
