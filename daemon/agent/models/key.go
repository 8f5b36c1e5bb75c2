package models

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"polis/daemon/config"
	"polis/daemon/gateway/provider"
	"polis/daemon/host/ownedpath"
)

// maxKey bounds a file with a key, in bytes.
const maxKey = 16 << 10

// readKey reads the key of a service; "" if it has none. With an error, a key is the one before. No error has a part of the key.
func (s *Source) readKey(ctx context.Context, service string, m config.KeySource) (string, error) {
	switch {
	case len(m.KeyCommand) > 0:
		return s.fromCommand(ctx, service, m)
	case m.KeyFile != "", m.Credential != "":
		return s.fromFile(service, m)
	}
	return "", nil
}

// fromFile reads the key of a service from its file, and remembers which one the agents got.
func (s *Source) fromFile(service string, m config.KeySource) (string, error) {
	key, err := s.keyInFile(m)
	if err == nil {
		s.mu.Lock()
		if s.files == nil { // at most one for each service of the configuration
			s.files = map[string][sha256.Size]byte{}
		}
		s.files[service] = sha256.Sum256([]byte(key))
		s.mu.Unlock()
	}
	return key, err
}

func (s *Source) keyInFile(m config.KeySource) (string, error) {
	if m.KeyFile != "" {
		return s.readFile(m.KeyFile)
	}
	dir := s.Getenv("CREDENTIALS_DIRECTORY")
	if dir == "" {
		return "", fmt.Errorf("credential %s: polisd has no credentials; set LoadCredential= in its unit, see systemd.exec(5)", m.Credential)
	}
	return s.readFile(filepath.Join(dir, m.Credential))
}

// changed reports whether the file of a service has another key than the agents got.
func (s *Source) changed(service string) bool {
	c := s.Config()
	from := c.Models[service].KeySource
	if from.KeyFile == "" && from.Credential == "" {
		from = c.Services[service].KeySource
	}
	s.mu.Lock()
	had, known := s.files[service]
	s.mu.Unlock()
	if !known || from.KeyFile == "" && from.Credential == "" {
		return false
	}
	key, err := s.keyInFile(from)
	return err == nil && sha256.Sum256([]byte(key)) != had
}

// readFile reads a file that only root can read or change, also by changing its directories.
func (s *Source) readFile(path string) (string, error) {
	f, err := ownedpath.Read(path, s.Owner)
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	if st.Mode().Perm()&0o077 != 0 && !credential(st.Mode()) {
		return "", fmt.Errorf("key: %s can be used by others: chmod 0600 it", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxKey+1))
	if err != nil {
		return "", fmt.Errorf("key: %w", err)
	}
	key := strings.TrimSpace(string(b))
	if key == "" || len(b) > maxKey {
		return "", fmt.Errorf("key: %s must have a key, and nothing else", path)
	}
	if err := provider.CheckKey(key); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return key, nil
}

// credential reports whether a file has the mode of systemd's credentials: root's, and readable by the
// group of its unit, which is root's as well.
func credential(m fs.FileMode) bool { return m.Perm() == 0o440 }

// errNoKey means that a service cannot be used, as its key could not be read.
var errNoKey = errors.New("the key could not be read")
