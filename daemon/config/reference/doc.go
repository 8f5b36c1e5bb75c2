// Package reference describes every key of polisd.toml and of the base types, and makes from that
// description polisd.toml(5), polis-agents.d(5), the commented sample, the tables in
// docs/configuration.md and a JSON schema.
//
// Names, types and defaults are those of the structs in package config, found by reflection. A key
// without a description, and a description without a key, are errors of [Check]. No program imports the
// package: "make docs" and the tests do. It never reads a configuration.
package reference
