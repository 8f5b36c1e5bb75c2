package agent

import (
	"crypto/rand"
	"encoding/hex"
	"fmt"
)

// secret returns a random name that nobody can guess.
func secret() (string, error) {
	b := make([]byte, 16)
	if _, err := rand.Read(b); err != nil {
		return "", fmt.Errorf("make a secret: %w", err)
	}
	return hex.EncodeToString(b), nil
}
