package policy

import (
	"fmt"
	"regexp"
	"strings"
)

// Kind is the kind of a temporary name.
type Kind uint8

// The kinds of names.
const (
	// Ordinary: not a known temporary name.
	Ordinary Kind = iota
	// Known: a temporary name that contains its destination.
	Known
	// Unknown: a temporary name whose destination shows at the rename only.
	// It is judged by its directory and needs no lease.
	Unknown
)

// Temps maps temporary names to their destinations. The zero value knows the
// built-in names:
//
//	F.tmp.PID.HEX       coding agents (write, then rename)
//	F.HEX.tmp           the same, with twelve hexadecimal digits
//	F~                  backups of vim, emacs, nano
//	.F.swp .F.swo ...   vim's swap files
//	#F#  .#F            emacs' auto-save file and lock link
//	4913                vim asking whether it may create files here
//	sedXXXXXX           sed -i
type Temps struct {
	extra []*regexp.Regexp
}

// CompileTemps adds names to the built-in ones. Each is a file name with
// {name} for the destination's name and *, ? as in globs, for example
// ".{name}.*.partial".
func CompileTemps(extra []string) (*Temps, error) {
	t := &Temps{}
	for i, e := range extra {
		re, err := compileTemp(e)
		if err != nil {
			return nil, fmt.Errorf("temporary name %d %q: %w", i, e, err)
		}
		t.extra = append(t.extra, re)
	}
	return t, nil
}

func compileTemp(e string) (*regexp.Regexp, error) {
	before, after, ok := strings.Cut(e, "{name}")
	switch {
	case !ok || strings.Contains(after, "{name}"):
		return nil, fmt.Errorf("want {name} exactly once")
	case strings.Contains(e, "/"):
		return nil, fmt.Errorf("is a file name, not a path")
	case before == "" && after == "":
		return nil, fmt.Errorf("every name would be temporary")
	case len(e) > 255:
		return nil, fmt.Errorf("longer than a file name")
	}
	quote := strings.NewReplacer(`\*`, `.*`, `\?`, `.`)
	return regexp.Compile(`(?s)^` + quote.Replace(regexp.QuoteMeta(before)) + `(.+)` +
		quote.Replace(regexp.QuoteMeta(after)) + `$`)
}

// TempTarget maps a built-in temporary name whose destination is known.
func TempTarget(path string) (dest string, ok bool) {
	dest, kind := (&Temps{}).Classify(path)
	return dest, kind == Known
}

// Classify returns the kind of name that path is. dest is the destination of a
// Known one, the directory of an Unknown one, and path itself of an Ordinary
// one.
func (t *Temps) Classify(path string) (dest string, kind Kind) {
	slash := strings.LastIndexByte(path, '/')
	dir, name := path[:slash+1], path[slash+1:]
	if to, ok := builtin(name); ok {
		return join(dir, to), Known
	}
	if name == "4913" || sedName(name) {
		return strings.TrimSuffix(dir, "/"), Unknown
	}
	if t != nil {
		for _, re := range t.extra {
			if m := re.FindStringSubmatch(name); m != nil && plain(m[1]) {
				return join(dir, m[1]), Known
			}
		}
	}
	return path, Ordinary
}

func join(dir, name string) string { return dir + name }

// plain reports whether a derived name is a name: ".#.." must not lead anywhere.
func plain(name string) bool { return name != "" && name != "." && name != ".." }

func builtin(name string) (dest string, ok bool) {
	if len(name) < 2 {
		return "", false
	}
	last := name[len(name)-1]
	switch {
	case last == '~':
		dest = name[:len(name)-1]
		// emacs' numbered backups: F.~3~
		if i := strings.LastIndex(dest, ".~"); i > 0 && digits(dest[i+2:]) {
			dest = dest[:i]
		}
	case name[0] == '#' && last == '#':
		dest = name[1 : len(name)-1]
	case strings.HasPrefix(name, ".#"):
		dest = name[2:]
	case name[0] == '.' && len(name) > 5 && name[len(name)-4:len(name)-1] == ".sw" && last >= 'a' && last <= 'z':
		dest = name[1 : len(name)-4]
	case strings.HasSuffix(name, ".tmp") && len(name) > 17 && name[len(name)-17] == '.' && hexadecimal(name[len(name)-16:len(name)-4]):
		dest = name[:len(name)-17]
	default:
		dest = pidTemp(name)
	}
	return dest, plain(dest)
}

// pidTemp takes F.tmp.PID.HEX apart.
func pidTemp(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 || !hexadecimal(name[i+1:]) {
		return ""
	}
	name = name[:i]
	if i = strings.LastIndexByte(name, '.'); i < 0 || !digits(name[i+1:]) {
		return ""
	}
	dest, ok := strings.CutSuffix(name[:i], ".tmp")
	if !ok {
		return ""
	}
	return dest
}

func sedName(name string) bool {
	if len(name) != 9 || name[:3] != "sed" {
		return false
	}
	for _, c := range []byte(name[3:]) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') {
			return false
		}
	}
	return true
}

func digits(s string) bool {
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return false
		}
	}
	return s != ""
}

func hexadecimal(s string) bool {
	for _, c := range []byte(s) {
		if !(c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F') {
			return false
		}
	}
	return s != ""
}
