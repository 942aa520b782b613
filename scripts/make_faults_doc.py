"""Write the table of faults into docs/failures.md.

python scripts/make_faults_doc.py
"""

from __future__ import annotations

import re
from pathlib import Path

from spectator.llm.faults import fault_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "failures.md"

if __name__ == "__main__":
    page = PAGE.read_text(encoding="utf-8")
    written = re.sub(r"(?m)^\| sign \| where .*\n(?:\|.*\n)*", lambda _: fault_table() + "\n", page)
    PAGE.write_text(written, encoding="utf-8")
