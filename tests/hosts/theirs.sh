#!/bin/sh
# SPDX-License-Identifier: GPL-3.0-or-later
# Copyright: (c) 2026, gsb.fake_gpu_lab contributors
# What somebody else has on a host, beside the places where the lab puts something: it has to outlive the lab.
set -eu
ip netns add theirs
iptables -A INPUT -p tcp --dport 1 -m comment --comment theirs -j ACCEPT
for folder in /etc/rancher /root/.kube /usr/local/bin /var/lib/cni/networks; do
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
