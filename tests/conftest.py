"""Fixtures that several test files share."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from containers import base_image, engine  # noqa: F401


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of public data that lies beside a developer's checkout; tests that need it are skipped elsewhere."""
    folder = Path(os.environ.get("SWE_MEMORY_SHARED", Path(__file__).resolve().parents[2] / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip("needs the developers' shared data (../shared/data), which is not here")
    return folder
