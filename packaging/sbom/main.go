package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

func main() {
	out := bufio.NewWriter(os.Stdout)
	if err := errors.Join(run(context.Background(), out, os.Args[1:]), out.Flush()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, args []string) error {
	switch {
	case len(args) > 2 && args[0] == "cyclonedx":
		modules, goVersion, err := read(ctx, args[2:])
		if err != nil {
			return err
		}
		return cycloneDX(out, args[1], goVersion, modules)
	case len(args) > 1 && args[0] == "licenses":
		modules, _, err := read(ctx, args[1:])
		if err != nil {
			return err
		}
		return licenses(ctx, out, modules)
	}
	return errors.New("usage: sbom cyclonedx VERSION PROGRAM... | sbom licenses PROGRAM...")
}

func read(ctx context.Context, programs []string) ([]module, string, error) {
	modules, goVersion, err := linked(programs)
	if err == nil {
		err = addLicenses(ctx, modules)
	}
	return modules, goVersion, err
}

type object = map[string]any

// cycloneDX writes the software bill of materials, version 1.5 of the format.
func cycloneDX(out io.Writer, version, goVersion string, modules []module) error {
	component := func(name, version, license, purl string) object {
		return object{"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl,
			"licenses": []any{object{"expression": license}}}
	}
	list := []any{component("stdlib", strings.TrimPrefix(goVersion, "go"), "BSD-3-Clause", "pkg:golang/stdlib@"+strings.TrimPrefix(goVersion, "go"))}
	for _, m := range modules {
		c := component(m.path, m.version, m.license, "pkg:golang/"+m.path+"@"+m.version)
		c["properties"] = []any{object{"name": "go:sum", "value": m.sum}}
		list = append(list, c)
	}
	// polis-shim loads it; the distribution's package has it.
	list = append(list, object{"type": "library", "bom-ref": "libseccomp", "name": "libseccomp", "scope": "required", "licenses": []any{object{"expression": "LGPL-2.1-only"}}})
	enc := json.NewEncoder(out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", " ")
	return enc.Encode(object{"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
		"metadata":   object{"component": object{"type": "application", "bom-ref": "polis", "name": "polis", "version": version, "licenses": []any{object{"expression": "Apache-2.0"}}}},
		"components": list})
}

// licenses writes the copyright file: polis' own licence by name, and each text of the modules once.
func licenses(ctx context.Context, out io.Writer, modules []module) error {
	standard, err := standardLicense(ctx)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("polis is licensed under the Apache License, Version 2.0. On Debian systems the text is in\n/usr/share/common-licenses/Apache-2.0.\n\n" +
		"Its programs contain the following modules. The texts of their licences follow the list.\n\n")
	type text struct {
		body string
		of   []string
	}
	var texts []text
	index := map[string]int{}
	add := func(name, body string) {
		i, ok := index[body]
		if !ok {
			i = len(texts)
			index[body], texts = i, append(texts, text{body: body})
		}
		texts[i].of = append(texts[i].of, name)
	}
	fmt.Fprintf(&b, "  Go standard library (BSD-3-Clause)\n")
	add("Go standard library", standard)
	for _, m := range modules {
		fmt.Fprintf(&b, "  %s %s (%s)\n", m.path, m.version, m.license)
		for _, t := range m.texts {
			add(m.path, t)
		}
	}
	for _, t := range texts {
		fmt.Fprintf(&b, "\n%s\n%s:\n\n%s\n", strings.Repeat("-", 72), strings.Join(t.of, ", "), t.body)
	}
	_, err = io.WriteString(out, b.String())
	return err
}
