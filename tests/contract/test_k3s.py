# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
"""What a role or a lab author may expect of the executable `k3s` and of its service.

The host has k3s installed and its service running. It is restarted, stopped and killed on the way,
and left as it was found; GPUs that a device plugin advertises are gone afterwards until that is restarted.
"""

from __future__ import annotations

import base64
import json
import re
import textwrap

import pytest

DATA = "/var/lib/rancher/k3s"
CONFIG = "/etc/rancher/k3s/config.yaml"
KUBECONFIG = "/etc/rancher/k3s/k3s.yaml"
SOCKET = "/run/k3s/containerd/containerd.sock"
IMAGES = f"{DATA}/agent/images"
NAMESPACE = "contract-k3s"
COMPONENTS = [
    "kube-scheduler",
    "kube-controller-manager",
    "kube-proxy",
    "kubelet",
    "containerd",
    "kube-apiserver",
    "etcd",
]


@pytest.fixture(scope="module")
def standin(cluster):
    return "standin" in cluster.run("k3s --version")


@pytest.fixture(scope="module")
def node(cluster):
    (name,) = cluster.kubectl("get nodes -l node-role.kubernetes.io/control-plane -o name").split()
    return name.removeprefix("node/")


@pytest.fixture(scope="module")
def pause(cluster):
    (image,) = {ref for ref in cluster.run("k3s ctr images list -q").split() if "mirrored-pause:" in ref}
    return image


@pytest.fixture(scope="module")
def pod(cluster, node, pause):
    """A pod that no controller would make again."""
    cluster.apply(
        textwrap.dedent(f"""
            apiVersion: v1
            kind: Namespace
            metadata: {{name: {NAMESPACE}}}
            ---
            apiVersion: v1
            kind: Pod
            metadata: {{name: keeper, namespace: {NAMESPACE}}}
            spec:
              nodeName: {node}
              terminationGracePeriodSeconds: 1
              containers: [{{name: main, image: "{pause}", imagePullPolicy: Never}}]
        """)
    )
    cluster.kubectl(f"-n {NAMESPACE} wait pod/keeper --for=condition=Ready --timeout=60s")
    yield lambda: container_of(cluster)
    cluster.kubectl(f"delete namespace {NAMESPACE} --wait=false")


def container_of(cluster):
    """What tells one run of the container from another."""
    seen = cluster.json(f"-n {NAMESPACE} get pod keeper")
    (status,) = seen["status"]["containerStatuses"]
    return {
        "uid": seen["metadata"]["uid"],
        "container": status["containerID"],
        "restarts": status["restartCount"],
        "running": "running" in status["state"],
    }


def main_pid(cluster):
    return int(cluster.run("systemctl show -p MainPID --value k3s"))


def wait_ready(cluster, node):
    cluster.until(lambda: cluster.kubectl("get --raw=/readyz").strip() == "ok", "the API server is ready", timeout=120)
    cluster.until(lambda: fresh(cluster, node), "the node is Ready and says so now", timeout=120)


def fresh(cluster, node):
    """Ready, by a lease that was renewed since the kubelet started: an API server repeats old news for a while."""
    if (
        cluster.run("k3s kubectl get node %s -o jsonpath='{.status.conditions[?(@.type==\"Ready\")].status}'", node)
        != "True"
    ):
        return False
    renewed = cluster.kubectl(f"-n kube-node-lease get lease {node} -o jsonpath='{{.spec.renewTime}}'")
    age = cluster.run("echo $(( $(date +%%s) - $(date +%%s -d %s) ))", renewed)
    return int(age) < 12


def restart(cluster, node):
    cluster.run("systemctl restart k3s")
    wait_ready(cluster, node)


def log_end(cluster):
    return cluster.run("journalctl -u k3s --no-pager -n 0 --show-cursor").split("cursor: ", 1)[1].strip()


def log_after(cluster, cursor):
    return cluster.run("journalctl -u k3s --no-pager -o cat --after-cursor %s", cursor)


# --- command line ---------------------------------------------------------------------------------------------------


def test_version(cluster):
    first, second = cluster.run("k3s --version").splitlines()
    assert re.match(r"k3s version v\d+\.\d+\.\d+\+\S+ \(\S+\)$", first)
    assert re.match(r"go version go\d+\.\d+", second)


def test_version_of_the_standin_says_so(cluster, standin):
    if not standin:
        pytest.skip("this is not the stand-in")
    assert "standin" in cluster.run("k3s --version").splitlines()[0]


def test_kubernetes_has_the_version_of_k3s(cluster, node):
    version = re.match(r"k3s version (\S+)", cluster.run("k3s --version"))[1]
    assert cluster.json(f"get node {node}")["status"]["nodeInfo"]["kubeletVersion"] == version
    assert cluster.json("version")["serverVersion"]["gitVersion"] == version


@pytest.mark.parametrize("command", ["kubectl version --client", "crictl --version", "ctr --version"])
def test_tools_by_command_and_by_link(cluster, command):
    tool = command.split()[0]
    by_command = cluster.run(f"k3s {command}")
    folder = cluster.run("mktemp -d").strip()
    try:
        cluster.run('ln -s "$(command -v k3s)" %s', f"{folder}/{tool}")
        assert cluster.run(f"{folder}/{command}") == by_command
    finally:
        cluster.run("rm -r %s", folder)


def test_kubectl_needs_no_kubeconfig(cluster, node):
    assert node in cluster.run("env -u KUBECONFIG k3s kubectl get nodes")


def test_kubectl_honours_kubeconfig(cluster):
    assert "localhost:8080" in cluster.fails("KUBECONFIG=/nonexistent k3s kubectl get nodes")


def test_ctr_and_crictl_speak_to_the_own_containerd(cluster, pause):
    assert pause in cluster.run("k3s ctr images list -q").split()
    tags = [
        tag for image in json.loads(cluster.run("k3s crictl images -o json"))["images"] for tag in image["repoTags"]
    ]
    assert pause in tags


def test_check_config(cluster):
    out = cluster.run("k3s check-config")
    assert "overlay" in out.lower()
    assert "STATUS: pass" in out


def test_token_list(cluster):
    tokens = json.loads(cluster.run("k3s token list --output json") or "[]")
    assert isinstance(tokens, list)
    assert re.fullmatch(r"[a-z0-9]{6}\.[a-z0-9]{16}", cluster.run("k3s token generate").strip())


def test_certificate_check(cluster):
    table = cluster.run("k3s certificate check --output table")
    assert "server-ca.crt" in table
    assert "serving-kube-apiserver.crt" in table
    assert "EXPIRED" not in table


def test_etcd_snapshot_says_why_not(cluster):
    assert re.search(r"etcd|snapshot", cluster.fails("k3s etcd-snapshot save"))


def test_unknown_command(cluster):
    assert "frobnicate" in cluster.fails("k3s frobnicate")


@pytest.mark.parametrize(
    ("content", "key"),
    [("node-nmae: x\n", "node-nmae"), ("frobnicate+:\n  - y\n", "frobnicate")],
)
def test_unknown_key_is_refused(cluster, standin, content, key):
    cluster.write("/tmp/contract-config.yaml", content)
    said = cluster.fails("timeout 20 k3s server --config /tmp/contract-config.yaml")
    cluster.run("rm /tmp/contract-config.yaml")
    assert key in said
    if standin:
        assert "/tmp/contract-config.yaml, line 1" in said


def test_unknown_flag_is_refused(cluster):
    assert "frobnicate" in cluster.fails("timeout 20 k3s server --frobnicate=1")


# --- files ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "mode"),
    [
        (KUBECONFIG, 0o600),
        (f"{DATA}/server/token", 0o600),
        (f"{DATA}/server", 0o700),
        ("/etc/rancher/node/password", 0o600),
    ],
)
def test_secrets_are_roots_alone(host, path, mode):
    seen = host.file(path)
    assert (seen.user, seen.group) == ("root", "root")
    assert oct(seen.mode) == oct(mode)


def test_token_holds_the_digest_of_the_authority(cluster, host):
    digest = cluster.run("sha256sum %s", f"{DATA}/server/tls/server-ca.crt").split()[0]
    assert re.fullmatch(rf"K10{digest}::server:\S+\n", host.file(f"{DATA}/server/token").content_string)
    assert host.file(f"{DATA}/server/node-token").linked_to == f"{DATA}/server/token"


def test_kubeconfig_names_the_local_server(cluster):
    view = json.loads(cluster.kubectl("config view --raw -o json"))
    (one,) = view["clusters"]
    assert one["cluster"]["server"] == "https://127.0.0.1:6443"
    authority = base64.b64decode(one["cluster"]["certificate-authority-data"]).decode()
    assert authority.strip() in cluster.run("cat %s", f"{DATA}/server/tls/server-ca.crt")


def test_programs_are_unpacked_below_the_data_folder(cluster, host):
    current = host.file(f"{DATA}/data/current").linked_to
    assert re.fullmatch(rf"{DATA}/data/[0-9a-f]{{64}}", current)
    for program in ("containerd", "containerd-shim-runc-v2", "runc", "kubectl", "ctr", "crictl"):
        assert host.file(f"{current}/bin/{program}").exists, program


def test_runtime_files(host):
    assert host.socket(f"unix://{SOCKET}").is_listening
    assert f"unix://{SOCKET}" in host.file(f"{DATA}/agent/etc/crictl.yaml").content_string
    assert host.file(f"{DATA}/agent/etc/containerd/config.toml").contains("^version = 3")
    assert host.file(f"{DATA}/agent/etc/kubelet.conf.d/00-k3s-defaults.conf").is_file
    assert host.file("/var/lib/kubelet/device-plugins/kubelet.sock").is_socket


# --- cluster --------------------------------------------------------------------------------------------------------


def test_node(cluster, node):
    seen = cluster.json(f"get node {node}")
    labels = seen["metadata"]["labels"]
    assert labels["node-role.kubernetes.io/control-plane"] == "true"
    assert labels["node.kubernetes.io/instance-type"] == "k3s"
    assert {c["type"]: c["status"] for c in seen["status"]["conditions"]}["Ready"] == "True"
    assert seen["status"]["nodeInfo"]["bootID"] == cluster.run("cat /proc/sys/kernel/random/boot_id").strip()


def test_cluster_dns_answers(cluster, node):
    cluster.kubectl("-n kube-system wait deployment/coredns --for=condition=Available --timeout=60s")
    server = cluster.kubectl("-n kube-system get service kube-dns -o jsonpath='{.spec.clusterIP}'")
    address = cluster.kubectl(f"get node {node} -o jsonpath='{{.status.addresses[0].address}}'")
    for name, expected in (("kubernetes.default.svc.cluster.local", "10.43.0.1"), (node, address)):
        cluster.until(
            lambda name=name, expected=expected: expected in ask_dns(cluster, server, name), f"{name} is {expected}"
        )


def ask_dns(cluster, server, name):
    """Asks for an A record without any resolver in between, and returns the addresses."""
    script = textwrap.dedent("""
        import socket, struct, sys
        server, name = sys.argv[1:]
        question = b"".join(bytes([len(p)]) + p.encode() for p in name.split(".")) + b"\\0" + struct.pack(">HH", 1, 1)
        s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        s.settimeout(3)
        s.sendto(struct.pack(">HHHHHH", 7, 0x100, 1, 0, 0, 0) + question, (server, 53))
        answer = s.recv(4096)
        for i in range(len(answer) - 13):
            kind, _, _, size = struct.unpack(">HHIH", answer[i:i + 10])
            if kind == 1 and size == 4:
                print(socket.inet_ntoa(answer[i + 10:i + 14]))
    """)
    return cluster.run("python3 -c %s %s %s", script, server, name).split()


def test_logs_of_a_pod_can_be_read(cluster):
    assert "CoreDNS" in cluster.kubectl("-n kube-system logs deployment/coredns")


@pytest.mark.parametrize("url", ["https://127.0.0.1:6443/api", "https://127.0.0.1:10250/pods"])
def test_nobody_gets_in_without_a_certificate(cluster, url):
    assert cluster.run(f"curl -sk -o /dev/null -w '%{{http_code}}' {url}") in ("401", "403")


def test_what_listens(cluster):
    """To the outside only the API server and the kubelet."""
    ours = re.compile(r'"(k3s\S*|kube\S*|etcd|containerd\S*)"')
    outside = set()
    for line in cluster.run("ss -Hltnp").splitlines():
        address, port = line.split()[3].rsplit(":", 1)
        if ours.search(line) and not address.startswith(("127.", "[::1]", "[::ffff:127.")):
            outside.add(int(port))
    assert outside == {6443, 10250}


# --- manifests and images -------------------------------------------------------------------------------------------


@pytest.fixture
def manifest(cluster):
    path = f"{DATA}/server/manifests/contract.yaml"
    yield path
    cluster.run("rm -f %s %s", path, f"{path}.skip")
    cluster.kubectl("-n default delete configmap contract --ignore-not-found")


def config_map(value):
    return (
        f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: contract, namespace: default}}\ndata: {{key: {value}}}\n"
    )


def value_of(cluster):
    return cluster.kubectl("-n default get configmap contract -o jsonpath='{.data.key}' --ignore-not-found")


def test_manifests_are_watched(cluster, manifest):
    cluster.write(manifest, config_map("one"))
    cluster.until(lambda: value_of(cluster) == "one", "a new manifest is applied", timeout=40)
    cluster.write(manifest, config_map("two"))
    cluster.until(lambda: value_of(cluster) == "two", "a changed manifest is applied", timeout=40)
    cluster.write(f"{manifest}.skip", "")
    cluster.write(manifest, config_map("three"))
    cluster.write(
        f"{DATA}/server/manifests/contract-after.yaml",
        config_map("after").replace("name: contract", "name: contract-after"),
    )
    try:
        cluster.until(
            lambda: cluster.kubectl("-n default get configmap contract-after -o name --ignore-not-found"),
            "a manifest written after the skipped one is applied",
            timeout=40,
        )
        assert value_of(cluster) == "two"
    finally:
        cluster.run("rm %s", f"{DATA}/server/manifests/contract-after.yaml")
    cluster.run("rm %s %s", manifest, f"{manifest}.skip")
    assert value_of(cluster) == "two", "the objects of a removed manifest stay"
    cluster.kubectl("-n default delete configmap contract-after")


@pytest.fixture
def archive(cluster, pause):
    """An archive with one image that containerd does not have."""
    name, path = "example.org/contract/added-later:1", f"{DATA}/agent/contract-added-later.tar"
    cluster.run("k3s ctr images tag %s %s", pause, name)
    cluster.run("k3s ctr images export --local %s %s", path, name)
    cluster.run("k3s ctr images remove %s", name)
    assert name not in images(cluster)
    cluster.run("mkdir -p %s", IMAGES)
    yield Archive(cluster, name, path, f"{IMAGES}/contract-added-later.tar")
    cluster.run("rm -f %s %s", path, f"{IMAGES}/contract-added-later.tar")
    cluster.run("k3s ctr images remove %s", name)


class Archive:
    def __init__(self, cluster, name, path, target):
        self.cluster, self.name, self.path, self.target = cluster, name, path, target

    def put(self):
        self.cluster.run("mv %s %s", self.path, self.target)
        self.cluster.until(lambda: self.name in images(self.cluster), "the image is there", timeout=40)


def images(cluster):
    """The labels of every image that containerd has."""
    lines = cluster.run("k3s ctr images list").splitlines()[1:]
    return {line.split()[0]: line.split()[-1] for line in lines if line.strip()}


def test_images_added_later_are_imported_and_pinned(cluster, archive):
    archive.put()
    assert "pinned=pinned" in images(cluster)[archive.name]


def test_with_a_cache_file_only_new_images_are_imported(cluster, node, archive):
    cache = f"{IMAGES}/.cache.json"
    had = cluster.host.file(cache).exists
    cluster.run("touch %s", cache)
    try:
        archive.put()
        cluster.until(
            lambda: "contract-added-later" in cluster.run("cat %s", cache), "the import is remembered", timeout=20
        )
        cursor = log_end(cluster)
        restart(cluster, node)
        assert "pinned=pinned" in images(cluster)[archive.name]
        assert not re.search(r"(?i)import.*contract-added-later", log_after(cluster, cursor))
    finally:
        if not had:
            cluster.run("rm %s", cache)


# --- configuration --------------------------------------------------------------------------------------------------

ALTERATIONS = {
    f"{CONFIG}.d/90-contract.yaml": 'kubelet-arg+:\n  - max-pods=77\ndisable+:\n  - coredns\nwrite-kubeconfig-mode: "0640"\ntls-san+: [lab.contract.test]\n',
    f"{CONFIG}.d/91-contract.yaml": "kubelet-arg+:\n  - registry-qps=7\n",
    f"{DATA}/agent/etc/kubelet.conf.d/90-contract.conf": "apiVersion: kubelet.config.k8s.io/v1beta1\nkind: KubeletConfiguration\ncontainerLogMaxFiles: 3\n",
    f"{DATA}/agent/etc/containerd/config-v3.toml.d/90-contract.toml": (
        "version = 3\n[plugins.'io.containerd.cri.v1.runtime']\n  max_container_log_line_size = 12345\n"
    ),
    f"{DATA}/agent/etc/containerd/config-v3.toml.tmpl": '{{ template "base" . }}\n# contract template\n',
}


@pytest.fixture(scope="class")
def altered(cluster, node, standin):
    """A restart with drop-ins of every kind, and one more without them."""
    cluster.kubectl("-n kube-system wait deployment/coredns --for=condition=Available --timeout=60s")
    cluster.write(f"{DATA}/server/manifests/coredns.yaml.before", "")
    for path, content in ALTERATIONS.items():
        cluster.run("test ! -e %s", path)
        cluster.run("mkdir -p %s", path.rsplit("/", 1)[0])
        cluster.write(path, content)
    try:
        restart(cluster, node)
        yield
    finally:
        for path in [*ALTERATIONS, f"{DATA}/server/manifests/coredns.yaml.before"]:
            cluster.run("rm -f %s", path)
        restart(cluster, node)
        cluster.until(
            lambda: (
                cluster.kubectl("-n kube-system get deployment coredns -o jsonpath='{.status.availableReplicas}'")
                == "1"
            ),
            "CoreDNS is back",
            timeout=90,
        )


@pytest.mark.usefixtures("altered")
class TestAltered:
    def configz(self, cluster, node):
        return json.loads(cluster.kubectl(f"get --raw=/api/v1/nodes/{node}/proxy/configz"))["kubeletconfig"]

    def test_lists_of_several_files_add_up(self, cluster, node):
        cluster.until(
            lambda: cluster.json(f"get node {node}")["status"]["capacity"]["pods"] == "77", "the node takes 77 pods"
        )
        assert self.configz(cluster, node)["registryPullQPS"] == 7

    def test_kubelet_fragments(self, cluster, node):
        assert self.configz(cluster, node)["containerLogMaxFiles"] == 3

    def test_containerd_template_and_fragments(self, cluster, host):
        assert host.file(f"{DATA}/agent/etc/containerd/config.toml").contains("^# contract template$")
        dump = cluster.run(
            f"{DATA}/data/current/bin/containerd --config {DATA}/agent/etc/containerd/config.toml config dump"
        )
        assert re.search(r"max_container_log_line_size = 12345", dump)
        assert f"{DATA}/agent/etc/cni/net.d" in dump, "a fragment replaces the rest of its section"

    def test_kubeconfig_mode(self, host):
        assert oct(host.file(KUBECONFIG).mode) == oct(0o640)

    def test_names_of_the_server(self, cluster):
        text = cluster.run(
            "openssl x509 -noout -ext subjectAltName -in %s", f"{DATA}/server/tls/serving-kube-apiserver.crt"
        )
        assert "DNS:lab.contract.test" in text
        assert "IP Address:10.43.0.1" in text

    def test_disabled_component_is_removed(self, cluster, host):
        cluster.until(
            lambda: not cluster.kubectl("-n kube-system get deployment coredns -o name --ignore-not-found"),
            "CoreDNS is gone",
        )
        cluster.until(lambda: not host.file(f"{DATA}/server/manifests/coredns.yaml").exists, "its manifest is gone")


# --- service --------------------------------------------------------------------------------------------------------


def test_unit(cluster):
    shown = dict(
        line.split("=", 1)
        for line in cluster.run("systemctl show k3s -p Type,KillMode,Delegate,Restart,ActiveState").splitlines()
    )
    assert shown == {
        "Type": "notify",
        "KillMode": "process",
        "Delegate": "yes",
        "Restart": "always",
        "ActiveState": "active",
    }


def test_restart_keeps_the_pods(cluster, node, pod):
    before = pod()
    manifest = f"{DATA}/server/manifests/coredns.yaml"
    cluster.run("echo '# edited' >> %s", manifest)
    restart(cluster, node)
    assert pod() == before
    assert "# edited" not in cluster.run("cat %s", manifest), "a packaged manifest is written anew at a start"


def test_active_means_ready(cluster, node):
    """At no moment of a start does systemd say active while the API server is not ready."""
    script = textwrap.dedent("""
        systemctl stop k3s
        systemctl start --no-block k3s
        seen=
        for i in $(seq 600); do
            state=$(systemctl is-active k3s)
            ready=$(k3s kubectl get --raw=/readyz 2>/dev/null)
            if [ "$state" = active ]; then echo "active ready=$ready waited=$seen"; exit; fi
            seen=$state
            sleep 0.05
        done
        echo "never active"
    """)
    assert cluster.run("sh -c %s", script).strip() == "active ready=ok waited=activating"
    wait_ready(cluster, node)


@pytest.mark.parametrize("component", COMPONENTS)
def test_killed_component_comes_back(cluster, node, pod, component):
    supervisor = main_pid(cluster)
    found = cluster.host.run("pgrep -x -P %s %s", str(supervisor), component[:15])
    if found.rc != 0:
        pytest.skip(f"{component} is no process of its own here")
    before, old = pod(), found.stdout.strip()
    cursor = log_end(cluster)
    cluster.run("kill -9 %s", old)
    cluster.until(
        lambda: cluster.run("pgrep -x -P %s %s", str(supervisor), component[:15]).strip() != old,
        f"{component} runs again",
        timeout=20,
    )
    wait_ready(cluster, node)
    assert main_pid(cluster) == supervisor, "the service itself was restarted"
    assert pod() == before
    assert re.search(rf"{component} ended.*signal: killed", log_after(cluster, cursor))


def test_stops_in_seconds_and_leaves_the_pods(cluster, node, pod):
    before = pod()
    shims = set(cluster.run("pgrep -f %s", f"^{DATA}/data/.*/containerd-shim").split())
    pid = main_pid(cluster)
    children = cluster.run("pgrep -P %s", str(pid)).split()
    took = cluster.run("a=$(date +%s%N); systemctl stop k3s; b=$(date +%s%N); echo $(( (b - a) / 1000000 ))")
    try:
        assert int(took) < 15000
        assert cluster.run("systemctl show -p Result --value k3s").strip() == "success"
        left = cluster.host.run("ps -o pid=,comm= -p %s", ",".join([str(pid), *children]))
        assert left.stdout == "", "processes are left"
        assert set(cluster.run("pgrep -f %s", f"^{DATA}/data/.*/containerd-shim").split()) == shims
    finally:
        cluster.run("systemctl start k3s")
    wait_ready(cluster, node)
    assert pod() == before


def test_killed_service_leaves_nothing_behind_and_comes_back(cluster, node, pod):
    before = pod()
    pid = main_pid(cluster)
    cluster.run("kill -9 %s", str(pid))
    cluster.until(
        lambda: cluster.host.run("pgrep -x kube-apiserver").rc != 0 or main_pid(cluster) not in (0, pid),
        "no API server",
        4,
    )
    cluster.until(lambda: main_pid(cluster) not in (0, pid), "systemd starts it again", timeout=30)
    cluster.until(lambda: cluster.run("systemctl is-active k3s").strip() == "active", "active", timeout=120)
    wait_ready(cluster, node)
    assert len(cluster.run("pgrep -f %s", f"^{DATA}/data/.*/kube-apiserver").split()) <= 1
    assert pod() == before


# --- certificates ---------------------------------------------------------------------------------------------------


def days_left(cluster, path):
    end = cluster.run("openssl x509 -noout -enddate -in %s", path).split("=", 1)[1].strip()
    return int(cluster.run("echo $(( ($(date +%%s -d %s) - $(date +%%s)) / 86400 ))", end))


def test_lifetimes(cluster):
    assert 3600 < days_left(cluster, f"{DATA}/server/tls/server-ca.crt") <= 3650
    assert 120 <= days_left(cluster, f"{DATA}/server/tls/serving-kube-apiserver.crt") <= 365


def test_certificates_are_renewed_by_a_start(cluster, node):
    """A certificate with 119 days left is made anew, one with 121 stays."""
    tls = f"{DATA}/server/tls"
    for name, subject, days in (
        ("client-scheduler", "system:kube-scheduler", 119),
        ("client-controller", "system:kube-controller-manager", 121),
    ):
        cluster.run(
            f"openssl req -new -key {tls}/{name}.key -subj /CN={subject} -out /tmp/contract.csr && "
            "printf 'keyUsage=digitalSignature\\nextendedKeyUsage=clientAuth\\n' > /tmp/contract.ext && "
            f"openssl x509 -req -in /tmp/contract.csr -CA {tls}/client-ca.crt -CAkey {tls}/client-ca.key -set_serial 0x{days} "
            f"-days {days} -extfile /tmp/contract.ext -out {tls}/{name}.crt && rm /tmp/contract.csr /tmp/contract.ext"
        )
    assert days_left(cluster, f"{tls}/client-scheduler.crt") in (118, 119)
    assert "WARNING" in cluster.run("k3s certificate check --output table")
    restart(cluster, node)
    assert days_left(cluster, f"{tls}/client-scheduler.crt") > 360
    assert days_left(cluster, f"{tls}/client-controller.crt") in (120, 121)


def test_rotation_needs_a_stopped_service(cluster, node):
    serial = "openssl x509 -noout -serial -in %s"
    path = f"{DATA}/server/tls/client-controller.crt"
    before = cluster.run(serial, path)
    assert "stop" in cluster.fails("k3s certificate rotate --service controller-manager")
    cluster.run("systemctl stop k3s")
    try:
        cluster.run("k3s certificate rotate --service controller-manager")
    finally:
        cluster.run("systemctl start k3s")
    wait_ready(cluster, node)
    assert cluster.run(serial, path) != before
    assert days_left(cluster, path) > 360
