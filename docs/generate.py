"""Make the parts of the documentation that are made of code and of published results anew.

python docs/generate.py           write them
python docs/generate.py --check   only say which are stale; exit code 1 where any is
"""

import sys

from generator import pages
from generator.places import ROOT


def main(check: bool) -> int:
    """Write the pages that are stale, or only name them; return the exit code."""
    stale = {path: text for path, text in pages() if path.read_text(encoding="utf-8") != text}
    for path, text in stale.items():
        print(f"{'stale' if check else 'written'}: {path.relative_to(ROOT)}")
        if not check:
            path.write_text(text, encoding="utf-8")
    return int(check and bool(stale))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
