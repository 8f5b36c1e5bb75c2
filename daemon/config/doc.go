// Package config reads polisd.toml and the agents' base types, sets the
// defaults and refuses what it does not understand, naming the field, the
// value and the rule. It knows no agent and changes nothing.
package config
