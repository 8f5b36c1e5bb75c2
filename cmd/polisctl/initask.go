package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"polis/daemon/api"
)

// A prompter asks for one line at a time.
type prompter struct {
	in  *bufio.Reader
	out *os.File
}

// line returns the answer, or the default for an empty one; "none" is "".
func (p *prompter) line(question, def string) (string, error) {
	fmt.Fprintf(p.out, "%s [%s]: ", question, def)
	text, err := p.in.ReadString('\n')
	if err != nil {
		return "", api.Errorf(api.CodeInternal, "no answer; nothing was changed")
	}
	if text = strings.TrimSpace(text); text == "" {
		text = def
	}
	if text == "none" && def == "none" {
		text = ""
	}
	return text, nil
}

// maxTries bounds how often one question is repeated.
const maxTries = 3

// rest asks what neither a flag nor chooseBase gave; a nil prompter asks nothing.
func (p *prompter) rest(ans *initAnswers, given func(string) bool) (err error) {
	if p == nil {
		return nil
	}
	if !given("check") {
		if ans.check, err = p.check(ans.repo); err != nil {
			return err
		}
	}
	if !given("egress") {
		ans.egress, err = p.line("Where may agents connect to (open, none, ask, or a list of names)", "open")
	}
	return err
}

// check asks for the check command until the answer can be one.
func (p *prompter) check(repo string) (string, error) {
	question := "Command that must succeed before a merge, such as " + orElse(projectCheck(repo), "make test")
	for try := 1; ; try++ {
		text, err := p.line(question, "none")
		if err != nil {
			return "", err
		}
		refusal := noCommand(text)
		if refusal == nil || try == maxTries {
			return text, refusal
		}
		fmt.Fprintln(p.out, api.AsError(refusal).Message)
	}
}

// noCommand refuses a check command that is an answer to another question.
func noCommand(text string) error {
	if !slices.Contains([]string{"y", "yes", "n", "no"}, strings.ToLower(strings.TrimSpace(text))) {
		return nil
	}
	return usagef("check is a shell command, such as make test, and %q is an answer to a yes-or-no question: type the command, or nothing for none", clean(text))
}

// projectChecks are files that show how a project is tested.
var projectChecks = []struct{ file, contains, command string }{
	{"Makefile", "\ntest:", "make test"},
	{"package.json", `"test"`, "npm test"},
	{"go.mod", "", "go test ./..."},
	{"Cargo.toml", "", "cargo test"},
	{"pyproject.toml", "", "python3 -m pytest"},
}

// projectCheck guesses the command that tests a project; "" if nothing shows it. It reads a bounded part of
// regular files, as the caller.
func projectCheck(repo string) string {
	for _, c := range projectChecks {
		path := filepath.Join(repo, c.file)
		fi, err := os.Stat(path)
		if err != nil || !fi.Mode().IsRegular() || fi.Size() > 1<<20 {
			continue
		}
		if b, err := os.ReadFile(path); err == nil && strings.Contains("\n"+string(b), c.contains) {
			return c.command
		}
	}
	return ""
}
