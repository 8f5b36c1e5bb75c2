// Package tomledit sets a key in the text of a TOML file and keeps everything else of the text: comments,
// order and blank lines. Set replaces no key that the file already sets, and its caller must check the result with
// a parser (Differs); Replace does both. It opens no file.
package tomledit
