"""Artifacts: a saved program can be loaded again, and no other file can."""

import collections
import concurrent.futures
import hashlib
import io
import json
import lzma
import os
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from safetensors import safe_open

import jaxmlir
from jaxmlir.artifact import container, module_text
from jaxmlir.dialect.ir import nesting
from jaxmlir.errors import ArtifactError, JaxmlirError, LoweringError, ParseError

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "tools"))

import fuzz

TABLE = np.linspace(-1, 1, 3000, dtype=np.float32)


@jax.custom_jvp
def soft(x):
    return jnp.log1p(jnp.exp(x))


# The true derivative is sigmoid; the factor shows that the rule is used.
soft.defjvp(lambda primals, tangents: (soft(*primals), 3 * tangents[0] * soft(*primals)))


def model(params, x):
    return {"loss": jnp.sum(soft(params["w"] * x)) + jnp.take(TABLE, 2999), "aux": [x, None]}


def arguments():
    return {"w": jnp.float32(0.5)}, jnp.arange(3.0)


@pytest.fixture
def path(tmp_path):
    """An artifact of ``model``."""
    path = tmp_path / "model.jaxmlir"
    jaxmlir.trace(model)(*arguments()).save(path)
    return path


def same(a, b):
    assert jax.tree.structure(a) == jax.tree.structure(b)
    for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        assert jax.typeof(x) == jax.typeof(y)
        np.testing.assert_allclose(x, y, rtol=1e-6)


# --- round trips ------------------------------------------------------------------------------


@pytest.mark.compat
def test_a_loaded_program_is_the_one_that_was_saved(path):
    loaded = jaxmlir.load(path)
    same(loaded(*arguments()), model(*arguments()))
    traced = jaxmlir.trace(model)(*arguments())
    assert loaded.as_text(debug_info=True) == traced.as_text(debug_info=True)


@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
@pytest.mark.parametrize("dtype", ["complex64", "float32", "bfloat16"])
def test_arrays_without_elements(tmp_path, shape, dtype):
    """`0xcomplex` in a type is a dimension and an element type, no hexadecimal number."""
    empty = np.zeros(shape, jnp.dtype(dtype))
    jaxmlir.trace(lambda: jnp.asarray(empty))().save(tmp_path / "empty")
    loaded = jaxmlir.load(tmp_path / "empty")()
    assert (loaded.shape, loaded.dtype) == (empty.shape, empty.dtype)


def test_a_loaded_program_is_transformed_like_a_function(path):
    loaded = jaxmlir.load(path)

    def loss(f):
        return lambda w, x: f({"w": w}, x)["loss"]

    ours, theirs = loss(loaded), loss(model)
    w, x = jnp.float32(0.5), jnp.arange(3.0)
    same(jax.jit(jax.grad(ours))(w, x), jax.grad(theirs)(w, x))
    same(jax.grad(jax.grad(ours))(w, x), jax.grad(jax.grad(theirs))(w, x))
    ws = jnp.array([0.1, 0.2])
    same(jax.vmap(jax.grad(ours), (0, None))(ws, x), jax.vmap(jax.grad(theirs), (0, None))(ws, x))

    def steps(f):
        return lax.scan(lambda w, _: (w - 0.1 * jax.grad(f)(w, x), None), w, None, length=3)[0]

    same(steps(ours), steps(theirs))
    same(loaded.jvp()(arguments(), arguments()), jax.jvp(model, arguments(), arguments()))


def test_other_readers_of_safetensors_read_an_artifact(path):
    with safe_open(path, "numpy") as file:
        assert set(file.keys()) == {"constant.c0", "module", "seal"}
        np.testing.assert_array_equal(file.get_tensor("constant.c0"), TABLE)
        text = lzma.decompress(file.get_tensor("module").tobytes())
        metadata = json.loads(file.metadata()["jaxmlir"])
    assert metadata["jax"] == jax.__version__
    assert metadata["module"]["bytes"] == len(text)
    assert b'"jaxpr.custom_jvp_call_jaxpr"' in text


def test_the_documented_bytes_are_the_bytes(path):
    """The reader in docs/artifact.md, which uses only the standard library."""
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    start = 8 + length
    assert start % 64 == 0
    header = json.loads(data[8:start])
    metadata = json.loads(header.pop("__metadata__")["jaxmlir"])
    parts = {n: data[start:][slice(*e["data_offsets"])] for n, e in header.items()}
    assert list(parts) == ["constant.c0", "module", "seal"]
    assert hashlib.sha256(data[:start]).digest() == parts["seal"] == data[-32:]
    assert hashlib.sha256(parts["module"]).hexdigest() == metadata["module"]["sha256"]
    digest = metadata["constants"]["c0"]["sha256"]
    assert hashlib.sha256(parts["constant.c0"]).hexdigest() == digest
    assert struct.unpack("<f", parts["constant.c0"][:4]) == (-1.0,)


DTYPES = [
    "bool", "int2", "int4", "uint4", "int8", "uint8", "int16", "uint16", "int32", "uint32",
    "float16", "bfloat16", "float32", "complex64", "float4_e2m1fn", "float8_e3m4", "float8_e4m3",
    "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz",
    "float8_e8m0fnu",
]  # fmt: skip


def constant_of(dtype):
    rng = np.random.default_rng(0)
    dtype = np.dtype(getattr(ml_dtypes, dtype, dtype))
    return rng.integers(0, 2, (70, 70)).astype(dtype)


@pytest.mark.compat
def test_constants_of_every_dtype(tmp_path):
    arrays = {name: constant_of(name) for name in DTYPES}
    with jax.enable_x64(True):
        for name in ("int64", "uint64", "float64", "complex128"):
            arrays[name] = constant_of(name) * 1.5 if "t" in name else constant_of(name)
        values = {name: jnp.asarray(array) for name, array in arrays.items()}
        values["keys"] = jax.random.split(jax.random.key(1), 2000)
        program = jaxmlir.trace(lambda: values)()
        program.save(tmp_path / "a")
        loaded = jaxmlir.load(tmp_path / "a")
        results = loaded()
    keys, expected = results.pop("keys"), values.pop("keys")
    np.testing.assert_array_equal(jax.random.key_data(keys), jax.random.key_data(expected))
    for name, value in values.items():
        assert results[name].dtype == value.dtype
        assert np.asarray(results[name]).tobytes() == np.asarray(value).tobytes()
    for name in loaded.constants:
        array = loaded.constants[name]
        assert array.ctypes.data % min(array.dtype.itemsize, 8) == 0


def test_constants_are_shared_with_the_file_and_read_when_they_are_used(tmp_path, monkeypatch):
    from jaxmlir.artifact import load

    monkeypatch.setattr(load, "EAGER_BYTES", 100)
    jaxmlir.trace(model)(*arguments()).save(tmp_path / "a")
    data = bytearray((tmp_path / "a").read_bytes())
    data[2000] ^= 1  # In the middle of the table.
    (tmp_path / "damaged").write_bytes(data)
    damaged = jaxmlir.load(tmp_path / "damaged")
    with pytest.raises(JaxmlirError, match="constant 'c0' is damaged"):
        damaged(*arguments())
    array = jaxmlir.load(tmp_path / "a").constants["c0"]
    assert not array.flags.writeable and not array.flags.owndata
    assert array.ctypes.data % 64 == 0


@pytest.mark.compat
def test_several_platforms_and_shardings(tmp_path):
    from jax.sharding import NamedSharding, PartitionSpec

    mesh = jax.make_mesh((4, 2), ("x", "y"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    spec = NamedSharding(mesh, PartitionSpec("x", "y"))

    def by_platform(x):
        x = lax.with_sharding_constraint(x, spec)
        total = jax.shard_map(
            lambda x: lax.psum(x, "x"),
            mesh=mesh,
            in_specs=PartitionSpec("x", "y"),
            out_specs=PartitionSpec(None, "y"),
        )(x)
        return lax.platform_dependent(total, cpu=jnp.sin, tpu=jnp.cos, cuda=jnp.exp)

    x = jnp.arange(64.0).reshape(8, 8)
    jaxmlir.trace(by_platform)(x).save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    same(loaded(x), jax.jit(by_platform)(x))
    plain = jaxmlir.trace(lambda x: lax.platform_dependent(x, cpu=jnp.sin, cuda=jnp.exp))(x)
    plain.save(tmp_path / "b")
    text = jaxmlir.load(tmp_path / "b").lower(platforms=["cpu", "cuda"]).as_text()
    assert "stablehlo.sine" in text and "stablehlo.exponential" in text


def test_nothing_but_what_the_program_names_is_saved(tmp_path):
    program = jaxmlir.trace(lambda x: x + 1)(1.0)
    program.constants["unused"] = np.ones(10)
    program.save(tmp_path / "a", source_info=False)
    assert list(jaxmlir.load(tmp_path / "a").constants) == []
    assert os.fsencode(__file__) not in lzma.decompress(module_of(tmp_path / "a"))


def module_of(path):
    _, parts = container.unpack(container.map_file(path))
    return bytes(parts[container.MODULE].data)


# --- what cannot be saved ---------------------------------------------------------------------


def test_a_callback_cannot_be_saved(tmp_path):
    def ask(v):
        return v

    def f(x):
        return jax.pure_callback(ask, jax.ShapeDtypeStruct((), "float32"), x)  # here

    source = Path(__file__).read_text().splitlines()
    line = next(n for n, text in enumerate(source, 1) if text.endswith("# here"))
    (tmp_path / "a").write_text("what was there")
    with pytest.raises(ArtifactError) as error:
        jaxmlir.trace(f)(1.0).save(tmp_path / "a")
    (diagnostic,) = error.value.diagnostics
    assert diagnostic.file == __file__ and diagnostic.line == line
    assert "'jaxpr.pure_callback' op cannot be saved: attribute 'callback'" in diagnostic.message
    assert "ask" in diagnostic.message
    assert os.listdir(tmp_path) == ["a"] and (tmp_path / "a").read_text() == "what was there"


def test_a_constant_without_a_value_cannot_be_saved(tmp_path):
    text = jaxmlir.trace(model)(*arguments()).as_text()
    with pytest.raises(ArtifactError, match="constant 'c0' has no value"):
        jaxmlir.parse(text).save(tmp_path / "a")
    assert not os.listdir(tmp_path)


KILLED = """
import sys
import jax.numpy as jnp, numpy as np
import jaxmlir
programs = [jaxmlir.trace(lambda: np.full((1 << 18) + i, i, np.float32))() for i in range(2)]
while True:
    for program in programs:
        program.save(sys.argv[1])
        print("saved", flush=True)
"""


@pytest.mark.slow
def test_a_save_that_is_killed_leaves_the_old_file_or_the_new(tmp_path):
    root = str(Path(jaxmlir.__file__).parent.parent)
    env = {**os.environ, "PYTHONPATH": root}
    command = [sys.executable, "-c", KILLED, "a"]
    rng = np.random.default_rng(0)
    found = collections.Counter()
    for _ in range(6):
        with subprocess.Popen(command, cwd=tmp_path, env=env, stdout=subprocess.PIPE) as child:
            for _ in range(2):
                child.stdout.readline()
            for _ in range(20):
                time.sleep(rng.uniform(0, 0.02))
                os.kill(child.pid, signal.SIGSTOP)
                # At any moment the file is complete.
                found[jaxmlir.load(tmp_path / "a", verify=False).out_avals[0].shape] += 1
                os.kill(child.pid, signal.SIGCONT)
            child.kill()
        (array,) = jaxmlir.load(tmp_path / "a").constants.values()
        assert set(array.tolist()) == {array.size - (1 << 18)}
    assert len(found) == 2


def test_a_pipe_is_written_to(tmp_path):
    """A pipe is not replaced by a file, and neither is a device such as ``/dev/null``."""
    pipe, program = tmp_path / "pipe", jaxmlir.trace(model)(*arguments())
    os.mkfifo(pipe)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        read = pool.submit(pipe.read_bytes)
        program.save(pipe)
        assert pipe.is_fifo() and os.listdir(tmp_path) == ["pipe"]
        (tmp_path / "a").write_bytes(read.result(10))
    same(jaxmlir.load(tmp_path / "a")(*arguments()), model(*arguments()))


@pytest.mark.parametrize("name", ["a" * 255, "\N{EURO SIGN}" * 85, os.fsencode("b")])
def test_names_of_any_length(tmp_path, name):
    path = os.path.join(os.fsencode(tmp_path), os.fsencode(name))
    jaxmlir.trace(model)(*arguments()).save(path)
    same(jaxmlir.load(path)(*arguments()), model(*arguments()))


# --- what is not loaded -----------------------------------------------------------------------


def test_damaged_and_forged_artifacts():
    """A sample of the 20,000 mutants that tools/fuzz.py tries."""
    assert fuzz.run(fuzz.samples(), range(300), seed=1) == []


def test_every_prefix_of_an_artifact(tmp_path):
    table = np.random.default_rng(0).standard_normal(1100).astype(np.float32)
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    jaxmlir.trace(lambda x: jnp.sin(x) * table)(jnp.ones(1100)).save(whole)
    assert jaxmlir.load(whole).constants
    data = whole.read_bytes()
    for length in range(len(data)):
        cut.write_bytes(data[:length])
        with pytest.raises(ArtifactError, match="cannot load"):
            jaxmlir.load(cut)


def forge(data, change):
    """The artifact with a changed header, whose digest is computed anew."""
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    metadata = json.loads(header["__metadata__"]["jaxmlir"])
    text = change(header, metadata)
    if text is None:
        header["__metadata__"]["jaxmlir"] = json.dumps(metadata)
        text = json.dumps(header)
    encoded = text.encode()
    encoded += b" " * (-(8 + len(encoded)) % 64)
    start = struct.pack("<Q", len(encoded)) + encoded
    return start + data[8 + length : -32] + hashlib.sha256(start).digest()


def rename_constant(name):
    def change(header, metadata):
        header[f"constant.{name}"] = header.pop("constant.c0")
        metadata["constants"][name] = metadata["constants"].pop("c0")
        # The header's entries are in the order of their data.
        for entry in ("module", "seal"):
            header[entry] = header.pop(entry)

    return change


def set_entry(**fields):
    return lambda header, metadata: header["constant.c0"].update(fields)


def duplicate(header, metadata):
    text = json.dumps(header)
    entry = json.dumps(header["constant.c0"])
    return text.replace('"module":', f'"constant.c0": {entry}, "module":', 1)


HEADERS = {
    "unchanged but sealed anew": (lambda h, m: None, None),
    "a duplicate name": (duplicate, "same key twice"),
    "a path as a name": (rename_constant("../../etc/passwd"), "cannot name a constant"),
    "a name of dots": (rename_constant(".."), "cannot name a constant"),
    "a huge shape": (set_entry(shape=[1 << 62, 1 << 62]), "expected .* bytes from byte"),
    "a negative shape": (set_entry(shape=[-3000]), "malformed shape"),
    "a shape of text": (set_entry(shape="3000"), "malformed shape"),
    "offsets outside of the file": (set_entry(data_offsets=[0, 1 << 60]), "expected 12000 bytes"),
    "offsets that overlap": (set_entry(data_offsets=[4, 12004]), "expected 12000 bytes"),
    "another dtype": (set_entry(dtype="I32"), "stored as I32"),
    "an unknown dtype": (set_entry(dtype="F7"), "unknown dtype 'F7'"),
    "a field too many": (set_entry(more=1), "must have"),
    "deep nesting": (lambda h, m: '{"a":' + "[" * 200_000, "not well-formed JSON"),
    "no JSON": (lambda h, m: "{nonsense", "not well-formed JSON"),
    "a newer format": (
        lambda h, m: m.update(artifact=2),
        "version 2 of the artifact format.*: install a newer",
    ),
    "a newer dialect": (lambda h, m: m.update(dialect="7.1"), "install a newer jaxmlir"),
    "a dialect of words": (lambda h, m: m.update(dialect="x"), "malformed dialect version"),
    "no constants": (lambda h, m: m.update(constants={}), "constants in the metadata do not match"),
    "a wrong digest": (lambda h, m: m["module"].update(sha256="0" * 64), "the module is damaged"),
    "a zip bomb": (lambda h, m: m["module"].update(bytes=1 << 40), "a factor of 1000"),
    "a wrong size": (lambda h, m: m["module"].update(bytes=10), "the declared 10 bytes"),
}


@pytest.mark.parametrize("name", HEADERS)
def test_adversarial_headers(path, tmp_path, name):
    change, message = HEADERS[name]
    (tmp_path / "forged").write_bytes(forge(path.read_bytes(), change))
    if message is None:
        same(jaxmlir.load(tmp_path / "forged")(*arguments()), model(*arguments()))
        return
    with pytest.raises(ArtifactError, match=message):
        jaxmlir.load(tmp_path / "forged")


def test_a_file_that_is_cut_short_says_so(path):
    contents = path.read_bytes()
    header = int.from_bytes(contents[:8], "little") + 8
    for size in (10, header - 1, header, header + 1, len(contents) - 1):
        with pytest.raises(ArtifactError, match=f"the file is truncated to {size} bytes"):
            jaxmlir.load(contents[:size])


def test_contents_may_be_bytes_or_streams(path):
    contents = path.read_bytes()
    stream = io.BytesIO()
    jaxmlir.load(contents).save(stream)
    assert stream.tell() == len(stream.getvalue()) > 0
    stream.seek(0)
    with path.open("rb") as file:
        for source in (contents, bytearray(contents), memoryview(contents), file, stream):
            same(jaxmlir.load(source)(*arguments()), model(*arguments()))


def test_a_header_that_says_it_is_huge(tmp_path):
    (tmp_path / "a").write_bytes(struct.pack("<Q", 1 << 62) + b"{}")
    with pytest.raises(ArtifactError, match="a header of 4611686018427387904 bytes"):
        jaxmlir.load(tmp_path / "a")


def test_other_files_are_no_artifacts(tmp_path):
    import safetensors.numpy

    safetensors.numpy.save_file({"a": np.ones(3)}, tmp_path / "plain")
    (tmp_path / "empty").touch()
    for name in ("plain", "empty"):
        with pytest.raises(ArtifactError, match="cannot load"):
            jaxmlir.load(tmp_path / name)
    with pytest.raises(FileNotFoundError):
        jaxmlir.load(tmp_path / "absent")


def with_text(path, change):
    """The artifact with another text, and with correct digests."""
    metadata, parts = container.unpack(container.map_file(path))
    text = change(lzma.decompress(parts[container.MODULE].data).decode()).encode()
    path.write_bytes(fuzz.sealed(metadata, parts, text))


TEXTS = {
    "nested attributes": ("attributes = {a = " + "[" * 10_000, "nests"),
    "an op of another dialect": ('"llvm.inline_asm"() : () -> ()', "expected only what jaxmlir"),
    "a custom form": ("llvm.unreachable", "expected only what jaxmlir"),
    "a comment": ("// [[[[", "expected only what jaxmlir"),
    "a handle": ('"jaxpr.a"() {callback = {handle = "h0"}} : () -> ()', "in-process handles"),
    "a quoted key": ('"jaxpr.a"() {"handle" = "h0"} : () -> ()', "in-process handles"),
    "a type with a handle": ('"jaxpr.a"() {t = !jaxpr.aval<"x", "h0">} : () -> ()', "in-process"),
    "an affine map": ('"jaxpr.a"() {t = affine_map<(i) -> (i)>} : () -> ()', "expected only"),
    "a resource": ('"jaxpr.a"() {t = dense_resource<x> : tensor<1xi1>} : () -> ()', "expected"),
    "an array of halves": ('"jaxpr.a"() {t = {u = array<f16: 1.0>}} : () -> ()', "element type"),
    "what is no text": ("\x00\x01", "expected only what jaxmlir"),
    "no MLIR": ("( ( (", "expected operation name"),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_adversarial_modules(path, name):
    inserted, message = TEXTS[name]
    with_text(path, lambda text: text.replace("\n    %0 =", f"\n    {inserted}\n    %0 =", 1))
    with pytest.raises((ArtifactError, ParseError), match=message):
        jaxmlir.load(path)


def test_what_other_tools_added_to_a_text(path):
    """Their attributes of functions mean nothing here; metadata of locations is left out."""
    text = """
      #here = loc("f.py":1:2)
      func.func public @main(
        %x: tensor<f32> {other.a = 1 : i32, jaxpr.b} loc("x"(#here)),
        %y: tensor<f32> loc(fused<"m">[#here, "f.py":3:4])
      ) -> (tensor<f32> {other.c}) attributes {other.d = "e"} {
        %0 = "jaxpr.add"(%x, %y) : (tensor<f32>, tensor<f32>) -> tensor<f32> loc(fused<{m}>[#here])
        return %0 : tensor<f32>
      }"""
    jaxmlir.parse(text).save(path)
    loaded = jaxmlir.load(path)
    assert loaded(1.0, 2.0) == 3.0
    written = loaded.as_text(debug_info=True)
    assert "other." not in written
    assert "jaxpr.b" in written
    assert all(place in written for place in ('loc("x"(', '"f.py":1:2', '"f.py":3:4', "fused["))


def test_locations_that_multiply(path):
    """A few lines of aliases could expand to an enormous location."""
    lines = ["#loc9000 = loc(unknown)"]
    lines += [f"#loc{n} = loc(fused[#loc{n - 1}, #loc{n - 1}])" for n in range(9001, 9060)]
    with_text(path, lambda text: text + "\n".join(lines) + "\n")
    with pytest.raises(ArtifactError, match="a location of over 4096 parts"):
        jaxmlir.load(path)


def test_a_constant_that_stands_for_a_terabyte(path):
    """A splat takes a few bytes until its elements are read."""
    big = "tensor<1000000x1000000xf32>"
    with_text(
        path,
        lambda text: text.replace(
            "\n    %0 =",
            f'\n    %bomb = "jaxpr.constant"() {{value = dense<1.0> : {big}}} : () -> {big}\n'
            "    %0 =",
            1,
        ),
    )
    program = jaxmlir.load(path)
    jaxprs = [program.exporter.jaxpr(symbol) for symbol in program.functions]
    assert max(np.size(value) for jaxpr in jaxprs for value in jaxpr.consts) == 10**12


Point = collections.namedtuple("Point", ["x", "y"])


def test_classes_that_are_no_pytree_nodes_are_not_called(path):
    for node in ('{namedtuple = ["subprocess:Popen", ["*"]]}', '{node = ["os:popen", none, []]}',
                 '{node = ["builtins:dict", ["a"], ["*"]]}', '{namedtuple = ["builtins:int", []]}',
                 '{dict = [["a", "*"], ["a", "*"]]}', '{dict = [[{list = []}, "*"]]}',
                 '{node = ["test_artifact:Point", none, ["*", "*"]]}',
                 '{namedtuple = ["os:terminal_size", ["*"]]}', '{none = 1 : i64}'):  # fmt: skip
        with_text(
            path,
            lambda text, node=node: (
                text[: text.index("jaxpr.out_tree = ")]
                + f"jaxpr.out_tree = {node}}}"
                + text[text.index(" : () -> () loc(", text.index("jaxpr.out_tree")) :]
            ),
        )
        with pytest.raises(ArtifactError, match="cannot load .* pytree"):
            jaxmlir.load(path)


def test_the_grammar_accepts_what_is_printed_and_counts_brackets():
    text = str(jaxmlir.trace(model)(*arguments())).encode()
    assert nesting(b"([{<>}])(())->") == 4
    with pytest.raises(ArtifactError):  # The text must be in generic form, also func.func.
        module_text.check(text)


def test_only_text_of_the_expected_size_is_decompressed():
    packed = lzma.compress(b" " * (1 << 24))
    with pytest.raises(ArtifactError, match="does not decompress"):
        module_text.decompress(packed, 1 << 20)
    with pytest.raises(ArtifactError, match="cannot be decompressed"):
        module_text.decompress(b"certainly not xz" * 9, 10)


# --- what a loaded program may do -------------------------------------------------------------


def test_foreign_functions_have_to_be_allowed(tmp_path):
    def f(x):
        call = jax.ffi.ffi_call("lapack_spotrf_ffi", x, vmap_method="sequential")
        return call(x, uplo=np.uint8(ord("L")))

    jaxmlir.trace(f)(jnp.eye(2)).save(tmp_path / "a")
    loaded = jaxmlir.load(tmp_path / "a")
    assert "jaxpr.ffi_call" in str(loaded)
    for use in (
        lambda: loaded(jnp.eye(2)),
        loaded.lower,
        loaded.to_jaxpr,
        lambda: loaded.vmap(axis_size=2).lower(),
    ):
        with pytest.raises(LoweringError, match="'lapack_spotrf_ffi' is not part of XLA") as error:
            use()
        assert error.value.diagnostics[0].file == __file__
    with pytest.raises(JaxmlirError, match="'lapack_spotrf_ffi' is not part of XLA"):
        jaxmlir.trace(loaded)(jnp.eye(2))
    for allowed in (["lapack_spotrf_ffi"], None):
        text = jaxmlir.load(tmp_path / "a", allow_custom_calls=allowed).lower().as_text()
        assert "lapack_spotrf_ffi" in text


def test_compiler_options_have_to_be_allowed(path, tmp_path):
    """Some compiler option writes files."""
    jaxmlir.trace(lambda x: jax.jit(jnp.sin)(x))(1.0).save(tmp_path / "a")
    options = '{compiler_options_kvs = [["xla_dump_to", "dump"]], '
    with_text(tmp_path / "a", lambda text: text.replace("{jaxpr = @", f"{options}jaxpr = @"))
    with pytest.raises(LoweringError, match="allow_custom_calls=\\['compiler_options'\\]"):
        jaxmlir.load(tmp_path / "a")(1.0)


def test_every_error_is_one_of_ours():
    assert issubclass(ArtifactError, JaxmlirError)


CONFIGURED = """
import sys
import jax
import jaxmlir

def draw(x):
    return x * jax.random.normal(jax.random.key(7), x.shape)

mesh = jax.make_mesh((2,), ("i",), axis_types=(jax.sharding.AxisType.Explicit,))
x = jax.numpy.arange(6.0)
with jax.set_mesh(mesh), jax.threefry_partitionable(False):
    assert "cur_abstract_mesh" in jaxmlir.trace(draw)(x).as_text()
with jax.threefry_partitionable(False):
    jaxmlir.trace(draw)(x).save(sys.argv[1])
jaxmlir.trace(draw)(x).save(sys.argv[2])
"""


@pytest.mark.compat
def test_what_was_set_where_a_program_was_traced_is_in_its_artifact_only(tmp_path):
    paths = [str(tmp_path / name) for name in ("configured", "plain")]
    subprocess.run([sys.executable, "-c", CONFIGURED, *paths], check=True)
    configured, plain = map(jaxmlir.load, paths)
    assert "jaxpr.ctx" in configured.as_text()
    assert "jaxpr.ctx" not in plain.as_text()

    def draw(x):
        return x * jax.random.normal(jax.random.key(7), x.shape)

    x = jnp.arange(6.0)
    for program, partitionable in ((configured, False), (plain, True)):
        with jax.threefry_partitionable(partitionable):
            expected = draw(x)
        with jax.threefry_partitionable(not partitionable):
            np.testing.assert_array_equal(program(x), expected)
            np.testing.assert_array_equal(program.optimize(2)(x), expected)
            np.testing.assert_allclose(program.jvp()((x,), (x,))[1], expected, rtol=1e-6)
