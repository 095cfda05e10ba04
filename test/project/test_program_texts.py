"""The tool that writes the optimised texts of many programs, and compares them."""

import numpy as np
import program_texts
import pytest

pytestmark = pytest.mark.compat

PROGRAM = "worst_cases/linear_chain"


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    directory = tmp_path_factory.mktemp("texts") / "before"
    assert program_texts.main(["write", str(directory), "--only", PROGRAM, "--lower"]) == 0
    return directory


@pytest.fixture
def after(tmp_path, before):
    """A second directory with the same texts, which tests change."""
    directory = tmp_path / "after"
    directory.mkdir()
    for path in before.rglob("*"):
        if path.is_file():
            copy = directory / path.relative_to(before)
            copy.parent.mkdir(exist_ok=True)
            copy.write_text(path.read_text())
    return directory


def text_of(directory, ending="gradient.O2.mlir"):
    return directory / f"{PROGRAM}.{ending}"


def compare(before, after, *options):
    return program_texts.main(["compare", str(before), str(after), *options])


def test_a_text_for_each_derivative_and_level(before):
    assert {path.name.partition(".")[2] for path in (before / "worst_cases").iterdir()} == {
        f"{derivative}.O{level}.{form}"
        for derivative in ("program", "gradient")
        for level in (0, 1, 2)
        for form in ("mlir", "stablehlo")
    }
    texts = [text_of(before, f"program.O{level}.mlir").read_text() for level in (0, 2)]
    assert texts[0] != texts[1]
    assert all("func.func public @linear_chain" in text for text in texts)
    assert "stablehlo." in text_of(before, "gradient.O2.stablehlo").read_text()


def test_two_runs_write_the_same(before, tmp_path, capsys):
    again = tmp_path / "again"
    assert program_texts.main(["write", str(again), "--only", PROGRAM, "--lower"]) == 0
    assert compare(before, again) == 0
    assert "0 of 12 texts differ" in capsys.readouterr().out


def test_a_difference_is_shown_and_counted(before, after, capsys):
    path = text_of(after)
    path.write_text(path.read_text().replace('"jaxpr.dot_general"', '"jaxpr.other"', 1))
    assert compare(before, after) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"{PROGRAM}.gradient.O2.mlir\n")
    assert "\n+    %" in printed and '"jaxpr.other"' in printed
    assert "worst_cases gradient O2 mlir: 1 of 1 differ" in printed
    assert compare(before, after, "--only", "program.O2") == 0


def test_a_text_of_one_side_only_differs(before, after, capsys):
    text_of(after).unlink()
    assert compare(before, after) == 1
    assert f"{PROGRAM}.gradient.O2.mlir (only before)\n" in capsys.readouterr().out


def test_renames_do_not_count(before, after, tmp_path):
    for path in (after / "worst_cases").iterdir():
        path.write_text(path.read_text().replace("linear_chain", "chain"))
    assert compare(before, after) == 1
    assert compare(before, after, "--rename", "linear_chain=chain") == 0
    renames = tmp_path / "renames"
    renames.write_text("linear_chain=chain\n\n")
    assert compare(before, after, "--renames", str(renames)) == 0


def test_functions_may_have_any_names_on_request(before, after):
    path = text_of(after)
    path.write_text(path.read_text().replace("@linear_chain", "@chain"))
    assert compare(before, after) == 1
    assert compare(before, after, "--any-symbols") == 0


def test_renames_are_of_whole_words_and_may_swap():
    def renamed(text):
        return program_texts.renamed(text, [("a", "b"), ("b", "a"), ("jaxpr-x", "jaxpr-y")])

    assert renamed("@a @b_1 @ab @a-c jaxpr-x jaxpr-x-y") == "@b @a_1 @ab @a-c jaxpr-y jaxpr-x-y"


def test_arrays_that_a_text_only_names_count():
    def text(value):
        table = np.full((64, 64), value, np.float32)
        table[0, 0] = 1.0
        subject = program_texts.Subject(lambda x: x + table, (np.float32(2.0),), (), None)
        return dict(program_texts.texts(subject))["program.O0.mlir"]

    assert text(3.0) == text(3.0)
    assert text(3.0) != text(4.0)
    assert ": float32[64, 64] " in text(3.0).splitlines()[-1]


def test_what_fails_is_written_as_its_error():
    def not_differentiable(x):
        return program_texts.jax.lax.while_loop(lambda c: c < 9.0, lambda c: c * x, x)

    subject = program_texts.Subject(not_differentiable, (2.0,), (0,), not_differentiable)
    texts = dict(program_texts.texts(subject))
    assert "jaxpr.while" in texts["program.O0.mlir"]
    assert texts["gradient.O0.mlir"].startswith("TransformError: ")
    assert "while" in texts["gradient.O0.mlir"]


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["write", "{before}"], "is not empty"),
        (["write", "{after}", "--only", "no/such"], "no program has 'no/such' in its name"),
        (["compare", "{before}", "{nowhere}"], "is not a directory that `write` has written"),
        (["compare", "{before}", "{after}", "--only", "no/such"], "no text has 'no/such'"),
        (["compare", "{before}", "{other}"], "are different versions of JAX"),
    ],
)
def test_wrong_usage_is_an_error(before, after, tmp_path, capsys, arguments, message):
    other = tmp_path / "other"
    other.mkdir()
    (other / "about.json").write_text('{"jax": "0.0"}')
    places = {"before": before, "after": after, "nowhere": tmp_path / "nowhere", "other": other}
    assert program_texts.main([argument.format(**places) for argument in arguments]) == 2
    assert message in capsys.readouterr().err


def test_a_rename_needs_two_names(before, after, capsys):
    with pytest.raises(SystemExit):
        compare(before, after, "--rename", "only-one")
    assert "expected OLD=NEW, got 'only-one'" in capsys.readouterr().err
