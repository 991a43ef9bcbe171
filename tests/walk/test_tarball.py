# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# SPDX-License-Identifier: GPL-3.0-or-later
"""The collection as its users have it, installed from its tarball: on their own controller, and in the lab's machine itself.

The lab is finished: pytest takes test_steps.py first, by its name.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
INSIDE = "/root/inside"
COLLECTION = f"{INSIDE}/collections/ansible_collections/gsb/fake_gpu_lab"
PLAYBOOK = (
    f"cd {INSIDE} && ANSIBLE_COLLECTIONS_PATH={INSIDE}/collections"
    f" venv/bin/ansible-playbook -i {COLLECTION}/inventory/localhost.yml"
)


def controller(*command: str | Path) -> None:
    done = subprocess.run(
        [str(part) for part in command],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, f"{command}:\n{done.stdout}"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of collections with this one from its tarball, and kubernetes.core, which it needs."""
    folder = tmp_path_factory.mktemp("installed")
    controller("ansible-galaxy", "collection", "build", "--output-path", folder)
    (tarball,) = folder.glob("gsb-fake_gpu_lab-*.tar.gz")
    controller(
        *("ansible-galaxy", "collection", "install", "--offline", "--no-deps", "--force"),
        *("-p", folder / "collections", tarball),
    )
    (packaged,) = Path(sys.prefix).glob("lib/python3*/site-packages/ansible_collections/kubernetes")
    (folder / "collections" / "ansible_collections" / "kubernetes").symlink_to(packaged)
    return folder


@pytest.fixture(scope="module")
def inside(installed: Path, playbooks, host):
    """The machine with ansible-core and the collections in it."""
    wheels = installed / "wheels"
    version = host.check_output("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'")
    machine = host.check_output("uname -m")
    controller(
        *(sys.executable, "-m", "pip", "download", "-q", "--dest", wheels, "--only-binary", ":all:"),
        *(
            "--python-version",
            version,
            "--platform",
            f"manylinux2014_{machine}",
            "--platform",
            f"manylinux_2_28_{machine}",
        ),
        *("--constraint", ROOT / "constraints.txt", "ansible-core"),
    )
    archive = installed / "inside.tar.gz"
    controller("tar", "-C", installed, "--dereference", "-czf", archive, "wheels", "collections")
    host.run_expect([0], f"rm -rf {INSIDE} && mkdir {INSIDE}")
    controller(
        *("ansible", "-i", playbooks.inventory, "gpu_lab", "-m", "ansible.builtin.unarchive"),
        *("-a", f"src={archive} dest={INSIDE}"),
    )
    host.run_expect(
        [0],
        f"cd {INSIDE} && python3 -m venv venv && venv/bin/pip install -q --no-index --find-links wheels ansible-core",
    )
    yield host
    host.run_expect([0], f"rm -rf {INSIDE} /root/.ansible")


def test_installed_collection_has_nothing_to_do_on_the_finished_lab(installed, playbooks):
    config = installed / "ansible.cfg"
    config.write_text("[defaults]\n")
    outcome = playbooks.run(
        playbook="gsb.fake_gpu_lab.lab",
        ANSIBLE_CONFIG=str(config),
        ANSIBLE_COLLECTIONS_PATH=str(installed / "collections"),
    )
    assert outcome.status == 0, outcome.output
    assert outcome.changed == 0, outcome.output


@pytest.fixture(scope="module")
def inside_run(inside, playbooks):
    return lambda playbook, *arguments: playbooks.run_inside(inside, " ".join((PLAYBOOK, playbook, *arguments)))


def test_steps_and_verdicts_run_inside_the_machine(inside_run):
    outcome = inside_run("gsb.fake_gpu_lab.lab", "--tags", "steps,verify")
    assert outcome.status == 0, outcome.output
    assert outcome.changed == 0, outcome.output


def test_damage_is_judged_and_mended_inside_the_machine(inside, inside_run):
    inside.run_expect([0], "k3s kubectl -n fake-lab delete pod gpu-2 && rm /root/gsb-fake/report.json")
    assert inside_run("gsb.fake_gpu_lab.verify").status != 0
    for step in ("step5", "step8"):
        outcome = inside_run(f"{COLLECTION}/lab.yml", "--tags", step)
        assert outcome.status == 0, outcome.output
        assert outcome.changed > 0, outcome.output
    mended = inside_run("gsb.fake_gpu_lab.verify")
    assert mended.status == 0, mended.output
