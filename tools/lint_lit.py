"""Lint: lit or FileCheck must read every line of a lit test that looks like RUN or CHECK.

    python tools/lint_lit.py lit_tests

A missing colon or a misspelt directive (`CHECK_NEXT:`, `CHEK:`) turns a line of a lit test into a
plain comment: the test still passes, but no longer tests anything. For every comment that starts
like a directive, this lint checks that it is one, and that a RUN line puts it to use.
"""

import argparse
import difflib
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

SUFFIXES = (".mlir", ".test")
LIT_KEYWORDS = ("RUN", "REQUIRES", "UNSUPPORTED", "XFAIL", "DEFINE", "REDEFINE", "ALLOW_RETRIES")
IGNORED_KEYWORDS = ("COM",)
CHECK_SUFFIXES = ("", "-NEXT", "-SAME", "-NOT", "-DAG", "-LABEL", "-EMPTY")
DIAGNOSTICS = ("expected-error", "expected-warning", "expected-remark", "expected-note")

# A comment's first word, when it looks like a directive: capitals, digits, dashes, underscores.
# A `.test` file holds only directives and their input, so a directive needs no comment sign there.
DIRECTIVE = re.compile(r"^\s*(?P<sign>//+|#+|;+|)\s*(?P<word>[A-Z][A-Z0-9_-]*)(?P<rest>.*)$")
DIAGNOSTIC = re.compile(r"^\s*//\s*(?P<word>expect[a-z]*-[a-z]+)(?P<rest>.*)$")
CHECK_PREFIX = re.compile(r"--?check-prefix(?:es)?[= ]([\w,-]+)")
CHECK_WORD = re.compile(
    r"^(?P<prefix>[A-Z0-9_-]+?)(?:-NEXT|-SAME|-NOT|-DAG|-LABEL|-EMPTY|-COUNT-\d+)?$"
)


@dataclass(frozen=True)
class Finding:
    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: error: {self.message}"


@dataclass(frozen=True)
class RunLines:
    """The commands in the RUN lines of one file, and which directives they make effective."""

    commands: tuple[str, ...]

    @classmethod
    def of(cls, directives: Iterable[re.Match[str]]) -> "RunLines":
        rests = (m["rest"] for m in directives if m["word"] == "RUN")
        return cls(tuple(rest[1:].strip() for rest in rests if rest.startswith(":")))

    @property
    def prefixes(self) -> frozenset[str]:
        """The prefixes FileCheck looks for; empty if no RUN line calls it."""
        prefixes: set[str] = set()
        # A command may span several RUN lines; each but the last ends in a backslash.
        for command in "\n".join(self.commands).replace("\\\n", " ").splitlines():
            for call in re.findall(r"\bfile_?check\b[^|;&]*", command, flags=re.IGNORECASE):
                named = [p for names in CHECK_PREFIX.findall(call) for p in names.split(",")]
                prefixes.update(named or ["CHECK"])
        return frozenset(prefixes)

    @property
    def verify_diagnostics(self) -> bool:
        return any("verify-diagnostics" in command for command in self.commands)


def lint(path: Path) -> Iterator[Finding]:
    """All findings in one lit test."""
    lines = dict(enumerate(path.read_text().splitlines(), start=1))
    directives = {
        number: match
        for number, line in lines.items()
        if (match := DIRECTIVE.match(line)) and (match["sign"] or path.suffix == ".test")
    }
    runs = RunLines.of(directives.values())
    if not runs.commands:
        yield Finding(path, 1, "no RUN line: lit never runs this file")
    for number, line in lines.items():
        message = None
        if match := DIAGNOSTIC.match(line):
            message = _diagnostic_problem(match["word"], match["rest"], runs)
        elif match := directives.get(number):
            message = _directive_problem(match["word"], match["rest"], runs)
        if message:
            yield Finding(path, number, message)


def _directive_problem(word: str, rest: str, runs: RunLines) -> str | None:
    has_colon = rest.startswith(":")
    if word in IGNORED_KEYWORDS:
        return None
    if word in LIT_KEYWORDS:
        return None if has_colon else f"'{word}' without a colon never runs; write '{word}:'"
    prefixes = runs.prefixes | {"CHECK"}
    if prefix := _check_prefix(word, prefixes):
        if not has_colon and not rest.startswith("{LITERAL}:"):
            return f"'{word}' without a colon never runs; write '{word}:'"
        if prefix not in runs.prefixes:
            return f"no RUN line makes FileCheck look for '{prefix}', so '{word}:' never runs"
        return None
    directives = [p + suffix for p in sorted(prefixes) for suffix in CHECK_SUFFIXES]
    near = difflib.get_close_matches(word, [*directives, *LIT_KEYWORDS], n=1, cutoff=0.75)
    if near:
        return f"'{word}' is not a directive and never runs; did you mean '{near[0]}:'?"
    if has_colon and (match := CHECK_WORD.match(word)) and match["prefix"] != word:
        return f"no RUN line makes FileCheck look for '{match['prefix']}', so '{word}:' never runs"
    return None


def _check_prefix(word: str, prefixes: frozenset[str]) -> str | None:
    """The prefix of a well-formed check directive; None if `word` is not one."""
    for prefix in sorted(prefixes, key=len, reverse=True):
        if word.startswith(prefix):
            suffix = word[len(prefix) :]
            if suffix in CHECK_SUFFIXES or re.fullmatch(r"-COUNT-\d+", suffix):
                return prefix
    return None


def _diagnostic_problem(word: str, rest: str, runs: RunLines) -> str | None:
    if word not in DIAGNOSTICS:
        near = difflib.get_close_matches(word, DIAGNOSTICS, n=1, cutoff=0.6)
        hint = f"; did you mean '{near[0]}'?" if near else ""
        return f"'{word}' is not an expected diagnostic and never runs{hint}"
    if "{{" not in rest:
        return f"'{word}' without a '{{{{message}}}}' never runs"
    if not runs.verify_diagnostics:
        return f"'{word}' never runs: no RUN line has --verify-diagnostics"
    return None


def lit_tests(root: Path) -> list[Path]:
    """The files under `root` that lit runs as tests, according to lit.cfg.py."""
    return sorted(
        path
        for path in root.rglob("*")
        if path.suffix in SUFFIXES and not {"Inputs", "Output"} & set(path.parts)
    )


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=Path, nargs="+", help="folders or files of lit tests")
    roots = parser.parse_args(arguments).root
    if missing := [str(root) for root in roots if not root.exists()]:
        parser.error(f"no such file or folder: {', '.join(missing)}")
    tests = [path for root in roots for path in (lit_tests(root) if root.is_dir() else [root])]
    findings = [finding for path in tests for finding in lint(path)]
    for finding in findings:
        print(finding, file=sys.stderr)
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
