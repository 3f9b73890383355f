"""``python -m pincite.serve``: the sidecar's process. ``pincite serve`` becomes this one."""

from __future__ import annotations

import sys

from pincite.domain.errors import PinciteError


def main() -> int:
    """Read the settings and serve."""
    from pincite.wiring.settings import load_settings

    try:
        settings = load_settings()
        from pincite.serve.run import run

        run(settings, _build)
    except PinciteError as exc:
        sys.stderr.write(f"error: {exc.code}: {exc.message}\n{exc.mend}\n".rstrip() + "\n")
        return exc.exit_code
    return 0


def _build(settings: object) -> object:
    from pincite.wiring.services import build_services

    return build_services(settings)


if __name__ == "__main__":
    sys.exit(main())
