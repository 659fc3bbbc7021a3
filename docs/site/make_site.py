"""Build the site: `python docs/site/make_site.py [FOLDER]`, or to build/site; a warning is an error."""

from __future__ import annotations

import sys
from pathlib import Path

from sphinx.cmd.build import build_main

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))

import reference  # noqa: E402 - it lies beside this file
from staging import ROOT, lay_out  # noqa: E402


def main(folder: Path) -> int:
    """Lay out the pages and run Sphinx over them; returns its exit status."""
    source = folder.with_name(folder.name + "-source")
    lay_out(source, reference.pages())
    quiet_strict = ["-q", "-W", "--keep-going", "-b", "html"]
    return build_main([*quiet_strict, "-c", str(HERE), "-d", f"{folder}-doctrees", str(source), str(folder)])


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "site"))
