#!/bin/sh
# Creates a virtual environment with jaxmlir (editable) and everything its tests need.
#
#   sh tools/setup.sh [DIRECTORY [PYTHON [REQUIREMENT]]]      default: .venv python3
#
# PYTHON may have several words (`env PYENV_VERSION=3.12.1 python3.12`); REQUIREMENT constrains what
# pip chooses (`jax<0.12`). A second run with the same pyproject.toml does nothing: the stamp file
# holds that file's hash.
set -eu
cd "$(dirname "$0")/.."
venv=${1:-.venv}
python=${2:-python3}

stamp=$venv/.jaxmlir-stamp
wanted="$(cksum < pyproject.toml) $(pwd)"
if [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$wanted" ]; then
    exit 0
fi

echo "setup: installing into $venv (minutes, the first time)" >&2
rm -f "$stamp"
if [ ! -x "$venv/bin/python" ]; then
    rm -rf "$venv"
    # shellcheck disable=SC2086
    $python -m venv "$venv"
fi
"$venv/bin/python" -m pip install -qq --disable-pip-version-check \
    --no-input --timeout 120 --retries 10 --editable '.[test]' ${3:+"$3"}
# As pip does for what it copies: without bytecode, each process would compile what it imports.
"$venv/bin/python" -m compileall -q jaxmlir
printf '%s\n' "$wanted" > "$stamp"
