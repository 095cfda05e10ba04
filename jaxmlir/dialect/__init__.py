"""The IR: types, attributes, locations, pytrees, the op table, and modules of the dialect."""
