"""The verdict on every view of a script, as a table: python examples/explain_views.py [file.sql or file.rules …]"""

from __future__ import annotations

import sys
from pathlib import Path

import everview as ev

HERE = Path(__file__).parent
SCRIPTS = ("graph.sql", "shop.sql", "paths.rules")


def main() -> None:
    """Explain each file that is named, or the examples of this folder."""
    named = [Path(name) for name in sys.argv[1:]]
    for path in named or [HERE / name for name in SCRIPTS]:
        print(f"{path.name}")
        for verdict in ev.explain_all(path.read_text(encoding="utf-8")):
            data = verdict.to_dict()
            constant = ", ".join(data["constant_update_for"]) or "nothing"
            print(f"  {data['view']:<16} height {data['height']}  update {data['bounds']['update']}")
            print(f"  {'':<16} constant for {constant}")


if __name__ == "__main__":
    main()
