package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
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

// TestThisProgram lists the modules of the test itself.
func TestThisProgram(t *testing.T) {
	self, err := os.Executable()
	require.NoError(t, err)
	var sbom, again, texts bytes.Buffer
	require.NoError(t, run(t.Context(), &sbom, []string{"cyclonedx", "1.2.3", self}))
	require.NoError(t, run(t.Context(), &again, []string{"cyclonedx", "1.2.3", self}))
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
	require.Equal(t, "MIT", have["github.com/stretchr/testify"])
	require.NoError(t, run(t.Context(), &texts, []string{"licenses", self}))
	require.Contains(t, texts.String(), "github.com/stretchr/testify")
	require.Error(t, run(t.Context(), &texts, []string{"nonsense"}))
}
