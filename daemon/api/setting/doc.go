// Package setting has the values of polisd.toml that go to the shims as they are:
// durations, mounts, rules of leases. It knows how they are written in a file and in
// JSON, and what they mean as numbers.
//
// It knows neither the configuration nor the protocol of the shims; both are made of it.
package setting
