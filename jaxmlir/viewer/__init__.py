"""Pictures of a program for people: a page to explore it in a browser, and Graphviz text."""
