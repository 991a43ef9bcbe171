# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from __future__ import annotations

import importlib.util
import pathlib
import sys

import pytest

FILES = pathlib.Path(__file__).parents[3] / "roles/image/files"
sys.path.insert(0, str(FILES))


@pytest.fixture(scope="session")
def gpu_lab():
    """The command of the image, as a module."""
    spec = importlib.util.spec_from_file_location("gpu_lab", FILES / "root/usr/lib/gsb-fake-gpu-lab/gpu_lab.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
