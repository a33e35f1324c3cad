"""Settings of the site: ``make docs`` builds it into ``docs/_build/html``.

``FULLRANK_DOCS_QUICK=1`` shows the notebooks as they are written, without running them.
"""

import os
import shutil
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE / "_site"), str(HERE.parent / "src")]

import generate  # noqa: E402
import notebooks  # noqa: E402
from pydantic import BaseModel  # noqa: E402

from fullrank.version import __version__  # noqa: E402

QUICK = os.environ.get("FULLRANK_DOCS_QUICK", "") not in ("", "0")

project = "fullrank"
author = "the authors of fullrank"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.doctest",
    "sphinx.ext.intersphinx",
    "sphinx.ext.mathjax",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx_copybutton",
    "sphinx_design",
]
source_suffix = {".rst": "restructuredtext", ".md": "myst-nb"}
exclude_patterns = ["_build", "_site", "_templates"]
templates_path = ["_templates"]
language = "en"
highlight_language = "none"
nitpicky = True
suppress_warnings = ["config.cache"]

# Markdown as GitHub shows it.
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# Notebooks: every full build runs them.
nb_execution_mode = "off" if QUICK else "force"
nb_execution_in_temp = True
nb_execution_raise_on_error = True
nb_execution_timeout = 300
nb_merge_streams = True

# The API, from the docstrings.
autosummary_generate = True
autosummary_generate_overwrite = True
autosummary_ignore_module_all = False
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
autodoc_inherit_docstrings = False
napoleon_numpy_docstring = False
napoleon_use_rtype = False
napoleon_attr_annotations = False
add_module_names = False
python_use_unqualified_type_names = True
viewcode_line_numbers = True
doctest_global_setup = "from fullrank.nn import *\nfrom fullrank.testing import *"
doctest_test_doctest_blocks = "default"
nitpick_ignore_regex = generate.NITPICK_IGNORE

# Nothing is fetched: the inventories are files of this repository.
intersphinx_mapping = {
    name: (address, str(HERE / "_site" / "inventories" / f"{name}.inv"))
    for name, address in generate.INVENTORIES.items()
}
intersphinx_timeout = 1

# Equations are drawn by a MathJax that is a part of the site: one file, no fonts.
mathjax_path = "tex-svg-full.js"  # with all extensions, such as boldsymbol
mathjax3_config = {"svg": {"fontCache": "global"}}

html_theme = "pydata_sphinx_theme"
html_title = "fullrank"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_favicon = "_static/favicon.svg"
html_copy_source = False
html_show_sourcelink = False
html_show_copyright = False
html_theme_options = {
    "logo": {"text": "fullrank"},
    "header_links_before_dropdown": 5,
    "navbar_align": "left",
    "navbar_end": ["theme-switcher"],
    "navbar_persistent": ["search-button"],
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": ["theme-version"],
    "show_nav_level": 1,
    "navigation_depth": 2,
    "collapse_navigation": True,
    "show_toc_level": 2,
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
html_context = {"default_mode": "auto"}
html_sidebars = {"index": []}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True


def _ship_mathjax(app) -> None:
    """Copy the one file of MathJax that the pages load."""
    package = find_spec("sphinx-mathjax-offline")
    if app.builder.format != "html" or package is None:
        return
    (where,) = package.submodule_search_locations
    static = Path(app.outdir) / "_static"
    static.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(
        Path(where) / "static" / "mathjax" / mathjax_path, static / mathjax_path
    )


def _plain_signature(app, what, name, obj, options, signature, returned):
    """The fields of a pydantic model with their defaults, without its checks."""
    if what != "class" or not issubclass(obj, BaseModel):
        return None
    fields = (
        key if field.is_required() else f"{key}={field.get_default()!r}"
        for key, field in obj.model_fields.items()
        if not (field.get_default() is None and field.default_factory)
    )
    return f"({', '.join(fields)})", None


# Napoleon reads "The targets: floats" in a property as a type and a description.
_properties: dict[str, list[str]] = {}


def _keep_property(app, what, name, obj, options, lines) -> None:
    if what == "property":
        _properties[name] = list(lines)


def _restore_property(app, what, name, obj, options, lines) -> None:
    if name in _properties:
        lines[:] = _properties.pop(name)


def _skip(app, what, name, obj, skip, options) -> bool | None:
    """Leave out what scikit-learn and pydantic add to a class."""
    generated = name.startswith("set_") and name.endswith("_request")
    return True if generated or name == "model_config" else None


def _add_title(app, name: str, source: list[str]) -> None:
    """Give the table that ``fullrank expressiveness`` writes the title of a page."""
    if name == "results/expressiveness" and not source[0].startswith("# "):
        source[0] = f"# Expressiveness\n\n{generate.EXPRESSIVENESS}\n\n{source[0]}"


def setup(app) -> None:
    generate.write(HERE / "generated")
    notebooks.prepare(HERE / "_build")
    app.connect("autodoc-process-docstring", _keep_property, priority=400)
    app.connect("autodoc-process-docstring", _restore_property, priority=600)
    app.connect("autodoc-process-signature", _plain_signature)
    app.connect("autodoc-skip-member", _skip)
    app.connect("source-read", _add_title)
    app.connect("builder-inited", _ship_mathjax)
