package ownedpath

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

const (
	// maxFirstLine is how much of a script the kernel reads for its first line, in bytes (BINPRM_BUF_SIZE).
	maxFirstLine = 256
	// maxScripts bounds interpreters that are scripts themselves, as the kernel does.
	maxScripts = 4
)

// Command is Program for a program that is executed as it is: if it is a script, its interpreter is checked as well,
// and so is the one that env(1) finds in path for it (directories, separated by colons). What a program opens later is
// not checked.
func Command(name string, owner uint32, path string) (string, error) {
	real, err := Program(name, owner)
	for at, depth := real, 0; err == nil; depth++ {
		var next string
		if next, err = interpreter(at, owner, path); err != nil || next == "" {
			break
		}
		if depth >= maxScripts {
			return "", fmt.Errorf("%s: more than %d interpreters are scripts", real, maxScripts)
		}
		script := at
		if at, err = Program(next, owner); err != nil {
			err = fmt.Errorf("the interpreter of %s: %w", script, err)
		}
	}
	if err != nil {
		return "", err
	}
	return real, nil
}

// interpreter returns the program that the kernel executes for a script; "" if the file is none. For env(1) it is the
// one that env executes.
func interpreter(script string, owner uint32, path string) (string, error) {
	line, err := firstLine(script, owner)
	if err != nil || line == "" {
		return "", err
	}
	name, rest, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	if !filepath.IsAbs(name) {
		return "", fmt.Errorf("%s: its first line must name an interpreter by an absolute path", script)
	}
	if filepath.Base(name) != "env" {
		return name, nil
	}
	if _, err := Program(name, owner); err != nil {
		return "", fmt.Errorf("the interpreter of %s: %w", script, err)
	}
	return found(script, strings.Fields(rest), owner, path)
}

// found returns what env(1) executes: with the option -S, the words after it, and else the only word.
func found(script string, words []string, owner uint32, path string) (string, error) {
	if len(words) > 1 && words[0] == "-S" {
		words = words[1:]
	} else if len(words) > 1 {
		words = nil // env would look for a program with a space in its name
	}
	if len(words) == 0 || strings.HasPrefix(words[0], "-") || strings.ContainsAny(words[0], `='"\$#`) || strings.Contains(words[0], "/") && !filepath.IsAbs(words[0]) {
		return "", fmt.Errorf("%s: what env starts cannot be checked: name the interpreter itself in the first line", script)
	}
	if filepath.IsAbs(words[0]) {
		return words[0], nil
	}
	for _, dir := range filepath.SplitList(path) {
		program := filepath.Join(dir, words[0])
		_, err := Program(program, owner)
		switch {
		case err == nil:
			return program, nil
		case errors.Is(err, os.ErrNotExist): // and nobody else can make one there
		default:
			return "", fmt.Errorf("%s: env looks for %s: %w; or name the interpreter itself in the first line", script, words[0], err)
		}
	}
	return "", fmt.Errorf("%s: env finds no %s in %s", script, words[0], path)
}

// firstLine returns what follows #! in a script, without the spaces around it.
func firstLine(path string, owner uint32) (string, error) {
	f, err := Read(path, owner)
	if err != nil {
		return "", err
	}
	defer f.Close()
	buf := make([]byte, maxFirstLine)
	n, err := io.ReadFull(f, buf)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	text, script := bytes.CutPrefix(buf[:n], []byte("#!"))
	if !script {
		return "", nil
	}
	line, _, whole := bytes.Cut(text, []byte("\n"))
	if out := strings.Trim(string(line), " \t"); out != "" && (whole || n < maxFirstLine) {
		return out, nil
	}
	return "", fmt.Errorf("%s: its first line must name an interpreter in less than %d bytes", path, maxFirstLine)
}
