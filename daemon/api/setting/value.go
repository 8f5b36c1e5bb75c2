package setting

import "time"

// Mount is a directory or file of the host brought into the sandbox.
type Mount struct {
	Source   string `json:"source" toml:"source"`
	Dest     string `json:"dest" toml:"dest"`
	ReadOnly bool   `json:"read_only" toml:"read_only"`
}

// Duration is a time.Duration that reads and writes as "3s".
type Duration time.Duration

// MarshalText writes the duration as Go does.
func (d Duration) MarshalText() ([]byte, error) { return []byte(time.Duration(d).String()), nil }

// UnmarshalText reads what time.ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := time.ParseDuration(string(b))
	*d = Duration(v)
	return err
}
