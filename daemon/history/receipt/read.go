package receipt

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"polis/daemon/api"
	"polis/daemon/history/cas"
)

// headerMax is more than a header has, in bytes.
const headerMax = 128

// errHeader reports a file without a complete header.
var errHeader = errors.New("it has no header")

func (l *Log) openFile(name string) (*os.File, error) {
	return l.root.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
}

// header reads the header of a file: the number of its first entry, and the hash before it.
func (l *Log) header(name string) (first uint64, prev string, err error) {
	f, err := l.openFile(name)
	if err != nil {
		return 0, "", err
	}
	defer f.Close()
	line, err := readLine(bufio.NewReaderSize(f, MaxLine))
	if err != nil {
		return 0, "", errors.Join(errHeader, err)
	}
	return parseHeader(line)
}

func parseHeader(line string) (first uint64, prev string, err error) {
	if _, err := fmt.Sscanf(line, magic+" %d %s", &first, &prev); err != nil || fmt.Sprintf("%s %d %s", magic, first, prev) != line {
		return 0, "", errHeader
	}
	if prev != zero {
		if _, err := cas.Parse(prev); err != nil {
			return 0, "", errors.Join(errHeader, err)
		}
	}
	return first, prev, nil
}

// errTorn reports a line without its end, or one that is longer than a line can be.
var errTorn = errors.New("the line is not complete")

// readLine reads a line without its newline; io.EOF if there is none.
func readLine(r *bufio.Reader) (string, error) {
	b, err := r.ReadSlice('\n')
	switch {
	case errors.Is(err, io.EOF) && len(b) == 0:
		return "", io.EOF
	case err != nil:
		return "", errTorn
	}
	return string(b[:len(b)-1]), nil
}

// Receipt is an entry with its hash, exactly as it is stored.
type Receipt struct {
	Hash string
	Prev string
	Text json.RawMessage
	Entry
}

// Of returns the receipt as an API type, of the log with this name.
func (r *Receipt) Of(log string) api.Receipt {
	return api.Receipt{Log: log, Seq: r.Seq, Time: r.Time, Type: r.Type, Agent: r.Agent, Code: r.Code, Message: r.Message, Count: r.Count, Data: r.Data, Prev: r.Prev, Hash: r.Hash}
}

// parseLine reads one line and compares it with its hash.
func parseLine(line, prev string) (Receipt, error) {
	hash, text, ok := strings.Cut(line, " ")
	if !ok {
		return Receipt{}, errors.New("it has no hash")
	}
	if _, err := cas.Parse(hash); err != nil {
		return Receipt{}, err
	}
	r := Receipt{Hash: hash, Prev: prev, Text: json.RawMessage(text)}
	if next(prev, r.Text) != hash {
		return r, errors.New("it does not match its hash")
	}
	if err := json.Unmarshal(r.Text, &r.Entry); err != nil {
		return r, err
	}
	return r, nil
}

// tail is what the last file ends with.
type tail struct {
	seq    uint64
	head   string
	last   string // the type of the last entry
	size   int64  // of what is complete
	cut    int64  // bytes after that
	broken bool   // an entry that is not the last one does not match
}

// tail reads the last file. A last line that is incomplete or does not match is what a crash left. A
// line before it that does not match was changed: the chain continues from the hash that it claims, and
// Verify names it.
func (l *Log) tail(name string) (t tail, err error) {
	f, err := l.openFile(name)
	if err != nil {
		return t, err
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		return t, err
	}
	t.size = int64(len(b))
	end := strings.LastIndexByte(string(b), '\n') + 1
	lines := strings.Split(strings.TrimSuffix(string(b[:end]), "\n"), "\n")
	if end == 0 {
		return t, errHeader
	}
	first, prev, err := parseHeader(lines[0])
	if err != nil {
		if len(lines) == 1 {
			return t, err
		}
		first, _ = firstOf(name)
		prev, t.broken = zero, true
	}
	t.seq, t.head = first-1, prev
	for i, line := range lines[1:] {
		r, err := parseLine(line, t.head)
		if err == nil && r.Seq == t.seq+1 {
			t.seq, t.head, t.last = r.Seq, r.Hash, r.Type
			continue
		}
		if i == len(lines)-2 {
			end -= len(line) + 1
			break
		}
		t.broken = true
		t.seq++
		if claimed, _, _ := strings.Cut(line, " "); len(claimed) == len(zero) {
			t.head = claimed
		}
	}
	t.cut, t.size = t.size-int64(end), int64(end)
	return t, nil
}
