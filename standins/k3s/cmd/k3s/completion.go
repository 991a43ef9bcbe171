// SPDX-License-Identifier: GPL-3.0-or-later
// Copyright: (c) 2026, gsb.fake_gpu_lab contributors

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"gsb.fake_gpu_lab/standins/k3s/internal/config"
)

const commands = "server kubectl crictl ctr check-config token certificate etcd-snapshot completion help"

func completion(args []string, out io.Writer) error {
	if len(args) != 1 || args[0] != "bash" && args[0] != "zsh" {
		return usageError{errors.New("usage: k3s completion bash|zsh")}
	}
	flags := make([]string, len(config.ServerOptions))
	for i, o := range config.ServerOptions {
		flags[i] = "--" + o.Name
	}
	if args[0] == "zsh" {
		fmt.Fprint(out, "autoload -U +X bashcompinit && bashcompinit\n")
	}
	fmt.Fprintf(out, `_k3s() {
    local word=${COMP_WORDS[COMP_CWORD]}
    if [ "$COMP_CWORD" -eq 1 ]; then
        COMPREPLY=($(compgen -W "%s" -- "$word"))
    elif [ "${COMP_WORDS[1]}" = server ]; then
        COMPREPLY=($(compgen -W "%s" -- "$word"))
    fi
}
complete -F _k3s k3s
`, commands, strings.Join(flags, " "))
	return nil
}
