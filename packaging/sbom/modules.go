package main

import (
	"bytes"
	"cmp"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A module is one that a program links.
type module struct {
	path, version, sum string
	// license is its SPDX identifier, texts are its licence and notices.
	license string
	texts   []string
}

// linked returns the modules of the programs, sorted, and the version of Go.
func linked(programs []string) ([]module, string, error) {
	found := map[string]module{}
	goVersion := ""
	for _, p := range programs {
		info, err := buildinfo.ReadFile(p)
		if err != nil {
			return nil, "", err
		}
		goVersion = info.GoVersion
		for _, d := range info.Deps {
			if d.Replace != nil {
				d = d.Replace
			}
			found[d.Path] = module{path: d.Path, version: d.Version, sum: d.Sum}
		}
	}
	var out []module
	for _, m := range found {
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b module) int { return cmp.Compare(a.path, b.path) })
	return out, goVersion, nil
}

// addLicenses reads the licence of each module from Go's module cache.
func addLicenses(ctx context.Context, modules []module) error {
	args := []string{"list", "-m", "-json"}
	for _, m := range modules {
		args = append(args, m.path+"@"+m.version)
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("go list: %w: %s", err, stderr.String())
	}
	dirs := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(text)); ; {
		var m struct{ Path, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return fmt.Errorf("go list: %w", err)
		}
		dirs[m.Path] = m.Dir
	}
	for i := range modules {
		m := &modules[i]
		if m.license, m.texts, err = licenseIn(dirs[m.path]); err != nil {
			return fmt.Errorf("%s: %w", m.path, err)
		}
	}
	return nil
}

// licenseIn returns the SPDX identifier and the texts of the licence files in a directory.
func licenseIn(dir string) (id string, texts []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", nil, err
	}
	var ids []string
	for _, e := range entries {
		name := strings.ToUpper(e.Name())
		isLicense := strings.HasPrefix(name, "LICENSE") || strings.HasPrefix(name, "LICENCE") || strings.HasPrefix(name, "COPYING")
		if e.IsDir() || !isLicense && !strings.HasPrefix(name, "NOTICE") || strings.HasSuffix(name, ".GO") {
			continue
		}
		b, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return "", nil, err
		}
		texts = append(texts, strings.TrimSpace(string(b)))
		if isLicense {
			id := identify(string(b))
			if id == "" {
				return "", nil, fmt.Errorf("%s is no licence that is known here", e.Name())
			}
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return "", nil, errors.New("has no licence")
	}
	slices.Sort(ids)
	return strings.Join(slices.Compact(ids), " AND "), texts, nil
}

// known has words of each licence, all of which its text contains, the most specific first.
var known = []struct {
	id    string
	words []string
}{
	{"Apache-2.0", []string{"apache license", "version 2.0"}},
	{"MPL-2.0", []string{"mozilla public license", "2.0"}},
	{"ISC", []string{"permission to use, copy, modify, and/or distribute this software for any purpose"}},
	{"ISC", []string{"permission to use, copy, modify, and distribute this software for any purpose"}},
	{"BSD-3-Clause", []string{"redistributions in binary form", "neither the name"}},
	{"BSD-2-Clause", []string{"redistributions in binary form"}},
	{"MIT", []string{"permission is hereby granted, free of charge", `the software is provided "as is"`}},
}

// identify returns the SPDX identifier of a licence text, "" for one that is not known.
func identify(text string) string {
	text = strings.ToLower(strings.Join(strings.Fields(text), " "))
	text = strings.NewReplacer("“", `"`, "”", `"`).Replace(text)
	for _, k := range known {
		if !slices.ContainsFunc(k.words, func(w string) bool { return !strings.Contains(text, w) }) {
			return k.id
		}
	}
	return ""
}

// standardLicense returns the licence of Go's standard library, which every program links. The go command
// knows where it is; this program may not: GOFLAGS=-trimpath builds programs without the path of Go.
func standardLicense(ctx context.Context) (string, error) {
	root, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
	if err != nil {
		return "", fmt.Errorf("go env GOROOT: %w", err)
	}
	b, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(root)), "LICENSE"))
	return strings.TrimSpace(string(b)), err
}
