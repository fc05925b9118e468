"""How Sphinx builds the site out of these pages: `make docs`."""

import re
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

project = "FlintMQ"
author = "The FlintMQ authors"
project_copyright = author
release = re.search(r'^version = "(.+)"$', PYPROJECT.read_text(encoding="utf-8"), re.MULTILINE)[1]  # type: ignore[index]

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx_copybutton"]
# Headings can be linked to, as on the pages of a forge.
myst_heading_anchors = 4
myst_enable_extensions = ["attrs_block", "colon_fence"]

autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
add_module_names = False
toc_object_entries_show_parents = "hide"

html_theme = "furo"
html_title = f"FlintMQ {release}"
html_theme_options = {"navigation_with_keys": True}
html_copy_source = False
html_show_sphinx = False
