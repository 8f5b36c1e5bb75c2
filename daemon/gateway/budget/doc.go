// Package budget decides whether a request to a model may be sent, by what the agent has used already,
// and what an answer costs by the prices of the configuration. It is pure: it holds no state but the
// times of the last requests, and knows no service.
package budget
