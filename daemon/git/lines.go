package git

import (
	"bufio"
	"context"
	"errors"
	"io"

	"golang.org/x/sync/errgroup"
)

// maxLine bounds a line of Lines, in bytes.
const maxLine = 1 << 20

// Lines runs c and hands out its output line by line, however many there are.
func (r Repo) Lines(ctx context.Context, c Cmd, each func(string)) error {
	out, in := io.Pipe()
	c.Stdout = in
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		_, err := r.Do(ctx, c)
		in.CloseWithError(err) // nil is the end
		return err
	})
	group.Go(func() error {
		sc := bufio.NewScanner(out)
		sc.Buffer(make([]byte, 0, 4096), maxLine)
		for sc.Scan() {
			each(sc.Text())
		}
		err := sc.Err()
		out.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	return group.Wait()
}
