// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package node

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"
)

// calls stands in for kubectl.
type calls struct {
	all  [][]string
	fail error
}

func (c *calls) kubectl(_ context.Context, args ...string) (string, error) {
	c.all = append(c.all, args)
	return "", c.fail
}

// files are the base names that were given to kubectl since the last time.
func (c *calls) files(verb string) []string {
	var names []string
	for _, args := range c.all {
		if args[0] == verb {
			names = append(names, filepath.Base(args[len(args)-1]))
		}
	}
	c.all = nil
	return names
}

func watched(t *testing.T, args ...string) (*addons, *calls, string) {
	t.Helper()
	l, c := laidOut(t, args...)
	a, k := l.newAddons(c, quiet), &calls{}
	a.kubectl = k.kubectl
	return a, k, l.server("manifests")
}

func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if len(got)+len(want) > 0 && !reflect.DeepEqual(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

func TestManifestsAreAppliedWhenTheyChange(t *testing.T) {
	a, k, dir := watched(t)
	now, ctx := time.Now(), context.Background()
	write(t, filepath.Join(dir, "one.yaml"), "a")
	write(t, filepath.Join(dir, "sub", "two.yml"), "b")
	write(t, filepath.Join(dir, "three.json"), "{}")
	write(t, filepath.Join(dir, "notes.txt"), "x")
	write(t, filepath.Join(dir, "bad_name.yaml"), "x")
	write(t, filepath.Join(dir, ".hidden.yaml"), "x")
	write(t, filepath.Join(dir, "skipped.yaml"), "x")
	write(t, filepath.Join(dir, "skipped.yaml.skip"), "")
	a.scan(ctx, now)
	expect(t, "first look", k.files("apply"), []string{"one.yaml", "two.yml", "three.json"})
	a.scan(ctx, now)
	expect(t, "nothing changed", k.files("apply"), nil)
	write(t, filepath.Join(dir, "one.yaml"), "changed")
	a.scan(ctx, now)
	expect(t, "one changed", k.files("apply"), []string{"one.yaml"})
	if err := os.Remove(filepath.Join(dir, "one.yaml")); err != nil {
		t.Fatal(err)
	}
	a.scan(ctx, now)
	expect(t, "a removed file", k.files("delete"), nil)
	write(t, filepath.Join(dir, "one.yaml"), "changed")
	if err := os.Remove(filepath.Join(dir, "skipped.yaml.skip")); err != nil {
		t.Fatal(err)
	}
	a.scan(ctx, now)
	expect(t, "files that are back", k.files("apply"), []string{"one.yaml", "skipped.yaml"})
}

func TestAManifestThatFailsIsTriedAgain(t *testing.T) {
	a, k, dir := watched(t)
	now, ctx := time.Now(), context.Background()
	write(t, filepath.Join(dir, "one.yaml"), "a")
	k.fail = errors.New("no matches for kind")
	a.scan(ctx, now)
	expect(t, "first", k.files("apply"), []string{"one.yaml"})
	a.scan(ctx, now.Add(time.Second))
	expect(t, "too early", k.files("apply"), nil)
	a.scan(ctx, now.Add(2*time.Second))
	expect(t, "second", k.files("apply"), []string{"one.yaml"})
	k.fail = nil
	a.scan(ctx, now.Add(time.Minute))
	expect(t, "third", k.files("apply"), []string{"one.yaml"})
	a.scan(ctx, now.Add(time.Hour))
	expect(t, "done", k.files("apply"), nil)
}

func TestDisabledComponents(t *testing.T) {
	a, k, dir := watched(t)
	if err := a.writePackaged(); err != nil {
		t.Fatal(err)
	}
	a.scan(context.Background(), time.Now())
	expect(t, "packaged", k.files("apply"), []string{"coredns.yaml", "runtimes.yaml"})

	a.disable = []string{"coredns", "traefik"}
	if err := a.writePackaged(); err != nil {
		t.Fatal(err)
	}
	k.fail = errors.New("refused")
	a.removeDisabled(context.Background())
	if !exists(filepath.Join(dir, "coredns.yaml")) {
		t.Error("the manifest is gone though its objects are not")
	}
	k.fail, k.all = nil, nil
	a.removeDisabled(context.Background())
	expect(t, "removed", k.files("delete"), []string{"coredns.yaml"})
	if exists(filepath.Join(dir, "coredns.yaml")) {
		t.Error("the manifest of a disabled component is still there")
	}
	a.removeDisabled(context.Background())
	expect(t, "removed once", k.files("delete"), nil)
}

func TestPackagedManifestsAreRewritten(t *testing.T) {
	a, _, dir := watched(t)
	write(t, filepath.Join(dir, "coredns.yaml"), "edited")
	if err := a.writePackaged(); err != nil {
		t.Fatal(err)
	}
	if read(t, filepath.Join(dir, "coredns.yaml")) == "edited" {
		t.Error("an edited packaged manifest stays")
	}
}
