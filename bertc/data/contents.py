"""Contents of the text and the files that a run reads, for its lock."""

from pathlib import Path

from bertc.base.storage import durable
from bertc.base.storage.paths import is_file
from bertc.data.batches.smoothing import texts_of
from bertc.data.cache.store import fingerprint
from bertc.data.corpus import PreparedCorpus
from bertc.data.layouts.parts import dev_parts, part_source
from bertc.data.sources.files import file_identity
from bertc.data.sources.opening import open_source


def contents(corpus: PreparedCorpus) -> dict[str, tuple[str, str]]:
    """Identity, which times of files change, and digest of all text and files, by name."""
    stages = corpus.resolved.stages
    texts = dict.fromkeys(text for stage in stages for _, text in texts_of(stage))
    sources = zip((open_source(*text) for text in texts), corpus.texts, strict=True)
    read = {
        source.name: (fingerprint(source.identity), known.facts["content"])
        for source, known in sources
    }
    for task in dict.fromkeys(task for stage in stages for task in stage.tasks):
        for part in ("train", *dev_parts(task)):
            path = part_source(task, part)
            if isinstance(path, Path):  # data sets of a hub have versions there
                files = [file for file in (path, *sorted(path.rglob("*"))) if is_file(file)]
                digests = [(str(file.relative_to(path)), durable.digest(file)) for file in files]
                identity = fingerprint([file_identity(file) for file in files])
                read[str(path)] = (identity, fingerprint(digests))
    return read
