// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
)

// store stands in for containerd.
type store struct {
	imports int
	content [][]byte
	pulled  []string
	present []string
	fail    error
}

func stocked(t *testing.T) (*images, *store, string) {
	t.Helper()
	l, c := laidOut(t)
	m, s := l.newImages(c, quiet), &store{}
	m.importArchive = func(_ context.Context, archive io.Reader) error {
		content, err := io.ReadAll(archive)
		if err != nil {
			return err
		}
		s.imports++
		s.content = append(s.content, content)
		return s.fail
	}
	m.pull = func(_ context.Context, image string) error { s.pulled = append(s.pulled, image); return s.fail }
	m.list = func(context.Context) ([]string, error) { return s.present, nil }
	return m, s, l.agent("images")
}

func tarball(t *testing.T, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for name, content := range files {
		if err := w.WriteHeader(&tar.Header{Name: name, Size: int64(len(content)), Mode: 0o644}); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, content); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const dockerManifest = `[{"Config":"x","RepoTags":["rancher/pause:3","busybox:1"],"Layers":[]}]`

func TestNamesInArchives(t *testing.T) {
	for name, test := range map[string]struct {
		files map[string]string
		want  []string
	}{
		"docker": {map[string]string{"manifest.json": dockerManifest, "layer.tar": "x"}, []string{"docker.io/library/busybox:1", "docker.io/rancher/pause:3"}},
		"oci": {map[string]string{"index.json": `{"manifests":[{"annotations":{"io.containerd.image.name":"ghcr.io/a/b:1"}},` +
			`{"annotations":{"org.opencontainers.image.ref.name":"registry.k8s.io/c:2"}},{"annotations":{"org.opencontainers.image.ref.name":"3"}}]}`},
			[]string{"ghcr.io/a/b:1", "registry.k8s.io/c:2"}},
		"none": {map[string]string{"readme": "x"}, []string{}},
	} {
		got, err := archiveImages(bytes.NewReader(tarball(t, test.files)))
		if err != nil || !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := archiveImages(bytes.NewReader(tarball(t, map[string]string{"manifest.json": "{"}))); err == nil {
		t.Error("a broken manifest is accepted")
	}
}

func TestArchivesOfEveryKind(t *testing.T) {
	m, s, dir := stocked(t)
	plain := tarball(t, map[string]string{"manifest.json": dockerManifest})
	var zipped, zstandard bytes.Buffer
	g := gzip.NewWriter(&zipped)
	z, err := zstd.NewWriter(&zstandard)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{g, z} {
		if _, err := w.Write(plain); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(dir, "a.tar"), string(plain))
	write(t, filepath.Join(dir, "b.tgz"), zipped.String())
	write(t, filepath.Join(dir, "c.TAR.ZST"), zstandard.String())
	write(t, filepath.Join(dir, "list.txt"), "# wanted\nexample.org/x:1\n\nexample.org/y:2\n")
	write(t, filepath.Join(dir, "readme.md"), "x")
	write(t, filepath.Join(dir, ".part.tar"), "x")
	write(t, filepath.Join(dir, "sub", "d.tar"), "x")
	m.importAll(context.Background())
	if s.imports != 3 {
		t.Errorf("%d archives imported", s.imports)
	}
	for _, content := range s.content {
		if !bytes.Equal(content, plain) {
			t.Error("an archive is not decompressed, or cut off")
		}
	}
	if !slices.Equal(s.pulled, []string{"example.org/x:1", "example.org/y:2"}) {
		t.Errorf("pulled %q", s.pulled)
	}
}

func TestFilesAddedLater(t *testing.T) {
	m, s, dir := stocked(t)
	ctx := context.Background()
	m.importAll(ctx)
	file := filepath.Join(dir, "a.tar")
	write(t, file, string(tarball(t, map[string]string{"manifest.json": dockerManifest})))
	m.scan(ctx, true)
	if s.imports != 0 {
		t.Error("a file is imported while it may still be written to")
	}
	at := func(age time.Duration) {
		if err := os.Chtimes(file, time.Now().Add(-age), time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	at(10 * time.Second)
	m.scan(ctx, true)
	m.scan(ctx, true)
	if s.imports != 1 {
		t.Errorf("%d imports", s.imports)
	}
	at(5 * time.Second)
	m.scan(ctx, true)
	if s.imports != 2 {
		t.Error("a changed file is not imported")
	}
}

func TestFailuresAreTriedAFewTimes(t *testing.T) {
	m, s, dir := stocked(t)
	ctx := context.Background()
	write(t, filepath.Join(dir, "a.tar"), string(tarball(t, map[string]string{"manifest.json": dockerManifest})))
	s.fail = errors.New("connection refused")
	for range 10 {
		m.scan(ctx, false)
	}
	if s.imports != importAttempts {
		t.Errorf("%d attempts", s.imports)
	}
	if err := os.Chtimes(filepath.Join(dir, "a.tar"), time.Time{}, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	s.fail = nil
	m.scan(ctx, false)
	m.scan(ctx, false)
	if s.imports != importAttempts+1 {
		t.Errorf("%d attempts after a change", s.imports)
	}
}

func TestConditionalImport(t *testing.T) {
	ctx := context.Background()
	m, s, dir := stocked(t)
	write(t, filepath.Join(dir, "a.tar"), string(tarball(t, map[string]string{"manifest.json": dockerManifest})))
	again := func() int {
		n, before := *m, s.imports
		n.seen, n.failed, n.done = map[string]stamp{}, map[string]int{}, map[string]imported{}
		n.importAll(ctx)
		return s.imports - before
	}
	m.importAll(ctx)
	if exists(filepath.Join(dir, cacheFile)) {
		t.Fatal("a cache file appears unasked")
	}
	if again() != 1 {
		t.Error("without a cache file, a start must import everything")
	}
	write(t, filepath.Join(dir, cacheFile), "")
	if again() != 1 {
		t.Error("an empty cache file must not hide anything")
	}
	s.present = []string{"docker.io/library/busybox:1", "docker.io/rancher/pause:3"}
	if again() != 0 {
		t.Error("a known file is imported again")
	}
	s.present = s.present[:1]
	if again() != 1 {
		t.Error("a file whose image is gone is not imported")
	}
	s.present = []string{"docker.io/library/busybox:1", "docker.io/rancher/pause:3"}
	if err := os.Chtimes(filepath.Join(dir, "a.tar"), time.Time{}, time.Now().Add(-time.Minute)); err != nil {
		t.Fatal(err)
	}
	if again() != 1 {
		t.Error("a changed file is not imported")
	}
	write(t, filepath.Join(dir, cacheFile), "{")
	if again() != 1 {
		t.Error("a broken cache file must not hide anything")
	}
}
