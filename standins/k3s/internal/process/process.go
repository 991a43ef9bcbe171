// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package process keeps child processes running.
package process

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Spec is a program that must run.
type Spec struct {
	Name string
	Path string
	Args []string
	Env  []string
	// Grace is the time from SIGTERM to SIGKILL.
	Grace time.Duration
	// Before runs before every start.
	Before func() error
	// OnExit is told how often in a row the program ended early.
	OnExit func(early int, reason string)
}

// Timing of restarts; the tests make it shorter.
var (
	firstDelay = 200 * time.Millisecond
	maxDelay   = 10 * time.Second
	settled    = 30 * time.Second
)

// Process is a Spec being kept running.
type Process struct {
	spec Spec
	out  io.Writer
	log  *slog.Logger

	stop chan struct{}
	once sync.Once
	done chan struct{}

	mu  sync.Mutex
	pid int
}

// Start runs the program until Stop, and again whenever it ends.
func Start(spec Spec, out io.Writer, log *slog.Logger) *Process {
	p := &Process{spec: spec, out: out, log: log, stop: make(chan struct{}), done: make(chan struct{})}
	go p.keep()
	return p
}

// Name is that of the Spec.
func (p *Process) Name() string { return p.spec.Name }

// Pid is the running process, or 0.
func (p *Process) Pid() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pid
}

// Stop ends the program with SIGTERM, and with SIGKILL when its time is up.
func (p *Process) Stop() {
	p.once.Do(func() { close(p.stop) })
	<-p.done
}

func (p *Process) stopping() bool {
	select {
	case <-p.stop:
		return true
	default:
		return false
	}
}

func (p *Process) keep() {
	defer close(p.done)
	delay, early := firstDelay, 0
	for {
		began := time.Now()
		reason := p.run()
		if p.stopping() {
			return
		}
		ran := time.Since(began)
		if ran >= settled {
			delay, early = firstDelay, 0
		}
		early++
		p.log.Error(p.spec.Name+" ended; it is started again", "after", ran.Round(time.Millisecond).String(),
			"reason", reason, "in", delay.String(), "times", early)
		if p.spec.OnExit != nil {
			p.spec.OnExit(early, reason)
		}
		select {
		case <-p.stop:
			return
		case <-time.After(delay):
		}
		delay = min(2*delay, maxDelay)
	}
}

// run starts the program once and says why it ended.
func (p *Process) run() string {
	if p.spec.Before != nil {
		if err := p.spec.Before(); err != nil {
			return err.Error()
		}
	}
	// An own pipe: with exec's, Wait would also wait for grandchildren that
	// keep it open, such as container shims.
	reader, writer, err := os.Pipe()
	if err != nil {
		return err.Error()
	}
	command := exec.Command(p.spec.Path, p.spec.Args...)
	command.Args[0] = p.spec.Path
	command.Env = p.spec.Env
	command.Stdout, command.Stderr = writer, writer
	command.SysProcAttr = &syscall.SysProcAttr{
		// A terminal's Ctrl-C is for the supervisor alone.
		Setpgid: true,
		// Nothing of a dead supervisor may hold ports and the datastore.
		Pdeathsig: syscall.SIGKILL,
	}
	err = startOnLastingThread(command)
	writer.Close()
	if err != nil {
		reader.Close()
		return err.Error()
	}
	p.mu.Lock()
	p.pid = command.Process.Pid
	p.mu.Unlock()
	tail := &lastLines{}
	go copyLines(p.out, reader, p.spec.Name, tail)

	ended := make(chan error, 1)
	go func() { ended <- command.Wait() }()
	select {
	case err = <-ended:
	case <-p.stop:
		_ = command.Process.Signal(syscall.SIGTERM)
		select {
		case err = <-ended:
		case <-time.After(p.spec.Grace):
			p.log.Info(p.spec.Name+" is not done; it is killed", "after", p.spec.Grace.String())
			_ = command.Process.Kill()
			err = <-ended
		}
	}
	p.mu.Lock()
	p.pid = 0
	p.mu.Unlock()
	reason := "exit status 0"
	if err != nil {
		reason = err.Error()
	}
	if !p.stopping() {
		// What it said last may still be in the pipe.
		time.Sleep(50 * time.Millisecond)
		if said := tail.worst(); said != "" {
			reason += ": " + said
		}
	}
	return reason
}

type startRequest struct {
	command *exec.Cmd
	result  chan error
}

var (
	starter     chan startRequest
	starterOnce sync.Once
)

// startOnLastingThread starts from one thread that never ends: the kernel
// ties the parent-death signal to the thread that forked, not to the process.
func startOnLastingThread(command *exec.Cmd) error {
	starterOnce.Do(func() {
		starter = make(chan startRequest)
		go func() {
			runtime.LockOSThread()
			for r := range starter {
				r.result <- r.command.Start()
			}
		}()
	})
	r := startRequest{command, make(chan error)}
	starter <- r
	return <-r.result
}

// Run runs a program to its end and returns what it printed.
func Run(ctx context.Context, env []string, stdin io.Reader, path string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, path, args...)
	command.Env = env
	command.Stdin = stdin
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	command.WaitDelay = 2 * time.Second
	output, err := command.CombinedOutput()
	text := strings.TrimSpace(string(output))
	if err != nil && text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	return text, err
}

var outputMutex sync.Mutex

func copyLines(out io.Writer, in io.ReadCloser, name string, tail *lastLines) {
	defer in.Close()
	reader := bufio.NewReaderSize(in, 64<<10)
	for {
		line, err := reader.ReadString('\n')
		if line = strings.TrimRight(line, "\r\n"); line != "" {
			tail.add(line)
			outputMutex.Lock()
			fmt.Fprintf(out, "%s: %s\n", name, line)
			outputMutex.Unlock()
		}
		if err != nil {
			return
		}
	}
}

// lastLines remembers what a program said last.
type lastLines struct {
	mu    sync.Mutex
	lines []string
}

func (l *lastLines) add(line string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines = append(l.lines, line); len(l.lines) > 20 {
		l.lines = l.lines[1:]
	}
}

// worst is the last line that tells of an error, else the last line.
func (l *lastLines) worst() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := len(l.lines) - 1; i >= 0; i-- {
		line := strings.ToLower(l.lines[i])
		if strings.HasPrefix(line, "e") && len(line) > 1 && line[1] >= '0' && line[1] <= '9' ||
			strings.HasPrefix(line, "f") && len(line) > 1 && line[1] >= '0' && line[1] <= '9' ||
			strings.Contains(line, "error") || strings.Contains(line, "fatal") || strings.Contains(line, "panic") {
			return l.lines[i]
		}
	}
	if len(l.lines) == 0 {
		return ""
	}
	return l.lines[len(l.lines)-1]
}
