package api

import "time"

// MaxSaid bounds the text of a SayRequest, in bytes, and MaxSaidWaiting the texts that wait for one agent.
const (
	MaxSaid        = 64 << 10
	MaxSaidWaiting = 20
)

// SayRequest says a text to an agent, whatever it does.
type SayRequest struct {
	Text string `json:"text"`
}

// SayWay is how a text reaches an agent's program.
type SayWay string

// The ways of a text to an agent.
const (
	// SayTyped: into the terminal, or the standard input, of a program that is no task.
	SayTyped SayWay = "typed"
	// SayTask: as a task of its own, which began at once.
	SayTask SayWay = "task"
	// SayQueued: as a task of its own, which begins when the present one has ended.
	SayQueued SayWay = "queued"
	// SayToolCall: with the result of the next call of a tool in the present task; if none comes, as SayQueued.
	SayToolCall SayWay = "tool-call"
	// SayPrompt: as the next prompt of the session of the present task; if none comes, as SayQueued.
	SayPrompt SayWay = "prompt"
)

// Said is what is recorded of a text that a person said to an agent.
type Said struct {
	// By is the person, such as "user:1000".
	By string `json:"by"`
	// Way is how it was delivered, or is to be.
	Way SayWay `json:"way"`
	// To is the task that it was delivered to, At when; empty if it is, or will be, a task of its own.
	To string     `json:"to,omitempty"`
	At *time.Time `json:"at,omitempty"`
	// Taker is SaidRequest.By of the request that took it.
	Taker string `json:"taker,omitempty"`
}

// SayResponse is the record of a text, and its delivery in one line.
type SayResponse struct {
	Task    Task   `json:"task"`
	Message string `json:"message"`
}

// SaidRequest is what an agent's program wants of the texts that wait for the agent.
type SaidRequest struct {
	// Take is the ID of the text that it takes; empty: which one is next?
	Take string `json:"take,omitempty"`
	// By identifies who takes it, so that a request that is repeated has the same answer.
	By string `json:"by,omitempty"`
}

// SaidResponse is the next text that waits, or the one that was taken. ID is empty if there is none.
type SaidResponse struct {
	ID   string `json:"id,omitempty"`
	Text string `json:"text,omitempty"`
	// From is the person who said it.
	From string `json:"from,omitempty"`
}

// MaxSaidBy bounds SaidRequest.By, in bytes.
const MaxSaidBy = 64
