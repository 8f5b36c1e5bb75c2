// Package codexpatch reads the names of the files in the patches of Codex ("apply_patch"), which other programs use, too.
package codexpatch
