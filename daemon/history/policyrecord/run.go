package policyrecord

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"polis/daemon/api"
	"polis/daemon/api/wire"
	"polis/daemon/history/policylearn"
)

const (
	// MaxNames bounds the names of a run that were resolved, and those that were refused.
	MaxNames = 1024
	// maxDenied bounds the paths of a run that were refused.
	maxDenied = 2000
	// maxPath bounds a path, in bytes.
	maxPath = 4096
	// maxLine bounds a line of a file, in bytes: a path of 4096 bytes, each escaped twice.
	maxLine = 64 << 10
	// maxFile bounds what is read of a file, in bytes.
	maxFile = 64 << 20
)

// Header describes a run when it began.
type Header struct {
	// Created is when the agent was added: an agent that gets the name later is another one.
	Created time.Time `json:"created"`
	// Life is that of the shim's recorder.
	Life  uint64    `json:"life"`
	Began time.Time `json:"began"`
	Role  string    `json:"role,omitempty"`
	// Policy, Temp and Egress were in force; of Policy the lists read and write were not.
	Policy api.Policy `json:"policy"`
	Temp   []string   `json:"temp,omitempty"`
	Egress []string   `json:"egress,omitempty"`
	// Unseen: the agent used the network of the host, where no name is seen.
	Unseen bool `json:"unseen,omitempty"`
	// Runs is how many runs this one stands for, if there were more than MaxRuns.
	Runs int `json:"runs,omitempty"`
}

// line is one line of a file; one of the fields is set.
type line struct {
	Header *Header `json:"run,omitempty"`
	// Path is as api.EncodePath has it; nil: the line is about something else.
	Path   *string `json:"p,omitempty"`
	Write  bool    `json:"w,omitempty"`
	Dir    bool    `json:"d,omitempty"`
	Attr   bool    `json:"a,omitempty"`
	Tree   bool    `json:"t,omitempty"`
	Name   string  `json:"n,omitempty"`
	Denied bool    `json:"x,omitempty"`
	// Dropped is how many records the shim has dropped until then.
	Dropped uint64 `json:"dropped,omitempty"`
	// More: there were more names than MaxNames.
	More bool `json:"more,omitempty"`
	// Coarse: there was more than a policylearn.Set holds.
	Coarse bool `json:"coarse,omitempty"`
	// Cut is how many bytes of entries that a crash left incomplete were removed until then.
	Cut int64 `json:"cut,omitempty"`
	// End: the shim has ended, and has handed everything over if it is "clean".
	End string `json:"end,omitempty"`
}

const (
	endClean = "clean"
	endCut   = "cut"
)

// run is the content of a file.
type run struct {
	number        int
	head          Header
	used, denied  policylearn.Set
	names, barred map[string]bool // resolved, and refused
	dropped       uint64
	cut           int64
	coarse, more  bool
	end           string
}

func newRun(number int, h Header) *run {
	return &run{number: number, head: h, denied: policylearn.Set{MaxUses: maxDenied}, names: map[string]bool{}, barred: map[string]bool{}}
}

// take adds a line, and reports whether that changed something.
func (r *run) take(l line) bool {
	switch {
	case l.Path != nil:
		u := policylearn.Use{Path: api.DecodePath(*l.Path), Write: l.Write, Dir: l.Dir, Attr: l.Attr, Tree: l.Tree}
		if l.Denied {
			return r.denied.Add(u)
		}
		return r.used.Add(u)
	case l.Name != "":
		to := r.names
		if l.Denied {
			to = r.barred
		}
		if to[l.Name] {
			return false
		}
		if len(to) >= MaxNames {
			changed := !r.more
			r.more = true
			return changed
		}
		to[l.Name] = true
		return true
	case l.Dropped > r.dropped:
		r.dropped = l.Dropped
		return true
	case l.Cut > r.cut:
		r.cut = l.Cut
		return true
	case l.More && !r.more:
		r.more = true
		return true
	case l.Coarse && !r.coarse:
		r.coarse = true
		return true
	case l.End != "" && l.End != r.end:
		r.end = l.End
		return true
	}
	return false
}

// linesOf are the lines for a record of the shim. What is in the git directory is under no rule, and what
// git reads to refresh its index is no use by the agent: polis makes git skip files that rules withhold.
func linesOf(o api.Open) (out []line) {
	if o.Op == wire.OpResolve || o.Op == wire.OpResolveDenied {
		return []line{{Name: strings.TrimSuffix(o.Path, "."), Denied: o.Op == wire.OpResolveDenied}}
	}
	if !o.Write && o.Op != wire.OpReadDenied && refreshes(o) {
		return nil
	}
	denied := o.Op == wire.OpReadDenied || o.Op == wire.OpWriteDenied
	paths := []string{o.Path}
	if o.To != "" {
		paths = append(paths, o.To)
	}
	for _, p := range paths {
		if raw := api.DecodePath(p); raw == ".git" || strings.HasPrefix(raw, ".git/") {
			continue
		}
		// A tree is what is in a directory and the directory itself, which a rule for its name covers.
		made := o.Op == "mkdir" || o.Op == "rmdir" || o.Op == wire.OpWriteDenied
		if raw := api.DecodePath(p); len(raw) > maxPath { // stored as its directory
			p = api.EncodePath(raw[:max(strings.LastIndexByte(raw[:maxPath], '/'), 0)])
			out = append(out, line{Path: &p, Write: o.Write, Tree: true, Denied: denied}, line{Coarse: true})
			continue
		}
		out = append(out, line{Path: &p, Write: o.Write, Dir: o.Dir && !o.Tree, Attr: o.Dir && !o.Tree && !made, Tree: o.Tree, Denied: denied})
	}
	return out
}

// all returns the lines that make the run.
func (r *run) all() []line {
	out := []line{{Header: &r.head}}
	path := func(u policylearn.Use, denied bool) {
		p := api.EncodePath(u.Path)
		out = append(out, line{Path: &p, Write: u.Write, Dir: u.Dir, Attr: u.Attr, Tree: u.Tree, Denied: denied})
	}
	for _, u := range r.used.Uses() {
		path(u, false)
	}
	for _, u := range r.denied.Uses() {
		path(u, true)
	}
	for _, n := range slices.Sorted(maps.Keys(r.names)) {
		out = append(out, line{Name: n})
	}
	for _, n := range slices.Sorted(maps.Keys(r.barred)) {
		out = append(out, line{Name: n, Denied: true})
	}
	return append(out, line{Dropped: r.dropped}, line{Cut: r.cut}, line{More: r.more}, line{Coarse: r.isCoarse()}, line{End: r.end})
}

func (r *run) isCoarse() bool { return r.coarse || r.used.Coarse() || r.denied.Coarse() }

func encode(lines []line) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	for _, l := range lines {
		if l == (line{}) {
			continue
		}
		if err := enc.Encode(l); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}

var errNoRun = errors.New("it does not begin with a run")

// readRun reads a file. whole is the length of its complete lines.
func readRun(dir string, number int) (r *run, whole int64, err error) {
	f, err := os.Open(filepath.Join(dir, fileName(number)))
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	in := bufio.NewReaderSize(io.LimitReader(f, maxFile), maxLine)
	for {
		text, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break // what follows the last newline is of a write that a crash cut off
		}
		if err != nil {
			return nil, 0, fmt.Errorf("read what was recorded: %s: %w", fileName(number), err)
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return nil, 0, fmt.Errorf("read what was recorded: %s: %w", fileName(number), err)
		}
		switch {
		case r == nil && l.Header == nil:
			return nil, 0, fmt.Errorf("read what was recorded: %s: %w", fileName(number), errNoRun)
		case r == nil:
			r = newRun(number, *l.Header)
		default:
			r.take(l)
		}
		whole += int64(len(text))
	}
	if r == nil {
		return nil, 0, fmt.Errorf("read what was recorded: %s: %w", fileName(number), errNoRun)
	}
	return r, whole, nil
}
