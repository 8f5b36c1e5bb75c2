package sandbox

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// generated is a file that replaces the host's in the sandbox.
type generated struct {
	source, dest string
}

// writeFiles writes the generated files below .polis of the root directory.
func (c *Config) writeFiles() error {
	passwd, err := os.ReadFile("/etc/passwd")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	group, err := os.ReadFile("/etc/group")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	hosts, err := os.ReadFile("/etc/hosts")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	shells, err := c.shellFiles()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		"passwd":     passwdFor(passwd, c.User, c.FullName, c.UID, c.GID, c.Home),
		"group":      groupFor(group, c.User, c.GID),
		"hosts":      hostsFor(hosts, c.Hostname, c.Domain, c.Shared.Network),
		"hostname":   []byte(c.Hostname + "\n"),
		"polis-init": nil, // where process 1 is bound
	}
	for dest, text := range shells {
		files[generatedName(dest)] = text
	}
	for name, data := range files {
		p := filepath.Join(c.RootfsDir, ".polis", name)
		if err := os.WriteFile(p, data, 0o644); err != nil {
			return err
		}
		if err := os.Chmod(p, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// generatedName is how a file of /etc is called in .polis: passwd, zsh_zshenv.
func generatedName(dest string) string {
	return strings.ReplaceAll(strings.TrimPrefix(dest, "/etc/"), "/", "_")
}

// files lists what is bound over the host's files, or beside them: see hostBinds.
func (c *Config) files() []generated {
	var out []generated
	add := func(source, name string) {
		dest, ok := followLinks(path.Join("/etc", name))
		if !ok {
			c.Log.Warn("not replaced in the sandbox: a link leads nowhere", "op", "sandbox.create", "path", dest)
			return
		}
		out = append(out, generated{source: source, dest: dest})
	}
	for _, name := range []string{"passwd", "group", "hosts", "hostname"} {
		add(filepath.Join(c.RootfsDir, ".polis", name), name)
	}
	for _, f := range startFiles {
		source := filepath.Join(c.RootfsDir, ".polis", generatedName(f.dest))
		if _, err := os.Lstat(source); err == nil { // written: the host has it, or it is always there
			add(source, strings.TrimPrefix(f.dest, "/etc/"))
		}
	}
	resolv := c.ResolvConf
	if resolv == "" {
		// Only a link needs this: its target in /run is not in the sandbox.
		if target, err := filepath.EvalSymlinks("/etc/resolv.conf"); err == nil && target != "/etc/resolv.conf" {
			resolv = target
		}
	}
	if resolv != "" {
		add(resolv, "resolv.conf")
	}
	return out
}

// followLinks returns the path a program of the sandbox reaches when it opens p: the last link's
// target, which need not exist on the host as long as it can be created in the sandbox.
func followLinks(p string) (string, bool) {
	for range 10 {
		target, err := os.Readlink(p)
		if errors.Is(err, fs.ErrNotExist) {
			return p, within("/etc", p) || within("/run", p) || within("/var", p)
		}
		if err != nil {
			return p, true // exists, and is no link
		}
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(p), target)
		}
		p = path.Clean(target)
		if rest, ok := strings.CutPrefix(p, "/var/run/"); ok {
			p = "/run/" + rest
		}
	}
	return p, false
}

// passwdFor returns the host's user list with the line for uid as the sandbox
// needs it: programs ask for the home directory by number.
func passwdFor(host []byte, user, fullName string, uid, gid int, home string) []byte {
	own := fmt.Sprintf("%s:x:%d:%d:%s:%s:%s\n", user, uid, gid, cmp.Or(gecos(fullName), user), home, shell())
	var out bytes.Buffer
	done := false
	scan := bufio.NewScanner(bytes.NewReader(host))
	for scan.Scan() {
		f := strings.Split(scan.Text(), ":")
		if len(f) >= 7 && (f[2] == strconv.Itoa(uid) || f[0] == user) {
			if !done {
				out.WriteString(own)
			}
			done = true
			continue
		}
		out.WriteString(scan.Text() + "\n")
	}
	if !done {
		out.WriteString(own)
	}
	return out.Bytes()
}

// gecos is a name as passwd(5) can have it: a comma ends it, and '&' stands for the
// user's login.
func gecos(name string) string {
	name = strings.Map(func(r rune) rune {
		if strings.ContainsRune(":,&", r) || unicode.IsControl(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(name, " "))
	return strings.Join(strings.Fields(name), " ")
}

// shell is the user's: the better of what the host has.
func shell() string {
	if _, err := os.Stat("/bin/bash"); err == nil {
		return "/bin/bash"
	}
	return "/bin/sh"
}

// groupFor returns the host's group list, with gid in it.
func groupFor(host []byte, user string, gid int) []byte {
	var out bytes.Buffer
	found, taken := false, false
	scan := bufio.NewScanner(bytes.NewReader(host))
	for scan.Scan() {
		f := strings.Split(scan.Text(), ":")
		if len(f) >= 3 {
			found = found || f[2] == strconv.Itoa(gid)
			taken = taken || f[0] == user
		}
		out.WriteString(scan.Text() + "\n")
	}
	if !found {
		name := user
		if taken {
			name = fmt.Sprintf("group%d", gid)
		}
		fmt.Fprintf(&out, "%s:x:%d:\n", name, gid)
	}
	return out.Bytes()
}

// hostNames are the names of the host's services. The agent's resolver answers
// them, by the settings of the moment; the host's file must not come before it.
func hostNames() []string {
	return []string{"host.polis", "host.docker.internal", "host.containers.internal"}
}

// hostsFor returns the host's table of names without its idea of what is
// local: the sandbox has its own loopback and its own name.
func hostsFor(host []byte, hostname, domain string, hostNetwork bool) []byte {
	var out bytes.Buffer
	if domain != "" {
		hostname = hostname + "." + domain + " " + hostname
	}
	fmt.Fprintf(&out, "127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n127.0.1.1\t%s\n", hostname)
	if hostNetwork {
		fmt.Fprintf(&out, "127.0.0.1\t%s\n", strings.Join(hostNames(), " "))
	}
	scan := bufio.NewScanner(bytes.NewReader(host))
	for scan.Scan() {
		line := scan.Text()
		f := strings.Fields(line)
		n := len(f)
		f = slices.DeleteFunc(f, func(w string) bool { return slices.Contains(hostNames(), strings.ToLower(w)) })
		if len(f) != n {
			line = strings.Join(f, " ")
		}
		if len(f) < 2 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], "127.") || f[0] == "::1" {
			continue
		}
		out.WriteString(line + "\n")
	}
	return out.Bytes()
}
