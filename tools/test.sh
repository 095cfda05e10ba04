#!/bin/sh
# The whole test suite, from a fresh clone: lint, pytest, lit, and the tests marked `compat` on
# Python 3.12 (whose newest supported JAX is newer than Python 3.11's) where there is one.
#
#   sh tools/test.sh [STAGE ...]      default: lint pytest lit compat
#
# Of tests with many costly cases, the stage `pytest` runs a fixed sample, and the stage `compat` one
# case in twelve of every third test. Three stages do not run by default: `pytest-whole` and
# `compat-whole` run all cases; `compat-0.11` runs all cases with JAX 0.11.
#
# Tests that save a program and read it back use an artifact; the compat stages use text.
#
# One closing line per stage; the exit status is non-zero if any stage failed.
set -u
cd "$(dirname "$0")/.."
failed=""
# Tests start hundreds of processes: cache the bytecode of imports, whatever the environment says.
unset PYTHONDONTWRITEBYTECODE

# stage NAME COMMAND...: runs COMMAND and prints its verdict. pytest's status 5 (no test collected)
# is a failure like any other.
stage() {
    name=$1
    shift
    started=$(date +%s)
    if "$@"; then verdict=ok; else verdict="FAILED (exit status $?)"; failed="$failed $name"; fi
    echo "== $name: $verdict, $(($(date +%s) - started)) s"
}

lint() {
    status=0
    .venv/bin/ruff check --quiet . || status=1
    .venv/bin/ruff format --check --quiet . || status=1
    .venv/bin/python tools/lint_imports.py || status=1
    .venv/bin/python tools/lint_docstrings.py || status=1
    .venv/bin/python tools/lint_lit.py lit_tests || status=1
    .venv/bin/python tools/lint_types.py || status=1
    return $status
}

run_pytest() { .venv/bin/python -m pytest -q -n 2 --dist worksteal "$@"; }

run_lit() { .venv/bin/lit -sv --no-progress-bar --order=lexical -j 2 lit_tests; }

# The command that starts Python 3.12, also if pyenv hides it behind a shim; empty if there is none.
find_python312() {
    if python3.12 -c '' 2> /dev/null; then
        echo python3.12
    elif command -v pyenv > /dev/null; then
        version=$(pyenv versions --bare | grep '^3\.12\.' | tail -n 1)
        [ -n "$version" ] && echo "env PYENV_VERSION=$version python3.12"
    fi
}

# Whether the Python of .venv is 3.12 or newer.
is_new() { .venv/bin/python -c 'import sys; sys.exit(sys.version_info < (3, 12))'; }

# run_compat SHARE VENV PYTHON [REQUIREMENT]: runs the `compat` tests; SHARE has options of pytest
# that select cases.
run_compat() {
    share=$1
    shift
    sh tools/setup.sh "$@" && "$1/bin/python" -m pytest -q -n 2 --dist worksteal -m compat \
        --through=text $share
}

sh tools/setup.sh || { echo "== setup: FAILED"; exit 1; }
[ $# -gt 0 ] || set -- lint pytest lit compat
for requested in "$@"; do
    case $requested in
        lint) stage lint lint ;;
        pytest) stage pytest run_pytest ;;
        pytest-whole) stage pytest-whole run_pytest --whole ;;
        lit) stage lit run_lit ;;
        compat | compat-whole)
            share="--tests=3 --every=12"
            [ "$requested" = compat ] || share=--whole
            python312=$(find_python312)
            if is_new; then
                echo "== $requested: part of the pytest stage, which ran on Python 3.12 or newer"
            elif [ -z "$python312" ]; then
                echo "== $requested: left out, there is no Python 3.12 here"
            else
                stage "$requested" run_compat "$share" .venv312 "$python312"
            fi
            ;;
        compat-0.11)
            python312=$(find_python312)
            if [ -z "$python312" ] && is_new; then python312=python3; fi
            if [ -n "$python312" ]; then
                stage compat-0.11 run_compat --whole .venv-0.11 "$python312" 'jax>=0.11,<0.12'
            else
                echo "== compat-0.11: FAILED, jax 0.11 needs Python 3.12, which is not here"
                failed="$failed compat-0.11"
            fi
            ;;
        *) echo "tools/test.sh: unknown stage '$requested'" >&2; exit 2 ;;
    esac
done

if [ -n "$failed" ]; then
    echo "== failed:$failed"
    exit 1
fi
echo "== all stages passed"
