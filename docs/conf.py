"""The site of the documentation: ``sphinx-build -W docs site``.

Sphinx, for the docstrings are written with its roles, and the reference is made of them.
"""

import re

from pygments.lexer import RegexLexer
from pygments.token import Comment, Keyword, Name, Number, Operator, String, Text

import jaxmlir

project = "jaxmlir"
author = "the jaxmlir authors"
copyright = author
release = version = jaxmlir.__version__
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinxcontrib.mermaid",
]
exclude_patterns = ["*.json"]
html_theme = "furo"
html_title = "jaxmlir"
html_show_copyright = False
myst_enable_extensions = ["colon_fence"]
myst_heading_anchors = 4
myst_fence_as_directive = ["mermaid"]
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_use_unqualified_type_names = True
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_rtype = False

# Files of the repository that are pages of the site.
PAGES = {"../CHANGELOG.md": "changelog.md", "../CONTRIBUTING.md": "contributing.md"}
OUTSIDE = re.compile(r"\[([^\]]+)\]\((\.\./[^)#]*)(#[^)]*)?\)")


class MlirLexer(RegexLexer):
    """Highlights MLIR text, which Pygments does not know."""

    name = "MLIR"
    aliases = ("mlir",)
    tokens = {
        "root": [
            (r"//.*", Comment),
            (r'"[^"]*"', String),
            (r"[%@^#!][\w.$#:-]+", Name.Variable),
            (r"\b(module|func\.func|func\.call|return|attributes|public|private)\b", Keyword),
            (r"\b(tensor|vector|array|dense)\b|\b[fiu]+\d+\b|\bindex\b", Keyword.Type),
            (r"-?\d[\w.+-]*", Number),
            (r"[\w.]+", Name),
            (r"->|[=:<>(){}\[\],*?]", Operator),
            (r"\s+|.", Text),
        ]
    }


def point_into_the_site(app, docname, source):
    """Links to files beside docs/ become those of their pages, or, where there is none, text."""

    def link(match):
        text, path, anchor = match.groups()
        page = PAGES.get(path)
        return f"[{text}]({page}{anchor or ''})" if page else text

    source[0] = OUTSIDE.sub(link, source[0])


def leave_out_internal(app, what, name, obj, skip, options):
    """Leaves out what ``dir`` does: attributes that only the package itself uses."""
    last = name.rpartition(".")[2]
    classes = (jaxmlir.Program.__mro__,)
    internal = any(last in getattr(c, "_internal", ()) for mro in classes for c in mro)
    return True if what == "class" and internal else None


def setup(app):
    app.add_lexer("mlir", MlirLexer)
    app.connect("source-read", point_into_the_site)
    app.connect("autodoc-skip-member", leave_out_internal)
