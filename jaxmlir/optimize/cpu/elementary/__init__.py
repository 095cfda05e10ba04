"""``jaxpr-expand-elementary``: elementary functions as polynomials, which XLA vectorizes."""
