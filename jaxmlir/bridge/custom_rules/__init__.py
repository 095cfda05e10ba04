"""Custom derivative rules: Python functions in a jaxpr, functions of the module in the dialect."""
