// Package approval is the queue of an agent's questions, and the rules that answer some of them.
//
// A question is open from its first caller's Ask until a person answers it or its last caller
// leaves. It is answered once: the first answer is given to every caller, and a later one is
// refused with the first. Equal questions are one. Rules answer before a question is made.
//
// It is pure: it opens nothing, starts nothing and waits for nothing. Its owner is the agent's
// shim, so that questions survive a restart of polisd. It never decides who may answer.
//
// Lock order: Queue.mu, then what Publish takes.
package approval
