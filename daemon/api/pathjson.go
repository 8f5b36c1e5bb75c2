package api

import (
	"bytes"
	"encoding/json"
)

// Paths of files can have any bytes, and JSON has only text. These types write their paths as EncodePath does, and read
// them as DecodePath: a program that compares two paths sees two, and a request names the file that it means.

// MarshalJSON implements json.Marshaler.
func (l Lock) MarshalJSON() ([]byte, error) {
	type plain Lock
	l.Path = EncodePath(l.Path)
	return json.Marshal(plain(l))
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Lock) UnmarshalJSON(b []byte) error {
	type plain Lock
	err := json.Unmarshal(b, (*plain)(l))
	l.Path = DecodePath(l.Path)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r LockRequest) MarshalJSON() ([]byte, error) {
	type plain LockRequest
	r.Path = EncodePath(r.Path)
	return json.Marshal(plain(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *LockRequest) UnmarshalJSON(b []byte) error {
	type plain LockRequest
	err := strict(b, (*plain)(r))
	r.Path = DecodePath(r.Path)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r WaitRequest) MarshalJSON() ([]byte, error) {
	type plain WaitRequest
	r.Path = EncodePath(r.Path)
	return json.Marshal(plain(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *WaitRequest) UnmarshalJSON(b []byte) error {
	type plain WaitRequest
	err := strict(b, (*plain)(r))
	r.Path = DecodePath(r.Path)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r RewindRequest) MarshalJSON() ([]byte, error) {
	type plain RewindRequest
	r.Paths = EncodePaths(r.Paths)
	return json.Marshal(plain(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *RewindRequest) UnmarshalJSON(b []byte) error {
	type plain RewindRequest
	err := strict(b, (*plain)(r))
	r.Paths = decodePaths(r.Paths)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r SnapshotRestoreRequest) MarshalJSON() ([]byte, error) {
	type plain SnapshotRestoreRequest
	r.Paths = EncodePaths(r.Paths)
	return json.Marshal(plain(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *SnapshotRestoreRequest) UnmarshalJSON(b []byte) error {
	type plain SnapshotRestoreRequest
	err := strict(b, (*plain)(r))
	r.Paths = decodePaths(r.Paths)
	return err
}

// MarshalJSON implements json.Marshaler.
func (r SnapshotRestored) MarshalJSON() ([]byte, error) {
	type plain SnapshotRestored
	r.Paths = EncodePaths(r.Paths)
	return json.Marshal(plain(r))
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *SnapshotRestored) UnmarshalJSON(b []byte) error {
	type plain SnapshotRestored
	err := json.Unmarshal(b, (*plain)(r))
	r.Paths = decodePaths(r.Paths)
	return err
}

// strict reads a request: a key that it does not have is an error, as in the others.
func strict(b []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	return d.Decode(to)
}

// EncodePaths is EncodePath for a list; nil stays nil.
func EncodePaths(paths []string) []string { return each(paths, EncodePath) }

func decodePaths(paths []string) []string { return each(paths, DecodePath) }

func each(paths []string, f func(string) string) []string {
	if paths == nil {
		return nil
	}
	out := make([]string, len(paths))
	for i, p := range paths {
		out[i] = f(p)
	}
	return out
}
