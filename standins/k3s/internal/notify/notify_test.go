// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package notify

import (
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func listen(t *testing.T, name string) *net.UnixConn {
	t.Helper()
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { socket.Close() })
	return socket
}

func received(t *testing.T, socket *net.UnixConn) string {
	t.Helper()
	if err := socket.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 1000)
	n, err := socket.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestNotify(t *testing.T) {
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), "@gsb-notify-test-" + filepath.Base(t.TempDir())} {
		socket := listen(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "1")
		n := Take()
		for _, variable := range []string{"NOTIFY_SOCKET", "WATCHDOG_USEC"} {
			if _, there := os.LookupEnv(variable); there {
				t.Errorf("children would see %s", variable)
			}
		}
		for _, step := range []struct {
			send func() error
			want string
		}{
			{func() error { return n.Status("starting") }, "STATUS=starting"},
			{func() error { return n.Ready("up") }, "READY=1\nSTATUS=up"},
			{n.Stopping, "STOPPING=1\nSTATUS=stopping"},
		} {
			if err := step.send(); err != nil {
				t.Fatal(err)
			}
			if got := received(t, socket); got != step.want {
				t.Errorf("sent %q, want %q", got, step.want)
			}
		}
	}
}

func TestWithoutSystemd(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if err := Take().Ready("up"); err != nil {
		t.Error(err)
	}
}

func TestDeadSocket(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "nobody"))
	if Take().Ready("up") == nil {
		t.Error("nobody heard it, and nobody was told")
	}
}
