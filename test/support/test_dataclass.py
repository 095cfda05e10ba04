"""Dataclasses that cost little to define, beside Python's."""

import copy
import dataclasses
from typing import ClassVar

import pytest

from jaxmlir.support.dataclass import dataclass


def _defined(dataclass, **options):
    @dataclass(**options)
    class Base:
        kind: ClassVar[str] = "base"
        x: int
        y: float = 2.0

        @property
        def total(self):
            return self.x + self.y

    @dataclass(**options)
    class Derived(Base):
        items: list = dataclasses.field(default_factory=list, compare=False)
        late: int = dataclasses.field(init=False, repr=False)
        shown: str = dataclasses.field(default="s", repr=False)

        def __post_init__(self):
            object.__setattr__(self, "late", self.x * 2)

    class Plain(Derived):
        pass

    return Base, Derived, Plain


def _of(make):
    """What is done, or the error that it is."""
    try:
        return make()
    except Exception as error:
        return type(error), str(error)


def _facts(base, derived, plain):
    objects = [base(1), base(1, 3), base(y=2.0, x=1), derived(1), derived(1, items=[4]), plain(1)]
    yield [repr(o) for o in objects]
    yield [[a == b for a in objects] for b in objects]
    yield [_of(lambda o=o: hash(o)) == _of(lambda: hash(objects[0])) for o in objects]
    yield [type(_of(lambda o=o: hash(o))) for o in objects]
    yield [vars(o) if hasattr(o, "__dict__") else o.x for o in objects]
    yield [_of(lambda o=o: setattr(o, "x", 5)) for o in objects]
    yield [_of(lambda o=o: delattr(o, "y")) for o in objects]
    yield [repr(dataclasses.replace(copy.copy(o), y=7.0)) for o in objects if hasattr(o, "y")]
    yield [f.name for f in dataclasses.fields(derived)], derived.__match_args__
    yield derived(1).items is not derived(1).items
    yield _of(base), _of(lambda: base(1, 2, 3)), _of(lambda: base(1, z=2))


@pytest.mark.parametrize(
    "options",
    [{}, {"frozen": True}, {"frozen": True, "eq": False}, {"eq": False}, {"unsafe_hash": True}],
    ids=str,
)
def test_they_do_what_pythons_do(options):
    ours = [*_facts(*_defined(dataclass, **options))]
    pythons = [*_facts(*_defined(dataclasses.dataclass, **options))]
    assert ours == pythons


def test_slots_and_methods_of_ones_own():
    @dataclass(slots=True)
    class Point:
        x: int
        y: int = 0

        def __repr__(self):
            return "a point"

        def __hash__(self):
            return 3

    point = Point(1)
    assert not hasattr(point, "__dict__") and Point.__slots__ == ("x", "y")
    assert (repr(point), hash(point), point) == ("a point", 3, Point(1, 0))
