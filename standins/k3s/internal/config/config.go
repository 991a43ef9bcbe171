// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sort"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Config holds the value of every option, and where each one came from.
type Config struct {
	values  map[string][]string
	sources map[string]string
	options map[string]*Option
}

// ErrHelp is returned when the command line asks for help.
var ErrHelp = errors.New("help wanted")

type setting struct {
	values []string
	source string
}

// Load merges, from weak to strong: defaults, environment, the configuration
// file, its drop-ins in alphabetical order, the command line.
func Load(options []Option, args []string, env func(string) string) (*Config, error) {
	c := &Config{values: map[string][]string{}, sources: map[string]string{}, options: map[string]*Option{}}
	short := map[string]*Option{}
	for i := range options {
		o := &options[i]
		c.options[o.Name] = o
		if o.Short != "" {
			short[o.Short] = o
		}
	}
	command, err := c.parseArgs(args, short)
	if err != nil {
		return nil, err
	}
	file, explicit := DefaultFile, false
	if v := env("K3S_CONFIG_FILE"); v != "" {
		file, explicit = v, true
	}
	if s, ok := command["config"]; ok {
		file, explicit = s.values[0], true
	}
	merged := map[string]setting{}
	for name, o := range c.options {
		if o.Default != "" {
			merged[name] = setting{[]string{o.Default}, "default"}
		}
		if v := env(o.Env); o.Env != "" && v != "" {
			merged[name] = setting{[]string{v}, "environment variable " + o.Env}
		}
	}
	fromFiles, err := c.readFiles(file, explicit)
	if err != nil {
		return nil, err
	}
	for name, s := range fromFiles {
		merged[name] = s
	}
	for name, s := range command {
		merged[name] = s
	}
	merged["config"] = setting{[]string{file}, "command line"}
	for name, s := range merged {
		if err := c.set(name, s); err != nil {
			return nil, err
		}
	}
	return c, nil
}

func (c *Config) set(name string, s setting) error {
	o := c.options[name]
	values := s.values
	if o.Split {
		values = nil
		for _, v := range s.values {
			for _, part := range strings.Split(v, ",") {
				if part = strings.TrimSpace(part); part != "" {
					values = append(values, part)
				}
			}
		}
	}
	for _, v := range values {
		var err error
		switch {
		case o.Kind == Bool:
			if _, err = strconv.ParseBool(v); err != nil {
				err = errors.New("must be true or false")
			}
		case o.Check != nil && (v != "" || o.Kind == List):
			err = o.Check(v)
		}
		if err != nil {
			return fmt.Errorf("%s: %s: %q: %w", s.source, name, v, err)
		}
	}
	if o.Support == Refused && !off(o, values) {
		return fmt.Errorf("%s: %s is not offered by this stand-in: %s", s.source, name, o.Help)
	}
	c.values[name], c.sources[name] = values, s.source
	return nil
}

func off(o *Option, values []string) bool {
	for _, v := range values {
		if o.Kind != Bool && v != "" {
			return false
		}
		if on, _ := strconv.ParseBool(v); o.Kind == Bool && on {
			return false
		}
	}
	return true
}

func (c *Config) parseArgs(args []string, short map[string]*Option) (map[string]setting, error) {
	found := map[string]setting{}
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !strings.HasPrefix(arg, "-") || arg == "-" || arg == "--" {
			return nil, fmt.Errorf("command line: unexpected argument %q", arg)
		}
		if arg == "-h" || arg == "--help" {
			return nil, ErrHelp
		}
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		o := c.options[name]
		if o == nil {
			o = short[name]
		}
		if o == nil {
			return nil, fmt.Errorf("command line: unknown flag %q%s", arg, c.near(name))
		}
		if !given {
			switch {
			case o.Kind == Bool:
				value = "true"
			case i+1 < len(args):
				i++
				value = args[i]
			default:
				return nil, fmt.Errorf("command line: flag %q needs a value", arg)
			}
		}
		s := found[o.Name]
		if o.Kind != List {
			s.values = nil
		}
		found[o.Name] = setting{append(s.values, value), "command line"}
	}
	return found, nil
}

// readFiles reads the file and its drop-ins. A missing file is an error only
// when it was asked for by name.
func (c *Config) readFiles(file string, explicit bool) (map[string]setting, error) {
	var files []string
	switch _, err := os.Stat(file); {
	case err == nil:
		files = append(files, file)
	case !errors.Is(err, os.ErrNotExist) || explicit:
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	entries, err := os.ReadDir(file + ".d")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("cannot read the configuration: %w", err)
	}
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); !e.IsDir() && (ext == ".yaml" || ext == ".yml") {
			files = append(files, filepath.Join(file+".d", e.Name()))
		}
	}
	merged := map[string]setting{}
	appended := map[string]string{}
	for _, f := range files {
		content, err := os.ReadFile(f)
		if err != nil {
			return nil, fmt.Errorf("cannot read the configuration: %w", err)
		}
		if err := c.mergeFile(f, content, merged, appended); err != nil {
			return nil, err
		}
	}
	return merged, nil
}

func (c *Config) mergeFile(file string, content []byte, merged map[string]setting, appended map[string]string) error {
	var document yaml.Node
	decoder := yaml.NewDecoder(bytes.NewReader(content))
	if err := decoder.Decode(&document); errors.Is(err, io.EOF) {
		return nil
	} else if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	root := document.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil
	}
	if root.Kind != yaml.MappingNode {
		return fmt.Errorf("%s: must be a mapping of option names to values", file)
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, node := root.Content[i], root.Content[i+1]
		where := fmt.Sprintf("%s, line %d", file, key.Line)
		name, add := strings.CutSuffix(key.Value, "+")
		o := c.options[name]
		if o == nil || name == "config" {
			return fmt.Errorf("%s: unknown key %q%s", where, key.Value, c.near(name))
		}
		if seen[key.Value] {
			return fmt.Errorf("%s: key %q stands twice", where, key.Value)
		}
		seen[key.Value] = true
		values, err := scalars(o, node)
		if err != nil {
			return fmt.Errorf("%s: %s: %w", where, name, err)
		}
		before := merged[name]
		switch {
		case add && o.Kind == Bool:
			return fmt.Errorf("%s: %s is true or false, nothing can be added to it", where, name)
		case add && o.Kind == List:
			values = append(append([]string{}, before.values...), values...)
		case add && len(before.values) > 0:
			values = []string{before.values[0] + strings.Join(values, "")}
		}
		merged[name] = setting{values, where}
	}
	return nil
}

func scalars(o *Option, node *yaml.Node) ([]string, error) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	switch node.Kind {
	case yaml.ScalarNode:
		if node.Tag == "!!null" {
			return nil, nil
		}
		return []string{node.Value}, nil
	case yaml.SequenceNode:
		if o.Kind != List {
			return nil, errors.New("takes one value, not a list")
		}
		values := []string{}
		for _, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("must be a list of plain values")
			}
			values = append(values, item.Value)
		}
		return values, nil
	}
	return nil, errors.New("must be a plain value or a list of them")
}

// near names the option that differs least from an unknown one.
func (c *Config) near(name string) string {
	best, distance := "", 4
	names := make([]string, 0, len(c.options))
	for n := range c.options {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		if d := editDistance(n, name); d < distance && d < len(n) {
			best, distance = n, d
		}
	}
	if best == "" {
		return ""
	}
	return fmt.Sprintf(" (did you mean %q?)", best)
}

func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			next := min(row[j]+1, row[j-1]+1, diagonal+cost)
			diagonal, row[j] = row[j], next
		}
	}
	return row[len(b)]
}

// String is the value of an option that takes one.
func (c *Config) String(name string) string {
	if v := c.List(name); len(v) > 0 {
		return v[0]
	}
	return ""
}

// Bool is the value of an option that is on or off.
func (c *Config) Bool(name string) bool {
	on, _ := strconv.ParseBool(c.String(name))
	return on
}

// List is the value of an option that takes several.
func (c *Config) List(name string) []string {
	if c.options[name] == nil {
		panic("config: no such option: " + name)
	}
	return c.values[name]
}

// Source says where the value of an option comes from.
func (c *Config) Source(name string) string { return c.sources[name] }

// Ignored lists the options that were given and do nothing here, with why.
func (c *Config) Ignored() []string {
	var lines []string
	for name, o := range c.options {
		if o.Support == Ignored && c.sources[name] != "" && !off(o, c.values[name]) {
			lines = append(lines, fmt.Sprintf("%s has no effect: %s (%s)", name, o.Help, c.sources[name]))
		}
	}
	sort.Strings(lines)
	return lines
}

// DataDir finds the data folder as `k3s server` would, for the commands that
// take no other option, and never fails over an unrelated mistake.
func DataDir(args []string, env func(string) string) string {
	for i, arg := range args {
		name, value, given := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if strings.HasPrefix(arg, "-") && (name == "data-dir" || name == "d") {
			if given {
				return value
			}
			if i+1 < len(args) {
				return args[i+1]
			}
		}
	}
	c := &Config{options: map[string]*Option{}}
	for i := range ServerOptions {
		c.options[ServerOptions[i].Name] = &ServerOptions[i]
	}
	file := DefaultFile
	if v := env("K3S_CONFIG_FILE"); v != "" {
		file = v
	}
	if files, err := c.readFiles(file, false); err == nil && len(files["data-dir"].values) > 0 {
		return files["data-dir"].values[0]
	}
	if v := env("K3S_DATA_DIR"); v != "" {
		return v
	}
	return DefaultDataDir
}

// Usage describes every option.
func Usage(options []Option) string {
	var b strings.Builder
	section := func(title string, support Support) {
		fmt.Fprintf(&b, "\n%s\n", title)
		for _, o := range options {
			if o.Support != support {
				continue
			}
			name := "--" + o.Name
			if o.Short != "" {
				name += ", -" + o.Short
			}
			switch o.Kind {
			case String:
				name += " VALUE"
			case List:
				name += " VALUE ..."
			}
			fmt.Fprintf(&b, "  %-40s %s", name, o.Help)
			if o.Default != "" {
				fmt.Fprintf(&b, " (default %s)", o.Default)
			}
			if o.Env != "" {
				fmt.Fprintf(&b, " [%s]", o.Env)
			}
			b.WriteString("\n")
		}
	}
	b.WriteString("Each flag is also a key of the configuration file.\n")
	section("Options:", Works)
	section("Accepted without effect:", Ignored)
	section("Known and refused:", Refused)
	return b.String()
}
