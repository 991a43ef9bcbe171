#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# A host as people have them: a user who is not root, and, beside the lab's own places, what others have, which has to outlive the lab.
set -eu
ip netns add theirs
useradd --create-home --shell /bin/bash somebody
install -d -o somebody -g somebody -m 0700 /home/somebody/.ssh
install -o somebody -g somebody -m 0600 /root/.ssh/authorized_keys /home/somebody/.ssh/authorized_keys
cat > /etc/sudoers.d/somebody <<'END'
Defaults secure_path="/usr/sbin:/usr/bin:/sbin:/bin"
somebody ALL=(ALL) NOPASSWD: ALL
END
chmod 0440 /etc/sudoers.d/somebody
iptables -A INPUT -p tcp --dport 1 -m comment --comment theirs -j ACCEPT
for folder in /etc/rancher /etc/rancher/k3s /root/.kube /usr/local/bin /var/lib/cni/networks; do
    mkdir -p "$folder"
    echo theirs > "$folder/theirs"
done
mkdir -p /run/containerd/s
systemd-run --quiet --unit=theirs python3 -c '
import socket, time
listener = socket.socket(socket.AF_UNIX)
listener.bind("/run/containerd/s/theirs")
listener.listen()
time.sleep(1e6)
'
until [ -S /run/containerd/s/theirs ]; do sleep 0.1; done
