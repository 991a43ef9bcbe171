// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package payload appends a folder of programs to an executable, and unpacks
// it again below the data folder the first time that it is needed.
//
// The payload is a zip archive with zstd-compressed entries; the comment of
// the archive holds a digest over every name, mode and content in it.
package payload

import (
	"archive/zip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sort"
	"strings"
	"sync"
	"syscall"

	"github.com/klauspost/compress/zstd"

	"gsb.fake_gpu_lab/standins/k3s/internal/atomicfile"
)

const commentPrefix = "k3s payload 1 "

// ErrNone means that the executable carries no payload.
var ErrNone = errors.New("this executable carries no payload (it is the bare launcher; pack makes the whole one)")

// item is one file or symbolic link of the payload.
type item struct {
	name string
	mode fs.FileMode
	sum  string
	path string
}

// Pack writes the launcher and, behind it, the files of folder. The same
// input gives the same bytes.
func Pack(out io.Writer, launcher io.Reader, folder string) (digest string, err error) {
	items, err := collect(folder)
	if err != nil {
		return "", err
	}
	start, err := io.Copy(out, launcher)
	if err != nil {
		return "", err
	}
	archive := zip.NewWriter(out)
	archive.SetOffset(start)
	archive.RegisterCompressor(zstd.ZipMethodWinZip, zstd.ZipCompressor(
		zstd.WithEncoderLevel(zstd.SpeedBetterCompression), zstd.WithEncoderConcurrency(1)))
	for _, it := range items {
		header := &zip.FileHeader{Name: it.name, Method: zstd.ZipMethodWinZip}
		header.SetMode(it.mode)
		w, err := archive.CreateHeader(header)
		if err != nil {
			return "", err
		}
		content, err := open(it)
		if err != nil {
			return "", err
		}
		_, err = io.Copy(w, content)
		content.Close()
		if err != nil {
			return "", err
		}
	}
	digest = digestOf(items)
	if err := archive.SetComment(commentPrefix + digest); err != nil {
		return "", err
	}
	return digest, archive.Close()
}

func collect(folder string) ([]item, error) {
	var items []item
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(folder, path)
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		it := item{name: filepath.ToSlash(name), path: path}
		switch {
		case info.Mode()&fs.ModeSymlink != 0:
			it.mode = fs.ModeSymlink | 0o777
		case info.Mode().IsRegular() && info.Mode()&0o111 != 0:
			it.mode = 0o755
		case info.Mode().IsRegular():
			it.mode = 0o644
		default:
			return fmt.Errorf("%s: neither a file nor a link", path)
		}
		content, err := open(it)
		if err != nil {
			return err
		}
		defer content.Close()
		sum := sha256.New()
		if _, err := io.Copy(sum, content); err != nil {
			return err
		}
		it.sum = hex.EncodeToString(sum.Sum(nil))
		items = append(items, it)
		return nil
	})
	if err == nil && len(items) == 0 {
		err = fmt.Errorf("%s: nothing to pack", folder)
	}
	sort.Slice(items, func(i, j int) bool { return items[i].name < items[j].name })
	return items, err
}

func open(it item) (io.ReadCloser, error) {
	if it.mode&fs.ModeSymlink == 0 {
		return os.Open(it.path)
	}
	target, err := os.Readlink(it.path)
	return io.NopCloser(strings.NewReader(target)), err
}

func digestOf(items []item) string {
	sum := sha256.New()
	for _, it := range items {
		fmt.Fprintf(sum, "%s %o %s\n", it.name, uint32(it.mode.Perm()), it.sum)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// Payload is what an executable carries.
type Payload struct {
	// Digest names the folder that it is unpacked to.
	Digest string
	file   *os.File
	zip    *zip.Reader
}

// Open finds the payload of an executable.
func Open(executable string) (*Payload, error) {
	file, err := os.Open(executable)
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err != nil {
		file.Close()
		return nil, err
	}
	archive, err := zip.NewReader(file, info.Size())
	if err != nil {
		file.Close()
		if errors.Is(err, zip.ErrFormat) {
			err = ErrNone
		}
		return nil, err
	}
	digest, ok := strings.CutPrefix(archive.Comment, commentPrefix)
	if !ok || len(digest) != 64 {
		file.Close()
		return nil, ErrNone
	}
	archive.RegisterDecompressor(zstd.ZipMethodWinZip, zstd.ZipDecompressor())
	return &Payload{Digest: digest, file: file, zip: archive}, nil
}

// Close lets go of the executable.
func (p *Payload) Close() error { return p.file.Close() }

// Dir is where the payload is unpacked to below a data folder.
func (p *Payload) Dir(dataDir string) string {
	return filepath.Join(dataDir, "data", p.Digest)
}

// Unpacked says whether it is there already.
func (p *Payload) Unpacked(dataDir string) bool {
	_, err := os.Stat(p.Dir(dataDir))
	return err == nil
}

// Unpack makes sure that the payload is unpacked, and returns its folder. A
// folder that exists is complete: it gets its name last. Several processes
// may call it at once.
func (p *Payload) Unpack(dataDir string) (string, error) {
	final := p.Dir(dataDir)
	if p.Unpacked(dataDir) {
		return final, nil
	}
	base := filepath.Join(dataDir, "data")
	if err := os.MkdirAll(base, 0o755); err != nil {
		return "", err
	}
	unlock, err := lock(filepath.Join(base, ".lock"))
	if err != nil {
		return "", err
	}
	defer unlock()
	if p.Unpacked(dataDir) {
		return final, nil
	}
	leftovers, _ := filepath.Glob(filepath.Join(base, ".unpacking-*"))
	for _, l := range leftovers {
		if err := os.RemoveAll(l); err != nil {
			return "", err
		}
	}
	partial := filepath.Join(base, ".unpacking-"+p.Digest)
	err = p.extract(partial)
	if err == nil {
		err = linkNames(filepath.Join(partial, "bin"))
	}
	if err != nil {
		os.RemoveAll(partial)
		return "", fmt.Errorf("cannot unpack to %s: %w", final, err)
	}
	if err := os.Rename(partial, final); err != nil {
		return "", err
	}
	return final, syncDir(base)
}

// Select points data/current at the payload's folder, data/previous at the
// one before it, and removes older ones that no process runs from.
func (p *Payload) Select(dataDir string) error {
	base := filepath.Join(dataDir, "data")
	unlock, err := lock(filepath.Join(base, ".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	current := filepath.Join(base, "current")
	before, err := os.Readlink(current)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if filepath.Base(before) != p.Digest {
		if before != "" {
			if err := atomicfile.Symlink(before, filepath.Join(base, "previous")); err != nil {
				return err
			}
		}
		if err := atomicfile.Symlink(p.Dir(dataDir), current); err != nil {
			return err
		}
	}
	previous, _ := os.Readlink(filepath.Join(base, "previous"))
	entries, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	for _, e := range entries {
		path := filepath.Join(base, e.Name())
		if !e.IsDir() || len(e.Name()) != 64 || e.Name() == p.Digest || e.Name() == filepath.Base(previous) || runsFrom(path) {
			continue
		}
		if err := os.RemoveAll(path); err != nil {
			return err
		}
	}
	return nil
}

// runsFrom says whether a process executes a file of the folder: a container
// shim outlives the server that started it.
func runsFrom(dir string) bool {
	links, _ := filepath.Glob("/proc/[0-9]*/exe")
	for _, l := range links {
		if target, err := os.Readlink(l); err == nil && strings.HasPrefix(target, dir+"/") {
			return true
		}
	}
	return false
}

func (p *Payload) extract(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	items := make([]item, len(p.zip.File))
	errs := make([]error, len(p.zip.File))
	slots := make(chan struct{}, runtime.NumCPU())
	var wait sync.WaitGroup
	for i, f := range p.zip.File {
		wait.Add(1)
		go func() {
			defer wait.Done()
			slots <- struct{}{}
			defer func() { <-slots }()
			items[i], errs[i] = extractOne(f, dir)
		}()
	}
	wait.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	sort.Slice(items, func(i, j int) bool { return items[i].name < items[j].name })
	if got := digestOf(items); got != p.Digest {
		return fmt.Errorf("the payload is damaged: its digest is %s, not %s", got, p.Digest)
	}
	return nil
}

func extractOne(f *zip.File, dir string) (item, error) {
	it := item{name: f.Name, mode: f.Mode()}
	if !filepath.IsLocal(f.Name) {
		return it, fmt.Errorf("%q leads out of the folder", f.Name)
	}
	path := filepath.Join(dir, f.Name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return it, err
	}
	in, err := f.Open()
	if err != nil {
		return it, err
	}
	defer in.Close()
	sum := sha256.New()
	if f.Mode()&fs.ModeSymlink != 0 {
		target, err := io.ReadAll(io.TeeReader(in, sum))
		if err != nil {
			return it, err
		}
		it.sum = hex.EncodeToString(sum.Sum(nil))
		return it, os.Symlink(string(target), path)
	}
	out, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, it.mode.Perm())
	if err != nil {
		return it, err
	}
	if _, err = io.Copy(io.MultiWriter(out, sum), in); err == nil {
		if err = out.Chmod(it.mode.Perm()); err == nil {
			err = out.Sync()
		}
	}
	it.sum = hex.EncodeToString(sum.Sum(nil))
	return it, errors.Join(err, out.Close())
}

func linkNames(bin string) error {
	for _, name := range KubeNames {
		if err := os.Symlink("kube", filepath.Join(bin, name)); err != nil {
			return err
		}
	}
	return syncDir(bin)
}

func lock(path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return func() { f.Close() }, nil
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
