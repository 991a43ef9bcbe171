#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: lab_info
short_description: Judge the steps of the fake GPU lab
version_added: 0.1.0
description:
  - Takes one look at the cluster and at the learner's files, and returns for every step of the lab what must hold
    before it, and a verdict on each thing that it must have left behind.
  - Reads only. It runs on the machine of the lab, because the files are there.
  - A step is judged by what it asked for. What later steps change does not undo it, so that a O(pool_size) that has
    grown, or a pod that no longer waits, is no mistake.
  - When the cluster does not answer, no step counts as done and RV(steps[].ground) says what to do.
    The module does not fail then.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
options:
  steps:
    description: The steps to judge.
    type: list
    elements: int
    default: [1, 2, 3, 4, 5, 6, 7, 8]
  dir:
    description: The learner's folder.
    type: path
    default: /root/gsb-fake
  namespace:
    description: The namespace of the lab's pods.
    type: str
    default: fake-lab
  node:
    description: The name of the real node.
    type: str
    default: gpu-lab
  kwok_node:
    description: The name of the node without a kubelet.
    type: str
    default: gpu-a
  operator_namespace:
    description: The namespace of fake-gpu-operator.
    type: str
    default: gpu-operator
  release:
    description: The Helm release of fake-gpu-operator.
    type: str
    default: gpu-operator
  chart_name:
    description: The chart of the release.
    type: str
    default: fake-gpu-operator
  chart_version:
    description: The version of the chart.
    type: str
    default: 0.2.1
  gpu_resource:
    description: The extended resource that stands for a GPU.
    type: str
    default: nvidia.com/gpu
  pool:
    description: The pool that the nodes belong to.
    type: str
    default: default
  pool_label:
    description: The node label that names the pool.
    type: str
    default: run.ai/simulated-gpu-node-pool
  pool_size:
    description: How many GPUs a node of the pool has at first.
    type: int
    default: 2
  pool_size_grown:
    description: How many it has after step 6.
    type: int
    default: 4
  pod_image:
    description: The image of the learner's pods.
    type: str
    default: registry.k8s.io/e2e-test-images/busybox:1.36.1-1
  origin_file:
    description: Where the installation says what it was made from.
    type: path
    default: /etc/gsb-fake-gpu-lab.json
  timeout:
    description: How many seconds the API server may take to answer everything.
    type: int
    default: 30
extends_documentation_fragment:
  - kubernetes.core.k8s_auth_options
requirements:
  - python >= 3.9
  - kubernetes >= 24.2.0
  - PyYAML >= 3.11
attributes:
  check_mode:
    support: full
    description: Can run in C(check_mode) and return the same as without it.
  diff_mode:
    support: none
    description: Returns what has changed, or would change, when run with C(--diff).
seealso:
  - module: gsb.fake_gpu_lab.gpu_ledger
"""

EXAMPLES = r"""
- name: Judge all steps
  gsb.fake_gpu_lab.lab_info:
    kubeconfig: /etc/rancher/k3s/k3s.yaml
  register: lab

- name: Stop unless all of them are done
  ansible.builtin.assert:
    that: lab.done
    fail_msg: >-
      {{ lab.steps | rejectattr('done') | map(attribute='checks') | flatten
         | rejectattr('ok') | map(attribute='hint.en') | first }}

- name: See whether step 6 can be done now
  gsb.fake_gpu_lab.lab_info:
    kubeconfig: /etc/rancher/k3s/k3s.yaml
    steps: [6]
  register: lab
  failed_when: lab.steps[0].ground | rejectattr('ok') | length > 0
"""

RETURN = r"""
done:
  description: Whether all the steps asked for are done.
  returned: success
  type: bool
  sample: false
origin:
  description: What the installation was made from, as O(origin_file) says; V(null) when it says nothing.
  returned: success
  type: dict
  sample: {"origin": "standin"}
steps:
  description: One verdict for each step.
  returned: success
  type: list
  elements: dict
  contains:
    step:
      description: Its number.
      type: int
      returned: always
      sample: 6
    title:
      description: Its title in Korean (C(ko)) and English (C(en)).
      type: dict
      returned: always
    done:
      description: Whether all its checks are fine.
      type: bool
      returned: always
    ground:
      description:
        - What must hold before the step can be done.
        - When the cluster does not answer, the one entry C(api), and no checks.
      type: list
      elements: dict
      returned: always
      contains:
        id:
          description: Its name.
          type: str
          returned: always
        ok:
          description: Whether it holds.
          type: bool
          returned: always
        seen:
          description: What there is.
          type: str
          returned: always
        expected:
          description: What there should be.
          type: str
          returned: always
        tag:
          description: The tag of the playbook to run first.
          type: str
          returned: always
          sample: step5
        hint:
          description: What to do, in Korean (C(ko)) and English (C(en)); empty when it holds.
          type: dict
          returned: always
    checks:
      description: What the step must have left behind.
      type: list
      elements: dict
      returned: always
      contains:
        id:
          description: Its name, unique among all steps.
          type: str
          returned: always
          sample: node.grown
        ok:
          description: Whether it is fine.
          type: bool
          returned: always
        seen:
          description: What there is.
          type: str
          returned: always
          sample: capacity 2, allocatable 2
        expected:
          description: What there should be.
          type: str
          returned: always
          sample: capacity 4, allocatable 4
        where:
          description: The file, pod, node or release that was looked at.
          type: str
          returned: always
          sample: node gpu-lab
        because:
          description:
            - The check whose failure keeps this one from being looked at. V(null) when it was looked at.
          type: str
          returned: always
          sample: topology.node
        hint:
          description: What is wrong and what to do, in Korean (C(ko)) and English (C(en)); empty when it is fine.
          type: dict
          returned: always
look:
  description: The facts behind the verdicts that a playbook may want.
  returned: success
  type: dict
  contains:
    started:
      description: How many seconds ago the machine started; V(null) where that cannot be told.
      type: int
      returned: always
      sample: 3600
    nodes:
      description: By name; C(ready), C(kwok), C(capacity), C(allocatable), C(product), C(labels), C(annotations), C(taints).
      type: dict
      returned: when the cluster answers
    pods:
      description:
        - The pods of O(namespace) by name.
        - C(phase), C(state), C(running), C(node), C(uid), C(gpus), C(images), C(started_at), C(scheduler_says).
      type: dict
      returned: when the cluster answers
    namespace:
      description: Whether O(namespace) exists.
      type: bool
      returned: when the cluster answers
    topology:
      description: The operator's own books; C(pools) with the size of each, C(nodes) with the GPUs given to each.
      type: dict
      returned: when the cluster answers
    release:
      description: The newest revision of the release; C(revision), C(status), C(chart), C(version), C(values).
      type: dict
      returned: when the cluster answers
    ledger:
      description: The GPU ledger as M(gsb.fake_gpu_lab.gpu_ledger) counts it; V(null) when it cannot be counted.
      type: dict
      returned: when the cluster answers
    files:
      description: For each of the learner's files V(ok), V(missing), or what keeps it from being read.
      type: dict
      returned: when the cluster answers
    errors:
      description: What the API server refused to show, in its own words.
      type: dict
      returned: when the cluster answers
"""

import dataclasses
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _judge, _kube, _look, _sight


def options() -> dict[str, t.Any]:
    names = {
        field.name: {"type": type(field.default).__name__, "default": field.default}
        for field in dataclasses.fields(_sight.Names)
    }
    names["dir"]["type"] = "path"
    return {
        **_kube.connection_options(),
        **names,
        "steps": {"type": "list", "elements": "int", "default": list(_judge.STEPS)},
        "origin_file": {"type": "path", "default": "/etc/gsb-fake-gpu-lab.json"},
        "timeout": {"type": "int", "default": 30},
    }


def look(module: AnsibleModule, names: _sight.Names) -> dict[str, t.Any]:
    with _kube.time_limit(module.params["timeout"]):
        seen = _look.cluster(_kube.Reader(module), names)
    sight = _sight.Sight(seen, names)
    uid = _sight.dig(sight.pod("gpu-1"), "metadata", "uid")
    return {**seen, "files": _look.files_in(names.dir), "devices": _look.devices_of([uid] if uid else [])}


def main() -> None:
    module = AnsibleModule(argument_spec=options(), supports_check_mode=True)
    steps = sorted(set(module.params["steps"]))
    if not steps:
        module.fail_json(msg=f"steps: name at least one of the steps 1 to {max(_judge.STEPS)}, or leave it out for all")
    unknown = [step for step in steps if step not in _judge.STEPS]
    if unknown:
        module.fail_json(msg=f"steps: there is no step {unknown[0]}; the lab has the steps 1 to {max(_judge.STEPS)}")
    if module.params["timeout"] <= 0:
        module.fail_json(msg="timeout: must be more than 0 seconds")

    names = _sight.Names(**{field.name: module.params[field.name] for field in dataclasses.fields(_sight.Names)})
    brief: dict[str, t.Any] = {}
    try:
        sight = _sight.Sight(look(module, names), names)
    except _kube.KubeError as error:
        verdicts = _judge.judge_silence(error.kind, str(error), steps)
    else:
        verdicts, brief = _judge.judge(sight, steps), sight.brief()
    module.exit_json(
        changed=False,
        done=all(verdict["done"] for verdict in verdicts),
        origin=_look.origin_in(module.params["origin_file"]),
        steps=verdicts,
        look={**brief, "started": _look.started()},
    )


if __name__ == "__main__":
    main()
