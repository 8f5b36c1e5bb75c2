// Package usage counts the tokens of an answer while the answer passes: by the provider's own usage
// fields, in a JSON document or in server-sent events. An answer that is cut before it reports its usage
// is estimated, never taken for free.
//
// A Meter only observes: it changes no byte, and holds at most MaxKept bytes.
package usage
