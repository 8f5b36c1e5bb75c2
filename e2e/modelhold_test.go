//go:build agents

package e2e

import (
	"net/http"
	"strings"
)

// listen has the model tell later by heardOf whether a request had a word, from now on.
func (m *model) listen(word string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.words == nil {
		m.words = map[string]bool{}
	}
	m.words[word] = false
}

func (m *model) heardOf(word string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.words[word]
}

func (m *model) listenTo(request string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for w := range m.words {
		m.words[w] = m.words[w] || strings.Contains(request, w)
	}
}

// hold has the model answer nothing before release.
func (m *model) hold() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held == nil {
		m.held = make(chan struct{})
	}
}

func (m *model) release() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.held != nil {
		close(m.held)
		m.held = nil
	}
}

// holds reports whether a request waits.
func (m *model) holds() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.waiting > 0
}

// wait waits until answers are given, or the request is withdrawn.
func (m *model) wait(r *http.Request) {
	m.mu.Lock()
	held := m.held
	if held != nil {
		m.waiting++
	}
	m.mu.Unlock()
	if held == nil {
		return
	}
	select {
	case <-held:
	case <-r.Context().Done():
	}
	m.mu.Lock()
	m.waiting--
	m.mu.Unlock()
}
