"""Sphinx: docs/ as a site of plain files with a search that needs no server (`make docs`)."""

project = "gnudi"
author = "the gnudi maintainers"
extensions = ["myst_parser"]
html_theme = "furo"
html_title = "gnudi"
html_show_sourcelink = False
html_copy_source = False
# Links point at headings.
myst_heading_anchors = 4
exclude_patterns = ["requirements.txt", "constraints.txt"]
# Continuation lines of a shell are no error.
suppress_warnings = ["misc.highlighting_failure"]
