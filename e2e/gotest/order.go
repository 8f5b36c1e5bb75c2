package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// order is a package's testdata/order.txt. Each line is "first NAME", for a test that takes long
// and begins before the others, or "alone NAME", for one that runs while no other does. A line
// that begins with # is a comment.
type order struct {
	first, alone []string
}

// readOrder reads a file that may be missing. tests are those of the package: a name that is not
// one of them is an error, so that no entry outlives its test.
func readOrder(file string, tests []string) (order, error) {
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return order{}, nil
	}
	if err != nil {
		return order{}, err
	}
	var o order
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		word, name, _ := strings.Cut(line, " ")
		if !slices.Contains(tests, name) {
			return order{}, fmt.Errorf("%s: %q names no test", file, line)
		}
		if slices.Contains(o.first, name) || slices.Contains(o.alone, name) {
			return order{}, fmt.Errorf("%s: %q names a test again, which would run twice", file, line)
		}
		switch word {
		case "first":
			o.first = append(o.first, name)
		case "alone":
			o.alone = append(o.alone, name)
		default:
			return order{}, fmt.Errorf("%s: %q begins with neither first nor alone", file, line)
		}
	}
	return o, nil
}

// apply divides tests into those that run together, in the order in which they begin, and those
// that run alone.
func (o order) apply(tests []string) (together, alone []string) {
	for _, name := range o.first {
		if slices.Contains(tests, name) {
			together = append(together, name)
		}
	}
	for _, name := range tests {
		switch {
		case slices.Contains(o.alone, name):
			alone = append(alone, name)
		case !slices.Contains(o.first, name):
			together = append(together, name)
		}
	}
	return together, alone
}
