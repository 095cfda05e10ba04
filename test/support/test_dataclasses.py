"""Dataclasses that are made without compiling text, against those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import field

import pytest

from jaxmlir.support.dataclasses import dataclass


def point(decorator):
    @decorator(frozen=True)
    class Point:
        """A point."""

        x: int
        y: int = 0
        tags: list[str] = field(default_factory=list)
        note: str = field(default="", compare=False, repr=False)

        def __post_init__(self):
            object.__setattr__(self, "sum", self.x + self.y)

    return Point


def mutable(decorator):
    @decorator
    class Box:
        width: int
        label: str = "box"

    return Box


def inherited(decorator):
    @decorator(frozen=True)
    class Base:
        a: int
        b: int = 1

    @decorator(frozen=True, eq=False)
    class Derived(Base):
        b: int = 2
        c: int = field(init=False, default=3)

    return Derived


CALLS = [
    ((1,), {}),
    ((1, 2), {}),
    ((1, 2, ["t"], "n"), {}),
    ((), {"x": 3, "note": "n"}),
    ((1,), {"y": 5}),
    ((), {}),
    ((1, 2, [], "n", 5), {}),
    ((1,), {"x": 2}),
    ((1,), {"z": 2}),
    ((1,), {"z": 2, "y": 3}),
    ((), {"z": 2}),
]


def made(cls, args, kwargs):
    try:
        return cls(*args, **kwargs)
    except TypeError:
        return None


def takes(cls):
    parameters = inspect.signature(cls).parameters.values()
    return [(p.name, p.kind, p.annotation, p.default is p.empty) for p in parameters]


@pytest.mark.parametrize("make", [point, mutable, inherited])
def test_dataclasses_are_those_of_the_standard_library(make):
    ours, theirs = make(dataclass), make(dataclasses.dataclass)
    assert takes(ours) == takes(theirs)
    assert (ours.__doc__ == "A point.") == (theirs.__doc__ == "A point.")
    for args, kwargs in CALLS:
        a, b = made(ours, args, kwargs), made(theirs, args, kwargs)
        assert (a is None) == (b is None), (args, kwargs)
        if a is None:
            continue
        assert repr(a) == repr(b)
        assert vars(a) == vars(b) and dataclasses.asdict(a) == dataclasses.asdict(b)
        assert (a == made(ours, args, kwargs)) == (b == made(theirs, args, kwargs))
        assert a != b and a == copy.copy(a) or make is inherited
        first = dataclasses.fields(ours)[0].name
        assert repr(dataclasses.replace(a, **{first: 7})) == repr(
            dataclasses.replace(b, **{first: 7})
        )


def test_what_is_frozen_stays_and_what_is_equal_has_one_hash():
    Point = point(dataclass)
    p = Point(1, tags=())
    assert hash(p) == hash(Point(1, tags=(), note="other")) and p == Point(1, 0, (), "other")
    for change in (lambda: setattr(p, "x", 2), lambda: delattr(p, "x")):
        with pytest.raises(dataclasses.FrozenInstanceError, match="field 'x'"):
            change()
    with pytest.raises(TypeError, match="unhashable"):
        hash(mutable(dataclass)(1))
    with pytest.raises(ValueError, match="mutable default"):

        @dataclass(frozen=True)
        class Wrong:
            values: list[int] = []


@dataclass(frozen=True)
class Pickled:
    a: int


def test_they_are_pickled():
    assert pickle.loads(pickle.dumps(Pickled(3))) == Pickled(3)
