package desktop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"syscall"
	"time"

	"polis/daemon/host/command"
)

// Flag makes a program that links this package the child: it calls Child then.
const Flag = "desktop-notification"

// self is this program, also if its file was replaced since.
const self = "/proc/self/exe"

const (
	// timeout bounds the child. A program that shows notifications may be started by the bus first.
	timeout = 15 * time.Second
	// maxAnswer and maxNote bound what the child prints and reads, in bytes.
	maxAnswer = 4 << 10
	maxNote   = 64 << 10
)

// Note is what is shown: plain text, of any origin.
type Note struct {
	Title string   `json:"title"`
	Lines []string `json:"lines"`
}

// Reason is why a notification was not shown. The list is complete.
type Reason string

// The reasons.
const (
	NoSession Reason = "no session bus: the user is not logged in"
	NoProgram Reason = "no program of the session shows notifications"
	Failed    Reason = "the session bus does not work"
)

// UnseenError is a notification that was not shown. Detail is the word of the user.
type UnseenError struct {
	Reason Reason
	Detail string
}

func (e *UnseenError) Error() string {
	if e.Detail == "" {
		return string(e.Reason)
	}
	return string(e.Reason) + ": " + e.Detail
}

// answer is what the child prints. Without a reason the notification is shown.
type answer struct {
	Reason Reason `json:"reason,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// Show shows a note in the session of a user. An error of the session is an *UnseenError. Nil is the caller's own user.
func Show(ctx context.Context, user *syscall.Credential, n Note) error {
	if user != nil && user.Uid == 0 {
		return errors.New("no notification is shown to root")
	}
	input, err := json.Marshal(bounded(n))
	if err != nil {
		return fmt.Errorf("encode a notification: %w", err)
	}
	out, _, err := command.Command{Argv: []string{"polisd", "--" + Flag}, Program: self, User: user, Env: []string{"LC_ALL=C"}, Input: input, Timeout: timeout, MaxOutput: maxAnswer}.Run(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var a answer
	if err != nil {
		return &UnseenError{Failed, err.Error()}
	}
	if err := json.Unmarshal(out, &a); err != nil {
		return &UnseenError{Failed, "its child gave no answer"}
	}
	switch a.Reason {
	case "":
		return nil
	case NoSession, NoProgram, Failed:
	default:
		a.Reason = Failed
	}
	return &UnseenError{a.Reason, clean(a.Detail, maxDetail)}
}
