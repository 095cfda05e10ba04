"""A function with who uses each of its values."""

from __future__ import annotations

from jaxmlir.analysis.function_view import FunctionView


class Uses:
    """A function as it was read, which gives and who uses its values.

    Attributes:
      body: the function; values and ops are its numbers.
      maker: of each value, the op that gives it; -1 of arguments.
      users: of each value, the ops that use it, as often as they do; ``end`` for the return.
      end: a number behind all ops.
    """

    def __init__(self, body: FunctionView):
        self.body = body
        self.end = len(body.ops)
        self.maker = [-1] * len(body.types)
        self.users: list[list[int]] = [[] for _ in body.types]
        for index, (first, last) in enumerate(body.results):
            self.maker[first:last] = [index] * (last - first)
        for index, operands in enumerate(body.operands):
            for value in operands:
                self.users[value].append(index)
        for value in body.returned:
            self.users[value].append(self.end)

    def results(self, index: int) -> range:
        """The values that an op gives."""
        return range(*self.body.results[index])
