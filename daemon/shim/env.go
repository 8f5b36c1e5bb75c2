package shim

import "strings"

// env is the environment of a process in the sandbox; more wins.
func (s *Shim) env(more []string, tty bool) []string {
	path := ""
	if storeName(s.Spec) != "" || hasTool(s.Spec) {
		path = binDir + ":"
	}
	path += s.Spec.Home + "/.local/bin:"
	for _, dir := range s.Spec.Path {
		path += dir + ":"
	}
	env := []string{
		"PATH=" + path + "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
		"HOME=" + s.Spec.Home, "USER=" + s.Spec.User, "LOGNAME=" + s.Spec.User, "LANG=C.UTF-8", "SHELL=/bin/bash",
	}
	if s.Spec.Policy.Temp {
		env = append(env, "TMPDIR=/var/tmp")
	}
	if s.Spec.Email != "" {
		// git reads EMAIL after every configuration: it serves programs that disable those
		// (GIT_CONFIG_GLOBAL, GIT_CONFIG_SYSTEM).
		env = append(env, "EMAIL="+s.Spec.Email)
	}
	if s.Spec.ReadOnly {
		env = append(env, "GIT_OPTIONAL_LOCKS=0") // git status need not update the index
	}
	env = append(env, s.storeEnv()...)
	if tty {
		env = append(env, "TERM=xterm-256color")
	}
	env = append(env, s.Spec.Env...)
	if vars := s.vars.Load(); vars != nil {
		env = append(env, *vars...)
	}
	env = append(env, s.hookEnv...)
	env = append(env, more...)
	return dedupEnv(append(env, s.gitEnv(env)...))
}

// searchPath is the PATH of the sandbox, for the shells that reset it, as a variable.
func (s *Shim) searchPath() []string {
	for _, e := range s.env(nil, false) {
		if strings.HasPrefix(e, "PATH=") {
			return []string{e}
		}
	}
	return nil
}

// dedupEnv keeps the last value of each variable: libc reads the first.
func dedupEnv(env []string) []string {
	last := map[string]int{}
	key := func(e string) string {
		for i := range e {
			if e[i] == '=' {
				return e[:i]
			}
		}
		return e
	}
	for i, e := range env {
		last[key(e)] = i
	}
	out := env[:0:0]
	for i, e := range env {
		if last[key(e)] == i {
			out = append(out, e)
		}
	}
	return out
}
