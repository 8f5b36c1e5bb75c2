package main

import (
	"fmt"
	"slices"
	"strings"
)

// option is one option of go test. arg has the form in which it was given.
type option struct {
	name, value string
	arg         []string
}

// withValue are the options that need a value, boolean those that do not.
var (
	withValue = []string{"-tags", "-run", "-skip", "-count", "-timeout", "-p"}
	boolean   = []string{"-race", "-short"}
)

// parseOptions divides arguments into options and packages. An option that is not known here is an
// error: a test could not be run again with it.
func parseOptions(args []string) (opts []option, pkgs []string, err error) {
	for ; len(args) > 0; args = args[1:] {
		o := option{arg: args[:1]}
		if !strings.HasPrefix(args[0], "-") {
			break
		}
		var has bool
		o.name, o.value, has = strings.Cut(args[0], "=")
		switch {
		case slices.Contains(boolean, o.name) && !has, slices.Contains(withValue, o.name) && has:
		case !slices.Contains(withValue, o.name):
			return nil, nil, fmt.Errorf("unknown option %s: known are %s", args[0], strings.Join(append(withValue, boolean...), " "))
		case len(args) == 1:
			return nil, nil, fmt.Errorf("%s needs a value", o.name)
		default:
			o.value, o.arg, args = args[1], args[:2], args[1:]
		}
		opts = append(opts, o)
	}
	for _, p := range args {
		if strings.HasPrefix(p, "-") {
			return nil, nil, fmt.Errorf("option %s after a package", p)
		}
	}
	return opts, args, nil
}

// argsOfOne are the arguments of go test that run one test of a package once, with the options of
// the run in which it failed.
func argsOfOne(opts []option, pkg, test string) []string {
	var args []string
	for _, o := range opts {
		if !slices.Contains([]string{"-run", "-skip", "-count", "-p"}, o.name) {
			args = append(args, o.arg...)
		}
	}
	return append(args, "-count=1", "-run", "^"+test+"$", pkg)
}
