// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package notify tells systemd how far the service is.
package notify

import (
	"net"
	"os"
)

// Notifier sends to the socket that systemd gave, or nowhere.
type Notifier struct{ socket string }

// Take reads the socket out of the environment and removes it there, so that
// no child process can speak for the service.
func Take() *Notifier {
	n := &Notifier{socket: os.Getenv("NOTIFY_SOCKET")}
	for _, name := range []string{"NOTIFY_SOCKET", "WATCHDOG_PID", "WATCHDOG_USEC", "LISTEN_PID", "LISTEN_FDS", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	return n
}

// Ready says that the service is up.
func (n *Notifier) Ready(status string) error { return n.send("READY=1\nSTATUS=" + status) }

// Status is shown by `systemctl status`.
func (n *Notifier) Status(status string) error { return n.send("STATUS=" + status) }

// Stopping says that the service goes down.
func (n *Notifier) Stopping() error { return n.send("STOPPING=1\nSTATUS=stopping") }

func (n *Notifier) send(state string) error {
	if n.socket == "" {
		return nil
	}
	connection, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: n.socket, Net: "unixgram"})
	if err != nil {
		return err
	}
	defer connection.Close()
	_, err = connection.Write([]byte(state))
	return err
}
