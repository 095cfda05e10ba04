"""Pages of programs: their data, and their behaviour in a browser, if there is one."""

import base64
import importlib.util
import json
import re
import shutil
import subprocess
import zlib
from pathlib import Path

import headless_browser
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxmlir
from jaxmlir.analysis.cost import costs
from jaxmlir.cli import translate
from jaxmlir.dialect.ir import context
from jaxmlir.errors import PipelineError
from jaxmlir.optimize.memory.profile import Peaks
from jaxmlir.viewer.form import lifetimes

ROOT = Path(__file__).resolve().parents[2]


def parts_of(page):
    """The data of a page, by name."""
    found = re.findall(r'<script type="text/plain" id="([\w-]+)">([^<]*)</script>', page)
    return {name: json.loads(zlib.decompress(base64.b64decode(text))) for name, text in found}


def page_of(program, tmp_path, **options):
    path = tmp_path / "page.html"
    program.explore(path, **options)
    return path.read_text()


@pytest.fixture(scope="module")
def transformer():
    """The demo's transformer, as its training step differentiates it."""
    spec = importlib.util.spec_from_file_location("demo", ROOT / "examples" / "demo.py")
    demo = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(demo)
    loss, params, data, _ = demo.transformer()
    return jaxmlir.trace(loss)(params, *data).value_and_grad()


def rosenbrock(x):
    def step(c, y):
        return c + jnp.sin(y), c * y

    total, ys = jax.lax.scan(step, jnp.float32(0), x)
    return jnp.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2) + total + jnp.sum(ys)


@pytest.mark.compat
def test_the_data_of_a_page_are_the_programs(tmp_path):
    program = jaxmlir.trace(rosenbrock)(jnp.ones(5))
    parts = parts_of(page_of(program, tmp_path))
    about, form = parts["about"], parts["form-0"]
    functions = {f["name"]: f for f in form["functions"]}
    assert functions.keys() == program.functions.keys()
    text = "\n".join(line for f in form["functions"] for line in f["text"]["lines"])
    indented = "\n".join(line.removeprefix("  ") for line in str(program).splitlines()[1:-1])
    assert text == indented
    for f in form["functions"]:
        for op, line in enumerate(f["text"]["ops"]):
            assert f'"{f["names"][op]}"' in f["text"]["lines"][line]
            # An op reads only earlier results.
            assert all(v < f["results"][op][0] for v in f["operands"][op])
    found = costs(program)
    by_line = {
        (about["files"][about["positions"][at][0]], about["positions"][at][1]): (flops, size)
        for at, flops, _, size, _ in form["cost"]["lines"]
    }
    assert by_line == {line: (c.flops, c.bytes) for line, c in found.by_line.items()}


@pytest.mark.compat
@pytest.mark.parametrize("optimized", [False, True])
def test_the_values_in_memory_add_up_to_the_profile(transformer, optimized):
    program = transformer.optimize(2) if optimized else transformer
    with context():
        profile = Peaks(program).profile(program.name)
        found = lifetimes(profile)
        total = np.zeros(len(profile.view.ops) + 1)
        for value, (first, last) in found.items():
            total[first : last + 1] += profile.sizes[value]
        calls = [i for i, op in enumerate(profile.view.ops) if "jaxpr" in op.attributes]
    same = np.delete(np.arange(len(profile.bytes)), calls)
    np.testing.assert_array_equal(total[:-1][same], profile.bytes[same])
    assert np.all(total[:-1] <= profile.bytes)


def test_stages_are_what_the_passes_alone_give(tmp_path):
    program = jaxmlir.trace(jax.grad(rosenbrock))(jnp.ones(5))
    parts = parts_of(page_of(program, tmp_path, passes="jaxpr-inline,jaxpr-canonicalize,cse"))
    stages = parts["about"]["stages"]
    assert [s["name"] for s in stages] == ["", "jaxpr-inline", "jaxpr-canonicalize", "cse"]
    done = []
    for number, stage in enumerate(stages):
        done += [stage["name"]] * bool(number)
        alone = program.run_passes(",".join(done))
        expected = [line.removeprefix("  ") for line in str(alone).splitlines()[1:-1]]
        last = next(s for s in reversed(stages[: number + 1]) if s["functions"])
        texts = [parts[f"stage-{at}"][i]["lines"] for at, i in last["functions"].values()]
        assert [line for lines in texts for line in lines] == expected
    after = parts["form-1"]["functions"]
    assert [f["name"] for f in after] == list(alone.functions)
    remarks = []
    program.run_passes("jaxpr-inline,jaxpr-canonicalize", remarks=remarks.append)
    said = [message for stage in stages for message, *_ in stage["remarks"]]
    assert said == [r.message.partition("] ")[2] for r in remarks]


@pytest.mark.compat
def test_remarks_are_at_the_ops_as_they_were_before_the_pass(tmp_path):
    program = jaxmlir.trace(lambda x: jnp.cos(jnp.sin(x)) + jnp.cos(jnp.sin(x)))(1.0)
    _, stage = parts_of(page_of(program, tmp_path, passes="jaxpr-cse"))["about"]["stages"]
    # Both ops of the second pair are removed; the cosine then already reads the first sine.
    assert [where for _, _, *where in stage["remarks"]] == [[program.name, 2], [program.name, 3]]


def test_ops_of_other_dialects_and_symbolic_sizes_have_a_page(tmp_path):
    foreign = jaxmlir.parse(
        """
func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = "stablehlo.reduce_window"(%a, %c) ({
    ^bb0(%x: tensor<f32>, %y: tensor<f32>):
      %r = stablehlo.add %x, %y : tensor<f32>
      stablehlo.return %r : tensor<f32>
  }) {window_dimensions = array<i64: 1>} : (tensor<4xf32>, tensor<f32>) -> tensor<4xf32>
  return %0 : tensor<4xf32>
}""",
        verify=False,
    )
    (function,) = parts_of(page_of(foreign, tmp_path))["form-0"]["functions"]
    assert function["names"] == ["stablehlo.constant", "stablehlo.reduce_window"]
    assert [function["text"]["lines"][i].split("(")[0] for i in function["text"]["ops"]] == [
        "  %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>",
        '  %0 = "stablehlo.reduce_window"',
    ]
    assert function["calls"] == {} and function["costs"][1] == [0, 0, 36, False]
    (n,) = jax.export.symbolic_shape("n")
    symbolic = jaxmlir.trace(jnp.sin)(jax.ShapeDtypeStruct((n,), jnp.float32))
    (function,) = parts_of(page_of(symbolic, tmp_path, passes="-O1"))["form-1"]["functions"]
    assert function["costs"] == [[0, "n", "8*n", True]]


TAKEN = "document.title='taken'"
HOSTILE = f"</script><script>{TAKEN}</script><img src=x onerror={TAKEN}>"


def hostile_program(file):
    text = f'''
func.func public @"{HOSTILE}"(%arg0: tensor<2xf32> loc("{HOSTILE}")) -> tensor<2xf32> {{
  %0 = "jaxpr.{HOSTILE}"(%arg0) {{"{HOSTILE}" = "{HOSTILE}"}} : (tensor<2xf32>) -> tensor<2xf32>
    loc("{HOSTILE}"("{HOSTILE}":1:1))
  %1 = "jaxpr.sin"(%0) : (tensor<2xf32>) -> tensor<2xf32> loc("{file}":2:1)
  return %1 : tensor<2xf32>
}}'''
    return jaxmlir.parse(text, verify=False)


def test_nothing_that_a_program_says_is_html(tmp_path):
    source = tmp_path / "source.py"
    source.write_text(f"secret\n{HOSTILE}\nsecret\n")
    program = hostile_program(source)
    page = page_of(program, tmp_path)
    assert HOSTILE not in page and "<img" not in page
    about = parts_of(page)["about"]
    assert HOSTILE in json.dumps(about).replace("\\\\", "")
    # The page has only the line of the file that the program names.
    assert [lines for lines in about["source"] if lines] == [{"2": HOSTILE}]
    assert (
        "&lt;/script&gt;" in program._repr_html_()
        and "onerror=document.title='"
        not in (program._repr_html_().replace("&#x27;", "'").partition("srcdoc")[0])
    )


def test_source_info_can_be_left_out(tmp_path):
    program = jaxmlir.trace(rosenbrock)(jnp.ones(5))
    page = page_of(program, tmp_path, passes="-O1", source_info=False)
    data = json.dumps(parts_of(page))
    assert "test_viewer" not in data and "c + jnp.sin(y)" not in data
    assert "rosenbrock" in data


def test_files_that_are_not_there_are_not_read(tmp_path):
    program = hostile_program("/dev/zero")
    assert not any(parts_of(page_of(program, tmp_path))["about"]["source"])


def test_wrong_passes_are_errors_before_anything_is_written(tmp_path):
    program = jaxmlir.trace(jnp.sin)(1.0)
    path = tmp_path / "page.html"
    for passes, message in [
        ("-O7", "the levels are"),
        ("jaxpr-cs", "did you mean"),
        (2, "a pipeline"),
    ]:
        with pytest.raises(PipelineError, match=message):
            program.explore(path, passes=passes)
    assert not path.exists()


def test_the_tool_writes_the_page(tmp_path, capsys):
    source, out = tmp_path / "sin.mlir", tmp_path / "out.html"
    source.write_text(str(jaxmlir.trace(jnp.sin)(1.0)))
    assert translate.main([str(source), "--to-html", "--passes=-O2", "-o", str(out)]) == 0
    parts = parts_of(out.read_text())
    assert parts["about"]["forms"] == ["before", "after -O2"]
    assert translate.main([str(source), "--to-jaxpr", "--passes=-O2"]) == 1
    assert "--passes requires --to-html" in capsys.readouterr().err


def test_graphviz_reads_the_dot_text():
    program = jaxmlir.trace(rosenbrock)(jnp.ones(5))
    text = program.to_dot()
    assert text.count("subgraph cluster_") == len(program.functions)
    assert '[label="sin\\nf32[]"]' in text and "style=dashed" in text
    hostile = hostile_program("file.py").to_dot()
    quoted = re.sub(r'"(?:[^"\\]|\\.)*"', "", hostile)
    assert "script" not in quoted and '"' not in quoted
    if shutil.which("dot"):
        for each in (text, hostile):
            subprocess.run(["dot", "-Tsvg"], input=each, text=True, check=True, capture_output=True)


def test_a_table_of_costs_is_shown_in_notebooks():
    table = costs(jaxmlir.trace(rosenbrock)(jnp.ones(5)))
    shown = table._repr_html_()
    assert shown.count("<tr>") == len(table.by_line) + 2
    assert "return c + jnp.sin(y), c * y" in shown


# --- in a browser ---


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with headless_browser.chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


def opened(browser, program, tmp_path, **options):
    page_of(program, tmp_path, **options)
    browser.open(tmp_path / "page.html")


def texts(browser, selector):
    return browser.get(f"[...document.querySelectorAll({selector!r})].map((e) => e.textContent)")


def test_a_transformer_is_explored_by_keys_alone(browser, transformer, tmp_path):
    opened(browser, transformer, tmp_path, passes="-O2")
    optimized = transformer.run_passes(",".join(jaxmlir.passes.LEVELS[2]))
    selected = "document.querySelector('#text [aria-selected=true] code').textContent"
    lines = [line.removeprefix("  ") for line in str(optimized).splitlines()[1:]]
    assert browser.get(selected) == lines[0]
    browser.press("j", "ArrowDown", "k", "ArrowDown")
    assert browser.get(selected) == lines[2]
    assert "constant" in browser.get("document.querySelector('#details h2').textContent")
    browser.press("ArrowLeft")
    assert len(texts(browser, "#text .row")) < len(lines)
    browser.press("ArrowRight")
    # A search finds lines of source, and steps through the matches.
    browser.press("/", *"soft_cap_jvp", "Enter", "Enter")
    assert browser.get("document.querySelector('#found').textContent").startswith("2 of ")
    assert "soft_cap_jvp" in browser.get(selected)
    browser.press("Escape", "b")
    browser.wait("document.querySelector('#forms [aria-pressed=true]').textContent == 'before'")
    assert "214 ops" in browser.get("document.querySelector('#summary').textContent")
    browser.press("2")
    passes = browser.wait("document.querySelectorAll('#pass-list .row').length")
    assert passes == len(texts(browser, "#pass-list .row"))
    browser.press("]")
    head = browser.wait("document.querySelector('#pass-head h2')?.textContent")
    assert head.startswith("jaxpr-")
    assert browser.wait("document.querySelectorAll('#diff .remark').length") > 0
    browser.press("3")
    assert "the peak" in browser.get("document.querySelector('#readout').textContent")
    browser.get("document.querySelector('#chart input').focus()")
    browser.press("Home", "ArrowRight")
    assert browser.get("document.querySelector('#readout').textContent").startswith("step 2 of ")
    browser.press("4")
    assert any("layer_norm(x) @ params" in line for line in texts(browser, "#source code"))
    browser.press("1", "g")
    assert "@layer_norm_fwd" in texts(browser, "#graph .node text")
    assert browser.errors() == []


def test_what_a_pass_renumbers_is_the_same(browser, tmp_path):
    def f(x):
        y = jnp.sin(x) + jnp.sin(x)
        return jnp.cos(y) * jnp.exp(y) + jnp.tanh(y)

    opened(browser, jaxmlir.trace(f)(1.0), tmp_path, passes="jaxpr-cse")
    browser.press("2")
    browser.wait("document.querySelectorAll('#diff .pair').length")
    kinds = browser.get(
        "[...document.querySelectorAll('#diff .pair')].map((row) => [...row.children].map("
        "(side) => side.className))"
    )
    # One sine is removed, and the sum has other operands; ops that are only renumbered are equal.
    assert kinds.count(["out", "none"]) == 1 and kinds.count(["operands", "operands"]) == 1
    assert all(k == ["same", "same"] for k in kinds if k[0] not in ("out", "operands"))


def test_a_hostile_program_runs_nothing(browser, tmp_path):
    source = tmp_path / "source.py"
    source.write_text(f"\n{HOSTILE}\n")
    opened(browser, hostile_program(source), tmp_path)
    browser.press("j", "j", "3", "4", "1", "g")
    assert browser.get("document.title") != "taken"
    assert browser.get("document.querySelectorAll('img').length") == 0
    assert HOSTILE in browser.get("document.querySelector('#text').textContent")
    assert browser.errors() == []


def large_program(n):
    lines = ["func.func public @main(%arg0: tensor<64xf32>) -> tensor<64xf32> {"]
    last = "%arg0"
    for i in range(n):
        op = f'"jaxpr.add"({last}, %arg0) : (tensor<64xf32>, tensor<64xf32>)'
        op = op if i % 3 else f'"jaxpr.sin"({last}) : (tensor<64xf32>)'
        lines.append(f'%{i} = {op} -> tensor<64xf32> loc("model.py":{i // 40 + 1}:3)')
        last = f"%{i}"
    lines.append(f"return {last} : tensor<64xf32>\n}}")
    return jaxmlir.parse("\n".join(lines), verify=False)


def test_twenty_thousand_ops_open_soon(browser, tmp_path):
    page_of(large_program(20_000), tmp_path)
    browser.devtools("Performance.enable", timeDomain="threadTicks")
    browser.open(tmp_path / "page.html")
    metrics = browser.devtools("Performance.getMetrics")["metrics"]
    seconds = {m["name"]: m["value"] for m in metrics}["TaskDuration"]
    assert seconds < 3
    assert len(texts(browser, "#text .row")) < 100
    browser.press("End", "k", "k")
    selected = "document.querySelector('#text [aria-selected=true] code').textContent"
    assert browser.get(selected).startswith("  %19999 = ")
    assert len(texts(browser, "#graph .node")) < 200
    assert browser.errors() == []
