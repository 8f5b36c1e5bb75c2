package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// ErrNewer reports that a file is whole and has keys this program does not know: a newer
// one wrote it.
var ErrNewer = errors.New("it was written by a newer polisd")

// errSum reports that a file is not what was written.
var errSum = errors.New("its checksum is wrong")

const (
	sumHead = `  "checksum": "sha256:`
	sumTail = "\",\n"
	sumLen  = len(sumHead) + 2*sha256.Size + len(sumTail)
)

// addSum gives an indented JSON object a first line with the checksum of all others.
func addSum(b []byte) []byte {
	rest, ok := bytes.CutPrefix(b, []byte("{\n"))
	if !ok {
		return b // an empty object: there is nothing to protect
	}
	sum := sha256.Sum256(b)
	out := make([]byte, 0, len(b)+sumLen)
	out = append(out, "{\n"+sumHead...)
	out = hex.AppendEncode(out, sum[:])
	out = append(out, sumTail...)
	return append(out, rest...)
}

// cutSum checks and removes what addSum added. A file of an earlier version has none; a
// damaged line is no line, and then a key that nothing knows.
func cutSum(b []byte) (plain []byte, summed bool, err error) {
	const at = len("{\n")
	if len(b) < at+sumLen || string(b[:at]) != "{\n" || string(b[at:at+len(sumHead)]) != sumHead || string(b[at+sumLen-len(sumTail):at+sumLen]) != sumTail {
		return b, false, nil
	}
	plain = append(append(make([]byte, 0, len(b)-sumLen), b[:at]...), b[at+sumLen:]...)
	sum := sha256.Sum256(plain)
	if string(b[at+len(sumHead):at+sumLen-len(sumTail)]) != hex.EncodeToString(sum[:]) {
		return nil, true, errSum
	}
	return plain, true, nil
}

// Decode reads what was written with a checksum into v. Nothing is guessed: content that
// differs in one bit, an unknown key at any depth and text after the object are errors. A file
// without a checksum is of an earlier version, or was edited by hand, and is accepted if
// every key is known.
func Decode(b []byte, v any) error {
	plain, summed, err := cutSum(b)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(plain))
	d.DisallowUnknownFields()
	err = d.Decode(v)
	switch {
	case err != nil && summed && strings.HasPrefix(err.Error(), "json: unknown field"):
		return fmt.Errorf("%w: %w", ErrNewer, err)
	case err != nil:
		return err
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return errors.New("there is text after the object")
	}
	return nil
}

// WriteSummed is WriteJSON with a checksum, for ReadSummed.
func WriteSummed(path string, v any) error { return write(path, v, true, nil) }

// ReadSummed reads what WriteSummed wrote; the file stays, whatever is wrong with it.
func ReadSummed(path string, v any) error {
	b, err := readBounded(path)
	if err != nil {
		return err
	}
	if err := Decode(b, v); err != nil {
		return fmt.Errorf("%w: %s: %w", ErrCorrupt, path, err)
	}
	return nil
}

// readBounded reads a file of at most MaxFile bytes.
func readBounded(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, MaxFile+1))
	if err == nil && len(b) > MaxFile {
		return nil, fmt.Errorf("%w: %s is over the limit of %d bytes", ErrCorrupt, path, MaxFile)
	}
	return b, err
}
