#!/usr/bin/python
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_ledger
short_description: Count the GPUs of a cluster, those asked for, and those free, and tell why GPU pods wait
version_added: 0.1.0
description:
  - Adds up what the nodes offer of an extended resource, what placed pods hold of it, and the difference, and writes it to
    a file when O(dest) is given.
  - A node offers what its C(status.allocatable) says; a node that offers none is left out.
  - Two definitions of what is held are counted at once. The literal one, V(limits), adds up the C(resources.limits) of
    C(spec.containers) of all pods that have a C(spec.nodeName) and are C(Pending) or C(Running), in all namespaces. The
    other, V(scheduler), is what C(kube-scheduler) charges its nodes, with init containers, sidecars and overhead, for all
    pods that have a node and have not ended.
  - With O(details) it also tells, pod by pod, where the two differ and why, and why each pod waits that asks for the
    resource and has no node.
  - The ledger is complete or the module fails. When the API server refuses, breaks off or times out, or a quantity
    cannot be read, the files stay as they were.
  - Reads pages of protobuf where the server has it, and decodes only the pods that count. O(details) other than V(none)
    read every pod that has not ended, which takes longer on large clusters.
author:
  - gsb.fake_gpu_lab contributors (@gsb)
options:
  dest:
    description:
      - The file to write the ledger to, as JSON. Its folder must exist.
      - The same cluster always gives the same bytes. The file is replaced as a whole, or not touched.
      - Its JSON schema is C(docs/report.schema.json) of the collection.
      - Without it, the ledger is only returned.
    type: path
  resource:
    description: The exact name of the extended resource. Two names, such as those of MIG slices, are never added up.
    type: str
    default: nvidia.com/gpu
  accounting:
    description:
      - The definition by which RV(ledger) counts what is held.
      - RV(scheduler) always counts as the scheduler does.
    type: str
    choices:
      limits: The limits of the containers of pods that have a node and are Pending or Running.
      scheduler: The requests that the scheduler charges to nodes.
    default: limits
  details:
    description: How much to tell beside the sums.
    type: str
    choices:
      none: The sums alone.
      summary: RV(details), each list cut after 20 entries.
      full: RV(details), complete.
    default: none
  details_dest:
    description:
      - The file to write RV(details) to, as JSON. It is written like O(dest), and by the same rules.
      - Needs O(details) other than V(none).
    type: path
  wait_for:
    description:
      - Look again until the cluster is so. When it is not in O(wait_timeout) seconds, the module fails and writes nothing.
      - All that is given must be true in one look. There is no waiting in check mode.
      - An API server that is away meanwhile is asked again, too.
    type: dict
    suboptions:
      free:
        description: At least so many are free, by O(accounting).
        type: int
      placeable:
        description:
          - So many plain pods would fit. A plain pod has no tolerations and no selector, and asks for the resource alone.
          - They need nodes that are Ready, not cordoned and without a taint that keeps pods off, and, with O(details) other
            than V(none), places for pods. Without details only pods that name the resource are read, so places for pods
            are not looked at; cpu and memory never are.
          - Where every node that has the resource has a taint, wait for O(wait_for.free).
        type: dict
        suboptions:
          size:
            description: How many devices each of the pods asks for.
            type: int
            required: true
          count:
            description: How many pods.
            type: int
            default: 1
  settle:
    description:
      - Look until two looks in a row, O(wait_sleep) seconds apart, give the same account. For nodes whose device plugin
        has just started.
    type: bool
    default: false
  wait_timeout:
    description: How many seconds to look again for O(wait_for) and O(settle).
    type: int
    default: 300
  wait_sleep:
    description: How many seconds to sleep between two looks.
    type: int
    default: 5
  fail_on_empty:
    description: Fail, and write nothing, when no node offers the resource. Otherwise this is a warning.
    type: bool
    default: false
  backup:
    description: Keep a copy of a file as it was, with a time stamp in its name, when it changes.
    type: bool
    default: false
  timeout:
    description: How many seconds the API server may take to answer everything in one look.
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
notes:
  - Needs the right to C(list) C(pods) and to C(get) and C(list) C(nodes). O(details) also looks at C(deviceclasses) of
    C(resource.k8s.io) when pods wait, and does without when it may not.
  - The file attributes, such as O(mode), are those of O(dest) and of O(details_dest).
  - One unit is what the device plugin advertises. With time-slicing that is a slot, not a card.
seealso:
  - module: gsb.fake_gpu_lab.lab_info
  - module: kubernetes.core.k8s_info
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

- name: Ask why GPU pods wait
  gsb.fake_gpu_lab.gpu_ledger:
    details: full
  register: gpus

- name: Say why
  ansible.builtin.debug:
    msg: "{{ item.namespace }}/{{ item.name }} {{ item.message }}"
  loop: "{{ gpus.details.waiting }}"
  loop_control:
    label: "{{ item.name }}"

- name: Wait until two pods with eight GPUs each would fit
  gsb.fake_gpu_lab.gpu_ledger:
    wait_for:
      placeable:
        size: 8
        count: 2
    wait_timeout: 900

- name: Count another vendor's devices
  gsb.fake_gpu_lab.gpu_ledger:
    resource: amd.com/gpu
"""

RETURN = r"""
ledger:
  description: The ledger by O(accounting), as in the file.
  returned: success, and when the cluster is not as waited for
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
scheduler:
  description: The same by the rules of C(kube-scheduler).
  returned: success
  type: dict
  contains:
    nodes:
      description: As RV(ledger.nodes).
      type: dict
      returned: always
      sample: {"gpu-a": 4, "gpu-lab": 4}
    allocatable_total:
      description: As RV(ledger.allocatable_total).
      type: int
      returned: always
      sample: 8
    requested:
      description: How many are charged to nodes.
      type: int
      returned: always
      sample: 4
    free:
      description: The difference, over all nodes.
      type: int
      returned: always
      sample: 4
    usable:
      description:
        - How many a plain pod may take. It has no tolerations and no selector, and asks for the resource alone, so cpu and
          memory do not matter.
        - That is what is free and not promised to others, on nodes that are Ready, not cordoned, and without a taint whose
          effect is C(NoSchedule) or C(NoExecute). An overcommitted node has none.
        - With O(details) other than V(none) a node whose C(status.allocatable) allows no further pod has none either.
          Without details only pods that name the resource are read, so places for pods are not known and not looked at.
      type: int
      returned: always
      sample: 1
    tainted:
      description:
        - How many more there are on nodes with such a taint, for pods that tolerate it; otherwise as RV(scheduler.usable).
        - The scheduler sees to each pod's own tolerations, so no single pod need be able to take all of them.
      type: int
      returned: always
      sample: 3
    nominated:
      description:
        - How many are promised to pods that wait for others to leave (C(status.nominatedNodeName)).
        - A promise of a node that does not exist any more is none.
      type: int
      returned: always
      sample: 0
    orphaned:
      description: How many are held by pods whose node does not exist; not in RV(scheduler.requested).
      type: int
      returned: always
      sample: 0
    dra:
      description: How many come from ResourceClaims, not from what nodes advertise; not in RV(scheduler.requested).
      type: int
      returned: always
      sample: 0
placeable:
  description:
    - How many more plain pods of 1, 2, 4 and 8 devices would fit, by the size as text.
    - The limits are those of RV(scheduler.usable), so without details places for pods are not among them. Pods that
      tolerate a taint may find more.
  returned: success
  type: dict
  sample: {"1": 1, "2": 0, "4": 0, "8": 0}
largest_free:
  description: The most that is usable on one node, as RV(scheduler.usable).
  returned: success
  type: int
  sample: 1
details:
  description: The account behind the sums. Lists are sorted by name.
  returned: when O(details) is not V(none)
  type: dict
  contains:
    nodes:
      description:
        - The nodes that have the resource in their status, or pods that hold some.
        - C(usable) and C(tainted) are the node's part of RV(scheduler.usable) and RV(scheduler.tainted), C(placeable) is how
          many more plain pods with one device each would fit.
      type: list
      elements: dict
      returned: always
      sample:
        - name: gpu-lab
          allocatable: 4
          capacity: 4
          requested: 3
          free: 1
          scheduler_requested: 3
          scheduler_free: 1
          nominated: 0
          usable: 1
          tainted: 0
          placeable: 1
          unhealthy: 0
          ready: "True"
          cordoned: false
          taints: []
    waiting:
      description:
        - The pods that ask for the resource, have no node and have not ended, and why.
        - C(reasons) has one entry for each reason, with the nodes it holds for; C(reason) is one of V(deleting),
          V(scheduling_gate), V(nominated), V(cordoned), V(not_ready), V(taint), V(selector_or_affinity), V(pods), V(cpu),
          V(memory), V(other_resource), V(reserved), V(fragmented), V(too_large), V(too_few), V(too_few_anywhere),
          V(not_advertised), V(dra) and V(fits).
        - A node that selector or affinity rule out is counted as V(selector_or_affinity) alone, cordoned or tainted or not.
        - C(predicted) is what the scheduler would say by what was looked at here, C(scheduler_message) what it did say. The
          scheduler names the first filter that refuses a node, so it may call that node cordoned.
      type: list
      elements: dict
      returned: always
      sample:
        - namespace: fake-lab
          name: gpu-3
          asks: 1
          message: "asks for 1 of nvidia.com/gpu: none is free on the nodes it may use"
          reasons:
            - reason: too_few_anywhere
              detail: ""
              count: 1
              enough: 0
              nodes: [gpu-lab]
              message: none is free on the nodes it may use
          predicted: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu."
          scheduler_message: "0/1 nodes are available: 1 Insufficient nvidia.com/gpu. no new claims to deallocate"
    differences:
      description:
        - The pods that the two definitions count differently. C(reasons) are of V(phase), V(orphan), V(dra), V(requests),
          V(overhead), V(sidecar) and V(init_container).
      type: list
      elements: dict
      returned: always
      sample:
        - namespace: default
          name: train
          node: gpu-lab
          limits: 1
          scheduler: 2
          reasons: [sidecar]
          message: its sidecars hold some beside its containers
    orphans:
      description: The pods whose node does not exist.
      type: list
      elements: dict
      returned: always
      sample: [{"namespace": "default", "name": "lost", "node": "gone", "limits": 1, "scheduler": 0}]
    overcommitted:
      description: The nodes whose pods hold more than the node offers.
      type: list
      elements: dict
      returned: always
      sample: [{"name": "gpu-lab", "allocatable": 2, "requested": 3, "scheduler_requested": 3}]
    terminating:
      description:
        - The pods that are being deleted and hold devices until they have ended.
        - C(until) is their C(metadata.deletionTimestamp). It is the end of the grace period, so it may lie ahead; a pod that
          something holds on to stays longer.
      type: list
      elements: dict
      returned: always
      sample:
        - namespace: default
          name: old
          node: gpu-lab
          limits: 1
          scheduler: 1
          until: "2026-01-01T00:00:30Z"
    counts:
      description: How many entries each list has when it is complete.
      type: dict
      returned: always
      sample: {"nodes": 2, "waiting": 1, "differences": 0, "orphans": 0, "overcommitted": 0, "terminating": 0}
stats:
  description: What was read, C(bytes) as they came over the wire.
  returned: success
  type: dict
  sample:
    pages: 2
    bytes: 20113
    seconds: 0.021
    encoding: protobuf
    resource_versions: {"nodes": "811", "pods": "811"}
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
path:
  description: The file itself.
  returned: when O(dest) is a link to it
  type: str
  sample: /srv/reports/report.json
details_dest:
  description: The file with the details.
  returned: when O(details_dest) is given
  type: str
  sample: /root/account.json
kind:
  description:
    - What sort of trouble kept the cluster from being read. One of V(library) (the client is not installed), V(config)
      (the settings cannot be used), V(unreachable) (nobody answers, or not to the end), V(refused) (a right is missing),
      V(missing) (the API has no such thing) and V(answer) (the answer makes no sense).
  returned: when the GPUs were not counted
  type: str
  sample: refused
mode:
  description: The mode of O(dest).
  returned: when O(dest) is given and exists
  type: str
  sample: "0644"
owner:
  description: The owner of O(dest).
  returned: when O(dest) is given and exists
  type: str
  sample: root
group:
  description: The group of O(dest).
  returned: when O(dest) is given and exists
  type: str
  sample: root
uid:
  description: The owner of O(dest) as a number.
  returned: when O(dest) is given and exists
  type: int
  sample: 0
gid:
  description: The group of O(dest) as a number.
  returned: when O(dest) is given and exists
  type: int
  sample: 0
size:
  description: How many bytes O(dest) has.
  returned: when O(dest) is given and exists
  type: int
  sample: 102
state:
  description: What O(dest) is, or the file that it is a link to.
  returned: when O(dest) is given and exists
  type: str
  sample: file
backup_file:
  description: The copy of O(dest) as it was.
  returned: when O(backup) is set and the file has changed
  type: str
  sample: /root/gsb-fake/report.json.4711.2026-01-01@12:00:00~
details_backup_file:
  description: The copy of O(details_dest) as it was.
  returned: when O(backup) is set and the file has changed
  type: str
  sample: /root/account.json.4711.2026-01-01@12:00:00~
"""

import json
import os
import re
import stat
import tempfile
import time
import typing as t

from ansible.module_utils.basic import AnsibleModule

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _account, _explain, _kube, _ledger, _objects

#: Entries of a list of details, unless they are to be full.
SHOWN = 20
#: Seconds that an option may name: a week.
LONGEST = 7 * 24 * 3600
#: A qualified name with a DNS subdomain before the slash (apimachinery: IsQualifiedName).
EXTENDED_RESOURCE = re.compile(
    r"(?=.{1,253}/)[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?", re.A
)
LISTS = ("nodes", "waiting", "differences", "orphans", "overcommitted", "terminating")


class Unwritable(Exception):
    pass


def current(dest: str, unsafe_writes: bool = False) -> bytes | None:
    """What the file holds, None when there is none; refuses a place where no file can be put."""
    folder = os.path.dirname(os.path.realpath(dest))
    if not os.path.isdir(folder):
        raise Unwritable(f"{folder} is not a folder; make it first")
    try:
        status = os.stat(dest)
    except FileNotFoundError:
        status = None
        if os.path.islink(dest):
            raise Unwritable(f"{dest} is a link to nothing") from None
    except OSError as error:
        raise Unwritable(f"{dest}: {error.strerror}") from error
    if status and stat.S_ISDIR(status.st_mode):
        raise Unwritable(f"{dest} is a folder, not a file")
    if status and not stat.S_ISREG(status.st_mode):
        raise Unwritable(f"{dest} is not a regular file")
    # A file is replaced by another one in its folder.
    in_place = unsafe_writes and status and os.access(dest, os.W_OK)
    if not in_place and not os.access(folder, os.W_OK | os.X_OK):
        raise Unwritable(f"{folder} cannot be written to")
    if status is None:
        return None
    try:
        with open(dest, "rb") as handle:
            return handle.read()
    except OSError as error:
        raise Unwritable(f"{dest} cannot be read: {error.strerror}") from error


def currents(module: AnsibleModule, files: t.Mapping[str, str]) -> dict[str, bytes | None]:
    """What each file holds now, by its option."""
    found = {}
    for option, path in files.items():
        try:
            found[option] = current(path, module.params["unsafe_writes"])
        except Unwritable as error:
            module.fail_json(msg=f"{option}: {error}")
    return found


def stage(module: AnsibleModule, dest: str, text: str) -> str:
    """The new content with its owner and mode, whole, in a file of its own that takes the place of dest later."""
    folder = module.tmpdir if module.params["unsafe_writes"] else os.path.dirname(os.path.realpath(dest))
    try:
        handle, path = tempfile.mkstemp(dir=folder, prefix=".ansible_tmp")
        module.add_cleanup_file(path)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise Unwritable(
            f"{dest} was not written and is as it was: its new content cannot be put into {folder}: {error.strerror}"
        ) from error
    # What cannot be set is told before anything is replaced.
    attributes = module.load_file_common_arguments(module.params, path=path)
    module.set_fs_attributes_if_different({**attributes, "attributes": None}, False)
    return path


def put(module: AnsibleModule, staged: str, dest: str) -> None:
    try:
        module.atomic_move(staged, os.path.realpath(dest), unsafe_writes=module.params["unsafe_writes"])
    except Exception as error:
        cause: BaseException = error
        while cause.__cause__ is not None:
            cause = cause.__cause__
        said = getattr(cause, "strerror", None) or cause
        raise Unwritable(f"{dest} could not be replaced and is as it was: {said}") from error


class Look(t.NamedTuple):
    """One look at the cluster."""

    account: _account.Account
    waiting: list[_explain.Waiting]
    stats: _kube.Stats
    remarks: list[str]


class NotYet(Exception):
    def __init__(self, text: str, seen: Look) -> None:
        super().__init__(text)
        self.seen = seen


def look(module: AnsibleModule) -> Look:
    resource, explain = module.params["resource"], module.params["details"] != "none"
    remarks: list[str] = []
    classes: list[dict[str, t.Any]] = []
    with _kube.time_limit(module.params["timeout"]):
        reader = _kube.Reader(module)
        cluster = reader.nodes_and_pods("all" if explain else "sum", resource)
        if explain and any(map(_account.unassigned, cluster.pods)):
            try:
                classes = reader.custom("resource.k8s.io", "v1", "deviceclasses") or []
            except _kube.KubeError as error:
                if error.kind != "refused":
                    raise
                remarks.append(f"whether {resource} may come from ResourceClaims was not looked at: {error}")
    account = _account.account(cluster.nodes, cluster.pods, resource, every_pod=explain)
    waiting = _explain.waiting(cluster.nodes, cluster.pods, resource, classes) if explain else []
    return Look(account, waiting, cluster.stats, remarks)


def lacking(module: AnsibleModule, account: _account.Account) -> str:
    """What of wait_for is not so, empty when all is."""
    wanted = module.params["wait_for"] or {}
    free = _account.ledger_by(account, module.params["accounting"])["free"]
    lacks = []
    if wanted.get("free") is not None and free < wanted["free"]:
        lacks.append(f"{free} of {account['resource']} are free, not {wanted['free']}")
    if wanted.get("placeable"):
        size, count = wanted["placeable"]["size"], wanted["placeable"]["count"]
        fit = _account.placeable(map(_account.usable, account["nodes"]), size)
        if fit < count:
            lacks.append(
                f"{fit} pods of {size} would fit, not {count}; the most on one node is {account['largest_free']}"
            )
    return "; ".join(lacks)


def last_look(module: AnsibleModule) -> Look:
    """The first look that is as it was asked for. Who waits for something outlasts an API server that is away."""
    params = module.params
    waits = not module.check_mode and bool(params["settle"] or params["wait_for"])
    begun = time.monotonic()
    before: Look | None = None
    while True:
        now: Look | None = None
        trouble: _kube.KubeError | None = None
        try:
            now = look(module)
            lacks = lacking(module, now.account)
            if not lacks and params["settle"] and before is None:
                lacks = "there was one look only, and two that are the same were asked for"
            elif not lacks and params["settle"] and before is not None and before.account != now.account:
                lacks = "two looks in a row were not the same"
        except _kube.KubeError as error:
            if not waits or error.kind != "unreachable":
                raise
            trouble, lacks = error, str(error)
        if now and (not lacks or module.check_mode):
            return now
        past = time.monotonic() - begun
        if past >= params["wait_timeout"]:
            if now is None:
                raise trouble
            raise NotYet(f"after {past:.0f} seconds: {lacks}", now)
        before = now
        time.sleep(min(params["wait_sleep"], params["wait_timeout"] - past))


def details(seen: Look, level: str) -> dict[str, t.Any]:
    lists: dict[str, list[t.Any]] = {**seen.account, "waiting": seen.waiting}
    most = None if level == "full" else SHOWN
    return {
        **{name: lists[name][:most] for name in LISTS},
        "counts": {name: len(lists[name]) for name in LISTS},
    }


def write(
    module: AnsibleModule, dest: str, staged: str | None, before: bytes | None, after: str
) -> tuple[bool, str | None, dict[str, str]]:
    """Bring a file to its content and attributes: whether that changed it, its backup, the difference."""
    changed = before != after.encode()
    backup = None
    if staged:
        if module.params["backup"] and before is not None:
            backup = module.backup_local(dest)
        put(module, staged, dest)
    if os.path.exists(dest):
        # Of the file, where dest is a link to it.
        attributes = module.load_file_common_arguments(module.params, path=os.path.realpath(dest))
        changed = module.set_fs_attributes_if_different(attributes, changed)
    diff = {
        "before_header": dest,
        "after_header": dest,
        "before": (before or b"").decode("utf-8", "replace"),
        "after": after,
    }
    return changed, backup, diff


def check(module: AnsibleModule) -> None:
    """Refuse options that make no sense."""
    params = module.params
    for option, least in (("timeout", 1), ("wait_timeout", 0), ("wait_sleep", 1)):
        if not least <= params[option] <= LONGEST:
            module.fail_json(msg=f"{option}: must be from {least} to {LONGEST} (seconds), not {params[option]}")
    if not EXTENDED_RESOURCE.fullmatch(params["resource"]):
        module.fail_json(
            msg=f"resource: {params['resource']!r} is no name of an extended resource, such as nvidia.com/gpu"
        )
    for option in ("dest", "details_dest"):
        if params[option] is not None and (not params[option].strip() or "\0" in params[option]):
            module.fail_json(msg=f"{option}: {params[option]!r} is no path; leave the option out to write nothing")
    placeable = (params["wait_for"] or {}).get("placeable") or {}
    for option, value in placeable.items():
        if value < 1:
            module.fail_json(msg=f"wait_for.placeable.{option}: must be at least 1, not {value}")
    if params["details_dest"]:
        if params["details"] == "none":
            module.fail_json(msg="details_dest: there are no details to write; set details to summary or full")
        if params["dest"] and os.path.realpath(params["dest"]) == os.path.realpath(params["details_dest"]):
            module.fail_json(msg=f"details_dest: {params['details_dest']} is the file of dest, too")


def main() -> None:
    module = AnsibleModule(
        argument_spec={
            **_kube.connection_options(),
            "dest": {"type": "path"},
            "resource": {"type": "str", "default": "nvidia.com/gpu"},
            "accounting": {"type": "str", "choices": ["limits", "scheduler"], "default": "limits"},
            "details": {"type": "str", "choices": ["none", "summary", "full"], "default": "none"},
            "details_dest": {"type": "path"},
            "wait_for": {
                "type": "dict",
                "options": {
                    "free": {"type": "int"},
                    "placeable": {
                        "type": "dict",
                        "options": {
                            "size": {"type": "int", "required": True},
                            "count": {"type": "int", "default": 1},
                        },
                    },
                },
            },
            "settle": {"type": "bool", "default": False},
            "wait_timeout": {"type": "int", "default": 300},
            "wait_sleep": {"type": "int", "default": 5},
            "fail_on_empty": {"type": "bool", "default": False},
            "backup": {"type": "bool", "default": False},
            "timeout": {"type": "int", "default": 60},
        },
        add_file_common_args=True,
        supports_check_mode=True,
    )
    check(module)
    files = {option: module.params[option] for option in ("dest", "details_dest") if module.params[option]}
    currents(module, files)
    try:
        seen = last_look(module)
    except NotYet as error:
        ledger = _account.ledger_by(error.seen.account, module.params["accounting"])
        module.fail_json(msg=f"The cluster is not as waited for {error}", ledger=ledger)
    except _kube.KubeError as error:
        module.fail_json(msg=f"The GPUs were not counted: {error}", kind=error.kind)
    except _objects.ObjectError as error:
        module.fail_json(msg=f"The GPUs were not counted: {error}", kind="answer")

    account = seen.account
    if module.params["fail_on_empty"] and not account["ledger"]["nodes"]:
        module.fail_json(msg=f"no node advertises {account['resource']}")
    for warning in [*account["warnings"], *seen.remarks]:
        module.warn(warning)
    result: dict[str, t.Any] = {
        "changed": False,
        "resource": account["resource"],
        "ledger": _account.ledger_by(account, module.params["accounting"]),
        "scheduler": account["scheduler"],
        "placeable": account["placeable"],
        "largest_free": account["largest_free"],
        "stats": seen.stats,
        **files,
    }
    texts = {"dest": _ledger.render(result["ledger"])}
    if module.params["details"] != "none":
        result["details"] = details(seen, module.params["details"])
        texts["details_dest"] = json.dumps(result["details"], indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    # Again: a wait may have been long.
    befores = currents(module, files)
    staged: dict[str, str] = {}
    for option, path in files.items():
        if befores[option] != texts[option].encode() and not module.check_mode:
            try:
                staged[option] = stage(module, path, texts[option])
            except Unwritable as error:
                module.fail_json(msg=f"{option}: {error}")
    diffs = []
    for option, path in files.items():
        try:
            changed, backup, diff = write(module, path, staged.get(option), befores[option], texts[option])
        except Unwritable as error:
            module.fail_json(msg=f"{option}: {error}", changed=result["changed"])
        result["changed"] = result["changed"] or changed
        if backup:
            result[option.replace("dest", "backup_file")] = backup
        diffs.append(diff)
    if "dest" in files and os.path.islink(files["dest"]):
        result["path"] = os.path.realpath(files["dest"])
    if module._diff and diffs:
        result["diff"] = diffs if len(diffs) > 1 else diffs[0]
    module.exit_json(**result)


if __name__ == "__main__":
    main()
