// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package process

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if file := os.Getenv("SUPERVISE"); file != "" {
		// The test binary as a supervisor that is to be killed.
		p := Start(Spec{Name: "child", Path: "/bin/sleep", Args: []string{"1000"}}, io.Discard, slog.New(slog.DiscardHandler))
		for p.Pid() == 0 {
			time.Sleep(time.Millisecond)
		}
		if err := os.WriteFile(file, []byte(strconv.Itoa(p.Pid())), 0o600); err != nil {
			panic(err)
		}
		select {}
	}
	firstDelay, maxDelay, settled = time.Millisecond, 5*time.Millisecond, 300*time.Millisecond
	os.Exit(m.Run())
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func start(t *testing.T, script string, change func(*Spec)) (p *Process, out, log *buffer) {
	t.Helper()
	out, log = &buffer{}, &buffer{}
	spec := Spec{Name: "part", Path: "/bin/sh", Args: []string{"-c", script}, Env: []string{"PATH=/usr/bin:/bin"}, Grace: 10 * time.Second}
	if change != nil {
		change(&spec)
	}
	p = Start(spec, out, slog.New(slog.NewTextHandler(log, nil)))
	t.Cleanup(p.Stop)
	return p, out, log
}

func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never: " + what)
		}
	}
}

func alive(pid int) bool {
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && !strings.Contains(string(state), ") Z ")
}

func TestStartedAgainWithItsReason(t *testing.T) {
	_, out, log := start(t, "echo hello; echo 'E0102 something failed' >&2; echo bye; exit 3", nil)
	eventually(t, "three starts", func() bool { return strings.Count(out.String(), "part: hello\n") >= 3 })
	eventually(t, "the reason", func() bool {
		return strings.Contains(log.String(), "part ended") && strings.Contains(log.String(), "exit status 3: E0102 something failed")
	})
}

func TestKilledChildComesBack(t *testing.T) {
	p, _, log := start(t, "exec sleep 1000", nil)
	eventually(t, "running", func() bool { return p.Pid() != 0 })
	first := p.Pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "running again", func() bool { return p.Pid() != 0 && p.Pid() != first })
	if !strings.Contains(log.String(), "signal: killed") {
		t.Errorf("the log does not say why: %s", log)
	}
}

func TestMissingProgram(t *testing.T) {
	_, _, log := start(t, "", func(s *Spec) { s.Path = "/nonexistent" })
	eventually(t, "the reason", func() bool { return strings.Contains(log.String(), "no such file") })
}

func TestPreparationFails(t *testing.T) {
	p, out, log := start(t, "echo ran", func(s *Spec) { s.Before = func() error { return os.ErrPermission } })
	eventually(t, "the reason", func() bool { return strings.Contains(log.String(), "permission denied") })
	p.Stop()
	if out.String() != "" {
		t.Error("the program ran all the same")
	}
}

func TestEarlyEndsAreCounted(t *testing.T) {
	var mu sync.Mutex
	var counts []int
	start(t, "exit 1", func(s *Spec) {
		s.OnExit = func(early int, _ string) {
			mu.Lock()
			defer mu.Unlock()
			counts = append(counts, early)
		}
	})
	eventually(t, "four ends", func() bool { mu.Lock(); defer mu.Unlock(); return len(counts) >= 4 })
	mu.Lock()
	defer mu.Unlock()
	for i, n := range counts {
		if n != i+1 {
			t.Fatalf("counted %v", counts)
		}
	}
}

func TestCountStartsAnewAfterALongRun(t *testing.T) {
	var mu sync.Mutex
	var counts []int
	start(t, "sleep 0.4; exit 1", func(s *Spec) {
		s.OnExit = func(early int, _ string) {
			mu.Lock()
			defer mu.Unlock()
			counts = append(counts, early)
		}
	})
	eventually(t, "three ends", func() bool { mu.Lock(); defer mu.Unlock(); return len(counts) >= 3 })
	mu.Lock()
	defer mu.Unlock()
	if fmt.Sprint(counts[:3]) != "[1 1 1]" {
		t.Errorf("counted %v", counts)
	}
}

func TestStopsWithSIGTERM(t *testing.T) {
	p, out, _ := start(t, "trap 'echo cleaned up; exit 0' TERM; echo ready; while :; do sleep 0.05; done", nil)
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "ready") })
	pid := p.Pid()
	p.Stop()
	if alive(pid) || p.Pid() != 0 {
		t.Error("it still runs")
	}
	eventually(t, "its last words", func() bool { return strings.Contains(out.String(), "cleaned up") })
}

func TestKilledWhenItDoesNotStop(t *testing.T) {
	p, out, log := start(t, "trap '' TERM; echo ready; while :; do sleep 0.05; done", func(s *Spec) { s.Grace = 100 * time.Millisecond })
	eventually(t, "ready", func() bool { return strings.Contains(out.String(), "ready") })
	pid, began := p.Pid(), time.Now()
	p.Stop()
	if alive(pid) {
		t.Error("it still runs")
	}
	if took := time.Since(began); took < 100*time.Millisecond || took > 5*time.Second {
		t.Errorf("it took %s", took)
	}
	if !strings.Contains(log.String(), "it is killed") {
		t.Errorf("the log does not say so: %s", log)
	}
}

// What a component leaves running, as containerd leaves its shims, is not
// waited for and not killed.
func TestGrandchildrenSurvive(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	p, _, _ := start(t, "setsid sleep 1000 & echo $! > "+file+"; exec sleep 1000", nil)
	var pid int
	eventually(t, "a grandchild", func() bool {
		content, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(strings.TrimSpace(string(content)))
		return pid != 0
	})
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	began := time.Now()
	p.Stop()
	if time.Since(began) > 5*time.Second {
		t.Error("stopping waited for the grandchild")
	}
	if !alive(pid) {
		t.Error("the grandchild is gone")
	}
}

func TestChildrenDieWithAKilledSupervisor(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pid")
	supervisor := exec.Command(os.Args[0])
	supervisor.Env = append(os.Environ(), "SUPERVISE="+file)
	if err := supervisor.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	eventually(t, "a child", func() bool {
		content, _ := os.ReadFile(file)
		pid, _ = strconv.Atoi(string(content))
		return pid != 0
	})
	if !alive(pid) {
		t.Fatal("the child is not running")
	}
	if err := supervisor.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = supervisor.Wait()
	eventually(t, "the child gone", func() bool { return !alive(pid) })
}

func TestRun(t *testing.T) {
	out, err := Run(context.Background(), []string{"A=b"}, strings.NewReader("in"), "/bin/sh", "-c", `cat; echo "$A"`)
	if err != nil || out != "inb" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := Run(context.Background(), nil, nil, "/bin/sh", "-c", "echo oh no >&2; exit 4"); err == nil || err.Error() != "exit status 4: oh no" {
		t.Error(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	if _, err := Run(ctx, nil, nil, "/bin/sleep", "1000"); err == nil {
		t.Error("a program outlives its context")
	}
}
