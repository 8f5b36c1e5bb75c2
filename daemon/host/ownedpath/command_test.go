package ownedpath

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestTheInterpreterOfAScriptIsCheckedToo: who can write it decides what the script does.
func TestTheInterpreterOfAScriptIsCheckedToo(t *testing.T) {
	dir := tree(t)
	script := func(name, text string, mode os.FileMode) {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(strings.ReplaceAll(text, "DIR", dir)), mode))
		require.NoError(t, os.Chmod(filepath.Join(dir, name), mode))
	}
	script("real/shell", "#!/bin/sh\n", 0o755)
	script("all/shell", "#!/bin/sh\n", 0o755)
	script("of-shell", "#!DIR/writable\n", 0o755)
	for i := range 6 {
		script(fmt.Sprint("nested", i+1), fmt.Sprintf("#!DIR/nested%d\n", i), 0o755)
	}
	script("nested0", "#!/bin/sh\n", 0o755)
	require.NoError(t, os.Mkdir(filepath.Join(dir, "empty"), 0o755))
	script("own-env", "#!DIR/real/env shell\n", 0o755)
	require.NoError(t, os.Symlink("/usr/bin/env", filepath.Join(dir, "real/env")))
	for name, c := range map[string]struct{ text, path, err string }{
		"no script":                     {"\x7fELF", "", ""},
		"empty":                         {"", "", ""},
		"root's shell":                  {"#!/bin/sh\nexit", "", ""},
		"spaces and an argument":        {"#! \t/bin/sh\t-e \n", "", ""},
		"no newline":                    {"#!/bin/sh", "", ""},
		"links of root":                 {"#!DIR/link\n", "", ""},
		"interpreter in a sticky place": {"#!DIR/sticky/f\n", "", ""},
		"that others can write":         {"#!DIR/writable\n", "", "the interpreter of DIR/script: DIR/writable can be changed by others: chmod go-w it"},
		"in a directory of others":      {"#!DIR/all/b/f\n", "", "DIR/all can be changed by others"},
		"of another user":               {"#!DIR/sticky/theirs\n", "", "belongs to uid 12345"},
		"by a link of another user":     {"#!DIR/theirlink\n", "", "belongs to uid 12345"},
		"missing":                       {"#!DIR/none\n", "", "no such file"},
		"that is no program":            {"#!DIR/no-program\n", "", "is no program"},
		"relative":                      {"#!bin/sh\n", "", "by an absolute path"},
		"of an interpreter":             {"#!DIR/of-shell\n", "", "the interpreter of DIR/of-shell: DIR/writable can be changed"},
		"nested":                        {"#!DIR/nested1\n", "", ""},
		"nested without end":            {"#!DIR/nested6\n", "", "more than 4 interpreters"},
		"without a name":                {"#!  \n/bin/sh", "", "must name an interpreter"},
		"too long":                      {"#!/bin/sh " + strings.Repeat("x", 300) + "\n", "", "must name an interpreter"},
		"env":                           {"#!/usr/bin/env shell\n", "DIR/none:DIR/empty:DIR/real:DIR/all", ""},
		"env with words":                {"#!/usr/bin/env -S shell -e\n", "DIR/real", ""},
		"env of another name":           {"#!DIR/real/env shell\n", "DIR/all", "DIR/all can be changed by others"},
		"env of an interpreter":         {"#!DIR/own-env\n", "DIR/all", "DIR/all can be changed by others"},
		"env, place that others write":  {"#!/usr/bin/env shell\n", "DIR/all:DIR/real", "env looks for shell: DIR/all can be changed by others: chmod go-w it; or name the interpreter itself in the first line"},
		"env, nowhere":                  {"#!/usr/bin/env shell\n", "DIR/empty", "env finds no shell"},
		"env, two words":                {"#!/usr/bin/env shell -e\n", "DIR/real", "cannot be checked"},
		"env, a variable":               {"#!/usr/bin/env -S PATH=DIR/all shell\n", "DIR/real", "cannot be checked"},
		"env, an option":                {"#!/usr/bin/env -i\n", "DIR/real", "cannot be checked"},
		"env, a path":                   {"#!/usr/bin/env DIR/writable\n", "", "DIR/writable can be changed"},
		"env, a path that is relative":  {"#!/usr/bin/env b/f\n", "DIR/a", "cannot be checked"},
		"env alone":                     {"#!/usr/bin/env\n", "DIR/real", "cannot be checked"},
	} {
		t.Run(name, func(t *testing.T) {
			script("script", c.text, 0o755)
			got, err := Command(filepath.Join(dir, "script"), 0, strings.ReplaceAll(c.path, "DIR", dir))
			if c.err != "" {
				require.ErrorContains(t, err, strings.ReplaceAll(c.err, "DIR", dir))
				require.Empty(t, got)
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, "script"), got)
		})
	}
	_, err := Command(filepath.Join(dir, "all/b/f"), 0, "")
	require.ErrorContains(t, err, "can be changed by others", "and the program itself")
}
