// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"text/template"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/process"
)

//go:embed packaged/*.yaml
var packaged embed.FS

// absentComponents are packaged with k3s and not carried here.
var absentComponents = []string{"local-storage", "metrics-server", "servicelb", "traefik"}

// addons applies what lies in server/manifests.
type addons struct {
	layout  *Layout
	log     *slog.Logger
	disable []string
	applied map[string][sha256.Size]byte
	waiting map[string]*retry
	kubectl func(ctx context.Context, args ...string) (string, error)
}

type retry struct {
	after time.Time
	delay time.Duration
	said  string
}

func (l *Layout) newAddons(c *config.Config, log *slog.Logger) *addons {
	env := append(l.childEnv(), "KUBECONFIG="+l.server("cred", "supervisor.kubeconfig"))
	return &addons{
		layout: l, log: log, disable: c.List("disable"),
		applied: map[string][sha256.Size]byte{}, waiting: map[string]*retry{},
		kubectl: func(ctx context.Context, args ...string) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
			defer cancel()
			return process.Run(ctx, env, nil, l.program("kubectl"), args...)
		},
	}
}

// writePackaged puts the packaged manifests in their place, all but the
// disabled ones.
func (a *addons) writePackaged() error {
	dir := a.layout.server("manifests")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, name := range absentComponents {
		if !slices.Contains(a.disable, name) {
			a.log.Info("packaged component is not carried by this stand-in", "name", name)
		}
	}
	entries, err := packaged.ReadDir("packaged")
	if err != nil {
		return err
	}
	for _, name := range a.disable {
		known := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == name+".yaml" })
		if !known && !slices.Contains(absentComponents, name) {
			a.log.Warn("disable names no packaged component", "name", name)
		}
	}
	for _, e := range entries {
		if slices.Contains(a.disable, strings.TrimSuffix(e.Name(), ".yaml")) {
			continue
		}
		content, err := a.render(e.Name())
		if err != nil {
			return err
		}
		if err := atomicfile.Write(filepath.Join(dir, e.Name()), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (a *addons) render(name string) ([]byte, error) {
	source, err := packaged.ReadFile("packaged/" + name)
	if err != nil {
		return nil, err
	}
	t, err := template.New(name).Option("missingkey=error").Parse(string(source))
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, a.layout)
	return b.Bytes(), err
}

// removeDisabled uninstalls what was packaged and applied by an earlier start.
func (a *addons) removeDisabled(ctx context.Context) {
	for _, name := range a.disable {
		file := filepath.Join(a.layout.server("manifests"), name+".yaml")
		if _, err := packaged.ReadFile("packaged/" + name + ".yaml"); err != nil || !exists(file) {
			continue
		}
		if _, err := a.kubectl(ctx, "delete", "--ignore-not-found", "--wait=false", "-f", file); err != nil {
			a.log.Error("disabled component is not removed", "name", name, "reason", err.Error())
			continue
		}
		if err := os.Remove(file); err != nil {
			a.log.Error("manifest of a disabled component is not removed", "name", name, "reason", err.Error())
			continue
		}
		a.log.Info("disabled component removed", "name", name)
	}
}

// watch applies every manifest, and each again whenever it changes.
func (a *addons) watch(ctx context.Context) {
	a.removeDisabled(ctx)
	for {
		a.scan(ctx, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
	}
}

func (a *addons) scan(ctx context.Context, now time.Time) {
	files, err := a.files()
	if err != nil {
		a.log.Error("cannot read the manifests", "reason", err.Error())
	}
	present := map[string]bool{}
	for _, file := range files {
		present[file] = true
		content, err := os.ReadFile(file)
		if err != nil {
			continue // Gone since it was listed; the next look will tell.
		}
		sum := sha256.Sum256(content)
		if a.applied[file] == sum {
			continue
		}
		again := a.waiting[file]
		if again != nil && now.Before(again.after) {
			continue
		}
		if _, err := a.kubectl(ctx, "apply", "--server-side", "--force-conflicts", "--field-manager=deploy@"+a.layout.NodeName, "-f", file); err != nil {
			if ctx.Err() != nil {
				return
			}
			if again == nil {
				again = &retry{delay: time.Second}
				a.waiting[file] = again
			}
			again.delay = min(2*again.delay, 30*time.Second)
			again.after = now.Add(again.delay)
			if again.said != err.Error() {
				again.said = err.Error()
				a.log.Error("manifest is not applied; it is tried again", "file", file, "reason", err.Error())
			}
			continue
		}
		delete(a.waiting, file)
		a.applied[file] = sum
		a.log.Info("manifest applied", "file", file)
	}
	for file := range a.applied {
		if !present[file] {
			delete(a.applied, file) // Its objects stay, as they do in k3s.
		}
	}
}

var addonName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)

// files lists the manifests that are to be applied.
func (a *addons) files() ([]string, error) {
	root := a.layout.server("manifests")
	var files []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		extension := strings.ToLower(filepath.Ext(path))
		if d.IsDir() || strings.HasPrefix(d.Name(), ".") || (extension != ".yaml" && extension != ".yml" && extension != ".json") {
			return nil
		}
		name := strings.TrimSuffix(d.Name(), filepath.Ext(d.Name()))
		if exists(path+".skip") || filepath.Dir(path) == root && slices.Contains(a.disable, name) {
			return nil
		}
		if !addonName.MatchString(name) {
			if a.waiting[path] == nil {
				a.waiting[path] = &retry{}
				a.log.Error("manifest is not applied: its name must be lower-case letters, digits, '-' and '.'", "file", path)
			}
			return nil
		}
		files = append(files, path)
		return nil
	})
	sort.Strings(files)
	return files, err
}
