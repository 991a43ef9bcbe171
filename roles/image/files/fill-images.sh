# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# Make containerd's store anew, with the containerd that ships: each archive imported, unpacked and pinned, and no trace
# of a container. The one argument is the folder of the archives.
set -eu
data=/var/lib/rancher/k3s
bin=$data/data/current/bin
address=/run/k3s/containerd/containerd.sock
systemctl stop k3s
/usr/local/bin/k3s-killall.sh
rm -rf "$data/agent/containerd"
mkdir -p /run/k3s/containerd
PATH=$bin:$PATH "$bin/containerd" --config "$data/agent/etc/containerd/config.toml" > /run/k3s/fill.log 2>&1 &
containerd=$!
stop() {
    kill "$containerd" 2> /dev/null || :
    wait "$containerd" || :
}
trap stop EXIT
for attempt in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 failed; do
    if "$bin/ctr" --address "$address" version > /dev/null 2>&1; then break; fi
    if [ "$attempt" = failed ]; then tail -n 15 /run/k3s/fill.log >&2; exit 1; fi
    sleep 0.5
done
for archive in "$1"/*.tar*; do
    "$bin/ctr" --address "$address" --namespace k8s.io images import --label io.cri-containerd.pinned=pinned "$archive"
done
# By name, without the configuration's own reference (sha256:...), which the CRI plugin makes.
wanted=$(ls "$1"/*.tar* | wc -l)
here=$("$bin/ctr" --address "$address" --namespace k8s.io images list -q labels.\"io.cri-containerd.pinned\"==pinned | grep -cv '^sha256:')
[ "$here" -ge "$wanted" ] || { echo "containerd has $here pinned images, wanted $wanted" >&2; exit 1; }
rm -f "$1"/*.tar*
sync
