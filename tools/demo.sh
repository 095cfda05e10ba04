#!/bin/sh
# From a fresh clone to a JAX program running through the jaxpr dialect.
set -eu
cd "$(dirname "$0")/.."
sh tools/setup.sh
exec .venv/bin/python examples/demo.py "$@"
