"""``pincite codec``: the token codec of the index."""

from __future__ import annotations

from pathlib import Path

import click

from pincite.cli.common import emit_json, json_option, services, show_progress


@click.group()
def codec() -> None:
    """The codec that token vectors are stored with."""


@codec.command()
@json_option
def status(as_json: bool) -> None:
    """The index's codec, the codecs that are stored, and what a migration has left to do."""
    with services() as app:
        found = app.codec_status()
    if as_json:
        emit_json(found)
        return
    click.echo(f"index    {found['codec_id']} ({found['token_format']}), encoder {found['encoder_id']}")
    for codec_id, n_chunks in found["chunks_by_codec"].items():
        click.echo(f"chunks   {n_chunks} with {codec_id}")
    for item in found["codecs"]:
        click.echo(
            f"codec    {item['codec_id']}: {item['format']}, {item['n_centroids']} centroids, "
            f"{item['n_bytes'] / 1e6:.1f} MB, made {item['created_at']}"
        )
    for item in found["migration"]:
        click.echo(f"left     {item['index']}: {item['chunks']} chunks re-encoded for {item['to']}, not in force")
        click.echo(f"         `pincite codec migrate {item['to']}` goes on with it")


@codec.command()
@click.option("--name", default="codec", show_default=True, help="First part of the codec's id.")
@click.option(
    "--nbits", type=click.Choice(["1", "2", "4"]), default="2", show_default=True, help="Bits a dimension."
)
@click.option(
    "--chunks",
    "n_chunks",
    type=click.IntRange(1, 10_000),
    default=2000,
    show_default=True,
    help="Chunks of the sample.",
)
@click.option("--centroids", "n_centroids", type=click.IntRange(1), help="Number of centroids; default by size.")
@click.option("--seed", type=int, default=0, show_default=True, help="Same index and seed, same codec.")
@json_option
def train(name: str, nbits: str, n_chunks: int, n_centroids: int | None, seed: int, as_json: bool) -> None:
    """Train a codec on a sample of the index and store it. `pincite codec migrate` puts it in force."""
    from pincite.wiring.codec_flow import TrainOptions

    options = TrainOptions(name=name, nbits=int(nbits), n_chunks=n_chunks, n_centroids=n_centroids, seed=seed)
    with services() as app:
        made = app.codec_train(options, show_progress)
    if as_json:
        emit_json(
            {
                "codec_id": made.codec_id,
                "format": made.format.name,
                "n_centroids": len(made.centroids),
                "facts": dict(made.facts),
            }
        )
        return
    click.echo(f"trained {made.codec_id}: {made.format.name}, {len(made.centroids)} centroids")
    click.echo(f"`pincite codec migrate {made.codec_id}` re-encodes the index with it")


@codec.command()
@click.argument("codec_id")
@click.option("--keep-old", is_flag=True, help="Leave the old index there, without its alias.")
@json_option
def migrate(codec_id: str, keep_old: bool, as_json: bool) -> None:
    """Re-encode all chunks with CODEC_ID and put it in force.

    Searches go on with the old codes until all is written. A run that was interrupted goes on where it
    stopped.
    """
    with services() as app:
        report = app.codec_migrate(codec_id, show_progress, keep_old=keep_old)
    if as_json:
        emit_json(report)
        return
    click.echo(f"{report['codec_id']} is in force in {report['index']}: {report['chunks_written']} chunks written")
    if report["dropped"]:
        click.echo(f"dropped {report['dropped']}")


@codec.command("import")
@click.argument("index_dir", type=click.Path(path_type=Path))
@click.option(
    "--out", type=click.Path(path_type=Path), help="Write the codec's artefact here, not to the cluster."
)
@click.option("--encoder-id", help="The encoder whose vectors it takes; default: the index's checkpoint.")
@json_option
def import_(index_dir: Path, out: Path | None, encoder_id: str | None, as_json: bool) -> None:
    """Take over the codec of an index that Stanford's colbert-ai wrote in INDEX_DIR.

    It is stored in the cluster's `codecs`; `pincite codec migrate` puts it in force.
    """
    from pincite.wiring.codec_flow import codec_of_colbert_index, write_codec

    made = codec_of_colbert_index(index_dir, encoder_id=encoder_id)
    if out is None:
        with services() as app:
            app.codec_store(made)
    else:
        write_codec(made, out)
    facts = {
        "codec_id": made.codec_id,
        "encoder_id": made.encoder_id,
        "format": made.format.name,
        "n_centroids": len(made.centroids),
        "out": None if out is None else str(out),
    }
    if as_json:
        emit_json(facts)
        return
    where = "the cluster" if out is None else str(out)
    click.echo(f"{made.codec_id}: {made.format.name}, {facts['n_centroids']} centroids, written to {where}")
    click.echo(f"encoder  {made.encoder_id}")
