package lfs

import (
	"strconv"
	"strings"
)

// MaxPointer is the largest size of a pointer, in bytes (git-lfs' spec.md: less than 1024).
const MaxPointer = 1023

// MinPointer is the smallest size of a pointer, in bytes.
const MinPointer = 100

// Pointer is what a file in git has of an object.
type Pointer struct {
	OID  string // SHA-256, 64 hexadecimal digits
	Size int64  // of the object, in bytes
}

// Parse reads a pointer. ok is false for anything else.
func Parse(text string) (p Pointer, ok bool) {
	if len(text) > MaxPointer {
		return p, false
	}
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	if version := lines[0]; version != "version https://git-lfs.github.com/spec/v1" && version != "version https://hawser.github.com/spec/v1" {
		return p, false
	}
	p.Size = -1
	for _, line := range lines[1:] {
		key, value, _ := strings.Cut(line, " ")
		switch key {
		case "oid":
			p.OID = strings.TrimPrefix(value, "sha256:")
		case "size":
			n, err := strconv.ParseInt(value, 10, 64)
			if err != nil {
				return Pointer{}, false
			}
			p.Size = n
		}
	}
	return p, isOID(p.OID) && p.Size >= 0
}

func isOID(s string) bool { return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == "" }

// Path is where the object of an id is below "lfs/objects".
func Path(oid string) string { return oid[:2] + "/" + oid[2:4] + "/" + oid }
