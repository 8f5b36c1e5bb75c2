// Package provider has what the model services differ in: the requests that an agent may make, the
// header that carries the key, the form of an error, and which fields of a request the gateway reads.
// The formats are those that the providers document: the Messages API of Anthropic, Chat Completions
// and Responses of OpenAI, and generateContent of Gemini.
//
// It opens nothing and holds no state. What an agent sends is hostile input: everything that is not
// known to be allowed is refused.
package provider
