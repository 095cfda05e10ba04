"""Changes to the functions of a module that need no rule of JAX."""
