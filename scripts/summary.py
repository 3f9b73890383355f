"""Counts tests by kind from JUnit XML reports; fails on a skip that is not allowed."""

from __future__ import annotations

import os
import sys
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path


def main(pytest_xml: str, surefire: str) -> int:
    """Print the table; 1 when a test failed or was skipped without leave."""
    ran: Counter[str] = Counter()
    failed: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    not_allowed: list[str] = []
    have_data = Path(os.environ.get("PINCITE_TEST_DATA", "../shared/data")).is_dir()
    reports = [(Path(pytest_xml), "")] + [(p, "java") for p in sorted(Path(surefire).glob("TEST-*.xml"))]
    for path, fixed in reports:
        for case in ET.parse(path).getroot().iter("testcase"):
            kind = fixed or (case.get("classname") or "tests.other").split(".")[1]
            skip = case.find("skipped")
            if skip is not None:
                skipped[kind] += 1
                why = skip.get("message") or ""
                allowed = kind == "gpu" or ("PINCITE_TEST_DATA" in why and not have_data)
                if not allowed and "not applicable" not in why:
                    not_allowed.append(f"{case.get('classname')}.{case.get('name')}")
            elif case.find("failure") is not None or case.find("error") is not None:
                failed[kind] += 1
            else:
                ran[kind] += 1
    for kind in sorted(set(ran) | set(failed) | set(skipped)):
        print(f"{kind:<12} {ran[kind]:>5} passed {failed[kind]:>3} failed {skipped[kind]:>3} skipped")
    for name in not_allowed:
        print(f"skipped without leave: {name}")
    print(f"{sum(ran.values())} passed, {sum(failed.values())} failed, {sum(skipped.values())} skipped")
    return int(bool(failed) or bool(not_allowed) or not ran["java"])


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
