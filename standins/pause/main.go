// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command pause holds the namespaces of a pod: it sleeps until it is told to
// stop, and as process 1 of a shared process namespace it buries the orphans.
package main

import (
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "pause: meant to be the first process of a pod")
	}
	reap()
	for received := range signals {
		if received != syscall.SIGCHLD {
			fmt.Fprintln(os.Stderr, "pause: stopping:", received)
			return
		}
		reap()
	}
}

func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err == syscall.EINTR {
			continue
		}
		if err != nil || pid <= 0 {
			return
		}
	}
}
