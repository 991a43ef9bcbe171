// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

// Package start is what all commands of the stand-in do first.
package start

import (
	"context"
	"log"
	"os"
	"os/signal"
	"syscall"
)

// Version of the operator that is stood in for.
const Version = "0.2.1"

// Start prints the line that tells the stand-in from the original and returns a context that ends with SIGTERM.
func Start(command string) context.Context {
	log.Printf("%s %s: stand-in for fake-gpu-operator, made by gsb.fake_gpu_lab", command, Version)
	ctx, _ := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	return ctx
}

// Env returns a variable that the chart always sets.
func Env(name string) string {
	value := os.Getenv(name)
	if value == "" {
		log.Fatalf("Environment variable %s is not set", name)
	}
	return value
}
