"""What mkdocs calls while it builds: adds the pages that are made from the code."""

import sys
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

sys.path.insert(0, str(Path(__file__).parent))

from reference_pages import pages


def on_files(files: Files, config: Any) -> Files:
    """Called with all files of the documentation."""
    for name, text in pages().items():
        files.append(File.generated(config, name, content=text))
    return files
