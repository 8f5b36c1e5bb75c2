// Package tomledit sets a key in the text of a TOML file and keeps everything else of the text: comments,
// order and blank lines. It replaces no key that the file already sets, and the caller must check the result with
// a parser. It opens no file.
package tomledit
