# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
from __future__ import annotations

import pathlib
import re
import shutil
import subprocess

import pytest
import yaml

CHECKOUT = pathlib.Path(__file__).parents[3]
TEMPLATE = CHECKOUT / "packer/gpu-lab.pkr.hcl"


@pytest.mark.skipif(not shutil.which("packer"), reason="packer is not installed")
@pytest.mark.parametrize("command", [["validate"], ["fmt", "-check"]])
def test_packer_takes_the_template(command):
    done = subprocess.run(["packer", *command, TEMPLATE.name], cwd=TEMPLATE.parent, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_template_sets_only_variables_of_the_role():
    specs = yaml.safe_load((CHECKOUT / "roles/image/meta/argument_specs.yml").read_text(encoding="utf-8"))
    known = set(specs["argument_specs"]["main"]["options"])
    used = set(re.findall(r"^ +(image_\w+) +=", TEMPLATE.read_text(encoding="utf-8"), re.M))
    assert used and used <= known
