package tui

import (
	"strings"
	"unicode"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"
)

// input is a line being typed.
type input struct {
	prompt string
	text   string
	done   func(text string) tea.Cmd
	// filter: the text is the list's filter while it is typed.
	filter bool
	// empty: no text is an answer, too.
	empty bool
	// before is the filter to go back to.
	before string
}

// add appends what was typed or pasted; a line has no line ends in it.
func (in *input) add(s string) {
	s = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r):
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, ""))
	for _, r := range s {
		if len(in.text)+utf8.RuneLen(r) > maxInput {
			return
		}
		in.text += string(r)
	}
}

// back removes the last character.
func (in *input) back() {
	_, n := utf8.DecodeLastRuneInString(in.text)
	in.text = in.text[:len(in.text)-n]
}

// word removes the last word.
func (in *input) word() {
	t := strings.TrimRight(in.text, " ")
	in.text = t[:strings.LastIndexByte(t, ' ')+1]
}

// typed takes a key while a line is typed.
func (m *Model) typed(k tea.KeyPressMsg) tea.Cmd {
	in := m.input
	if m.palette != nil {
		if cmd, ok := m.paletteKey(k.String()); ok {
			return cmd
		}
		m.palette.at = 0 // what is typed selects other commands
	}
	switch k.String() {
	case "esc":
		m.input = nil
		if in.filter {
			m.filter = in.before
			m.choose()
		}
		return nil
	case "enter":
		m.input = nil
		if in.filter {
			return m.outputs()
		}
		if strings.TrimSpace(in.text) == "" && !in.empty {
			m.say("nothing was sent")
			return nil
		}
		return in.done(in.text)
	case "backspace", "ctrl+h":
		in.back()
	case "ctrl+u":
		in.text = ""
	case "ctrl+w":
		in.word()
	default:
		in.add(k.Text)
	}
	m.filtered()
	return nil
}

// filtered has the list follow a filter that is being typed.
func (m *Model) filtered() {
	if m.input.filter {
		m.filter = m.input.text
		moved, unseen := m.moved, m.unseen
		m.choose()
		m.moved, m.unseen = moved, unseen // a person chose by what was typed
	}
}
