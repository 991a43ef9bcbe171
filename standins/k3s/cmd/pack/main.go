// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Command pack makes the one self-extracting executable `k3s` out of the
// launcher and the folder of programs that it carries.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"gsb.fake_gpu_lab/standins/k3s/internal/payload"
)

func main() {
	out := flag.String("o", "k3s", "executable to write")
	launcher := flag.String("launcher", "k3s-launcher", "launcher to put in front")
	flag.Usage = func() {
		fmt.Fprintln(os.Stderr, "usage: pack -o OUT -launcher LAUNCHER FOLDER")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := pack(*out, *launcher, flag.Arg(0)); err != nil {
		fmt.Fprintln(os.Stderr, "pack:", err)
		os.Exit(1)
	}
}

func pack(out, launcher, folder string) error {
	for _, name := range payload.Programs {
		info, err := os.Stat(filepath.Join(folder, "bin", name))
		if err != nil {
			return fmt.Errorf("the payload lacks a program: %w", err)
		}
		if info.Mode()&0o111 == 0 {
			return fmt.Errorf("bin/%s cannot be executed", name)
		}
	}
	in, err := os.Open(launcher)
	if err != nil {
		return err
	}
	defer in.Close()
	file, err := os.CreateTemp(filepath.Dir(out), ".pack-*")
	if err != nil {
		return err
	}
	defer os.Remove(file.Name())
	digest, err := payload.Pack(file, in, folder)
	if err != nil {
		return err
	}
	if err := file.Chmod(0o755); err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	fmt.Println(digest)
	return os.Rename(file.Name(), out)
}
