// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/notify"
	"gsb.fake_gpu_lab/standins/k3s/internal/process"
)

// giveUpAfter is how often in a row a component may end before it was ever
// ready. Then the service fails, rather than never becoming ready.
const giveUpAfter = 6

// Server is a running control plane and node.
type Server struct {
	config   *config.Config
	layout   *Layout
	notifier *notify.Notifier
	out      io.Writer
	log      *slog.Logger

	mu       sync.Mutex
	children []*process.Process
	fatal    chan error
}

// NewServer prepares everything that can be wrong before a process starts.
func NewServer(c *config.Config, bin string, n *notify.Notifier, out io.Writer, log *slog.Logger) (*Server, error) {
	layout, err := NewLayout(c, bin)
	if err != nil {
		return nil, err
	}
	return &Server{config: c, layout: layout, notifier: n, out: out, log: log, fatal: make(chan error, 16)}, nil
}

// Run works until the context ends, and returns when all components stopped.
func (s *Server) Run(ctx context.Context) error {
	unlock, err := s.lock()
	if err != nil {
		return err
	}
	defer unlock()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for _, line := range s.config.Ignored() {
		s.log.Warn(line)
	}
	began := time.Now()
	if err := s.prepare(); err != nil {
		return err
	}
	s.log.Info("prepared", "node", s.layout.NodeName, "address", s.layout.NodeIP.String(), "took", since(began))

	var background sync.WaitGroup
	spawn := func(work func()) {
		background.Add(1)
		go func() { defer background.Done(); work() }()
	}
	spawn(func() {
		if err := s.bringUp(ctx, began, spawn); err != nil && ctx.Err() == nil {
			s.fatal <- err
		}
	})
	select {
	case <-ctx.Done():
	case err = <-s.fatal:
		s.log.Error("giving up", "reason", err.Error())
	}
	stopping := time.Now()
	if e := s.notifier.Stopping(); e != nil {
		s.log.Warn("systemd is not told", "reason", e.Error())
	}
	cancel()
	background.Wait()
	s.stopChildren()
	s.log.Info("stopped; the pods go on running", "took", since(stopping))
	return err
}

func since(t time.Time) string { return time.Since(t).Round(time.Millisecond).String() }

func (s *Server) lock() (func(), error) {
	if err := os.MkdirAll(s.layout.server(), 0o700); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(LockFile(s.layout.DataDir), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	// The children of a killed server die with it, but not at once.
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		if err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err == nil {
			return func() { f.Close() }, nil
		}
		if time.Now().After(deadline) {
			f.Close()
			return nil, fmt.Errorf("another k3s server runs on %s", s.layout.DataDir)
		}
	}
}

func (s *Server) prepare() error {
	l := s.layout
	for dir, mode := range map[string]os.FileMode{
		l.server(): 0o700, l.server("tls"): 0o700, l.server("cred"): 0o700, l.server("db"): 0o700,
		l.agent(): 0o755, l.agent("etc"): 0o755,
		RunDir: 0o711, RunDir + "/etcd": 0o700,
		"/var/lib/kubelet": 0o750,
	} {
		if err := os.MkdirAll(dir, mode); err != nil {
			return err
		}
		if err := os.Chmod(dir, mode); err != nil {
			return err
		}
	}
	var err error
	if l.SystemdCgroup, err = l.usesSystemdCgroups(s.config); err != nil {
		return err
	}
	return errors.Join(
		l.ensureCertificates(s.config, s.log, time.Now()),
		l.ensureToken(s.config),
		l.ensureNodePassword(),
		l.writeAdminKubeconfig(s.config),
		l.writeContainerdConfig(s.config, s.log),
		l.writeKubeletConfig(s.config),
		l.writeNetworkConfig(s.config),
		l.newAddons(s.config, s.log).writePackaged(),
	)
}

// bringUp starts the components in the order in which they need each other.
func (s *Server) bringUp(ctx context.Context, began time.Time, spawn func(func())) error {
	l, c := s.layout, s.config
	bridgeFilter := prepareKernel(s.log)
	var up sync.Map // Components that worked once.

	s.status("starting the datastore and containerd")
	s.start(process.Spec{Name: "etcd", Path: l.program("etcd"), Args: l.etcdArgs(c), Grace: 5 * time.Second,
		Before: func() error { return removeSockets(RunDir + "/etcd") }}, &up)
	s.start(process.Spec{Name: "containerd", Path: l.program("containerd"), Grace: 5 * time.Second,
		Args: []string{"--config", l.agent("etc", "containerd", "config.toml")}}, &up)

	imagesDone := make(chan struct{})
	spawn(func() {
		defer close(imagesDone)
		if !until(ctx, 20*time.Millisecond, func() bool { return dialable(ContainerdSocket) }) {
			return
		}
		up.Store("containerd", true)
		s.log.Info("containerd is up", "after", since(began))
		images := l.newImages(c, s.log)
		images.importAll(ctx)
		spawn(func() { images.watch(ctx) })
	})

	if !until(ctx, 20*time.Millisecond, func() bool { return dialable(etcdSocket) }) {
		return ctx.Err()
	}
	up.Store("etcd", true)
	s.log.Info("the datastore is up", "after", since(began))
	s.status("starting the API server")
	// It would wait for the watches of the pods, a minute at most; all that it
	// knows is in the datastore by then.
	s.start(process.Spec{Name: "kube-apiserver", Path: l.program("kube-apiserver"), Args: l.apiserverArgs(c), Grace: 2 * time.Second}, &up)
	api, err := l.newAPIClient()
	if err != nil {
		return err
	}
	if !until(ctx, 100*time.Millisecond, func() bool { return api.ready(ctx) == nil }) {
		return ctx.Err()
	}
	up.Store("kube-apiserver", true)
	s.log.Info("Kube API server is now running", "after", since(began))
	if err := s.notifier.Ready("the API server is ready"); err != nil {
		return fmt.Errorf("systemd is not told: %w", err)
	}
	s.log.Info("k3s is up and running", "after", since(began))

	s.start(process.Spec{Name: "kube-controller-manager", Path: l.program("kube-controller-manager"), Args: l.controllerManagerArgs(c), Grace: 5 * time.Second}, nil)
	if !c.Bool("disable-scheduler") {
		s.start(process.Spec{Name: "kube-scheduler", Path: l.program("kube-scheduler"), Args: l.schedulerArgs(c), Grace: 5 * time.Second}, nil)
	}
	addons := l.newAddons(c, s.log)
	spawn(func() { addons.watch(ctx) })
	spawn(func() { l.followNodes(ctx, api, s.log) })

	select {
	case <-imagesDone:
	case <-ctx.Done():
		return ctx.Err()
	}
	s.start(process.Spec{Name: "kubelet", Path: l.program("kubelet"), Args: l.kubeletArgs(c), Grace: 5 * time.Second}, nil)
	if !c.Bool("disable-kube-proxy") {
		s.start(process.Spec{Name: "kube-proxy", Path: l.program("kube-proxy"), Args: l.proxyArgs(c, bridgeFilter), Grace: 5 * time.Second}, nil)
	}
	s.log.Info("all components are started", "after", since(began))
	return nil
}

func (s *Server) status(text string) {
	if err := s.notifier.Status(text); err != nil {
		s.log.Warn("systemd is not told", "reason", err.Error())
	}
}

func (s *Server) start(spec process.Spec, up *sync.Map) {
	spec.Env = s.layout.childEnv()
	if up != nil {
		spec.OnExit = func(early int, reason string) {
			if _, worked := up.Load(spec.Name); !worked && early >= giveUpAfter {
				s.fatal <- fmt.Errorf("%s ended %d times and was never ready: %s", spec.Name, early, reason)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.children = append(s.children, process.Start(spec, s.out, s.log))
}

// stopChildren stops the users of a component before the component.
func (s *Server) stopChildren() {
	s.mu.Lock()
	children := s.children
	s.mu.Unlock()
	for _, rank := range [][]string{
		{"kubelet", "kube-proxy", "kube-controller-manager", "kube-scheduler"},
		{"kube-apiserver", "containerd"},
		{"etcd"},
	} {
		var wait sync.WaitGroup
		for _, name := range rank {
			for _, child := range children {
				if child.Name() == name {
					wait.Add(1)
					go func() { defer wait.Done(); child.Stop() }()
				}
			}
		}
		wait.Wait()
	}
}

func until(ctx context.Context, every time.Duration, done func() bool) bool {
	for !done() {
		select {
		case <-ctx.Done():
			return false
		case <-time.After(every):
		}
	}
	return true
}

func removeSockets(dir string) error {
	files, err := filepath.Glob(filepath.Join(dir, "*.sock"))
	for _, f := range files {
		err = errors.Join(err, os.Remove(f))
	}
	return err
}

// LockFile is held by the server that runs on a data folder.
func LockFile(dataDir string) string { return filepath.Join(dataDir, "server", ".lock") }
