"""Dialect to StableHLO, through JAX's own lowering rules.

A program is lowered where JAX lowers the equation that calls it: the rule of ``jaxmlir_call``
(:mod:`jaxmlir.runtime.program_primitive`) walks the function's block and emits each op into JAX's
module.

* **Leaves.**  A rule runs once per signature: op, attributes, operand and result types.  Its output
  is kept as a detached function, and C++ code copies it for every other op of that signature.  JAX
  does the same for equations, but its key takes tens of microseconds instead of a few.
* **Ops with functions** (jit, scan, cond, shard_map, custom rules, a user's own ...) run JAX's rule
  for them too.  If the rule only evaluates or calls the sub-jaxpr, it gets a stub: a jaxpr with one
  ``jaxmlir_call`` equation, which lowers by walking that function in turn.  If the rule looks at
  the equations (``bodies="inspected"`` in the op's record), it gets the exported jaxpr.

So jaxmlir has no lowering rules of its own, and none can be missing or differ from JAX's.  Custom
derivative rules are dropped here and nowhere earlier: JAX's rule for them lowers the called
function.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, NamedTuple, NoReturn

import numpy as np
from jaxlib.mlir.dialects import func as func_dialect
from jaxlib.mlir.dialects import stablehlo

from jaxmlir import errors
from jaxmlir._compat import config, core, effects, jax_mlir_ext, jaxlib_jax, mlir, source_info_util
from jaxmlir.analysis import pointwise
from jaxmlir.analysis.function_view import FunctionView
from jaxmlir.analysis.liveness import LiveOps, Mask, liveness_of
from jaxmlir.analysis.parallel_loops import ATTRIBUTE, keep_parallel
from jaxmlir.bridge import params
from jaxmlir.bridge.custom_rules.pending import forward_mode_error
from jaxmlir.bridge.exporter import constant_value
from jaxmlir.dialect import codec, custom_calls, effect_attributes, locations, op_signature, ops
from jaxmlir.dialect.ir import (
    TREES,
    context,
    diagnostics_of,
    func,
    functions,
    ir,
    new_function,
    parse_module,
    rename_symbol,
)
from jaxmlir.dialect.module import Module
from jaxmlir.dialect.op_signature import Signature
from jaxmlir.dialect.types import aval_of, widths_of
from jaxmlir.errors import Diagnostic, JaxmlirError, LoweringError, cause_of
from jaxmlir.lowering.functions import Nesting
from jaxmlir.lowering.templates import LeafTemplates, LoweringTemplate, kept_leaves
from jaxmlir.passes.base import Pass
from jaxmlir.support.files import directory
from jaxmlir.support.masks import chosen


def legalize(program: Module, platforms: Sequence[str] | None = None) -> None:
    """Replaces a program's module with the StableHLO of its public function, under its name.

    Args:
      platforms: ``"cpu"``, ``"cuda"``, ``"rocm"``, ``"tpu"``; by default the default backend.

    Raises:
      LoweringError: an op cannot be lowered for a platform.
    """
    name, pytrees = program.name, {}
    with context():
        attributes = program._function(name).attributes
        for key in TREES:
            if key in attributes:
                pytrees[key] = attributes[key]
    # keep_unused: the function keeps its signature.
    lowered = program.lower(platforms, keep_unused=True)
    text = mlir.module_to_string(lowered.compiler_ir(), enable_debug_info=True)
    module = parse_module(text)
    with context():
        main = functions(module)["main"]
        rename_symbol(module, "main", name)
        if len(platforms or ()) > 1:
            _name_platforms(main, platforms)
        for key, tree in pytrees.items():
            main.attributes[key] = tree
    program.module = module
    program.changed()


MAKE_PRIVATE = "symbol-privatize{{exclude={}}} makes the others private"


class LegalizeToStablehlo(Pass):
    """Legalize every jaxpr op to StableHLO; custom derivative rules are dropped here.

    The module becomes what JAX lowers a call of its public function to: JAX's own lowering rules
    run, once per signature of an op.

    Options:
      platforms: the platforms to lower for (``cpu``, ``cuda``, ``rocm``, ``tpu``), comma-separated;
        by default that of JAX's default backend.
    """

    name: ClassVar[str] = "jaxpr-legalize-to-stablehlo"
    platforms: tuple[str, ...] = ()

    def run(self, program: Module) -> None:
        program.chosen("", how=MAKE_PRIVATE)
        before = _counts(program)
        legalize(program, self.platforms or None)
        attributes = program.function(program.name).attributes
        for tree, had, has in zip(TREES, before, _counts(program), strict=True):
            # For several platforms, or ordered effects, JAX adds operands and results: the
            # platform's index, tokens. The pytrees do not have them.
            if has != had and tree in attributes:
                del attributes[tree]


def _counts(program: Module) -> tuple[int, int]:
    """The numbers of arguments and results of the public function."""
    type_ = program.function(program.name).type
    return len(type_.inputs), len(type_.results)


PLATFORMS = "jaxpr.platforms"
"""The attribute of the platform-index argument that lists the names of the platforms."""


def _name_platforms(function: func.FuncOp, platforms: Sequence[str]) -> None:
    """Lists the platforms on the platform-index argument that JAX adds if there are several."""
    attributes = [{a.name: a.attr for a in ir.DictAttr(of_one)} for of_one in function.arg_attrs]
    index, nothing = map(ir.StringAttr.get, ("_platform_index", ""))
    for of_one in attributes:
        if of_one.get("jax.global_constant", nothing) == index:
            of_one[PLATFORMS] = ir.ArrayAttr.get(list(map(ir.StringAttr.get, platforms)))
    function.attributes["arg_attrs"] = ir.ArrayAttr.get(list(map(ir.DictAttr.get, attributes)))


def lower_function(
    ctx: Any, program: Module, symbol: str, args: Sequence[Any], results: Mask | None = None
) -> tuple[list[Any], Any]:
    """Emits the body of ``@symbol`` at JAX's current insertion point.

    Args:
      ctx: JAX's ``LoweringRuleContext`` of the calling equation.
      args: the operands, as JAX's IR values; ``None`` for operands that ``results`` do not need.
      results: which results are used; ops that only the others need are left out, also in callees.
        By default nothing is left out.

      Returns:
        The results, ``None`` for unused ones, and the tokens of the ordered effects after the last
        op.

      Raises:
        LoweringError: JAX has no rule for an op on the platform, the rule fails, or the program may
          not use the op; names the op and the user's line.
    """
    custom_calls.check(program)
    liveness = liveness_of(program)
    live = None if results is None else liveness.of(symbol, results)
    lowering = _Lowering(_with_sizes(ctx), program, liveness.body(symbol))
    nesting = Nesting.of(ctx.module_context)
    nesting.enter()
    try:
        lowered = lowering.lower(args, live)
        if nesting.depth > 1:
            return lowered
        lowered = nesting.finish(ctx.module_context, *lowered)
    finally:
        nesting.leave()
    if directory():
        from jaxmlir.caching import rule_cache

        rule_cache.settle()
    return lowered


def _with_sizes(ctx: Any) -> Any:
    """A context whose sizes and platform index have the same types as in the rest of the module.
    Within an op of 64-bit types, JAX passes them as 64-bit integers."""
    sizes = ctx.dim_var_values
    if not sizes:
        return ctx
    types = ctx.module_context.lowering_cache.setdefault("sizes", [v.type for v in sizes])
    return ctx.replace(dim_var_values=_converted(sizes, types))


def _converted(values: Sequence[Any], types: Sequence[ir.Type]) -> list[Any]:
    """Converts integers to the given types."""
    pairs = zip(values, types, strict=True)
    return [v if v.type == t else stablehlo.convert(t, v) for v, t in pairs]


class _Lowering:
    """Lowers the ops of one block; one instance per call of a function."""

    def __init__(self, ctx: Any, program: Module, body: FunctionView):
        self.ctx = ctx
        self.program = program
        self.body = body
        self.module_context = ctx.module_context
        self.tokens = ctx.tokens_in
        # JAX's cache lives as long as the module being built, and so do our templates.
        self.cache: dict[Any, Any] = ctx.module_context.lowering_cache
        self.traceback = ctx.traceback or jaxlib_jax.Traceback()
        self.home = body.function.location.attr
        self.prefix = str(ctx.name_stack)
        # Caches of translated locations: of frames under this equation's traceback, and of whole
        # locations under its name stack too.  Ops without a user's line have the function's
        # location.
        key = ("frames", self.home, self.traceback)
        self.frames: dict[Any, ir.Location] = self.cache.setdefault(key, {})
        key = ("locations", *key, self.prefix)
        self.locations: dict[Any, ir.Location] = self.cache.setdefault(key, {})

    def lower(self, args: Sequence[Any], live: LiveOps | None) -> tuple[list[Any], Any]:
        body, types = self.body, self.body.types
        values: list[Any] = [None] * len(types)
        values[: body.arity] = args
        dead, cuts = (frozenset(live.dead), live.cuts) if live else ((), {})
        cache = self.cache
        inlined_call = jax_mlir_ext.inlined_func_call
        dim_vars = tuple(self.ctx.dim_var_values)
        columns = zip(body.ops, body.signatures, body.operands, body.results, strict=True)
        for i, (op, signature, operands, (first, last)) in enumerate(columns):
            if i in dead:
                continue
            name = signature.name
            try:
                location = self.location(op)
                template = cache.get(signature)
                if type(template) is LoweringTemplate and i not in cuts:
                    nodes = [values[v] for v in operands]
                    outs = inlined_call(template.function, [*dim_vars, *nodes], location)
                    values[first:last] = outs
                    continue
                # Entering a location takes as long as copying a template.
                with location:
                    if name == "jaxpr.constant":
                        values[first] = self.constant(op, signature)
                        continue
                    results = range(first, last)
                    if i in cuts:
                        op = self.program.stubs.reduced(op, cuts[i])
                        signature = op_signature.of_op(op, op.name, op.operands)
                        operands = chosen(operands, cuts[i].operands)
                        results = chosen(results, cuts[i].results)
                    outs = self.op(op, signature, [values[v] for v in operands])
                    for number, out in zip(results, outs, strict=True):
                        values[number] = out
            except (JaxmlirError, *_OF_RULES) as e:
                located = _at_op(e, op, name)
                raise located from cause_of(located, e)
        return [values[v] for v in body.returned], self.tokens

    def op(self, op: Any, known: Signature, nodes: list[Any]) -> Sequence[Any]:
        """The results of an op, written in the current location."""
        key = (self.program, known) if _may_differ(known) else known
        template = self.cache.get(key)
        if template is None:
            template = self.cache[key] = self.template(op, known)
        if type(template) is not LoweringTemplate:
            return template(self, op, nodes)
        return self.inlined(template, nodes)

    def inlined(self, template: LoweringTemplate, nodes: Sequence[Any]) -> Sequence[Any]:
        arguments = [*self.ctx.dim_var_values, *nodes]
        return jax_mlir_ext.inlined_func_call(template.function, arguments)

    def constant(self, op: Any, known: Signature) -> Any:
        """A constant.  Constants have templates: programs repeat the same small ones many times."""
        value, aval = constant_value(self.program, op), aval_of(known.results[0])
        if "name" in op.attributes or not isinstance(value, np.ndarray):
            return mlir.ir_constant(value, const_lowering=self.ctx.const_lowering, aval=aval)
        dim_types = [v.type for v in self.ctx.dim_var_values]
        template = self.cache[known] = _constant_template(value, aval, dim_types)
        (result,) = self.inlined(template, [])
        return result

    def template(self, op: Any, known: Signature) -> Any:
        """The function that lowers every op of this one's signature."""
        eqn = equations.get(known)
        if eqn is None:
            shared = known.is_portable and not _may_differ(known)
            code = self.kept.find(known) if shared and self.kept else None
            if code is not None:
                return LoweringTemplate.read(code)
            eqn = self.equation(op, known.name, shared)
            if shared:
                equations[known] = eqn
        rules = mlir._get_lowering_rules(self.module_context, eqn.primitive, eqn.ctx)
        lower = functools.partial(
            mlir._uncached_lowering, eqn.primitive, eqn.ctx, eqn.effects, *rules[:2]
        )
        if eqn.primitive in mlir._uncacheable_primitives:
            return functools.partial(_lower_in_place, eqn=eqn, lower=lower)
        if rules[2] and eqn.arrays and not eqn.effects and not ops.may_have_functions(known.name):
            return self.leaf(eqn, known, lower, (rules[1], *rules[0].values()))
        traceback = locations.source_info(op.location).traceback
        with source_info_util.user_context(traceback), eqn.ctx.manager, eqn.widths:
            entry = mlir._emit_lowering_rule_as_fun(
                lower,
                self.module_context,
                eqn.ctx,
                eqn.primitive,
                eqn.ordered,
                eqn.avals_in,
                eqn.avals_out,
                rules[2],
                **eqn.params,
            )
        if ATTRIBUTE in op.attributes:
            platforms = self.ctx.platforms or self.module_context.platforms
            devices = getattr(self.module_context.axis_context, "num_devices", 1)
            keep_parallel(entry.func, platforms, devices)
        lowered = entry.func.entry_block.operations
        _check_rule(lowered[len(lowered) - 1], entry.func.type.results)
        plain = (
            all(isinstance(t, ir.Type) for t in entry.flat_output_types) and not entry.const_args
        )
        if entry.inline and not eqn.ordered and plain and eqn.arrays:
            return LoweringTemplate(entry.func.operation)
        return functools.partial(_call_entry, entry=entry, ordered=eqn.ordered)

    def leaf(
        self, eqn: _RuleArguments, known: Signature, lower: Any, rules: tuple[Any, ...]
    ) -> LoweringTemplate:
        """The template of a leaf op; a pointwise op's may be reshaped from one of another shape."""
        alike = None if self.ctx.dim_var_values else pointwise.kind_of(known)
        if alike is None:
            return self.leaf_here(eqn, known, lower, rules)
        template, shape = self.cache.get(alike.key) or self.kept_alike(alike) or (None, ())
        if template is not None:
            self.cache[alike.key] = template, shape
            function = pointwise.reshaped(template.function, shape, alike.shape)
            if function is not None:
                template = LoweringTemplate(function)
                if self.kept:
                    self.kept.keep(known, template.code)
                return template
        template = self.leaf_here(eqn, known, lower, rules, alike)
        self.cache[alike.key] = template, alike.shape
        return template

    def kept_alike(
        self, alike: pointwise.PointwiseKind
    ) -> tuple[LoweringTemplate, pointwise.Shape] | None:
        """The template of an earlier process for pointwise ops of this kind, and its shape."""
        entry = self.kept and self.kept.find_alike(alike)
        return (LoweringTemplate.read(entry[0]), entry[1]) if entry else None

    def leaf_here(
        self,
        eqn: _RuleArguments,
        known: Signature,
        lower: Any,
        rules: tuple[Any, ...],
        alike: pointwise.PointwiseKind | None = None,
    ) -> LoweringTemplate:
        """The template for the op's own shape; read back if the process has made it before.
        Without a cache on disk, its bytecode is kept from the second module on only: most templates
        of the first program of a process are not used again."""
        codes = None if self.environment is None else eqn.codes
        key = (rules, self.environment)
        code = None if codes is None else codes.get(key)
        if code:
            return LoweringTemplate.read(code)
        before = _left_in(self.module_context)
        # The template's ops are copied to other places, so they must not have this location.
        nowhere = jaxlib_jax.Traceback()
        with source_info_util.user_context(nowhere), eqn.ctx.manager, eqn.widths:
            template = self.emit_leaf(eqn, lower)
        if codes is None or code is not None:
            return template
        if key not in codes and self.kept is None:
            codes[key] = None
            return template
        # A rule may also have changed the module, or refer to other functions of it: not kept.
        whole = _left_in(self.module_context) == before and template.is_whole
        code = codes[key] = template.code if whole else b""
        if whole and self.kept is not None:
            self.kept.keep(known, code, alike)
        return template

    @functools.cached_property
    def environment(self) -> Any | None:
        """A key of everything that a leaf's rule may depend on besides its equation; ``None`` with
        symbolic sizes or several devices."""
        module_context = self.module_context
        if self.ctx.dim_var_values or getattr(module_context.axis_context, "num_devices", 1) != 1:
            return None
        return (
            tuple(self.ctx.platforms or module_context.platforms),
            module_context.backend,
            module_context.axis_context,
            module_context.lowering_parameters,
            config.trace_context(),
        )

    @functools.cached_property
    def kept(self) -> LeafTemplates | None:
        """The templates of earlier processes on disk."""
        if self.environment is None:
            return None
        platforms = self.environment[0]
        key = ("kept", platforms)
        if key not in self.cache:
            self.cache[key] = kept_leaves(self.module_context, platforms)
        return self.cache[key]

    def emit_leaf(self, eqn: _RuleArguments, lower: Any) -> LoweringTemplate:
        """A rule's output for arrays: JAX's ``_emit_lowering_rule_as_fun``, reduced to arrays.
        Lowering a small program spends most of its time here."""
        module_context = self.module_context
        dim_vars = self.ctx.dim_var_values
        arguments = [v.type for v in dim_vars]
        arguments += [mlir.aval_to_ir_type(module_context, aval) for aval in eqn.avals_in]
        results = [mlir.aval_to_ir_type(module_context, aval) for aval in eqn.avals_out]
        stack = source_info_util.new_name_stack()
        with mlir.source_info_to_location(module_context, eqn.primitive, stack, None) as location:
            name = eqn.primitive.name
            function, block = new_function(name, arguments, results, location, False)
            with ir.InsertionPoint(block):
                values = list(block.arguments)
                ctx = eqn.rule_context(
                    module_context,
                    stack,
                    traceback=None,
                    tokens_in=mlir.TokenSet(),
                    dim_var_values=values[: len(dim_vars)],
                    const_lowering={},
                )
                outs = lower(ctx, *values[len(dim_vars) :], **eqn.params)
                _check_rule(func_dialect.ReturnOp(outs), results)
        return LoweringTemplate(function.operation)

    def equation(self, op: Any, name: str, shared: bool) -> _RuleArguments:
        """The arguments of JAX's lowering rules for an op; ``shared`` if it is the same in every
        program."""
        if name == "jaxpr.custom_lin":
            refuse_custom_lin(self.program, op, "lowered")
        reader = self.program.stubs if _bodies(name) == "opaque" else self.program.exporter
        with context():
            primitive, parameters = params.of_op(op, name, reader)
            attributes = op.attributes
            op_effects: Any = core.no_effects
            if "jaxpr.effects" in attributes:
                op_effects = frozenset(codec.decode(a) for a in attributes["jaxpr.effects"])
            avals_in = [aval_of(v.type) for v in op.operands]
            avals_out = [aval_of(v.type) for v in op.results]
            return _RuleArguments(
                primitive=primitive,
                params=parameters,
                ctx=effect_attributes.ctx_of(attributes),
                effects=op_effects,
                ordered=tuple(effects.ordered_effects.filter_in(op_effects)),
                avals_in=avals_in,
                avals_out=avals_out,
                arrays=all(type(a) is core.ShapedArray for a in (*avals_in, *avals_out)),
                codes={} if shared else None,
            )

    def location(self, op: Any) -> ir.Location:
        """The op's location in JAX's context, within the location of the calling equation."""
        location = op.location
        key = location.attr
        translated = self.locations.get(key)
        if translated is None:
            translated = self.locations[key] = self.translate(location)
        return translated

    def translate(self, location: ir.Location) -> ir.Location:
        name, frames = locations.split(location)
        outer = self.ctx.name_stack
        if outer.stack and isinstance(outer.stack[-1], source_info_util.Transform):
            # A transformation is printed around the name that follows it.
            name = str(outer + locations.name_stack(location))
        elif self.prefix:
            name = f"{self.prefix}/{name}" if name else self.prefix
        key = frames.attr
        translated = self.frames.get(key)
        if translated is None:
            translated = self.frames[key] = self.translate_frames(frames)
        return ir.Location.name(name, childLoc=translated) if name else translated

    def translate_frames(self, frames: ir.Location) -> ir.Location:
        traceback = locations.traceback_of(frames)
        if traceback is not None or (self.is_nowhere(frames) and self.traceback.frames):
            nameless = source_info_util.new_name_stack()
            traceback = self.within(traceback)
            return mlir.source_info_to_location(self.module_context, None, nameless, traceback)
        translated = _translate_frames(frames, self.cache)
        outer = mlir._traceback_to_location(self.module_context, self.traceback)
        if not isinstance(outer, ir.UnknownLoc):
            translated = ir.Location.callsite(translated, [outer])
        return translated

    def is_nowhere(self, frames: ir.Location) -> bool:
        """Whether an op has no user's line of its own, but its function's location."""
        return frames.attr == self.home

    def within(self, traceback: Any | None) -> Any:
        """A traceback followed by the traceback of the calling equation."""
        return self.traceback if traceback is None else traceback + self.traceback


def _check_rule(returned: Any, expected: Iterable[ir.Type]) -> None:
    """Fails if a rule gives values of other types than the op's, or invalid ops.  JAX would only
    find this when it verifies the whole module, and would not name the op."""
    got, want = [v.type for v in returned.operands], [*expected]
    if got != want:
        given, wanted = (", ".join(map(str, types)) or "nothing" for types in (got, want))
        raise TypeError(f"expected its lowering rule to give {wanted}, got {given}")
    try:
        returned.operation.parent.verify()
    except ir.MLIRError as e:
        said = "; ".join(d.message for d in diagnostics_of(e))
        raise LoweringError(f"its lowering rule gives invalid StableHLO: {said}") from e


def _left_in(module_context: Any) -> tuple[Any, ...]:
    """The state that rules leave in a module besides ops: callbacks, objects they keep alive,
    channels."""
    return (
        len(module_context.keepalives),
        len(module_context.host_callbacks),
        repr(module_context.channel_iterator),
    )


# The errors that rules raise about ops that they cannot lower.  Others are meant for the user.
_OF_RULES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    NameError,
    NotImplementedError,
    TypeError,
    ValueError,
    ir.MLIRError,
)


def _at_op(error: Exception, op: Any, name: str) -> LoweringError:
    position = locations.position(op.location)
    axes = effect_attributes.axis_names(op)
    # What JAX's rules raise where no transformation is around the program.
    if axes and isinstance(error, (AssertionError, NameError)):
        error = LoweringError(
            f"unbound axis name {', '.join(map(repr, axes))}: expected a vmap of that "
            "axis_name, or a shard_map, around the program"
        )
    if not isinstance(error, (errors.JaxmlirError, NotImplementedError)):
        error = LoweringError(f"{type(error).__name__}: {error}")
    located = errors.at_op(LoweringError, error, name, position, "op cannot be lowered")
    first, *others = located.diagnostics
    if locations.is_of_jax(first.file) and not locations.is_of_jax(position[0]):
        # The op is in a JAX-internal function: report the user's line that calls it.
        file, line, col = position
        place = Diagnostic("note", "the op is here", first.file, first.line, first.col)
        first = first._replace(file=file, line=line, col=col, notes=(*first.notes, place))
        return type(located)([first, *others])
    return located


class _RuleArguments(NamedTuple):
    """The arguments of a rule for the ops of one signature."""

    primitive: Any
    params: dict[str, Any]
    ctx: Any
    effects: Any
    ordered: tuple[Any, ...]
    avals_in: list[Any]
    avals_out: list[Any]
    # Whether operands and results are arrays, each one value in StableHLO.
    arrays: bool
    # The output of a leaf's rule, by rule and environment: reading it takes a fifth of the time of
    # running the rule.  None for ops that mean something in one program only.
    codes: dict[Any, bytes | None] | None

    @property
    def widths(self) -> contextlib.AbstractContextManager[Any]:
        """The context manager in which a rule must run."""
        return widths_of((*self.avals_in, *self.avals_out))

    def rule_context(self, module_context: Any, name_stack: Any, **place: Any) -> Any:
        """The context that a rule is given; ``place`` has the traceback, tokens, sizes and
        constants."""
        return mlir.LoweringRuleContext(
            module_context=module_context,
            primitive=self.primitive,
            name_stack=name_stack,
            avals_in=self.avals_in,
            avals_out=self.avals_out,
            tokens_out=None,
            jaxpr_eqn_ctx=self.ctx,
            **place,
        )


def refuse_custom_lin(program: Module, op: Any, verb: str) -> NoReturn:
    """Fails on a linear map of which only the transpose is known: it cannot be "lowered"
    (``verb``)."""
    raise forward_mode_error(
        program,
        op,
        "differentiate in reverse mode (grad, vjp, jacrev), or have jvp and linearize transpose "
        "the backward rule: custom_vjp_forward='transpose' (as an option of a pass: "
        "custom-vjp-forward=transpose)",
        f"op cannot be {verb}",
    )


# By signature, for all programs; only ops that refer to no function and no Python object.
equations: dict[Signature, _RuleArguments] = {}


def _constant_template(
    value: np.ndarray, aval: Any, dim_types: Sequence[ir.Type]
) -> LoweringTemplate:
    """A template whose only operands are, as in all templates, the sizes of symbolic dimensions."""
    with ir.Location.unknown() as nowhere:
        function, block = new_function("constant", dim_types, [], nowhere, False)
        with ir.InsertionPoint(block):
            result = mlir.ir_constant(value, aval=aval)
            func_dialect.ReturnOp([result])
        type_ = ir.FunctionType.get(dim_types, [result.type])
        function.attributes["function_type"] = ir.TypeAttr.get(type_)
    return LoweringTemplate(function.operation)


def _lower_in_place(
    body: _Lowering, op: Any, nodes: Sequence[Any], *, eqn: _RuleArguments, lower: Any
) -> Sequence[Any]:
    """Runs a rule that must not be cached, at the op."""
    outer = body.ctx
    _, frames = locations.split(op.location)
    nowhere = body.is_nowhere(frames)
    traceback = None if nowhere else locations.source_info(op.location).traceback
    name_stack = outer.name_stack + locations.name_stack(op.location)
    with source_info_util.user_context(traceback), eqn.ctx.manager, eqn.widths:
        ctx = eqn.rule_context(
            body.module_context,
            name_stack,
            traceback=body.within(traceback),
            tokens_in=body.tokens,
            dim_var_values=outer.dim_var_values,
            const_lowering=outer.const_lowering,
        )
        outs = lower(ctx, *nodes, **eqn.params)
    if ctx.tokens_out is not None:
        body.tokens = body.tokens.update_tokens(ctx.tokens_out)
    return [out if isinstance(out, ir.Value) else tuple(out) for out in outs]


def _call_entry(
    body: _Lowering, op: Any, nodes: Sequence[Any], *, entry: Any, ordered: Sequence[Any]
) -> Sequence[Any]:
    """Uses a rule's output that threads tokens, takes constants, or must stay a function."""
    ctx = body.ctx
    consts = tuple(
        mlir.ir_constants(c, const_lowering=ctx.const_lowering, aval=aval)
        for c, aval in zip(entry.const_args, entry.const_arg_avals, strict=True)
    )
    tokens = tuple(body.tokens.get(effect) for effect in ordered)
    sizes = ctx.dim_var_values
    sizes = _converted(sizes, entry.func.type.inputs[: len(sizes)])
    flat, _ = mlir.ir_tree_registry.flatten((*sizes, *tokens, *consts, *nodes))
    if entry.inline:
        outs = jax_mlir_ext.inlined_func_call(entry.func.operation, flat)
    else:
        symbol = ir.FlatSymbolRefAttr.get(entry.func.sym_name.value)
        outs = func_dialect.CallOp(entry.flat_output_types, symbol, flat).results
    outs = list(entry.output_treedef.unflatten(outs))
    new_tokens, outs = outs[: len(ordered)], outs[len(ordered) :]
    if ordered:
        updated = mlir.TokenSet(dict(zip(ordered, new_tokens, strict=True)))
        body.tokens = body.tokens.update_tokens(updated)
    return outs


def _translate_frames(location: ir.Location, known: dict[Any, Any]) -> ir.Location:
    """A location of jaxmlir's context rebuilt in the current one; ``known`` is a cache."""
    key = location.attr
    translated = known.get(key)
    if translated is not None:
        return translated
    if isinstance(location, ir.CallSiteLoc):
        caller = _translate_frames(location.caller, known)
        translated = ir.Location.callsite(_translate_frames(location.callee, known), [caller])
    elif isinstance(location, ir.NameLoc):
        child = _translate_frames(location.child_loc, known)
        translated = ir.Location.name(location.name_str, childLoc=child)
    elif isinstance(location, ir.FileLineColLoc):
        translated = ir.Location.file(location.filename, location.start_line, location.start_col)
    elif isinstance(location, ir.FusedLoc):
        translated = ir.Location.fused(
            [_translate_frames(loc, known) for loc in location.locations]
        )
    else:
        translated = ir.Location.unknown()
    known[key] = translated
    return translated


@functools.cache
def _bodies(name: str) -> str:
    record = ops.record_of(name)
    # The rule of an unknown primitive may inspect the jaxprs it is given.
    return record.bodies if record is not None else "inspected"


def _may_differ(known: Signature) -> bool:
    """Whether ops of a signature may mean something else in another program."""
    return bool(known.attributes) and ops.may_have_functions(known.name)
