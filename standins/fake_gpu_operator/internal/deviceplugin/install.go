// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package deviceplugin

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Install copies a program to the host when it is missing there, older or another one. It takes the place of the old
// file in one move: a container that has the old one mounted keeps it.
func Install(from, to string) error {
	source, err := os.Stat(from)
	if err != nil {
		return err
	}
	wanted, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	target, err := os.Stat(to)
	if err == nil && !target.ModTime().Before(source.ModTime()) {
		if present, err := os.ReadFile(to); err == nil && bytes.Equal(present, wanted) {
			return nil
		}
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(to), ".nvidia-smi-")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	if _, err := file.Write(wanted); err != nil {
		file.Close()
		return err
	}
	if err := errors.Join(file.Chmod(0o755), file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), to)
}
