//go:build !seccomp

package sandbox

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMain(m *testing.M) {
	Main()
	os.Exit(m.Run())
}

func TestWithoutSeccompNothingRuns(t *testing.T) {
	_, err := Create(t.Context(), Config{})
	require.ErrorIs(t, err, ErrNoSeccomp)
	require.ErrorIs(t, err, ErrNamespace)
}

// Every other test of the package is left out of such a build.
func TestTheRestNeedsTheTag(t *testing.T) {
	if os.Getenv("CI") == "true" && os.Getenv("POLIS_TEST_WITHOUT_SECCOMP") == "" {
		t.Fatal("run with -tags seccomp")
	}
	t.Skip("run with -tags seccomp")
}
