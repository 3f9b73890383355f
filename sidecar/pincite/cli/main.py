"""The ``pincite`` command. Subcommands are imported when they are called, so that it starts at once."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence

import click

from pincite.cli.common import fail
from pincite.domain.errors import PinciteError

#: name -> (module, attribute, one line of help)
_COMMANDS = {
    "ask": ("pincite.cli.ask", "ask", "Answer a question with checked citations, or refuse."),
    "cluster": ("pincite.cli.cluster", "cluster", "The embedded OpenSearch cluster."),
    "codec": ("pincite.cli.codec", "codec", "The codec that token vectors are stored with."),
    "delete": ("pincite.cli.sources", "delete", "Take a source out."),
    "doctor": ("pincite.cli.doctor", "doctor", "What is there, what is missing, what to do."),
    "ingest": ("pincite.cli.ingest", "ingest", "Take files in."),
    "init": ("pincite.cli.init", "init", "Install index templates, indices and the search pipeline."),
    "search": ("pincite.cli.search", "search", "Search passages."),
    "serve": ("pincite.cli.serve", "serve", "Run the sidecar."),
    "show": ("pincite.cli.show", "show", "Print a cited passage in its context."),
    "sources": ("pincite.cli.sources", "sources", "List the sources that are in."),
    "up": ("pincite.cli.serve", "up", "Run cluster, sidecar and worker together."),
    "verify": ("pincite.cli.verify", "verify", "Re-check an answer against the source files."),
    "version": ("pincite.cli.version", "version", "Print versions."),
    "worker": ("pincite.cli.serve", "worker", "Run the answer worker."),
}


class _LazyGroup(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module, attribute, _ = _COMMANDS[cmd_name]
        command = getattr(importlib.import_module(module), attribute)
        assert isinstance(command, click.Command)  # noqa: S101 - our own table
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, _COMMANDS[name][2]) for name in sorted(_COMMANDS)])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
def cli() -> None:
    """Cited answers from the search cluster you already run."""


def main(args: Sequence[str] | None = None) -> None:
    """Run the command line; every error of ours ends as one clear message and a stable exit code."""
    arguments = list(sys.argv[1:] if args is None else args)
    try:
        cli.main(args=arguments, prog_name="pincite", standalone_mode=False)
    except click.exceptions.Exit as exc:
        sys.exit(exc.exit_code)
    except click.ClickException as exc:
        exc.show()
        sys.exit(2)
    except (click.Abort, KeyboardInterrupt):
        click.echo("stopped", err=True)
        sys.exit(130)
    except PinciteError as exc:
        sys.exit(fail(exc, as_json="--json" in arguments))
    except BrokenPipeError:
        # The reader went away (`| head`); nobody is left to tell.
        sys.stderr.close()
        sys.exit(141)


if __name__ == "__main__":
    main()
