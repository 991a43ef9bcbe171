// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"text/tabwriter"
	"time"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

const tokenUsage = "usage: k3s token list [--output text|json] | generate"

// bootstrapToken is one that kubeadm's rules describe.
type bootstrapToken struct {
	Token       string `json:"token"`
	Expires     string `json:"expires,omitempty"`
	Description string `json:"description,omitempty"`
	Usages      string `json:"usages,omitempty"`
}

func token(args []string, out io.Writer) error {
	if len(args) == 0 {
		return usageError{errors.New(tokenUsage)}
	}
	switch args[0] {
	case "generate":
		id, err := randomWord(6)
		if err != nil {
			return err
		}
		secret, err := randomWord(16)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%s.%s\n", id, secret)
		return nil
	case "list":
		format, err := outputFlag(args[1:], "text", "json")
		if err != nil {
			return err
		}
		return listTokens(format, out)
	case "create", "delete", "rotate":
		return fmt.Errorf("token %s is not offered by this stand-in: no other node can join", args[0])
	}
	return usageError{fmt.Errorf("token: unknown command %q; %s", args[0], tokenUsage)}
}

func listTokens(format string, out io.Writer) error {
	dataDir := config.DataDir(nil, os.Getenv)
	bin, err := unpack(dataDir, false)
	if err != nil {
		return err
	}
	command := exec.Command(filepath.Join(bin, "kubectl"), "--kubeconfig", config.DefaultOutput, "-n", "kube-system",
		"get", "secrets", "--field-selector", "type=bootstrap.kubernetes.io/token", "-o", "json")
	command.Stderr = os.Stderr
	content, err := command.Output()
	if err != nil {
		return fmt.Errorf("cannot list the tokens: %w", err)
	}
	var secrets struct {
		Items []struct{ Data map[string][]byte }
	}
	if err := json.Unmarshal(content, &secrets); err != nil {
		return err
	}
	tokens := []bootstrapToken{}
	for _, s := range secrets.Items {
		usages := ""
		if string(s.Data["usage-bootstrap-authentication"]) == "true" {
			usages = "authentication"
		}
		expires := string(s.Data["expiration"])
		if t, err := time.Parse(time.RFC3339, expires); err == nil {
			expires = t.Format(time.RFC3339)
		}
		tokens = append(tokens, bootstrapToken{
			Token:   string(s.Data["token-id"]) + "." + string(s.Data["token-secret"]),
			Expires: expires, Description: string(s.Data["description"]), Usages: usages,
		})
	}
	if format == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(tokens)
	}
	table := tabwriter.NewWriter(out, 0, 8, 3, ' ', 0)
	fmt.Fprintln(table, "TOKEN\tEXPIRES\tUSAGES\tDESCRIPTION")
	for _, t := range tokens {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.Token, t.Expires, t.Usages, t.Description)
	}
	return table.Flush()
}

// outputFlag reads --output and -o, the only flags of the listing commands.
func outputFlag(args []string, allowed ...string) (string, error) {
	format := allowed[0]
	for i := 0; i < len(args); i++ {
		switch arg := args[i]; {
		case (arg == "--output" || arg == "-o") && i+1 < len(args):
			i++
			format = args[i]
		case len(arg) > 9 && arg[:9] == "--output=":
			format = arg[9:]
		case (arg == "--data-dir" || arg == "-d") && i+1 < len(args):
			i++
		case len(arg) > 11 && arg[:11] == "--data-dir=":
		default:
			return "", usageError{fmt.Errorf("unexpected argument %q", arg)}
		}
	}
	for _, a := range allowed {
		if a == format {
			return format, nil
		}
	}
	return "", usageError{fmt.Errorf("output %q is none of %v", format, allowed)}
}

func randomWord(n int) (string, error) {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	b := make([]byte, n)
	for i := range b {
		k, err := rand.Int(rand.Reader, big.NewInt(int64(len(letters))))
		if err != nil {
			return "", err
		}
		b[i] = letters[k.Int64()]
	}
	return string(b), nil
}
