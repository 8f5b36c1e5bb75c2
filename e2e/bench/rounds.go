package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"polis/e2e/bench/table"
	"polis/e2e/bench/work"
)

// rounds does a job in every column, in another order in each round.
func (b *bed) rounds(ctx context.Context, j job, rounds int) ([]table.Row, error) {
	rows := slices.Clone(j.rows)
	for round := range rounds {
		for i := range rows {
			rows[i].Rounds = append(rows[i].Rounds, map[string]table.Sample{})
		}
		order := slices.DeleteFunc(slices.Clone(b.columns), func(c *column) bool {
			return c.name == table.Floor && !j.reads || c.worker != nil && j.atOnce
		})
		rand.Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
		for _, c := range order {
			best, err := b.once(ctx, j, c, round)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.name, err)
			}
			for i, s := range best {
				rows[i].Rounds[round][c.name] = s
			}
		}
	}
	return rows, nil
}

// verify fails unless every tree is as it was before: the figures of a file system that loses data
// are worthless.
func (b *bed) verify(ctx context.Context) error {
	same := program("sh", "-ec", `git status --porcelain >&2; test -z "$(git status --porcelain)"; test "$(git rev-parse HEAD)" = {head}; git fsck --connectivity-only >&2`)
	for _, c := range b.columns {
		if _, err := b.all(ctx, c, len(c.trees), same, 0); err != nil {
			return fmt.Errorf("%s is not as it was before: %w", c.name, err)
		}
	}
	return nil
}

// once does a job in a column and returns the best of the repetitions.
func (b *bed) once(ctx context.Context, j job, c *column, round int) (map[int]table.Sample, error) {
	n := 1
	if j.atOnce {
		n = b.agents
	}
	// The writes of the previous column must not reach the disk during this one.
	if err := flush(b.dir); err != nil {
		return nil, err
	}
	for _, r := range j.before {
		if _, err := b.all(ctx, c, n, r, round); err != nil {
			return nil, err
		}
	}
	best := map[int]table.Sample{}
	for range j.reps {
		for _, s := range j.each {
			var sample table.Sample
			f, err := b.all(ctx, c, 1, s.Request, round)
			if err != nil {
				return nil, err
			}
			sample.Figure = f
			if j.atOnce {
				alone := f
				if sample.Figure, err = b.all(ctx, c, n, s.Request, round); err != nil {
					return nil, err
				}
				sample.Single = &alone
			}
			if s.row != untimed {
				best[s.row] = better(best[s.row], sample)
			}
		}
	}
	for _, r := range j.after {
		if _, err := b.all(ctx, c, n, r, round); err != nil {
			return nil, err
		}
	}
	return best, nil
}

// better returns the smaller of two samples, and of their single figures.
func better(a, b table.Sample) table.Sample {
	if a.Wall == 0 || b.Wall < a.Wall {
		a.Figure = b.Figure
	}
	if b.Single != nil && (a.Single == nil || b.Single.Wall < a.Single.Wall) {
		a.Single = b.Single
	}
	return a
}

// settle is the time in which servers complete work after the answer, such as releasing files. That
// is a part of the cost.
const settle = 10 * time.Millisecond

// all lets the first n workers do a request in their trees at the same time.
func (b *bed) all(ctx context.Context, c *column, n int, r work.Request, round int) (table.Figure, error) {
	before, err := used(c.servers)
	if err != nil {
		return table.Figure{}, err
	}
	type answer struct {
		work.Reply
		err error
	}
	answers := make(chan answer, n)
	began := time.Now()
	for i := range n {
		go func() {
			reply, err := b.session(c, i).do(ctx, b.fill(r, c, i, round))
			answers <- answer{reply, err}
		}()
	}
	var f table.Figure
	var errs error
	for range n {
		a := <-answers
		errs = errors.Join(errs, a.err)
		f.Client += a.CPU
		f.Wall = a.Wall
	}
	if n > 1 {
		f.Wall = time.Since(began)
	}
	if errs != nil {
		return f, errs
	}
	select {
	case <-time.After(settle):
	case <-ctx.Done():
		return f, ctx.Err()
	}
	after, err := used(c.servers)
	f.Server = after - before
	return f, err
}

// fill puts the tree, its commits and its branch into a request.
func (b *bed) fill(r work.Request, c *column, i, round int) work.Request {
	words := strings.NewReplacer("{head}", b.corpus.Head, "{other}", b.corpus.Other, "{long}", b.corpus.Long, "{branch}", c.branches[i],
		"{round}", strconv.Itoa(round), "{tar}", sandboxDir+"/tree.tar")
	r.Dir, r.Text = c.trees[i], words.Replace(r.Text)
	if r.Skip > 0 {
		r.Skip += round
	}
	r.Argv = slices.Clone(r.Argv)
	for k, a := range r.Argv {
		r.Argv[k] = words.Replace(a)
	}
	return r
}
