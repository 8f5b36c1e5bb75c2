package sandbox

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// startFile is a file that a shell reads when it starts. The sandbox sees the host's
// text with a few lines of its own: some shells reset PATH there (Debian's /etc/profile does),
// or start without one (env -i), and would not find the programs of the sandbox.
type startFile struct {
	dest string
	// text is what the sandbox adds to the host's.
	text func(path string) string
	// first puts it before the host's text, which may return early.
	first bool
	// always: the file is there even if the host has none.
	always bool
}

var startFiles = []startFile{
	{dest: "/etc/profile", text: posixPath, always: true}, // login shells: sh, bash, ksh, and zsh if its zprofile reads it
	{dest: "/etc/bash.bashrc", text: posixPath, first: true},
	{dest: "/etc/zsh/zshenv", text: posixPath},
	{dest: "/etc/zshenv", text: posixPath},
	{dest: "/etc/zsh/zprofile", text: posixPath},
	{dest: "/etc/zprofile", text: posixPath},
	{dest: "/etc/fish/config.fish", text: fishPath, first: true},
	{dest: "/etc/environment", text: func(path string) string { return "PATH=\"" + path + "\"\n" }},
}

// shellFiles returns the start files of the sandbox, by destination.
func (c *Config) shellFiles() (map[string][]byte, error) {
	out := map[string][]byte{}
	path := c.searchPath()
	for _, f := range startFiles {
		host, err := publicText(f.dest)
		if errors.Is(err, fs.ErrNotExist) && f.always {
			err = nil
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		text := "# Added by polis: the sandbox's programs are found in every shell.\n" + f.text(path)
		if f.first {
			out[f.dest] = []byte(text + string(host))
		} else {
			out[f.dest] = []byte(strings.TrimSuffix(string(host), "\n") + "\n" + text)
		}
	}
	return out, nil
}

// publicText is what everybody can read of a file of the host. What is no regular
// file is not there: shells do not read it either.
func publicText(name string) ([]byte, error) {
	fi, err := os.Stat(name)
	switch {
	case err != nil:
		return nil, err
	case !fi.Mode().IsRegular():
		return nil, fs.ErrNotExist
	case fi.Mode().Perm()&0o004 == 0:
		return nil, nil
	}
	return os.ReadFile(name)
}

// searchPath is the PATH that processes of the sandbox start with.
func (c *Config) searchPath() string {
	for _, kv := range c.env(nil) {
		if v, ok := strings.CutPrefix(kv, "PATH="); ok {
			return v
		}
	}
	return ""
}

// posixPath puts the directories of path first, unless all of them are in PATH: what
// a program put before them (a virtual environment) stays before them then.
func posixPath(path string) string {
	var b strings.Builder
	b.WriteString("_polis_path=" + shellQuote(path) + "\n_polis_lacks=\n")
	for _, dir := range pathDirs(path) {
		b.WriteString("case \":${PATH-}:\" in *:" + shellQuote(dir) + ":*) ;; *) _polis_lacks=1 ;; esac\n")
	}
	b.WriteString(`if [ -n "$_polis_lacks" ]; then
  _polis_rest="${PATH-}:"
  while [ -n "$_polis_rest" ]; do
    _polis_dir=${_polis_rest%%:*}
    _polis_rest=${_polis_rest#*:}
    case ":$_polis_path:" in *":$_polis_dir:"*) ;; *) _polis_path=$_polis_path${_polis_dir:+:$_polis_dir} ;; esac
  done
  PATH=$_polis_path
  export PATH
fi
unset _polis_path _polis_lacks _polis_rest _polis_dir
`)
	return b.String()
}

// fishPath is posixPath for fish.
func fishPath(path string) string {
	var b strings.Builder
	b.WriteString("for _polis_dir in")
	dirs := pathDirs(path)
	slices.Reverse(dirs)
	for _, dir := range dirs {
		b.WriteString(" '" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(dir) + "'")
	}
	b.WriteString("\n    contains -- $_polis_dir $PATH; or set -gx PATH $_polis_dir $PATH\nend\nset -e _polis_dir\n")
	return b.String()
}

func pathDirs(path string) []string {
	return slices.DeleteFunc(strings.Split(path, ":"), func(dir string) bool { return dir == "" })
}

// shellQuote makes s one word of a POSIX shell.
func shellQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
