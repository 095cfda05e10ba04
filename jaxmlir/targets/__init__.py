"""What a program runs on: platforms, and what their compilers fuse and run in parallel."""
