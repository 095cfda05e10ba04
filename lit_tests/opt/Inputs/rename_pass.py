"""A pass as a user writes one."""

from typing import ClassVar

from jaxmlir.dialect.ir import functions, ir
from jaxmlir.passes import Pass


class RenameFunction(Pass):
    """Rename the public function."""

    name: ClassVar[str] = "rename-function"
    to: str

    def run(self, program):
        if self.to == "crash":
            raise RuntimeError("asked for")
        for function in functions(program.module).values():
            function.attributes["sym_name"] = ir.StringAttr.get(self.to)
