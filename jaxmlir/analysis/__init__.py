"""What can be known of a program without changing it."""
