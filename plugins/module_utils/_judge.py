# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

# This module util is private to the collection: it may change at any time.

"""The verdict on each of the eight steps, from one look. No input or output here.

A step is judged by what it asked for, as far as that can still be told: steps that come later change the
cluster (a bigger pool, a pod that no longer waits), and what an earlier step left behind stays right.
"""

from __future__ import annotations

import datetime
import json
import re
import typing as t

from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils import _ledger
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._sight import (
    KWOK_KEY,
    KWOK_VALUE,
    Names,
    Sight,
    condition,
    dig,
    has_image,
    images,
    is_deleting,
    is_ready,
    is_running,
    is_unschedulable,
    mapping,
    moment,
    name_of,
    selects,
    sequence,
    started_at,
    state,
    tolerates,
)
from ansible_collections.gsb.fake_gpu_lab.plugins.module_utils._verdict import NONE, Hint, Verdict, exact, josa, short

TITLES: dict[int, Hint] = {
    1: ("노드가 광고하는 GPU 를 읽는다", "Read how many GPUs the node advertises"),
    2: ("파드 하나에 GPU 한 장을 준다", "Give one GPU to one pod"),
    3: ("컨테이너는 무엇을 받았나", "See what the container was given"),
    4: ("확장 자원의 두 규칙을 일부러 어긴다", "Break the two rules of extended resources on purpose"),
    5: ("노드를 꽉 채워 Pending 을 만든다", "Fill the node until a pod stays Pending"),
    6: ("광고 수를 늘려 기다리던 파드를 풀어 준다", "Advertise more GPUs and let the waiting pod run"),
    7: ("kubelet 없는 노드에도 GPU 를 붙인다", "Put GPUs on a node that has no kubelet"),
    8: ("GPU 장부를 직접 계산한다", "Work out the GPU ledger"),
}
STEPS = tuple(TITLES)

LAB_PODS = ("gpu-1", "gpu-2", "gpu-3", "far-1")
BAD_PODS = ("bad-a", "bad-b")

# What several steps ask alike


def _need_node(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    verdict.needs(
        "node.ready",
        is_ready(sight.real),
        seen=f"{sight.real_name}: {condition(sight.real, 'Ready').get('status', NONE)}" if sight.real else NONE,
        expected=f"{names.node}: True",
        tag="install",
        hint=(
            f"노드 {josa(names.node, '이/가')} Ready 가 아닙니다. 먼저 설치를 마치세요: ansible-playbook lab.yml --tags install",
            f"The node {names.node} is not Ready. Finish the installation first: ansible-playbook lab.yml --tags install",
        ),
    )


def _need_gpus(sight: Sight, verdict: Verdict) -> None:
    _need_node(sight, verdict)
    names, offer = sight.names, sight.gpus(sight.real, "allocatable")
    verdict.needs(
        "node.gpus",
        isinstance(offer, int) and offer > 0,
        seen=offer,
        expected="1 or more",
        tag="install",
        hint=(
            f"노드가 {josa(names.gpu_resource, '을/를')} 광고하지 않습니다. k3s 를 다시 띄운 뒤에는 device-plugin 도 다시 띄워야 합니다: "
            f"kubectl -n {names.operator_namespace} rollout restart ds/device-plugin "
            "(또는 ansible-playbook lab.yml --tags install)",
            f"The node does not advertise {names.gpu_resource}. After a restart of k3s the device plugin must be "
            f"restarted too: kubectl -n {names.operator_namespace} rollout restart ds/device-plugin "
            "(or ansible-playbook lab.yml --tags install)",
        ),
    )


def _need_namespace(sight: Sight, verdict: Verdict) -> None:
    space = sight.names.namespace
    there = bool(sight.look.get("namespace"))
    verdict.needs(
        "namespace",
        there,
        seen=space if there else NONE,
        expected=space,
        tag="step2",
        hint=(
            f"네임스페이스 {josa(space, '이/가')} 아직 없습니다. 먼저 2단계를 하세요: ansible-playbook lab.yml --tags step2",
            f"The namespace {space} is not there yet. Do step 2 first: ansible-playbook lab.yml --tags step2",
        ),
    )


def _need_gpu_1(sight: Sight, verdict: Verdict) -> None:
    pod = sight.pod("gpu-1")
    verdict.needs(
        "gpu1.running",
        is_running(pod),
        seen=state(pod),
        expected="Running",
        tag="step2",
        hint=(
            "gpu-1 이 Running 이 아닙니다. 먼저 2단계를 하세요: ansible-playbook lab.yml --tags step2",
            "gpu-1 is not Running. Do step 2 first: ansible-playbook lab.yml --tags step2",
        ),
    )


def _file(sight: Sight, verdict: Verdict, name: str, check: str) -> None:
    """The learner's file is there and can be read."""
    about = sight.file(name)
    where = f"{sight.names.dir}/{name}"
    seen = about["state"]
    if seen == "ok" and not about["text"].strip():
        seen = "empty"
    elif seen == "ok" and "yaml_error" in about:
        seen = f"not YAML: {about['yaml_error']}"
    hints: dict[str, Hint] = {
        "missing": (f"「{where}」 파일이 아직 없습니다.", f"There is no file {where} yet."),
        "empty": (
            f"「{where}」 파일이 비어 있습니다. 표준 오류로 나온 출력은 2>&1 을 붙여야 파일에 담깁니다.",
            f"{where} is empty. Output on standard error reaches the file only with 2>&1.",
        ),
        "not a file": (
            f"「{where}」 자리에 일반 파일이 아닌 것이 있습니다. 지우고 파일로 다시 만드세요.",
            f"{where} is no regular file. Remove it and write a file in its place.",
        ),
        "not UTF-8": (
            f"「{where}」 파일이 UTF-8 이 아닙니다. UTF-8 로 다시 저장하세요.",
            f"{where} is not UTF-8 text. Save it again as UTF-8.",
        ),
        "too large": (
            f"「{where}」 파일이 너무 큽니다. 필요한 출력만 담으세요.",
            f"{where} is far too large. Keep only the output that was asked for.",
        ),
    }
    other = (
        f"「{where}」 파일을 읽을 수 없습니다. 내용과 권한을 확인하세요.",
        f"{where} cannot be read. Look at its content and its permissions.",
    )
    if seen.startswith("not YAML"):
        other = (
            f"「{where}」 파일을 YAML 로 읽을 수 없습니다. 들여쓰기와 콜론을 확인하세요.",
            f"{where} cannot be read as YAML. Look at its indentation and colons.",
        )
    detail = about.get("detail")
    verdict.check(
        check,
        seen == "ok",
        seen=f"{seen}: {detail}" if detail and seen not in ("ok", "missing") else seen,
        expected="ok",
        where=where,
        hint=hints.get(seen, other),
    )


def _pod_place(sight: Sight, name: str) -> str:
    return f"pod {sight.names.namespace}/{name}"


def _pod_exists(sight: Sight, verdict: Verdict, name: str, check: str) -> None:
    space, elsewhere = sight.names.namespace, sight.elsewhere(name)
    if elsewhere:
        there = ", ".join(elsewhere)
        hint = (
            f"{josa(name, '이/가')} {josa(space, '이/가')} 아니라 {there} 네임스페이스에 있습니다. 거기서 지우고, "
            f"매니페스트에 namespace: {josa(space, '을/를')} 적거나 kubectl 에 -n {josa(space, '을/를')} 붙여 다시 만드세요.",
            f"{name} is in the namespace {there}, not in {space}. Delete it there and make it again with "
            f"namespace: {space} in the manifest, or with kubectl -n {space}.",
        )
    else:
        hint = (
            f"{space} 네임스페이스에 Pod {josa(name, '이/가')} 없습니다.",
            f"There is no Pod {name} in the namespace {space}.",
        )
    found = bool(sight.pod(name))
    verdict.check(
        check,
        found,
        seen=name if found else ", ".join(f"{one}/{name}" for one in elsewhere) or NONE,
        expected=f"{space}/{name}",
        where=_pod_place(sight, name),
        hint=hint,
    )


def _pod_limit(sight: Sight, verdict: Verdict, name: str, check: str, after: str) -> None:
    resource = sight.names.gpu_resource
    count = sight.gpus(sight.pod(name), "limits")
    verdict.check(
        check,
        count == 1,
        seen=count,
        expected=1,
        where=_pod_place(sight, name),
        after=after,
        hint=(
            f"{josa(name, '은/는')} GPU 를 한 장만 요청해야 합니다: resources.limits 에 {resource}: 1 을 적고, "
            "파드를 지운 뒤 다시 만드세요(만들어진 파드의 자원은 바꿀 수 없습니다).",
            f"{name} must ask for exactly one GPU: {resource}: 1 under resources.limits. Delete the pod and make "
            "it again; the resources of a pod that exists cannot be changed.",
        ),
    )


def _why_not_running(sight: Sight, name: str) -> Hint:
    space, pod = sight.names.namespace, sight.pod(name)
    now = state(pod)
    remake = f"kubectl -n {space} delete pod {name}"
    if name in ("gpu-1", "gpu-2", "gpu-3"):
        manifest = f"{sight.names.dir}/gpu-1.yaml"
        copied = "" if name == "gpu-1" else f"sed s/gpu-1/{name}/ {manifest} | "
        remake += f" && {copied}kubectl apply -f {'-' if copied else manifest}"
    again: Hint = (f"지우고 다시 만드세요: {remake}", f"Delete it and make it again: {remake}")
    if is_deleting(pod):
        return (
            f"{josa(name, '을/를')} 지우는 중입니다. 끝나기를 기다렸다가 다시 만드세요.",
            f"{name} is being deleted. Wait until it has gone, then make it again.",
        )
    if "UnexpectedAdmissionError" in now:
        return (
            f"노드가 다시 시작될 때 {josa(name, '은/는')} 장치를 받지 못해 Failed 로 끝났습니다. 저절로 살아나지 않습니다. {again[0]}",
            f"When the node started again, {name} got no device and ended as Failed. It does not come back by itself. "
            + again[1],
        )
    if "ImagePull" in now or "InvalidImageName" in now or "ErrImage" in now:
        return (
            f"{name} 의 이미지를 가져올 수 없습니다. 이미지 이름과 태그를 확인하세요: {sight.names.pod_image}",
            f"The image of {name} cannot be pulled. Look at its name and tag: {sight.names.pod_image}",
        )
    if is_unschedulable(pod):
        message = str(condition(pod, "PodScheduled").get("message") or "").rstrip(".") + "."
        holders = ", ".join(sight.holders()) or NONE
        return (
            f"스케줄러가 {josa(name, '을/를')} 놓을 노드를 찾지 못했습니다: {message} "
            f"지금 {sight.real_name} 의 GPU 를 쥐고 있는 파드: {holders}",
            f"The scheduler found no node for {name}: {message} Pods that hold GPUs of {sight.real_name} now: {holders}",
        )
    phase = dig(pod, "status", "phase")
    if phase in ("Succeeded", "Failed") or "CrashLoopBackOff" in now or "Completed" in now or "Error" in now:
        return (
            f"{name} 의 컨테이너가 끝나 버렸습니다. 오래 자는 명령을 주세요(예: sleep 반복). {again[0]}",
            f"The container of {name} has ended. Give it a command that sleeps for long. {again[1]}",
        )
    return (
        f"{josa(name, '이/가')} 아직 Running 이 아닙니다. 이벤트를 보세요: kubectl -n {space} describe pod {name}",
        f"{name} is not Running yet. Look at its events: kubectl -n {space} describe pod {name}",
    )


def _pod_running(sight: Sight, verdict: Verdict, name: str, check: str, after: str) -> None:
    pod = sight.pod(name)
    verdict.check(
        check,
        is_running(pod),
        seen=state(pod),
        expected="Running",
        where=_pod_place(sight, name),
        after=after,
        hint=_why_not_running(sight, name),
    )


def _pod_on_real_node(sight: Sight, verdict: Verdict, name: str, check: str, after: str) -> None:
    node = dig(sight.pod(name), "spec", "nodeName")
    verdict.check(
        check,
        bool(node) and node == sight.real_name,
        seen=node or NONE,
        expected=sight.real_name or sight.names.node,
        where=_pod_place(sight, name),
        after=after,
        hint=(
            f"{josa(name, '은/는')} 실제 노드에서 돌아야 합니다. KWOK 노드의 파드는 컨테이너가 없습니다. "
            "톨러레이션과 노드 선택을 빼고 다시 만드세요.",
            f"{name} must run on the real node; a pod on a KWOK node has no container. "
            "Make it again without toleration and node selection.",
        ),
    )


# The eight steps


def _step_1(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/advertised.txt"
    product = mapping(sight.real, "metadata", "labels").get(names.product_label)

    _need_gpus(sight, verdict)
    verdict.needs(
        "node.product",
        bool(product),
        seen=product or NONE,
        expected=names.product_label,
        tag="install",
        hint=(
            f"노드에 라벨 {josa(names.product_label, '이/가')} 아직 없습니다. 광고보다 몇 초 늦게 붙습니다. "
            "계속 없으면 nvidia-dcgm-exporter 파드를 보세요.",
            f"The node has no label {names.product_label} yet. It comes some seconds after the GPUs; "
            "if it stays away, look at the pod of nvidia-dcgm-exporter.",
        ),
    )

    _file(sight, verdict, "advertised.txt", "advertised.file")
    lines = [line.strip() for line in sight.text("advertised.txt").splitlines() if line.strip()]
    pairs = [line.partition("=") for line in lines]
    found = {key: value for key, equals, value in pairs if equals}
    keys = ["node", "capacity", "allocatable", "product"]
    verdict.check(
        "advertised.lines",
        len(lines) == len(keys) and set(found) == set(keys),
        seen=" ".join(key + equals for key, equals, _value in pairs) or NONE,
        expected=" ".join(f"{key}=" for key in keys),
        where=where,
        after="advertised.file",
        hint=(
            "node=, capacity=, allocatable=, product= 네 줄만, 등호 앞뒤에 빈칸 없이 적으세요.",
            "Write just the four lines node=, capacity=, allocatable=, product=, with no blanks around the equals sign.",
        ),
    )
    node = found.get("node", "")
    kwok = node and any(name_of(one) == node and sight.is_kwok(one) for one in sight.nodes)
    verdict.check(
        "advertised.node",
        bool(node) and node == sight.real_name,
        seen=node or NONE,
        expected=sight.real_name or names.node,
        where=where,
        after="advertised.lines",
        hint=(
            f"{josa(node, '은/는')} KWOK 노드입니다. 실제 노드만 고르세요: kubectl get node -l '!type'"
            if kwok
            else "실제 노드의 이름을 적으세요: kubectl get node -l '!type'",
            f"{node} is a KWOK node. Choose the real one: kubectl get node -l '!type'"
            if kwok
            else "Write the name of the real node: kubectl get node -l '!type'",
        ),
    )
    sizes = {str(size) for size in (names.pool_size, names.pool_size_grown)}
    now = sight.gpus(sight.real, "capacity")
    if isinstance(now, int) and now > 0:
        sizes.add(str(now))
    expected = " or ".join(sorted(sizes))
    resource = names.gpu_resource.replace(".", "\\.")
    for key in ("capacity", "allocatable"):
        value = found.get(key, "")
        ok = value in sizes
        if key == "allocatable" and found.get("capacity") in sizes:
            ok, expected = value == found["capacity"], found["capacity"]
        command = f"kubectl get node {sight.real_name or names.node} -o jsonpath='{{.status.{key}.{resource}}}'"
        if not value:
            hint = (
                f"값이 비어 있습니다. 자원 이름의 점 앞에 역슬래시를 넣으세요: {command}",
                f"The value is empty. Put a backslash before the dots of the resource's name: {command}",
            )
        elif value == "0":
            hint = (
                f"플러그인이 등록되기 전에 읽은 값입니다. 지금 다시 읽으세요: {command}",
                f"This was read before the plugin had registered. Read it again now: {command}",
            )
        else:
            hint = (
                f"노드가 광고한 수가 아닙니다. 노드 오브젝트의 status.{key} 에서 읽으세요: {command}",
                f"This is not what the node advertised. Read it from status.{key} of the node: {command}",
            )
        verdict.check(
            f"advertised.{key}",
            ok,
            seen=value or NONE,
            expected=expected,
            where=where,
            after="advertised.lines",
            hint=hint,
        )
    verdict.check(
        "advertised.product",
        bool(product) and found.get("product") == product,
        seen=found.get("product") or NONE,
        expected=product or NONE,
        where=where,
        after="advertised.lines",
        hint=(
            f"product 는 노드 라벨 {names.product_label} 의 값입니다: kubectl get node -l '!type' -L {names.product_label}",
            f"product is the value of the node's label {names.product_label}: "
            f"kubectl get node -l '!type' -L {names.product_label}",
        ),
    )


def _step_2(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/gpu-1.yaml"

    _need_gpus(sight, verdict)

    _file(sight, verdict, "gpu-1.yaml", "gpu1.file")
    manifest = sight.object("gpu-1.yaml", "Pod", "gpu-1")
    space = dig(manifest, "metadata", "namespace")
    described = [f"{one.get('kind')} {name_of(one)}" for one in sight.objects("gpu-1.yaml")]
    verdict.check(
        "gpu1.manifest",
        bool(manifest) and space in (None, names.namespace),
        seen=f"Pod gpu-1, namespace {space or NONE}" if manifest else ", ".join(described) or NONE,
        expected=f"Pod gpu-1, namespace {names.namespace}",
        where=where,
        after="gpu1.file",
        hint=(
            f"이 파일은 {names.namespace} 네임스페이스의 Pod gpu-1 을 적은 매니페스트여야 합니다.",
            f"This file must describe the Pod gpu-1 of the namespace {names.namespace}.",
        ),
    )
    count = sight.gpus(manifest, "limits")
    verdict.check(
        "gpu1.manifest-limit",
        count == 1,
        seen=count,
        expected=1,
        where=where,
        after="gpu1.manifest",
        hint=(
            f"컨테이너의 resources.limits 에 {names.gpu_resource}: 1 을 적으세요. requests 는 저절로 같은 값이 됩니다.",
            f"Write {names.gpu_resource}: 1 under the container's resources.limits; requests follow by themselves.",
        ),
    )
    verdict.check(
        "gpu1.manifest-image",
        has_image(manifest, names.pod_image),
        seen=", ".join(images(manifest)) or NONE,
        expected=names.pod_image,
        where=where,
        after="gpu1.manifest",
        hint=(f"이미지는 {names.pod_image} 입니다.", f"The image is {names.pod_image}."),
    )

    pod = sight.pod("gpu-1")
    _pod_exists(sight, verdict, "gpu-1", "gpu1.pod")
    verdict.check(
        "gpu1.image",
        has_image(pod, names.pod_image),
        seen=", ".join(images(pod)) or NONE,
        expected=names.pod_image,
        where=_pod_place(sight, "gpu-1"),
        after="gpu1.pod",
        hint=(
            f"떠 있는 파드의 이미지가 다릅니다. {names.pod_image} 로 다시 만드세요.",
            f"The pod in the cluster has another image. Make it again with {names.pod_image}.",
        ),
    )
    _pod_limit(sight, verdict, "gpu-1", "gpu1.limit", "gpu1.pod")
    _pod_running(sight, verdict, "gpu-1", "gpu1.running", "gpu1.pod")
    _pod_on_real_node(sight, verdict, "gpu-1", "gpu1.node", "gpu1.running")


_DEVICES = re.compile(r"^MOCK_NVIDIA_VISIBLE_DEVICES=(.*)$", re.MULTILINE)
_HOSTNAME = re.compile(r"^HOSTNAME=(.*)$", re.MULTILINE)
_SMI_HEADER = re.compile(r"NVIDIA-SMI\s+\d+\.\d+")


def _when(seconds: t.Any) -> str:
    if not isinstance(seconds, (int, float)):
        return NONE
    return datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")


def _step_3(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/inside.txt"
    text = sight.text("inside.txt").replace("\r\n", "\n")
    pod = sight.pod("gpu-1")
    again = f"kubectl -n {names.namespace} exec gpu-1 -- env"

    _need_node(sight, verdict)
    _need_gpu_1(sight, verdict)

    _file(sight, verdict, "inside.txt", "inside.file")
    given = [line.strip() for line in _DEVICES.findall(text)]
    one_device = len(set(given)) == 1 and bool(given[0]) and "," not in given[0]
    verdict.check(
        "inside.devices",
        one_device,
        seen=", ".join(f"MOCK_NVIDIA_VISIBLE_DEVICES={one}" for one in given) or NONE,
        expected="MOCK_NVIDIA_VISIBLE_DEVICES=<one id>",
        where=where,
        after="inside.file",
        hint=(
            "MOCK_NVIDIA_VISIBLE_DEVICES 는 GPU 한 장의 식별자 하나여야 합니다. gpu-1 이 GPU 를 한 장 받았는지 보세요."
            if given
            else f"MOCK_NVIDIA_VISIBLE_DEVICES= 줄이 없습니다. 컨테이너 안의 환경 변수를 모두 담으세요: {again}",
            "MOCK_NVIDIA_VISIBLE_DEVICES must name exactly one device. See whether gpu-1 was given one GPU."
            if given
            else f"There is no line MOCK_NVIDIA_VISIBLE_DEVICES=. Save all variables of the container: {again}",
        ),
    )
    hosts = [line.strip() for line in _HOSTNAME.findall(text)]
    verdict.check(
        "inside.hostname",
        set(hosts) == {"gpu-1"},
        seen=", ".join(f"HOSTNAME={one}" for one in hosts) or NONE,
        expected="HOSTNAME=gpu-1",
        where=where,
        after="inside.file",
        hint=(
            f"노드나 다른 파드가 아니라 gpu-1 컨테이너 안에서 읽어야 합니다: {again}",
            f"Read it inside the container of gpu-1, not on the node or in another pod: {again}",
        ),
    )
    expected = ["KUBERNETES_SERVICE_HOST=", "NODE_NAME=", "PATH="]
    missing = [one for one in expected if not re.search("^" + one, text, re.MULTILINE)]
    verdict.check(
        "inside.variables",
        not missing,
        seen=" ".join(one for one in expected if one not in missing) or NONE,
        expected=" ".join(expected),
        where=where,
        after="inside.file",
        hint=(
            f"환경 변수를 골라내지 말고 전체를 담으세요: {again}",
            f"Save all environment variables, not a selection: {again}",
        ),
    )
    smi = next((line.strip("| ") for line in text.splitlines() if "NVIDIA-SMI" in line or "nvidia-smi" in line), "")
    verdict.check(
        "inside.nvidia-smi",
        bool(_SMI_HEADER.search(text)),
        seen=smi or NONE,
        expected="NVIDIA-SMI <version>",
        where=where,
        after="inside.file",
        hint=(
            "nvidia-smi 가 실패한 출력입니다. topology-server 와 CoreDNS 가 떠 있는지 보고 다시 담으세요."
            if smi
            else f"nvidia-smi 출력이 없습니다. 같은 파일에 이어 담으세요: "
            f"kubectl -n {names.namespace} exec gpu-1 -- nvidia-smi >> {where}",
            "This is what nvidia-smi prints when it fails. See that topology-server and CoreDNS run, then save it again."
            if smi
            else f"The output of nvidia-smi is missing. Add it to the same file: "
            f"kubectl -n {names.namespace} exec gpu-1 -- nvidia-smi >> {where}",
        ),
    )

    started = started_at(pod)
    devices = mapping(sight.look, "devices").get(str(dig(pod, "metadata", "uid")))
    written, began = sight.file("inside.txt").get("mtime"), moment(started)
    stale: Hint = (
        f"gpu-1 을 다시 만든 뒤에 담은 것이 아닙니다. 지금 도는 컨테이너에서 다시 담으세요: {again}",
        f"This was saved before the gpu-1 that runs now was made. Save it again from the container: {again}",
    )
    if not is_running(pod):
        ok, seen, wanted = False, state(pod), "gpu-1 Running"
        stale = (
            "gpu-1 이 돌고 있지 않아 견줄 수 없습니다. 먼저 2단계를 마치세요.",
            "gpu-1 does not run, so there is nothing to compare with. Finish step 2 first.",
        )
    elif devices is not None:
        ok, seen, wanted = given[:1] == [devices], ", ".join(given) or NONE, devices
    else:
        ok = began is None or (isinstance(written, (int, float)) and written >= began)
        seen, wanted = f"written {_when(written)}", f"written after {started}"
    verdict.check("inside.current", ok, seen=seen, expected=wanted, where=where, after="inside.devices", hint=stale)


_REFUSED_POD = re.compile(r'[Pp]od "([^"]+)" is (?:invalid|forbidden)')


def _step_4(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/rules.txt"
    text = sight.text("rules.txt")

    _need_node(sight, verdict)
    _need_namespace(sight, verdict)

    _file(sight, verdict, "rules.txt", "rules.file")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    first = lines[0] if lines else NONE
    for check, words, ko, en in (
        (
            "rules.equal",
            "must be equal to",
            f"requests {names.gpu_resource}: 1, limits {names.gpu_resource}: 2 인 파드를 만들 때의 거절 메시지가 없습니다.",
            f"The refusal of a pod with requests {names.gpu_resource}: 1 and limits {names.gpu_resource}: 2 is missing.",
        ),
        (
            "rules.integer",
            "must be an integer",
            f"limits {names.gpu_resource}: 0.5 인 파드를 만들 때의 거절 메시지가 없습니다.",
            f"The refusal of a pod with limits {names.gpu_resource}: 0.5 is missing.",
        ),
    ):
        there = next((line for line in lines if words in line), None)
        if "not found" in text and names.namespace in text:
            ko, en = (
                f"네임스페이스 {josa(names.namespace, '이/가')} 없을 때의 메시지입니다. 네임스페이스를 만든 뒤 다시 해 보세요.",
                f"This is the message for a missing namespace. Make {names.namespace}, then try again.",
            )
        verdict.check(
            check,
            there is not None,
            seen=there or first,
            expected=words,
            where=where,
            after="rules.file",
            hint=(
                ko + " 표준 오류로 나오므로 2>&1 로 담으세요.",
                en + " It comes on standard error: save it with 2>&1.",
            ),
        )
    refused = (set(BAD_PODS) | set(_REFUSED_POD.findall(text))) - set(LAB_PODS)
    left = sorted(
        name_of(pod)
        for pod in sight.lab_pods()
        if name_of(pod) not in LAB_PODS and (name_of(pod) in refused or sight.gpus(pod, "limits") != 0)
    )
    verdict.check(
        "rules.refused",
        not left,
        seen=", ".join(left) or NONE,
        expected=NONE,
        where=f"namespace {names.namespace}",
        hint=(
            f"거절되어야 할 파드가 만들어져 남아 있습니다. 지우고 자원 값을 확인하세요: "
            f"kubectl -n {names.namespace} delete pod {' '.join(left)}",
            f"Pods that should have been refused were made and are still there. Delete them and look at their "
            f"resources: kubectl -n {names.namespace} delete pod {' '.join(left)}",
        ),
    )


def _tells_shortage(sight: Sight) -> bool:
    return f"Insufficient {sight.names.gpu_resource}" in sight.text("pending.txt")


def _step_5(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/pending.txt"
    gpu_3 = sight.pod("gpu-3")
    offer = sight.gpus(sight.real, "allocatable")
    shortage = f"Insufficient {names.gpu_resource}"

    _need_gpus(sight, verdict)
    _need_gpu_1(sight, verdict)
    waiting = is_unschedulable(gpu_3)
    verdict.needs(
        "node.full",
        _tells_shortage(sight) or waiting or (isinstance(offer, int) and offer <= names.pool_size),
        seen=offer,
        expected=names.pool_size,
        tag="fake_gpu_operator",
        hint=(
            f"노드가 이미 {offer}장을 광고하므로 gpu-3 이 기다리지 않습니다. 먼저 풀을 {names.pool_size}장으로 되돌리세요: "
            f"ansible-playbook lab.yml --tags fake_gpu_operator -e fake_gpu_operator_pool_size={names.pool_size}",
            f"The node already advertises {offer}, so gpu-3 would not wait. Take the pool back to {names.pool_size} first: "
            f"ansible-playbook lab.yml --tags fake_gpu_operator -e fake_gpu_operator_pool_size={names.pool_size}",
        ),
    )

    _pod_exists(sight, verdict, "gpu-2", "gpu2.pod")
    _pod_limit(sight, verdict, "gpu-2", "gpu2.limit", "gpu2.pod")
    _pod_running(sight, verdict, "gpu-2", "gpu2.running", "gpu2.pod")
    _pod_on_real_node(sight, verdict, "gpu-2", "gpu2.node", "gpu2.running")
    _pod_exists(sight, verdict, "gpu-3", "gpu3.pod")
    _pod_limit(sight, verdict, "gpu-3", "gpu3.limit", "gpu3.pod")

    message = str(condition(gpu_3, "PodScheduled").get("message") or "")
    grown = isinstance(offer, int) and offer > names.pool_size
    # On the grown pool it cannot wait any more; what was written down tells that it did.
    let_run = grown and _tells_shortage(sight)
    node_full = all(
        is_running(sight.pod(name)) and dig(sight.pod(name), "spec", "nodeName") == sight.real_name
        for name in ("gpu-1", "gpu-2")
    )
    if is_running(gpu_3):
        # Step 6 has let it run. That it had to wait shows in the two others, which still hold the first two GPUs, or,
        # when one of them is gone from the grown pool, in what was written down.
        ok, seen = node_full or let_run, "Running"
        hint: Hint = (
            "gpu-3 이 기다리지 않고 바로 떴습니다. gpu-1 과 gpu-2 가 먼저 실제 노드의 GPU 를 쥐고 있어야 합니다. "
            f"gpu-3 을 지우고, 두 파드를 Running 으로 만든 뒤 다시 만드세요: kubectl -n {names.namespace} delete pod gpu-3",
            "gpu-3 runs without having waited. gpu-1 and gpu-2 must hold the GPUs of the real node first. "
            "Delete gpu-3, get both Running, then make it again: "
            f"kubectl -n {names.namespace} delete pod gpu-3",
        )
    else:
        ok, seen = waiting and shortage in message, message or state(gpu_3)
        hint = _why_not_running(sight, "gpu-3")
        if waiting:
            hint = (
                f"gpu-3 이 GPU 부족이 아닌 이유로 기다립니다: {message} 노드 선택이나 다른 자원 요청을 빼고 다시 만드세요.",
                f"gpu-3 waits, but not for a GPU: {message} Make it again without node selection and other requests.",
            )
    verdict.check(
        "gpu3.waits",
        ok,
        seen=seen,
        expected="Running" if let_run else f"Pending: {shortage}",
        where=_pod_place(sight, "gpu-3"),
        after="gpu3.pod",
        hint=hint,
    )

    _file(sight, verdict, "pending.txt", "pending.file")
    verdict.check(
        "pending.reason",
        _tells_shortage(sight),
        seen=sight.text("pending.txt") or NONE,
        expected=shortage,
        where=where,
        after="pending.file",
        hint=(
            "스케줄러가 남긴 사유가 아닙니다. 사유는 PodScheduled 조건의 메시지입니다: "
            f"kubectl -n {names.namespace} get pod gpu-3 "
            "-o jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].message}'",
            "This is not the scheduler's reason. It is the message of the condition PodScheduled: "
            f"kubectl -n {names.namespace} get pod gpu-3 "
            "-o jsonpath='{.status.conditions[?(@.type==\"PodScheduled\")].message}'",
        ),
    )


def _is_count(value: t.Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _step_6(sight: Sight, verdict: Verdict) -> None:
    names, grown, space = sight.names, sight.names.pool_size_grown, sight.names.operator_namespace
    where = f"{names.dir}/values.yaml"
    release = sight.release
    node = sight.real_name or names.node
    gpu_3 = sight.pod("gpu-3")

    _need_node(sight, verdict)
    status = (release or {}).get("status")
    # An upgrade that was broken off is for step 6 itself to do again.
    again = status in ("failed", "pending-upgrade", "pending-rollback") and (release or {}).get("revision", 0) > 1
    verdict.needs(
        "release",
        status == "deployed" or again,
        seen=NONE if release is None else release.get("status") or release.get("error"),
        expected="deployed",
        tag="install",
        hint=(
            f"Helm 릴리스 {josa(names.release, '이/가')} 올바로 설치되어 있지 않습니다. 먼저: ansible-playbook lab.yml --tags install",
            f"The Helm release {names.release} is not properly installed. First: ansible-playbook lab.yml --tags install",
        ),
    )
    verdict.needs(
        "gpu3.waits",
        is_unschedulable(gpu_3) or is_running(gpu_3),
        seen=state(gpu_3),
        expected="Pending",
        tag="step5",
        hint=(
            "풀어 줄 gpu-3 이 기다리고 있지 않습니다. 먼저 5단계를 하세요: ansible-playbook lab.yml --tags step5",
            "There is no gpu-3 waiting to be let run. Do step 5 first: ansible-playbook lab.yml --tags step5",
        ),
    )
    verdict.needs(
        "pending.reason",
        _tells_shortage(sight) or is_running(gpu_3),
        seen=sight.text("pending.txt") or NONE,
        expected=f"Insufficient {names.gpu_resource}",
        tag="step5",
        hint=(
            "gpu-3 이 Pending 인 사유를 먼저 담아 두어야 합니다. 풀을 늘리면 사라집니다. "
            "먼저 5단계를 하세요: ansible-playbook lab.yml --tags step5",
            "The reason why gpu-3 is Pending must be saved first; it is gone once the pool has grown. "
            "Do step 5 first: ansible-playbook lab.yml --tags step5",
        ),
    )

    _file(sight, verdict, "values.yaml", "values.file")
    values = next(iter(sight.file("values.yaml").get("documents") or []), None)
    count = dig(values, "topology", "nodePools", names.pool, "gpuCount")
    verdict.check(
        "values.pool",
        _is_count(count) and count == grown,
        seen=exact(count),
        expected=grown,
        where=where,
        after="values.file",
        hint=(
            f"topology.nodePools.{names.pool}.gpuCount 를 따옴표 없는 숫자 {josa(str(grown), '으로/로')} 적으세요.",
            f"Write topology.nodePools.{names.pool}.gpuCount as the plain number {grown}.",
        ),
    )
    enabled = dig(values, "runtimeClass", "enabled")
    verdict.check(
        "values.runtime-class",
        enabled is False,
        seen=exact(enabled),
        expected=False,
        where=where,
        after="values.file",
        hint=(
            "runtimeClass.enabled: false 도 함께 적으세요. 빠지면 helm upgrade 가 RuntimeClass nvidia 에서 부딪힙니다.",
            "Write runtimeClass.enabled: false as well. Without it, helm upgrade trips over the RuntimeClass nvidia.",
        ),
    )

    place = f"Helm release {space}/{names.release}"
    upgrade = f"helm upgrade {names.release} <chart> -n {space} -f {where} --reuse-values"
    refused = mapping(sight.look, "errors").get("release")
    trouble = refused or (release or {}).get("error")
    verdict.check(
        "release.deployed",
        status == "deployed",
        seen=trouble or status or NONE,
        expected="deployed",
        where=place,
        hint=(
            f"릴리스가 deployed 상태가 아닙니다. 내역을 보고 되돌리거나 다시 하세요: helm -n {space} history {names.release}",
            f"The release is not deployed. Look at its history, then roll back or try again: "
            f"helm -n {space} history {names.release}",
        ),
    )
    chart = f"{(release or {}).get('chart')} {(release or {}).get('version')}"
    verdict.check(
        "release.chart",
        chart == f"{names.chart_name} {names.chart_version}",
        seen=chart,
        expected=f"{names.chart_name} {names.chart_version}",
        where=place,
        after="release.deployed",
        hint=(
            f"차트 {names.chart_name} 판 {names.chart_version} 로 올리세요(--version {names.chart_version}).",
            f"Upgrade with the chart {names.chart_name} at version {names.chart_version} (--version {names.chart_version}).",
        ),
    )
    count = sight.value("topology", "nodePools", names.pool, "gpuCount")
    verdict.check(
        "release.pool",
        _is_count(count) and count == grown,
        seen=exact(count),
        expected=grown,
        where=place,
        after="release.deployed",
        hint=(
            f"릴리스에 값 {josa(str(grown), '이/가')} 들어가지 않았습니다. values.yaml 로 올리세요: {upgrade}",
            f"The release does not have the value {grown}. Upgrade it with values.yaml: {upgrade}",
        ),
    )
    enabled = sight.value("runtimeClass", "enabled")
    verdict.check(
        "release.runtime-class",
        enabled is False,
        seen=exact(enabled),
        expected=False,
        where=place,
        after="release.deployed",
        hint=(
            f"릴리스의 runtimeClass.enabled 가 false 가 아닙니다. values.yaml 로 다시 올리세요: {upgrade}",
            f"runtimeClass.enabled of the release is not false. Upgrade it again with values.yaml: {upgrade}",
        ),
    )

    config_map, kept = f"topology-{node}", sight.topology.get(node)
    restart = f"kubectl -n {space} rollout restart deploy/status-updater"
    verdict.check(
        "topology.node",
        kept == grown,
        seen=NONE if kept is None else kept,
        expected=grown,
        where=f"ConfigMap {space}/{config_map}",
        after="release.pool",
        hint=(
            f"ConfigMap {josa(config_map, '이/가')} 없습니다. status-updater 를 다시 띄우면 새로 만듭니다: {restart}",
            f"The ConfigMap {config_map} is not there. A restarted status-updater makes it again: {restart}",
        )
        if kept is None
        else (
            f"helm upgrade 만으로는 이미 등록된 노드가 바뀌지 않습니다. ConfigMap 을 지우고 status-updater 를 다시 띄우세요: "
            f"kubectl -n {space} delete cm {config_map} && {restart}",
            f"helm upgrade alone does not change a node that is registered. Delete its ConfigMap, then restart "
            f"status-updater: kubectl -n {space} delete cm {config_map} && {restart}",
        ),
    )
    capacity, allocatable = sight.gpus(sight.real, "capacity"), sight.gpus(sight.real, "allocatable")
    plugin = sight.operator_pod("device-plugin")
    restart = f"kubectl -n {space} rollout restart ds/device-plugin"
    if "ImagePull" in state(plugin) or "ErrImage" in state(plugin):
        hint: Hint = (
            "device-plugin 의 이미지를 가져오지 못합니다. 앞서 준 pullPolicy 값이 빠졌습니다. "
            f"--reuse-values 를 붙여 다시 올리세요: {upgrade}",
            "The image of device-plugin cannot be pulled: the pullPolicy given before was dropped. "
            f"Upgrade again with --reuse-values: {upgrade}",
        )
    elif plugin and not is_running(plugin):
        hint = (
            f"device-plugin 이 돌고 있지 않습니다({state(plugin)}). ConfigMap {josa(config_map, '이/가')} 있을 때 다시 띄우세요: {restart}",
            f"device-plugin does not run ({state(plugin)}). Restart it while the ConfigMap {config_map} is there: {restart}",
        )
    else:
        hint = (
            f"device-plugin 은 시작할 때 한 번만 읽습니다. 다시 띄우고 몇 초 기다리세요: {restart}",
            f"device-plugin reads its topology only once, at its start. Restart it and wait some seconds: {restart}",
        )
    verdict.check(
        "node.grown",
        capacity == grown and allocatable == grown,
        seen=f"capacity {capacity}, allocatable {allocatable}",
        expected=f"capacity {grown}, allocatable {grown}",
        where=f"node {node}",
        after="topology.node",
        hint=hint,
    )
    _pod_exists(sight, verdict, "gpu-3", "gpu3.released-pod")
    _pod_running(sight, verdict, "gpu-3", "gpu3.running", "gpu3.released-pod")
    _pod_on_real_node(sight, verdict, "gpu-3", "gpu3.node", "gpu3.running")


def _has_kwok_taint(node: t.Any) -> bool:
    return any(
        dig(taint, "key") == KWOK_KEY and dig(taint, "effect") in ("NoSchedule", "NoExecute")
        for taint in sequence(node, "spec", "taints")
    )


def _taints(node: t.Any) -> str:
    return (
        ", ".join(
            f"{dig(taint, 'key')}={dig(taint, 'value') or ''}:{dig(taint, 'effect')}"
            for taint in sequence(node, "spec", "taints")
        )
        or NONE
    )


def _kwok_marks(sight: Sight, verdict: Verdict, node: t.Any, prefix: str, where: str, after: str) -> None:
    """The label, annotation and taint that make a node a GPU node of KWOK; asked of the file and of the cluster."""
    names = sight.names
    label = mapping(node, "metadata", "labels").get(names.pool_label)
    verdict.check(
        f"{prefix}label",
        label == names.pool,
        seen=NONE if label is None else f"{names.pool_label}={label}",
        expected=f"{names.pool_label}={names.pool}",
        where=where,
        after=after,
        hint=(
            f"라벨 {names.pool_label}: {josa(names.pool, '이/가')} 있어야 fake-gpu-operator 가 이 노드에 GPU 를 붙입니다.",
            f"Only with the label {names.pool_label}: {names.pool} does fake-gpu-operator give this node GPUs.",
        ),
    )
    annotation = mapping(node, "metadata", "annotations").get(KWOK_KEY)
    verdict.check(
        f"{prefix}annotation",
        annotation == KWOK_VALUE,
        seen=NONE if annotation is None else f"{KWOK_KEY}={annotation}",
        expected=f"{KWOK_KEY}={KWOK_VALUE}",
        where=where,
        after=after,
        hint=(
            f"KWOK 컨트롤러는 주석 {KWOK_KEY}: {josa(KWOK_VALUE, '이/가')} 붙은 노드만 맡습니다. 라벨이 아니라 주석입니다.",
            f"The KWOK controller looks after nodes with the annotation {KWOK_KEY}: {KWOK_VALUE} only. "
            "It is an annotation, not a label.",
        ),
    )
    verdict.check(
        f"{prefix}taint",
        _has_kwok_taint(node),
        seen=_taints(node),
        expected=f"{KWOK_KEY}={KWOK_VALUE}:NoSchedule",
        where=where,
        after=after,
        hint=(
            f"테인트 {KWOK_KEY}={KWOK_VALUE}:NoSchedule 이 없으면 보통 파드가 가짜 노드로 가 버립니다.",
            f"Without the taint {KWOK_KEY}={KWOK_VALUE}:NoSchedule ordinary pods end up on the fake node.",
        ),
    )


def _step_7(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    name, where = names.kwok_node, f"{names.dir}/kwok-node.yaml"
    node, pod = sight.kwok, sight.pod("far-1")

    _need_node(sight, verdict)
    controllers = [one for one in sight.pods if mapping(one, "metadata", "labels").get("app") == "kwok-controller"]
    controller = next(iter(sorted(controllers, key=is_running, reverse=True)), {})
    verdict.needs(
        "kwok.controller",
        is_running(controller),
        seen=state(controller),
        expected="Running",
        tag="install",
        hint=(
            "KWOK 컨트롤러가 돌고 있지 않습니다. 먼저: ansible-playbook lab.yml --tags install",
            "The KWOK controller does not run. First: ansible-playbook lab.yml --tags install",
        ),
    )
    count = sight.look.get("stages")
    refused = mapping(sight.look, "errors").get("stages")
    verdict.needs(
        "kwok.stages",
        bool(count) or refused is not None,
        seen=refused or count or NONE,
        expected="1 or more",
        tag="install",
        hint=(
            "KWOK 의 Stage 가 없어 노드가 Ready 가 되지 않습니다. 먼저: ansible-playbook lab.yml --tags install",
            "KWOK has no stages, so its nodes never become Ready. First: ansible-playbook lab.yml --tags install",
        ),
    )
    _need_namespace(sight, verdict)

    _file(sight, verdict, "kwok-node.yaml", "kwok.file")
    manifest = sight.object("kwok-node.yaml", "Node", name)
    described = [f"{one.get('kind')} {name_of(one)}" for one in sight.objects("kwok-node.yaml")]
    verdict.check(
        "kwok.manifest",
        bool(manifest),
        seen=f"Node {name}" if manifest else ", ".join(described) or NONE,
        expected=f"Node {name}",
        where=where,
        after="kwok.file",
        hint=(
            f"이 파일은 Node {josa(name, '을/를')} 적은 매니페스트여야 합니다.",
            f"This file must describe the Node {name}.",
        ),
    )
    _kwok_marks(sight, verdict, manifest, "kwok.manifest-", where, "kwok.manifest")

    verdict.check(
        "kwok.node",
        node is not None,
        seen=name if node else NONE,
        expected=name,
        where=f"node {name}",
        hint=(
            f"노드 {josa(name, '이/가')} 없습니다. 적용하세요: kubectl apply -f {where}",
            f"There is no node {name}. Apply it: kubectl apply -f {where}",
        ),
    )
    _kwok_marks(sight, verdict, node, "kwok.", f"node {name}", "kwok.node")
    verdict.check(
        "kwok.ready",
        is_ready(node),
        seen=condition(node, "Ready").get("status", NONE),
        expected="True",
        where=f"node {name}",
        after="kwok.annotation",
        hint=(
            f"{josa(name, '이/가')} Ready 가 아닙니다. KWOK 컨트롤러가 도는지 보세요: kubectl -n kube-system get pod -l app=kwok-controller",
            f"{name} is not Ready. See whether the KWOK controller runs: kubectl -n kube-system get pod -l app=kwok-controller",
        ),
    )
    offer = sight.gpus(node, "allocatable")
    verdict.check(
        "kwok.gpus",
        isinstance(offer, int) and offer > 0,
        seen=offer,
        expected="1 or more",
        where=f"node {name}",
        after="kwok.label",
        hint=(
            f"{josa(name, '이/가')} GPU 를 광고하지 않습니다. 풀 라벨은 노드를 만들 때 있어야 합니다. "
            f"노드를 지우고 ConfigMap {josa('topology-' + name, '이/가')} 사라진 뒤 다시 적용하세요.",
            f"{name} advertises no GPUs. The pool label must be there when the node is made. Delete the node, wait until "
            f"the ConfigMap topology-{name} has gone, then apply it again.",
        ),
    )

    _pod_exists(sight, verdict, "far-1", "far1.pod")
    _pod_limit(sight, verdict, "far-1", "far1.limit", "far1.pod")
    taint = {"key": KWOK_KEY, "value": KWOK_VALUE, "effect": "NoSchedule"}
    verdict.check(
        "far1.toleration",
        tolerates(pod, taint),
        seen=", ".join(
            str(dig(one, "key"))
            for one in sequence(pod, "spec", "tolerations")
            if not str(dig(one, "key")).startswith("node.kubernetes.io/")
        )
        or NONE,
        expected=KWOK_KEY,
        where=_pod_place(sight, "far-1"),
        after="far1.pod",
        hint=(
            f"far-1 에 {KWOK_KEY} 테인트를 견디는 톨러레이션을 주고 다시 만드세요.",
            f"Give far-1 a toleration for the taint {KWOK_KEY}, and make it again.",
        ),
    )
    reach = [name_of(one) for one in sight.nodes if selects(pod, one)]
    verdict.check(
        "far1.selection",
        bool(pod) and name in reach and not any(selects(pod, one) for one in sight.real_nodes),
        seen=", ".join(reach) or NONE,
        expected=name,
        where=_pod_place(sight, "far-1"),
        after="far1.pod",
        hint=(
            f"톨러레이션은 갈 수 있게 할 뿐, 고르게 하지는 않습니다. {name} 만 고르는 nodeSelector"
            f"(또는 필수 nodeAffinity)를 주세요. 예: nodeSelector 에 kubernetes.io/hostname: {name}",
            f"A toleration only lets the pod go there, it does not choose. Give it a nodeSelector (or a required "
            f"nodeAffinity) that fits {name} alone, such as kubernetes.io/hostname: {name}.",
        ),
    )
    placed = dig(pod, "spec", "nodeName")
    verdict.check(
        "far1.node",
        placed == name,
        seen=placed or NONE,
        expected=name,
        where=_pod_place(sight, "far-1"),
        after="far1.pod",
        hint=_why_not_running(sight, "far-1")
        if not placed
        else (
            f"far-1 이 {josa(str(placed), '으로/로')} 가 버렸습니다. 노드 선택을 더해 다시 만드세요: kubectl -n {names.namespace} delete pod far-1",
            f"far-1 went to {placed}. Add a node selection and make it again: kubectl -n {names.namespace} delete pod far-1",
        ),
    )
    _pod_running(sight, verdict, "far-1", "far1.running", "far1.node")


def _no_constant(text: str) -> t.NoReturn:
    raise ValueError(f"{text} is not JSON")


def _unique(pairs: list[tuple[str, t.Any]]) -> dict[str, t.Any]:
    keys = [key for key, _value in pairs]
    twice = sorted({key for key in keys if keys.count(key) > 1})
    if twice:
        raise ValueError(f"the key {', '.join(twice)} is there twice")
    return dict(pairs)


def _report(text: str) -> tuple[t.Any, str | None]:
    try:
        return json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant), None
    except (ValueError, RecursionError) as error:
        return None, str(error)


def _wrong_types(report: dict[str, t.Any]) -> list[str]:
    wrong = [f"{key}={short(report.get(key))}" for key in _ledger.KEYS[1:] if not _is_count(report.get(key))]
    nodes = report.get("nodes")
    if not isinstance(nodes, dict):
        return [f"nodes={short(nodes)}", *wrong]
    return [f"nodes.{name}={short(value)}" for name, value in nodes.items() if not _is_count(value)] + wrong


def _requested_slip(sight: Sight, value: t.Any) -> Hint | None:
    """The mistake that leads to this number, if one of the usual ones does."""
    names = sight.names

    def total(pods: t.Iterable[t.Any]) -> int:
        return sum(_ledger.pod_amount(pod, names.gpu_resource) for pod in pods)

    placed = [pod for pod in sight.pods if _ledger.is_placed(pod)]
    slips: list[tuple[int, Hint]] = [
        (
            total(pod for pod in sight.pods if dig(pod, "status", "phase") in _ledger.COUNTED_PHASES),
            (
                "아직 노드를 못 받은 파드까지 더했습니다. spec.nodeName 이 있는 파드만 셉니다.",
                "Pods that have no node yet were added. Count only pods with a spec.nodeName.",
            ),
        ),
        (
            total(pod for pod in sight.pods if dig(pod, "spec", "nodeName")),
            (
                "끝난 파드까지 더했습니다. Pending 과 Running 인 파드만 셉니다.",
                "Pods that have ended were added. Count only those that are Pending or Running.",
            ),
        ),
        (
            total(pod for pod in placed if dig(pod, "metadata", "namespace") == names.namespace),
            (
                f"{names.namespace} 만 세었습니다. 모든 네임스페이스의 파드를 더하세요(-A).",
                f"Only {names.namespace} was counted. Add up the pods of all namespaces (-A).",
            ),
        ),
        (
            total(pod for pod in placed if dig(pod, "spec", "nodeName") == sight.real_name),
            (
                "실제 노드의 파드만 세었습니다. KWOK 노드의 파드도 GPU 를 쥐고 있습니다.",
                "Only pods of the real node were counted. Those on the KWOK node hold GPUs too.",
            ),
        ),
    ]
    return next((hint for number, hint in slips if number == value), None)


def _nodes_slip(sight: Sight, nodes: dict[str, t.Any], right: dict[str, int]) -> Hint:
    if {name for name, count in nodes.items() if count} == set(right) and 0 in nodes.values():
        return (
            "GPU 를 광고하지 않는 노드(0장)는 넣지 않습니다.",
            "Leave out nodes that advertise no GPUs (0).",
        )
    if set(right) - set(nodes) and all(right.get(name) == count for name, count in nodes.items()):
        lost = ", ".join(sorted(set(right) - set(nodes)))
        return (
            f"빠진 노드가 있습니다: {lost}. KWOK 노드도 GPU 를 광고합니다.",
            f"A node is missing: {lost}. KWOK nodes advertise GPUs too.",
        )
    return (
        "노드마다 지금의 status.allocatable 을 읽어 적으세요(capacity 가 아닙니다).",
        "Write what each node has in status.allocatable now (not in capacity).",
    )


def _ledger_now(sight: Sight, report: dict[str, t.Any]) -> tuple[dict[str, t.Any], dict[str, Hint]]:
    """The right answers, and for each what is likely behind a wrong one."""
    try:
        now: dict[str, t.Any] = dict(sight.ledger())
    except _ledger.LedgerError as error:
        hint = (f"클러스터의 장부를 셀 수 없습니다: {error}", f"The cluster cannot be counted: {error}")
        return dict.fromkeys(_ledger.KEYS, str(error)), dict.fromkeys(_ledger.KEYS, hint)
    hints = {
        "nodes": _nodes_slip(sight, mapping(report, "nodes"), now["nodes"]),
        "allocatable_total": (
            "allocatable_total 은 nodes 의 값을 모두 더한 수입니다.",
            "allocatable_total is the sum of the values under nodes.",
        ),
        "requested": _requested_slip(sight, report.get("requested"))
        or (
            "모든 네임스페이스에서 spec.nodeName 이 있고 Pending 이나 Running 인 파드의 컨테이너 limits 를 더하세요.",
            "Add up the container limits of all pods, in all namespaces, that have a spec.nodeName and are Pending or "
            "Running.",
        ),
        "free": (
            "free 는 allocatable_total 에서 requested 를 뺀 수입니다. 음수가 될 수도 있습니다.",
            "free is allocatable_total minus requested. It may be negative.",
        ),
    }
    if _wrong_types(report) or not _adds_up(report):
        return now, hints
    hints["free"] = (
        "뺄셈은 맞습니다. 앞의 두 수가 지금의 클러스터와 다릅니다.",
        "The subtraction is right; the two numbers before it are not those of the cluster now.",
    )
    # Each number may have been right when it was written.
    since: Hint = (
        " 쓴 뒤에 클러스터가 바뀌었다면 다시 쓰세요.",
        " If the cluster has changed since it was written, write it again.",
    )
    return now, {key: (hint[0] + since[0], hint[1] + since[1]) for key, hint in hints.items()}


def _adds_up(report: t.Mapping[str, t.Any]) -> bool:
    """Whether the report agrees with itself."""
    total = report["allocatable_total"]
    return total == sum(report["nodes"].values()) and report["free"] == total - report["requested"]


def _step_8(sight: Sight, verdict: Verdict) -> None:
    names = sight.names
    where = f"{names.dir}/report.json"

    _need_gpus(sight, verdict)

    _file(sight, verdict, "report.json", "report.file")
    report, trouble = _report(sight.text("report.json"))
    verdict.check(
        "report.json",
        isinstance(report, dict),
        seen=trouble or ("an object" if isinstance(report, dict) else report),
        expected="a JSON object",
        where=where,
        after="report.file",
        hint=(
            "올바른 JSON 오브젝트가 아닙니다. 확인해 보세요: python3 -m json.tool " + where,
            "This is not a JSON object. Look at it with: python3 -m json.tool " + where,
        ),
    )
    report = report if isinstance(report, dict) else {}
    verdict.check(
        "report.keys",
        set(report) == set(_ledger.KEYS),
        seen=", ".join(sorted(report)) or NONE,
        expected=", ".join(sorted(_ledger.KEYS)),
        where=where,
        after="report.json",
        hint=(
            "키는 nodes, allocatable_total, requested, free 넷뿐이어야 합니다.",
            "There must be the four keys nodes, allocatable_total, requested and free, and no others.",
        ),
    )
    wrong = _wrong_types(report)
    verdict.check(
        "report.types",
        not wrong,
        seen=", ".join(wrong) or "whole numbers",
        expected="whole numbers",
        where=where,
        after="report.keys",
        hint=(
            'nodes 는 노드 이름 → 장수의 오브젝트이고, 수는 모두 따옴표와 소수점이 없는 정수여야 합니다(4, "4" 나 4.0 이 아님).',
            "nodes maps node names to counts, and every count is a whole number without quotes or a decimal point "
            '(4, not "4" or 4.0).',
        ),
    )
    now, hints = _ledger_now(sight, report)
    for key in _ledger.KEYS:
        verdict.check(
            f"report.{key.replace('_', '-')}",
            report.get(key) == now[key],
            seen=report.get(key),
            expected=now[key],
            where=where,
            after="report.types",
            hint=hints[key],
        )


_JUDGES: dict[int, t.Callable[[Sight, Verdict], None]] = {
    1: _step_1,
    2: _step_2,
    3: _step_3,
    4: _step_4,
    5: _step_5,
    6: _step_6,
    7: _step_7,
    8: _step_8,
}

_SILENT: dict[str, Hint] = {
    "library": (
        "쿠버네티스 파이썬 클라이언트가 아직 설치되지 않았습니다. 먼저 설치하세요: ansible-playbook lab.yml --tags install",
        "The Kubernetes client for Python is not installed yet. Install first: ansible-playbook lab.yml --tags install",
    ),
    "config": (
        "클러스터에 접속할 설정(kubeconfig)을 쓸 수 없습니다. 먼저 설치하세요: ansible-playbook lab.yml --tags install",
        "The settings to reach the cluster (kubeconfig) cannot be used. Install first: "
        "ansible-playbook lab.yml --tags install",
    ),
    "refused": (
        "API 서버가 이 kubeconfig 로는 읽게 해 주지 않습니다. 다시 설치했다면 새 kubeconfig 를 쓰세요: "
        "ansible-playbook lab.yml --tags install",
        "The API server does not let this kubeconfig read. After a new installation, use its new kubeconfig: "
        "ansible-playbook lab.yml --tags install",
    ),
    "unreachable": (
        "k3s 가 응답하지 않거나 제때 응답하지 못했습니다. 서비스를 살펴보세요: systemctl status k3s. "
        "설치하거나 되살리려면: ansible-playbook lab.yml --tags install. 느린 기계라면 시간을 더 주세요: -e steps_timeout=600",
        "k3s does not answer, or not in time. Look at its service: systemctl status k3s. "
        "To install it or to bring it back: ansible-playbook lab.yml --tags install. "
        "Give a slow machine more time: -e steps_timeout=600",
    ),
}


def judge_silence(kind: str, said: str, steps: t.Iterable[int]) -> list[dict[str, t.Any]]:
    """The verdicts when the cluster could not be looked at: nothing is known to be done."""
    results = []
    for step in steps:
        verdict = Verdict(step, TITLES[step])
        verdict.needs(
            "api",
            False,
            seen=said,
            expected="the API server answers",
            tag="install",
            hint=_SILENT.get(kind, _SILENT["unreachable"]),
        )
        results.append(verdict.result())
    return results


def judge(sight: Sight, steps: t.Iterable[int]) -> list[dict[str, t.Any]]:
    """The verdicts on these steps."""
    results = []
    for step in steps:
        verdict = Verdict(step, TITLES[step])
        _JUDGES[step](sight, verdict)
        results.append(verdict.result())
    return results


__all__ = ("BAD_PODS", "LAB_PODS", "Names", "STEPS", "TITLES", "Sight", "judge", "judge_silence")
