// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"archive/tar"
	"bufio"
	"compress/bzip2"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
	"gsb.fake_gpu_lab/standins/k3s/internal/config"
	"gsb.fake_gpu_lab/standins/k3s/internal/process"
)

// stamp tells whether a file is the one that was seen before.
type stamp struct {
	Size  int64     `json:"size"`
	MTime time.Time `json:"modTime"`
}

// imported is what is remembered of a file whose images were imported.
type imported struct {
	stamp
	Images []string `json:"images"`
}

// images brings what lies in agent/images into containerd.
type images struct {
	dir    string
	log    *slog.Logger
	seen   map[string]stamp
	failed map[string]int
	// done is what .cache.json says, when there is one.
	done map[string]imported

	importArchive func(ctx context.Context, archive io.Reader) error
	pull          func(ctx context.Context, image string) error
	list          func(ctx context.Context) ([]string, error)
}

const cacheFile = ".cache.json"

// importAttempts is how often an unchanged file is tried: containerd may have
// been on its way up again.
const importAttempts = 3

func (l *Layout) newImages(c *config.Config, log *slog.Logger) *images {
	env := append(l.childEnv(), "CONTAINERD_ADDRESS="+ContainerdSocket, "CONTAINERD_NAMESPACE=k8s.io",
		"CONTAINERD_SNAPSHOTTER="+c.String("snapshotter"))
	crictl := func(ctx context.Context, args ...string) (string, error) {
		return process.Run(ctx, env, nil, l.program("crictl"), append([]string{"--config", l.agent("etc", "crictl.yaml")}, args...)...)
	}
	return &images{
		dir: l.agent("images"), log: log, seen: map[string]stamp{}, failed: map[string]int{}, done: map[string]imported{},
		importArchive: func(ctx context.Context, archive io.Reader) error {
			out, err := process.Run(ctx, env, archive, l.program("ctr"), "images", "import", "--label", "io.cri-containerd.pinned=pinned", "-")
			if err != nil && out != "" {
				// What it only warns of comes first.
				lines := strings.Split(out, "\n")
				err = errors.New(lines[len(lines)-1])
			}
			return err
		},
		pull: func(ctx context.Context, image string) error {
			if _, err := crictl(ctx, "inspecti", "-q", image); err == nil {
				return nil
			}
			_, err := crictl(ctx, "--timeout", "10m", "pull", image)
			return err
		},
		list: func(ctx context.Context) ([]string, error) {
			out, err := process.Run(ctx, env, nil, l.program("ctr"), "images", "list", "-q")
			return strings.Fields(out), err
		},
	}
}

// importAll imports every file, or with a cache file only those that are new.
func (m *images) importAll(ctx context.Context) {
	if content, err := os.ReadFile(filepath.Join(m.dir, cacheFile)); err == nil {
		m.recall(ctx, content)
	}
	m.scan(ctx, false)
}

// recall believes the cache only about images that containerd still has.
func (m *images) recall(ctx context.Context, content []byte) {
	cached := map[string]imported{}
	if len(content) == 0 {
		return
	}
	if err := json.Unmarshal(content, &cached); err != nil {
		m.log.Warn("image cache is not read", "file", cacheFile, "reason", err.Error())
		return
	}
	present, err := m.list(ctx)
	if err != nil {
		m.log.Warn("images are not listed; all are imported again", "reason", err.Error())
		return
	}
	for name, entry := range cached {
		complete := len(entry.Images) > 0
		for _, image := range entry.Images {
			complete = complete && slices.Contains(present, image)
		}
		if complete {
			m.done[name] = entry
		}
	}
}

// watch imports what is added or changed later.
func (m *images) watch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(2 * time.Second):
		}
		m.scan(ctx, true)
	}
}

// scan imports files that are new since the last look. A file that may still
// be written to is left for the next look.
func (m *images) scan(ctx context.Context, settle bool) {
	entries, err := os.ReadDir(m.dir)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			m.log.Error("cannot read the images", "reason", err.Error())
		}
		return
	}
	for _, e := range entries {
		name := e.Name()
		info, err := os.Stat(filepath.Join(m.dir, name))
		if err != nil || !info.Mode().IsRegular() || strings.HasPrefix(name, ".") {
			continue
		}
		now := stamp{info.Size(), info.ModTime()}
		if m.seen[name] == now && (m.failed[name] == 0 || m.failed[name] >= importAttempts) {
			continue
		}
		if m.seen[name] != now {
			m.failed[name] = 0
		}
		if settle && time.Since(info.ModTime()) < 2*time.Second && time.Since(info.ModTime()) > -time.Hour {
			continue
		}
		m.seen[name] = now
		if d, ok := m.done[name]; ok && d.Size == now.Size && d.MTime.Equal(now.MTime) {
			m.log.Debug("images are there already", "file", name)
			continue
		}
		began := time.Now()
		refs, err := m.importFile(ctx, filepath.Join(m.dir, name))
		if err != nil {
			m.failed[name]++
			m.log.Error("images are not imported", "file", name, "reason", err.Error(), "attempt", m.failed[name], "of", importAttempts)
			delete(m.done, name)
			continue
		}
		m.failed[name] = 0
		m.log.Info("images imported", "file", name, "images", strings.Join(refs, " "), "took", time.Since(began).Round(time.Millisecond).String())
		m.done[name] = imported{now, refs}
		m.remember()
	}
}

// remember updates the cache file, which only exists when somebody wants it.
func (m *images) remember() {
	file := filepath.Join(m.dir, cacheFile)
	info, err := os.Stat(file)
	if err != nil {
		return
	}
	content, err := json.Marshal(m.done)
	if err == nil {
		err = atomicfile.Write(file, content, info.Mode().Perm())
	}
	if err != nil {
		m.log.Warn("image cache is not written", "reason", err.Error())
	}
}

func (m *images) importFile(ctx context.Context, path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if strings.HasSuffix(strings.ToLower(path), ".txt") {
		return m.pullList(ctx, f)
	}
	content, err := decompress(path, f)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	// The names are read from the same stream that is imported.
	reader, writer := io.Pipe()
	type found struct {
		refs []string
		err  error
	}
	names := make(chan found, 1)
	go func() {
		refs, err := archiveImages(reader)
		_, _ = io.Copy(io.Discard, reader)
		names <- found{refs, err}
	}()
	err = m.importArchive(ctx, io.TeeReader(content, writer))
	writer.CloseWithError(io.EOF)
	n := <-names
	if err != nil {
		return nil, err
	}
	return n.refs, n.err
}

func decompress(name string, in io.Reader) (io.ReadCloser, error) {
	name = strings.ToLower(name)
	has := func(suffixes ...string) bool {
		return slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) })
	}
	switch {
	case has(".tar"):
		return io.NopCloser(in), nil
	case has(".tar.gz", ".tgz"):
		return gzip.NewReader(in)
	case has(".tar.bz2", ".tbz"):
		return io.NopCloser(bzip2.NewReader(in)), nil
	case has(".tar.zst", ".tzst"):
		d, err := zstd.NewReader(in)
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	case has(".tar.lz4"):
		return nil, errors.New("lz4 is not read by this stand-in; use .tar, .tar.gz or .tar.zst")
	}
	return nil, errors.New("unhandled file type")
}

func (m *images) pullList(ctx context.Context, list io.Reader) ([]string, error) {
	var refs []string
	lines := bufio.NewScanner(list)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if err := m.pull(ctx, line); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		refs = append(refs, line)
	}
	return refs, lines.Err()
}

// archiveImages finds the names of the images in an archive, of docker's
// format or of OCI's.
func archiveImages(in io.Reader) ([]string, error) {
	docker, oci := map[string]bool{}, map[string]bool{}
	archive := tar.NewReader(in)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		switch header.Name {
		case "manifest.json":
			var manifest []struct{ RepoTags []string }
			if err := json.NewDecoder(archive).Decode(&manifest); err != nil {
				return nil, err
			}
			for _, entry := range manifest {
				for _, tag := range entry.RepoTags {
					docker[canonical(tag)] = true
				}
			}
		case "index.json":
			var index struct {
				Manifests []struct{ Annotations map[string]string }
			}
			if err := json.NewDecoder(archive).Decode(&index); err != nil {
				return nil, err
			}
			for _, entry := range index.Manifests {
				name := entry.Annotations["io.containerd.image.name"]
				if name == "" {
					name = entry.Annotations["org.opencontainers.image.ref.name"]
				}
				if strings.Contains(name, "/") {
					oci[canonical(name)] = true
				}
			}
		}
	}
	// An archive of both formats is read as OCI.
	found := oci
	if len(found) == 0 {
		found = docker
	}
	refs := make([]string, 0, len(found))
	for r := range found {
		refs = append(refs, r)
	}
	sort.Strings(refs)
	return refs, nil
}

// canonical gives the full name of an image.
func canonical(ref string) string {
	first, rest, found := strings.Cut(ref, "/")
	switch {
	case !found:
		return "docker.io/library/" + ref
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		return "docker.io/" + first + "/" + rest
	}
	return ref
}
