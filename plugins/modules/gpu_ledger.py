#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_ledger
short_description: Count the GPUs of a cluster, those asked for, and those free
version_added: 0.1.0
description:
  - Adds up what the nodes offer of an extended resource, what placed pods hold by the limits of their containers, and
    the difference, and writes it to a file when O(dest) is given.
  - A node offers what its C(status.allocatable) says; a node that offers none is left out.
  - A pod counts when it has a C(spec.nodeName) and is C(Pending) or C(Running), in whatever namespace. Its containers'
    C(resources.limits) are added up; init containers do not count.
  - The ledger is complete or the module fails. When the API server refuses, breaks off or times out, or a quantity
    cannot be read, the file stays as it was.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
options:
  dest:
    description:
      - The file to write the ledger to, as JSON. Its folder must exist.
      - The same cluster always gives the same bytes. The file is replaced as a whole, or not touched.
      - Without it, the ledger is only returned.
    type: path
  resource:
    description: The exact name of the extended resource.
    type: str
    default: nvidia.com/gpu
  backup:
    description: Keep a copy of the file as it was, with a time stamp in its name, when it changes.
    type: bool
    default: false
  timeout:
    description: How many seconds the API server may take to answer everything.
    type: int
    default: 60
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
  - ansible.builtin.files
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
attributes:
  check_mode:
    support: full
    description: Can run in C(check_mode) and return changed status prediction without modifying the target.
  diff_mode:
    support: full
    description: Returns what has changed, or would change, when run with C(--diff).
seealso:
  - module: gsb.fake_gpu_lab.lab_info
"""

EXAMPLES = r"""
- name: Write the ledger
  gsb.fake_gpu_lab.gpu_ledger:
    kubeconfig: /etc/rancher/k3s/k3s.yaml
    dest: /root/gsb-fake/report.json
    mode: "0644"

- name: Only look
  gsb.fake_gpu_lab.gpu_ledger:
  register: gpus

- name: Say how many GPUs are free
  ansible.builtin.debug:
    msg: "{{ gpus.ledger.free }} of {{ gpus.ledger.allocatable_total }}"

- name: Count another vendor's devices
  gsb.fake_gpu_lab.gpu_ledger:
    resource: amd.com/gpu
"""

RETURN = r"""
ledger:
  description: The ledger, as in the file.
  returned: success
  type: dict
  contains:
    nodes:
      description: How many each node offers, by its name.
      type: dict
      returned: always
      sample: {"gpu-a": 4, "gpu-lab": 4}
    allocatable_total:
      description: The sum of RV(ledger.nodes).
      type: int
      returned: always
      sample: 8
    requested:
      description: How many placed pods hold.
      type: int
      returned: always
      sample: 4
    free:
      description:
        - RV(ledger.allocatable_total) minus RV(ledger.requested).
        - Negative when a node has lost devices that pods still hold.
      type: int
      returned: always
      sample: 4
resource:
  description: What was counted.
  returned: success
  type: str
  sample: nvidia.com/gpu
dest:
  description: The file.
  returned: when O(dest) is given
  type: str
  sample: /root/gsb-fake/report.json
backup_file:
  description: The copy of the file as it was.
  returned: when O(backup) is set and the file has changed
  type: str
  sample: /root/gsb-fake/report.json.4711.2026-01-01@12:00:00~
"""

import os
import stat
import tempfile
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _kube, _ledger


class Unwritable(Exception):
    pass


def current(dest: str) -> bytes | None:
    """What the file holds, None when there is none; refuses a place where no file can be put."""
    folder = os.path.dirname(os.path.abspath(dest))
    if not os.path.isdir(folder):
        raise Unwritable(f"{folder} is not a folder; make it first")
    try:
        status = os.stat(dest)
    except FileNotFoundError:
        if os.path.islink(dest):
            raise Unwritable(f"{dest} is a link to nothing") from None
        if not os.access(folder, os.W_OK | os.X_OK):
            raise Unwritable(f"{folder} cannot be written to") from None
        return None
    except OSError as error:
        raise Unwritable(f"{dest}: {error.strerror}") from error
    if stat.S_ISDIR(status.st_mode):
        raise Unwritable(f"{dest} is a folder, not a file")
    if not stat.S_ISREG(status.st_mode):
        raise Unwritable(f"{dest} is not a regular file")
    try:
        with open(dest, "rb") as handle:
            return handle.read()
    except OSError as error:
        raise Unwritable(f"{dest} cannot be read: {error.strerror}") from error


def put(module: AnsibleModule, dest: str, text: str) -> None:
    handle, path = tempfile.mkstemp(dir=module.tmpdir, prefix="ledger-")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    module.atomic_move(path, os.path.realpath(dest))


def count(module: AnsibleModule) -> _ledger.Ledger:
    resource = module.params["resource"]
    with _kube.time_limit(module.params["timeout"]):
        reader = _kube.Reader(module)
        nodes, pods = reader.nodes(), reader.pods()
    ledger = _ledger.ledger(nodes, pods, resource)
    if not ledger["nodes"]:
        module.warn(f"no node advertises {resource}")
    if ledger["free"] < 0:
        module.warn(f"pods hold {-ledger['free']} more of {resource} than the nodes offer")
    return ledger


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_kube.connection_options(),
            "dest": {"type": "path"},
            "resource": {"type": "str", "default": "nvidia.com/gpu"},
            "backup": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
        },
        add_file_common_args=True,
        supports_check_mode=True,
    )
    dest: str | None = module.params["dest"]
    if module.params["timeout"] <= 0:
        module.fail_json(msg="timeout: must be more than 0 seconds")
    if "/" not in module.params["resource"]:
        module.fail_json(msg=f"resource: {module.params['resource']} is no extended resource, such as nvidia.com/gpu")

    result: dict[str, t.Any] = {"changed": False, "resource": module.params["resource"]}
    try:
        before = current(dest) if dest else None
        ledger = count(module)
    except Unwritable as error:
        module.fail_json(msg=f"dest: {error}")
    except _kube.KubeError as error:
        module.fail_json(msg=f"The GPUs were not counted: {error}", kind=error.kind)
    except _ledger.LedgerError as error:
        module.fail_json(msg=f"The GPUs were not counted: {error}", kind="answer")
    result["ledger"] = ledger
    if dest is None:
        module.exit_json(**result)

    result["dest"] = dest
    after = _ledger.render(ledger)
    if before != after.encode():
        result["changed"] = True
        if not module.check_mode:
            if module.params["backup"] and before is not None:
                result["backup_file"] = module.backup_local(dest)
            put(module, dest, after)
    diff: dict[str, t.Any] = {}
    if module._diff:
        diff = {
            "before_header": dest,
            "after_header": dest,
            "before": (before or b"").decode("utf-8", "replace"),
            "after": after,
        }
        result["diff"] = diff
    if os.path.exists(dest):
        attributes = module.load_file_common_arguments(module.params, path=dest)
        result["changed"] = module.set_fs_attributes_if_different(attributes, result["changed"])
    module.exit_json(**result)


if __name__ == "__main__":
    main()
