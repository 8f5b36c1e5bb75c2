package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestIdentify(t *testing.T) {
	for want, text := range map[string]string{
		"MIT":          "Permission is hereby granted, free of charge, to any person ... THE SOFTWARE IS PROVIDED \"AS IS\", WITHOUT WARRANTY",
		"Apache-2.0":   "Apache License\n Version 2.0, January 2004",
		"BSD-3-Clause": "Redistributions in binary form must ... Neither the name of the copyright holder",
		"BSD-2-Clause": "Redistributions in binary form must reproduce",
		"":             "All rights reserved.",
	} {
		require.Equal(t, want, identify(text), text)
	}
}

func TestAModuleWithoutAKnownLicenceIsAnError(t *testing.T) {
	dir := t.TempDir()
	_, _, err := licenseIn(dir)
	require.ErrorContains(t, err, "no licence")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "LICENSE"), []byte("Ask me."), 0o600))
	_, _, err = licenseIn(dir)
	require.ErrorContains(t, err, "LICENSE")
}

// TestTheLicenceOfGoIsFoundWithTrimpath runs the tool as GOFLAGS=-trimpath builds it: without the path of Go.
func TestTheLicenceOfGoIsFoundWithTrimpath(t *testing.T) {
	tool := filepath.Join(t.TempDir(), "sbom")
	out, err := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", tool, ".").CombinedOutput()
	require.NoError(t, err, "%s", out)
	cmd := exec.CommandContext(t.Context(), tool, "licenses", tool)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, "GOROOT=") })
	out, err = cmd.CombinedOutput()
	require.NoError(t, err, "%s", out)
	require.Contains(t, string(out), "The Go Authors")
}

// TestAProgramOfOurs lists the modules of a program as it is packaged.
func TestAProgramOfOurs(t *testing.T) {
	program := filepath.Join(t.TempDir(), "polisctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", program, "../../cmd/polisctl")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	var sbom, again, texts bytes.Buffer
	require.NoError(t, run(t.Context(), &sbom, []string{"cyclonedx", "1.2.3", program}))
	require.NoError(t, run(t.Context(), &again, []string{"cyclonedx", "1.2.3", program}))
	require.Equal(t, sbom.String(), again.String())
	var doc struct {
		BOMFormat  string
		Components []struct {
			Name     string
			Licenses []struct{ Expression string }
		}
	}
	require.NoError(t, json.Unmarshal(sbom.Bytes(), &doc))
	require.Equal(t, "CycloneDX", doc.BOMFormat)
	have := map[string]string{}
	for _, c := range doc.Components {
		have[c.Name] = c.Licenses[0].Expression
	}
	require.Equal(t, "Apache-2.0", have["github.com/spf13/cobra"])
	require.NoError(t, run(t.Context(), &texts, []string{"licenses", program}))
	require.Contains(t, texts.String(), "github.com/spf13/cobra")
	require.Error(t, run(t.Context(), &texts, []string{"nonsense"}))
}
