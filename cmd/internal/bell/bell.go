package bell

import (
	"strings"
	"time"
	"unicode"
)

// Pause is the shortest time between two rings.
const Pause = time.Second

// Bell rings a terminal. The zero value is ready to use.
type Bell struct {
	// Getenv returns variables of the environment, which name the terminal; nil: none are set.
	Getenv func(string) string
	last   time.Time
}

// Ring returns what to write to the terminal now; "" shortly after another ring.
func (b *Bell) Ring(now time.Time, text string) string {
	if !b.last.IsZero() && now.Sub(b.last) < Pause {
		return ""
	}
	b.last = now
	return "\a" + b.notification(text)
}

// notification is the text as a desktop notification: OSC 777 of rxvt-unicode and VTE, or OSC 9 of
// iTerm2, which others took over. Terminals that are known to have neither get none, and others
// ignore an OSC that they do not know (ECMA-48 8.3.89).
func (b *Bell) notification(text string) string {
	getenv := b.Getenv
	if getenv == nil {
		return ""
	}
	text = strings.Map(func(r rune) rune {
		if r == ';' || !unicode.IsPrint(r) {
			return -1
		}
		return r
	}, text)
	term := getenv("TERM")
	switch {
	case term == "" || term == "dumb" || term == "linux" || strings.HasPrefix(term, "screen") || strings.HasPrefix(term, "tmux"):
		return ""
	case getenv("VTE_VERSION") != "" || strings.HasPrefix(term, "rxvt") || strings.HasPrefix(term, "foot"):
		return "\x1b]777;notify;polis;" + text + "\x1b\\"
	}
	return "\x1b]9;polis: " + text + "\x1b\\"
}
