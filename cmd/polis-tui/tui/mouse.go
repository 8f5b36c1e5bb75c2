package tui

import (
	tea "charm.land/bubbletea/v2"
)

// wheelLines is how far a pane scrolls by one step of the wheel.
const wheelLines = 3

// mouse takes a click or a step of the wheel. It answers no question: a click decides nothing.
func (m *Model) mouse(msg tea.MouseMsg) tea.Cmd {
	at := msg.Mouse()
	if m.ask != nil || m.input != nil && m.palette == nil || m.width < minWidth || m.height < minHeight {
		return nil
	}
	switch msg.(type) {
	case tea.MouseClickMsg:
		if at.Button == tea.MouseLeft {
			return m.click(at.Y)
		}
	case tea.MouseWheelMsg:
		switch at.Button {
		case tea.MouseWheelUp:
			return m.wheel(-1, at.Y)
		case tea.MouseWheelDown:
			return m.wheel(1, at.Y)
		}
	}
	return nil
}

// click selects the row at a line; a row that is selected is opened.
func (m *Model) click(y int) tea.Cmd {
	row := y - 1 // below the border
	switch {
	case m.help:
		m.help = false
	case m.palette != nil:
		found := m.matches(m.palette.in.text)
		i := m.paletteFrom(len(found)) + row
		if row < 0 || row >= m.bodyHeight() || i >= len(found) {
			return nil
		}
		m.palette.at = i
		return m.chosenCommand(found[i])
	case m.questions != nil:
		if i, ok := m.clicked(row, m.questionIndex(), len(m.asked)); ok {
			m.chooseQuestion(i)
			return m.readQuestion()
		}
	case m.pane != nil:
	case m.cases != nil:
		if i, ok := m.clicked(row, m.caseIndex(), len(m.openCases)); ok {
			m.chooseCase(i)
		}
	case m.taskScreen != nil:
		if i, ok := m.clicked(row, m.taskIndex(), len(m.taskScreen.all)); ok {
			return m.chooseTask(i)
		}
	default:
		visible := m.visible()
		i := row - 1 // below the head
		if i < 0 || i >= len(visible) {
			return nil
		}
		if name := visible[i].Name; name != m.chosen {
			m.chosen = name
			return m.outputs()
		}
		return m.open(paneLog, m.chosen)
	}
	return nil
}

// clicked is which of n is at a row of a list above details.
func (m *Model) clicked(row, at, n int) (int, bool) {
	i := m.listFrom(at, n) + row
	return i, at >= 0 && row >= 0 && row < m.listRows(n) && i < n
}

// wheel scrolls what is at a line.
func (m *Model) wheel(by, y int) tea.Cmd {
	switch {
	case m.help:
		m.helpTop += by * wheelLines
	case m.palette != nil:
		m.palette.at = max(0, m.palette.at+by)
	case m.questions != nil:
		if y <= m.listRows(len(m.asked)) {
			m.chooseQuestion(m.questionIndex() + by)
			return m.readQuestion()
		}
		m.questions.top += by * wheelLines
	case m.pane != nil:
		m.scroll(by * wheelLines)
	case m.cases != nil:
		if y <= m.listRows(len(m.openCases)) {
			m.chooseCase(m.caseIndex() + by)
			return nil
		}
		m.cases.top += by * wheelLines
	case m.taskScreen != nil:
		if y <= m.listRows(len(m.taskScreen.all)) {
			return m.chooseTask(m.taskIndex() + by)
		}
		m.taskScreen.top += by * wheelLines
	default:
		return m.move(by)
	}
	return nil
}
