// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if os.Getenv("PAUSE") != "" {
		// A child that main has not started, as an orphan would be.
		orphan, err := os.StartProcess("/bin/sleep", []string{"sleep", "0.2"}, &os.ProcAttr{})
		if err != nil {
			panic(err)
		}
		fmt.Println(orphan.Pid)
		main()
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func started(t *testing.T) (*exec.Cmd, int) {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), "PAUSE=1")
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	var orphan int
	if _, err := fmt.Fscan(out, &orphan); err != nil {
		t.Fatal(err)
	}
	return command, orphan
}

func TestBuriesOrphans(t *testing.T) {
	_, orphan := started(t)
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", orphan))
		if os.IsNotExist(err) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the orphan is still there: %s", strings.TrimSpace(string(state)))
		}
	}
}

func TestStopsWhenTold(t *testing.T) {
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT} {
		command, orphan := started(t)
		// Not before it listens: the orphan's end is the first thing it hears.
		for {
			if _, err := os.Stat(fmt.Sprintf("/proc/%d", orphan)); err != nil {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if err := command.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		if err := command.Wait(); err != nil {
			t.Errorf("%s: %v", signal, err)
		}
	}
}
