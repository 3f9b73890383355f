"""What colbert-ai 0.2.22 makes of given input. Run by the oracle's Python (scripts/oracle.sh), not by ours.

``colbert_oracle.py JOB IN OUT``: IN is a JSON file of arguments, OUT an .npz file of results.
"""

from __future__ import annotations

import json
import os
import sys
import warnings
from pathlib import Path

import numpy as np
import torch


def codec(arguments: dict) -> dict:
    """Compress and decompress vectors, and score the decompressed ones, for each of the cases."""
    from colbert.indexing.codecs.residual import ResidualCodec
    from colbert.infra import ColBERTConfig
    from colbert.modeling.colbert import ColBERT, colbert_score, colbert_score_packed

    ColBERT.try_load_torch_extensions(use_gpu=False)
    found = {}
    for name in arguments["cases"]:
        case = {key: torch.from_numpy(value) for key, value in np.load(name).items()}
        config = ColBERTConfig(dim=case["centroids"].shape[1], nbits=int(case["nbits"]))
        made = ResidualCodec(
            config=config,
            centroids=case["centroids"],
            avg_residual=torch.tensor(0.02),
            bucket_cutoffs=case["cutoffs"],
            bucket_weights=case["weights"],
        )
        short = Path(name).stem
        packed = made.compress(case["vectors"])
        halves = made.compress(case["vectors"].half())
        decoded = made.decompress(packed)
        lengths, query = case["lengths"], case["query"][None]
        found[f"{short}.codes"], found[f"{short}.residuals"] = packed.codes, packed.residuals
        found[f"{short}.half_codes"], found[f"{short}.half_residuals"] = halves.codes, halves.residuals
        found[f"{short}.decoded"] = decoded
        # Two scores of theirs: the one of a search on CPU, and the padded one of GPU and training.
        found[f"{short}.scores"] = colbert_score_packed(query, decoded, lengths, config)
        documents = torch.split(decoded, lengths.tolist())
        padded = torch.nn.utils.rnn.pad_sequence(documents, batch_first=True)
        mask = torch.arange(padded.shape[1])[None] < lengths[:, None]
        found[f"{short}.padded_scores"] = colbert_score(query, padded, mask, config)
    return found


def build(arguments: dict) -> dict:
    """Encode passages and queries with a checkpoint, and make an index of the passages."""
    from colbert import Checkpoint, Indexer
    from colbert.data import Collection
    from colbert.infra import ColBERTConfig, Run, RunConfig

    config = ColBERTConfig.load_from_checkpoint(arguments["checkpoint"])
    config.configure(checkpoint=arguments["checkpoint"], nbits=arguments["nbits"], avoid_fork_if_possible=True)
    checkpoint = Checkpoint(arguments["checkpoint"], colbert_config=config, verbose=0)
    passages = Collection(path=arguments["collection"]).data
    documents, lengths = checkpoint.docFromText(passages, bsize=config.index_bsize, keep_dims="flatten")
    queries = checkpoint.queryFromText(arguments["queries"], bsize=8, to_cpu=True)
    with Run().context(RunConfig(root=arguments["root"], experiment="parity", avoid_fork_if_possible=True)):
        index = Indexer(arguments["checkpoint"], config=config, verbose=0)
        index.configure(index_path=arguments["index"])
        index.index("parity", arguments["collection"])
    return {"documents": documents, "lengths": lengths, "queries": queries}


def search(arguments: dict) -> dict:
    """Search indexes: as a user does, and exhaustively over all passages."""
    from colbert import Searcher

    found = {}
    for name, index in arguments["indexes"].items():
        searcher = Searcher(index, verbose=0)
        everything = list(range(len(searcher.ranker.doclens)))
        results = {"search": [], "exact": []}
        for query in arguments["queries"]:
            vectors = searcher.encode(query)
            results["search"].append(searcher.dense_search(vectors, k=10))
            results["exact"].append(searcher.dense_search(vectors, k=len(everything), pids=everything))
        for kind, ranked in results.items():
            found[f"{name}.{kind}.pids"] = [pids for pids, _, _ in ranked]
            found[f"{name}.{kind}.scores"] = [scores for _, _, scores in ranked]
    return found


JOBS = {"codec": codec, "build": build, "search": search}


def main() -> None:
    """Run a job."""
    warnings.simplefilter("ignore")
    job, source, target = sys.argv[1:]
    torch.manual_seed(7)
    with torch.inference_mode():
        found = JOBS[job](json.loads(Path(source).read_text(encoding="utf-8")))
    np.savez(target, **{key: np.asarray(value) for key, value in found.items()})
    # colbert-ai's helper threads and processes need no goodbye.
    sys.stdout.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
