"""``pincite doctor``."""

from __future__ import annotations

import click

from pincite.cli.common import emit_json, json_option

_EXIT_FAULT = 3


@click.command()
@json_option
def doctor(as_json: bool) -> None:
    """Say what is there, what is missing, and what to do. Changes nothing; exit 3 if something is at fault."""
    from pincite.wiring import doctor as checks
    from pincite.wiring.settings import load_settings

    found = checks.run_checks(load_settings())
    if as_json:
        emit_json(checks.as_json(found))
    else:
        width = max(len(check.name) for check in found)
        for check in found:
            click.echo(f"{check.status:<5}{check.name:<{width}}  {check.found}")
            if check.todo:
                click.echo(f"{'':<5}{'':<{width}}  -> {check.todo}")
    if any(check.status == "fail" for check in found):
        raise SystemExit(_EXIT_FAULT)
