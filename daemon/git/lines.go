package git

import (
	"bufio"
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"
)

// maxLine is the longest line that Lines accepts, in bytes.
const maxLine = 1 << 20

// Lines runs c and calls each for every line of its output. The number of lines is not bounded.
func (r Repo) Lines(ctx context.Context, c Cmd, each func(string)) error {
	return r.records(ctx, c, bufio.ScanLines, func(line string) error {
		each(line)
		return nil
	})
}

// records runs c and calls each for every token that split finds in its output. An error of each
// ends it.
func (r Repo) records(ctx context.Context, c Cmd, split bufio.SplitFunc, each func(string) error) error {
	out, in := io.Pipe()
	c.Stdout = in
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := r.Do(ctx, c)
		in.CloseWithError(err) // nil ends the output
		return err
	})
	group.Go(func() error {
		sc := bufio.NewScanner(out)
		sc.Buffer(make([]byte, 0, 4096), maxLine)
		sc.Split(split)
		var err error
		for err == nil && sc.Scan() {
			err = each(sc.Text())
		}
		err = errors.Join(err, sc.Err())
		out.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	return group.Wait()
}
