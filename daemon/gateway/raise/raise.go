package raise

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"sync"

	"polis/daemon/api/setting"
	"polis/daemon/store"
)

const (
	fileName = "models.raised.json"
	// maxRaises bounds the file. The oldest are dropped: those of tasks and days that are over.
	maxRaises = 64
)

// Raise is a bound of a budget that a person has raised.
type Raise struct {
	// Bound is the key of the configuration, such as day_tokens.
	Bound string `json:"bound"`
	// Of is the ID of the task, or the day (YYYY-MM-DD in UTC), that it is for.
	Of string `json:"of"`
	// To is the new bound: tokens, or units of the currency.
	To float64 `json:"to"`
}

// Raises are in the order in which they were added.
type Raises []Raise

// Read returns the raises of the agent with its logs in dir.
func Read(dir string) (Raises, error) {
	var r Raises
	err := store.ReadSummed(filepath.Join(dir, fileName), &r)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the raised model budgets: %w", err)
	}
	return r, nil
}

// Over returns a budget with what was raised of it for a task ("": none) and a day. A raise below the
// configuration changes nothing, and so does one of what has no bound.
func (r Raises) Over(b setting.ModelBudget, task, day string) setting.ModelBudget {
	for _, x := range r {
		switch {
		case x.Bound == "task_tokens" && task != "" && x.Of == task && b.TaskTokens > 0:
			b.TaskTokens = max(b.TaskTokens, int64(x.To))
		case x.Bound == "task_money" && task != "" && x.Of == task && b.TaskMoney > 0:
			b.TaskMoney = max(b.TaskMoney, x.To)
		case x.Bound == "day_tokens" && x.Of == day && b.DayTokens > 0:
			b.DayTokens = max(b.DayTokens, int64(x.To))
		case x.Bound == "day_money" && x.Of == day && b.DayMoney > 0:
			b.DayMoney = max(b.DayMoney, x.To)
		}
	}
	return b
}

// Store has the raises of one agent, for the one process that writes them.
type Store struct {
	dir string
	mu  sync.Mutex
	all Raises
}

// Open reads the raises in dir, which must be a directory of root's. A file that cannot be read raises
// nothing.
func Open(dir string) (*Store, error) {
	if err := store.Sweep(filepath.Join(dir, fileName)); err != nil {
		return nil, fmt.Errorf("open the raised model budgets: %w", err)
	}
	all, err := Read(dir)
	return &Store{dir: dir, all: all}, err
}

// Over is Raises.Over. A nil Store has none.
func (s *Store) Over(b setting.ModelBudget, task, day string) setting.ModelBudget {
	if s == nil {
		return b
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.all.Over(b, task, day)
}

// Add adds a raise. With an error it counts until the process ends.
func (s *Store) Add(r Raise) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, r)
	if over := len(s.all) - maxRaises; over > 0 {
		s.all = append(Raises{}, s.all[over:]...)
	}
	if err := store.WriteSummed(filepath.Join(s.dir, fileName), s.all); err != nil {
		return fmt.Errorf("keep the raised model budget: %w", err)
	}
	return nil
}
