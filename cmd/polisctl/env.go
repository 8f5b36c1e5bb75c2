package main

import (
	"bufio"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"polis/daemon/api"
)

// maxEnvFile bounds a file of --env-file, in bytes.
const maxEnvFile = 1 << 20

// envFlags are --env and --env-file as typed.
type envFlags struct {
	vars, files []string
}

func (f *envFlags) register(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringArrayVarP(&f.vars, "env", "e", nil, "give it the variable `NAME[=VALUE]`, without VALUE as polisctl itself has it; may be repeated")
	flags.StringArrayVar(&f.files, "env-file", nil, "give it the variables of `FILE`: a NAME=VALUE a line, # begins a comment; may be repeated")
}

// parse returns the variables; those of --env win. No error contains a value.
func (f *envFlags) parse() (map[string]string, error) {
	out := map[string]string{}
	for _, name := range f.files {
		if err := envFile(out, name); err != nil {
			return nil, err
		}
	}
	for _, v := range f.vars {
		if err := envWord(out, "--env", v); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, nil
	}
	if err := api.CheckEnv(out); err != nil {
		e := api.AsError(err)
		return nil, usagef("%s", e.Message).WithHint("%s", e.Hint)
	}
	return out, nil
}

// envWord enters NAME=VALUE, or NAME with polisctl's own value.
func envWord(out map[string]string, where, word string) error {
	name, value, given := strings.Cut(word, "=")
	if !given {
		var ok bool
		if value, ok = os.LookupEnv(name); !ok {
			return usagef("%s: %s is not set in the environment of polisctl", where, clean(api.Shorten(name, 64))).WithHint("export it first, or give a value: NAME=VALUE")
		}
	}
	out[name] = value
	return nil
}

func envFile(out map[string]string, name string) error {
	f, err := os.Open(name)
	if err != nil {
		return usagef("--env-file: %v", err)
	}
	defer f.Close()
	in := bufio.NewScanner(io.LimitReader(f, maxEnvFile+1))
	in.Buffer(nil, maxEnvFile)
	read := 0
	for in.Scan() {
		line := in.Text()
		if read += len(line) + 1; read > maxEnvFile {
			return usagef("--env-file: %s has more than %d bytes", clean(name), maxEnvFile)
		}
		if t := strings.TrimSpace(line); t == "" || strings.HasPrefix(t, "#") {
			continue
		}
		if err := envWord(out, "--env-file "+clean(name), strings.TrimRight(strings.TrimLeft(line, " \t"), "\r")); err != nil {
			return err
		}
	}
	if err := in.Err(); errors.Is(err, bufio.ErrTooLong) {
		return usagef("--env-file: %s has a line of more than %d bytes", clean(name), maxEnvFile)
	} else if err != nil {
		return usagef("--env-file: %v", err)
	}
	return nil
}
