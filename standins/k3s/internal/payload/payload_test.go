// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package payload

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const launcher = "#!/bin/sh\necho the launcher\n"

// folder makes a payload to pack.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"bin/kube": "#!/bin/sh\necho kube\n", "bin/containerd": strings.Repeat("containerd", 100000), "notes": "text",
	} {
		mode := os.FileMode(0o755)
		if name == "notes" {
			mode = 0o640
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("kube", filepath.Join(dir, "bin", "alias")); err != nil {
		t.Fatal(err)
	}
	return dir
}

func pack(t *testing.T, dir string) (file string, content []byte) {
	t.Helper()
	var b bytes.Buffer
	if _, err := Pack(&b, strings.NewReader(launcher), dir); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "k3s")
	if err := os.WriteFile(file, b.Bytes(), 0o755); err != nil {
		t.Fatal(err)
	}
	return file, b.Bytes()
}

func opened(t *testing.T, file string) *Payload {
	t.Helper()
	p, err := Open(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

func TestPackAndUnpack(t *testing.T) {
	file, content := pack(t, folder(t))
	if !bytes.HasPrefix(content, []byte(launcher)) {
		t.Error("the launcher does not come first")
	}
	p, data := opened(t, file), t.TempDir()
	dir, err := p.Unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	if dir != filepath.Join(data, "data", p.Digest) {
		t.Errorf("unpacked to %s", dir)
	}
	for name, mode := range map[string]os.FileMode{"bin/kube": 0o755, "bin/containerd": 0o755, "notes": 0o644} {
		info, err := os.Stat(filepath.Join(dir, name))
		if err != nil {
			t.Error(err)
		} else if info.Mode().Perm() != mode {
			t.Errorf("%s has mode %o", name, info.Mode().Perm())
		}
	}
	for _, name := range append([]string{"alias"}, KubeNames...) {
		if target, err := os.Readlink(filepath.Join(dir, "bin", name)); err != nil || target != "kube" {
			t.Errorf("%s -> %q, %v", name, target, err)
		}
	}
}

func TestSameInputSameBytes(t *testing.T) {
	dir := folder(t)
	_, first := pack(t, dir)
	later := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(dir, "notes"), later, later); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "bin", "kube"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, second := pack(t, dir); !bytes.Equal(first, second) {
		t.Error("the same programs give other bytes")
	}
	if err := os.WriteFile(filepath.Join(dir, "notes"), []byte("tixt"), 0o640); err != nil {
		t.Fatal(err)
	}
	file, third := pack(t, dir)
	if bytes.Equal(first, third) {
		t.Error("other programs give the same bytes")
	}
	if one, _ := pack(t, folder(t)); opened(t, one).Digest == opened(t, file).Digest {
		t.Error("other programs give the same digest")
	}
}

func TestInterruptedUnpackingIsRepeated(t *testing.T) {
	file, _ := pack(t, folder(t))
	p, data := opened(t, file), t.TempDir()
	half := filepath.Join(data, "data", ".unpacking-"+p.Digest, "bin")
	if err := os.MkdirAll(half, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(half, "kube"), []byte("half"), 0o755); err != nil {
		t.Fatal(err)
	}
	dir, err := p.Unpack(data)
	if err != nil {
		t.Fatal(err)
	}
	if content, err := os.ReadFile(filepath.Join(dir, "bin", "kube")); err != nil || string(content) != "#!/bin/sh\necho kube\n" {
		t.Errorf("%q, %v", content, err)
	}
	if _, err := os.Stat(filepath.Dir(half)); !errors.Is(err, os.ErrNotExist) {
		t.Error("the half unpacked folder is still there")
	}
}

func TestSeveralUnpackAtOnce(t *testing.T) {
	file, _ := pack(t, folder(t))
	p, data := opened(t, file), t.TempDir()
	var wait sync.WaitGroup
	for range 8 {
		wait.Add(1)
		go func() {
			defer wait.Done()
			if _, err := p.Unpack(data); err != nil {
				t.Error(err)
			}
		}()
	}
	wait.Wait()
}

func TestDamageIsNoticed(t *testing.T) {
	file, content := pack(t, folder(t))
	for _, position := range []int{len(launcher) + 60, len(launcher) + 120} {
		damaged := bytes.Clone(content)
		damaged[position] ^= 0xff
		if err := os.WriteFile(file, damaged, 0o755); err != nil {
			t.Fatal(err)
		}
		p, err := Open(file)
		if err != nil {
			continue
		}
		data := t.TempDir()
		if _, err := p.Unpack(data); err == nil {
			t.Errorf("byte %d changed, and nobody noticed", position)
		}
		if p.Unpacked(data) {
			t.Error("a damaged payload counts as unpacked")
		}
		p.Close()
	}
}

func TestCutOffFile(t *testing.T) {
	file, content := pack(t, folder(t))
	if err := os.WriteFile(file, content[:len(content)-100], 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestBareLauncher(t *testing.T) {
	file := filepath.Join(t.TempDir(), "k3s")
	if err := os.WriteFile(file, []byte(launcher), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(file); !errors.Is(err, ErrNone) {
		t.Error(err)
	}
}

func TestSelect(t *testing.T) {
	data := t.TempDir()
	var digests []string
	for _, content := range []string{"one", "two", "three"} {
		dir := folder(t)
		if err := os.WriteFile(filepath.Join(dir, "notes"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		file, _ := pack(t, dir)
		p := opened(t, file)
		for range 2 { // A second start of the same version changes nothing.
			if _, err := p.Unpack(data); err != nil {
				t.Fatal(err)
			}
			if err := p.Select(data); err != nil {
				t.Fatal(err)
			}
		}
		digests = append(digests, p.Digest)
	}
	for link, want := range map[string]string{"current": digests[2], "previous": digests[1]} {
		if target, err := os.Readlink(filepath.Join(data, "data", link)); err != nil || filepath.Base(target) != want {
			t.Errorf("%s -> %s, %v", link, target, err)
		}
	}
	if _, err := os.Stat(filepath.Join(data, "data", digests[0])); !errors.Is(err, os.ErrNotExist) {
		t.Error("the oldest programs are still there")
	}
}

func TestNothingToPack(t *testing.T) {
	if _, err := Pack(&bytes.Buffer{}, strings.NewReader(launcher), t.TempDir()); err == nil {
		t.Error("an empty folder is packed")
	}
}
