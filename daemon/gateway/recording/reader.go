package recording

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"

	"golang.org/x/sys/unix"
)

// exchange is what a Player keeps in memory of a recorded exchange.
type exchange struct {
	n       int   // its number, from 1
	x       int64 // the place of its request in the file
	method  string
	key     key
	answer  *Answer
	ended   bool
	used    int
	service string
	path    string
}

// Info says what a recording has.
type Info struct {
	// Exchanges are its requests, Cut those of them whose answer did not come to its end.
	Exchanges, Cut int
	// Stopped is why later requests of the task are not in it; "" if all are.
	Stopped string
	// Bytes is its size.
	Bytes int64
}

var errDamaged = errors.New("the recording is damaged")

// open opens a recording for reading.
func open(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lines calls each with the lines of a recording. The last one is left out if it is not whole.
func lines(r io.Reader, each func(frame) error) error {
	in := bufio.NewReaderSize(r, 256<<10)
	var long []byte
	for n := 1; ; {
		part, err := in.ReadSlice('\n')
		switch {
		case errors.Is(err, bufio.ErrBufferFull) && len(long)+len(part) <= maxLine:
			long = append(long, part...)
			continue
		case errors.Is(err, bufio.ErrBufferFull):
			return fmt.Errorf("%w: line %d is too long", errDamaged, n)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
		if len(long) > 0 {
			part = append(long, part...)
		}
		var f frame
		if err := json.Unmarshal(part, &f); err != nil {
			return fmt.Errorf("%w: line %d is not one of a recording", errDamaged, n)
		}
		long = nil
		n++
		if err := each(f); err != nil {
			return err
		}
	}
}

// load reads all exchanges of a recording. of replaces the names of agents.
func load(r io.Reader, of *regexp.Regexp) (all []*exchange, stopped string, err error) {
	byPlace := map[int64]*exchange{}
	err = lines(r, func(f frame) error {
		if f.Request != nil {
			if len(all) >= MaxExchanges || byPlace[f.X] != nil {
				return fmt.Errorf("%w: it has more than %d requests, or one twice", errDamaged, MaxExchanges)
			}
			body, err := unpack(f.Body)
			if err != nil {
				return fmt.Errorf("%w: request %d: %w", errDamaged, len(all)+1, err)
			}
			q := *f.Request
			q.Body = body
			e := &exchange{n: len(all) + 1, x: f.X, method: q.Method, service: q.Service, path: q.Path, key: keyOf(q, of)}
			e.key.last = ""
			all = append(all, e)
			byPlace[f.X] = e
			return nil
		}
		if f.Stopped != "" {
			stopped = f.Stopped
			return nil
		}
		e := byPlace[f.X]
		if e == nil {
			return fmt.Errorf("%w: a line belongs to no request", errDamaged)
		}
		if f.Answer != nil {
			e.answer = f.Answer
		}
		e.ended = e.ended || f.End == endWhole
		return nil
	})
	return all, stopped, err
}

// Stat reads a recording and says what it has.
func Stat(path string) (Info, error) {
	f, err := open(path)
	if err != nil {
		return Info{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return Info{}, err
	}
	i := Info{Bytes: st.Size()}
	err = lines(f, func(f frame) error {
		switch {
		case f.Request != nil:
			i.Exchanges++
			i.Cut++
		case f.Stopped != "":
			i.Stopped = f.Stopped
		case f.End == endWhole:
			i.Cut--
		}
		return nil
	})
	return i, err
}

// last reads what a recorded request added to its conversation, in the form that is compared.
func (e *exchange) last(f *os.File, size int64, norm func(Request) key) (last string, err error) {
	err = lines(io.NewSectionReader(f, e.x, size-e.x), func(f frame) error {
		if f.Request == nil {
			return errDamaged
		}
		q := *f.Request
		if q.Body, err = unpack(f.Body); err != nil {
			return err
		}
		last = norm(q).last
		return io.EOF
	})
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return last, err
}

// body calls each with the chunks of a recorded answer, in order.
func (e *exchange) body(f *os.File, size int64, each func([]byte) error) error {
	err := lines(io.NewSectionReader(f, e.x, size-e.x), func(f frame) error {
		switch {
		case f.X != e.x:
			return nil
		case f.End != "":
			return io.EOF
		case len(f.Data) > 0:
			return each(f.Data)
		}
		return nil
	})
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}
