"""A page from a script: its comments as text, its code, and what each part prints. docs/tutorial.md is made so.

python -m mmdgm.experiments.tutorial docs/tutorial.py
"""

import contextlib
import io
import re
import sys
from pathlib import Path
from typing import Any

from mmdgm.storage import write_atomically

_CELL = re.compile(r"^# %%(?: \[(markdown)\])?\n", re.M)


def page(script: str, names: dict[str, Any]) -> str:
    """The page, after the script has run in `names`."""
    _, *rest = _CELL.split(script)
    parts = []
    for kind, cell in zip(rest[::2], rest[1::2], strict=True):
        if kind:
            parts.append("\n".join(line.removeprefix("#").removeprefix(" ") for line in cell.strip().splitlines()))
            continue
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(cell, "tutorial", "exec"), names)
        output = f"\n\n```text\n{printed.getvalue().rstrip()}\n```" if printed.getvalue() else ""
        parts.append(f"```python\n{cell.strip()}\n```{output}")
    return "\n\n".join(parts) + "\n"


def main() -> None:
    """Write the page beside the script."""
    script = Path(sys.argv[1])
    write_atomically(script.with_suffix(".md"), page(script.read_text(), {}).encode())


if __name__ == "__main__":
    main()
