// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command k3s stands in for k3s where that cannot be had: it carries the
// unmodified Kubernetes components, containerd and the programs that they
// need, and runs them as one service.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/node"
	"gsb.fake_gpu_lab/standins/k3s/internal/notify"
	"gsb.fake_gpu_lab/standins/k3s/internal/payload"
)

// version is set when the launcher is built.
var version = "v0.0.0+standin0"

const usage = `k3s, stand-in: Kubernetes in one executable, driven as k3s is.

Usage: k3s COMMAND [ARGUMENTS]

Commands:
  server         run the control plane and the node
  kubectl        run kubectl
  crictl         run crictl
  ctr            run ctr
  check-config   look whether this host has what a node needs
  token          list and generate tokens
  certificate    check and rotate certificates
  etcd-snapshot  (not offered by this stand-in)
  completion     print a shell completion script
  help           show this text; k3s server --help shows its options

Flags:
  --version, -v  print the version
  --help, -h     show this text
`

// usageError is a mistake on the command line.
type usageError struct{ error }

func main() {
	err := run(os.Args, os.Stdout)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "k3s:", err)
	if u := (usageError{}); errors.As(err, &u) {
		os.Exit(2)
	}
	os.Exit(1)
}

func run(args []string, out io.Writer) error {
	switch name := filepath.Base(args[0]); name {
	case "kubectl", "crictl", "ctr":
		return tool(name, args[1:])
	}
	if len(args) < 2 {
		fmt.Fprint(out, usage)
		return nil
	}
	command, rest := args[1], args[2:]
	// --data-dir may stand in front of the command.
	if value, given := strings.CutPrefix(command, "--data-dir="); given && len(rest) > 0 {
		os.Setenv("K3S_DATA_DIR", value)
		command, rest = rest[0], rest[1:]
	}
	switch command {
	case "--version", "-v", "version":
		fmt.Fprintf(out, "k3s version %s (standin)\ngo version %s\n", version, runtime.Version())
		return nil
	case "help", "--help", "-h":
		fmt.Fprint(out, usage)
		return nil
	case "server":
		return server(rest, out)
	case "agent":
		return usageError{errors.New("agent: this stand-in is one node; it joins no server")}
	case "kubectl", "crictl", "ctr":
		return tool(command, rest)
	case "check-config":
		return checkConfig(out)
	case "token":
		return token(rest, out)
	case "certificate":
		return certificate(rest, out)
	case "etcd-snapshot", "secrets-encrypt":
		return fmt.Errorf("%s is not offered by this stand-in: stop the service and keep a copy of %s instead",
			command, filepath.Join(config.DataDir(rest, os.Getenv), "server"))
	case "completion":
		return completion(rest, out)
	}
	return usageError{fmt.Errorf("unknown command %q; k3s help lists them", command)}
}

func server(args []string, out io.Writer) error {
	c, err := config.Load(config.ServerOptions, args, os.Getenv)
	if errors.Is(err, config.ErrHelp) {
		fmt.Fprint(out, "Usage: k3s server [OPTIONS]\n\n", config.Usage(config.ServerOptions))
		return nil
	}
	if err != nil {
		return usageError{err}
	}
	if os.Geteuid() != 0 {
		return errors.New("server must run as root")
	}
	notifier := notify.Take()
	level := slog.LevelInfo
	if c.Bool("debug") {
		level = slog.LevelDebug
	}
	log := slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: level}))
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	signal.Ignore(syscall.SIGHUP, syscall.SIGPIPE)
	log.Info("starting k3s (stand-in)", "version", version)

	dataDir := c.String("data-dir")
	bin, err := unpack(dataDir, true)
	if err != nil {
		return err
	}
	s, err := node.NewServer(c, bin, notifier, out, log)
	if err != nil {
		return err
	}
	return s.Run(ctx)
}

// unpack returns the folder of the programs.
func unpack(dataDir string, selected bool) (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", err
	}
	p, err := payload.Open(executable)
	if err != nil {
		return "", err
	}
	defer p.Close()
	dir, err := p.Unpack(dataDir)
	if err == nil && selected {
		err = p.Select(dataDir)
	}
	return filepath.Join(dir, "bin"), err
}

// tool becomes one of the programs inside.
func tool(name string, args []string) error {
	dataDir := config.DataDir(nil, os.Getenv)
	bin, err := unpack(dataDir, false)
	if errors.Is(err, os.ErrPermission) && os.Geteuid() != 0 {
		home, homeErr := os.UserHomeDir()
		if homeErr != nil {
			return err
		}
		bin, err = unpack(filepath.Join(home, ".rancher", "k3s"), false)
	}
	if err != nil {
		return err
	}
	setDefault := func(variable, value string) {
		if os.Getenv(variable) == "" {
			os.Setenv(variable, value)
		}
	}
	switch name {
	case "kubectl":
		setDefault("KUBECONFIG", config.DefaultOutput)
	case "ctr":
		setDefault("CONTAINERD_ADDRESS", node.ContainerdSocket)
		setDefault("CONTAINERD_NAMESPACE", "k8s.io")
	case "crictl":
		for _, f := range []string{filepath.Join(dataDir, "agent/etc/crictl.yaml"), filepath.Join(config.DefaultDataDir, "agent/etc/crictl.yaml"), "/etc/crictl.yaml"} {
			if _, err := os.Stat(f); err == nil {
				setDefault("CRI_CONFIG_FILE", f)
				break
			}
		}
	}
	program := filepath.Join(bin, name)
	err = syscall.Exec(program, append([]string{name}, args...), os.Environ())
	return fmt.Errorf("%s: %w", program, err)
}
