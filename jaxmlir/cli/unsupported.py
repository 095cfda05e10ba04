"""The options of mlir-opt that ``jaxmlir-opt`` does not take, and why."""

from __future__ import annotations

_ACTIONS = "MLIR's actions are not in its Python bindings, and Python passes are none"
_PLUGIN = "no C++ plugins: jaxlib's MLIR is not built for them; `--load` imports Python modules"
_REMARKS = "of C++ passes' own remark files; ours: `--remarks`"
_COUNTERS = "counters are in MLIR's debug builds only"
REFUSED = {
    "elide-resource-data-from-bytecode": "such bytecode is not whole",
    "irdl-file": "ops of unregistered dialects are accepted as they are",
    "load-dialect-plugin": _PLUGIN,
    "load-pass-plugin": _PLUGIN,
    "mlir-diagnostic-verbosity-level": "the bindings do not offer it",
    "mlir-print-elementsattrs-with-hex-if-larger": "the bindings do not offer it; large constants "
    "are resources, which are hexadecimal",
    "mlir-print-op-on-diagnostic": "the line of the file is printed, with a caret",
    "mlir-print-unique-ssa-ids": "the bindings do not offer it",
    "mlir-print-value-users": "the bindings do not offer it",
    "mlir-very-unsafe-disable-verifier-on-parsing": "`--verify=none` leaves out "
    "the verification of our ops; MLIR's own is quick, and safe",
}
NOT_APPLICABLE = {
    "log-actions-to": _ACTIONS,
    "log-mlir-actions-filter": _ACTIONS,
    "mlir-debug-counter": _COUNTERS,
    "mlir-enable-debugger-hook": _ACTIONS,
    "mlir-print-debug-counter": _COUNTERS,
    "profile-actions-to": _ACTIONS,
    **dict.fromkeys(
        (
            "remark-format",
            "remark-policy",
            "remarks-filter",
            "remarks-filter-analyse",
            "remarks-filter-failed",
            "remarks-filter-missed",
            "remarks-filter-passed",
            "remarks-output-file",
        ),
        _REMARKS,
    ),
}
