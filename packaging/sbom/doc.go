// Package main lists what the programs of a package are made of: "sbom cyclonedx VERSION PROGRAM..." prints a
// CycloneDX document with every module that the programs link, and "sbom licenses PROGRAM..." prints the
// licences of these modules. It reads the list from the programs themselves, and the texts from Go's module
// cache. A module without a licence that it recognises is an error. The same programs make the same bytes.
//
// It is a tool of scripts/package; no program of polis imports it.
package main
