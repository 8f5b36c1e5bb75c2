package provider

import (
	"encoding/json"
	"net/http"
)

// Failure is an answer of the gateway itself.
type Failure struct {
	Status int
	// Code is one of package api; it is part of the text, because programs show only that.
	Code, Message string
	// RetryAfter is in seconds; 0: the agent's program must not repeat the request by itself.
	RetryAfter int
}

// Body returns the failure in the provider's own form, which the agents' programs show to their users.
func (k Kind) Body(f Failure) []byte {
	message := "polis: " + f.Message + " (" + f.Code + ")"
	var v any
	switch k {
	case Anthropic:
		v = map[string]any{"type": "error", "error": map[string]any{"type": anthropicType(f.Status), "message": message}}
	case Gemini:
		v = map[string]any{"error": map[string]any{"code": f.Status, "message": message, "status": geminiStatus(f.Status)}}
	default:
		v = map[string]any{"error": map[string]any{"message": message, "type": openAIType(f.Status), "param": nil, "code": f.Code}}
	}
	b, err := json.Marshal(v)
	if err != nil { // strings and numbers only
		return []byte(`{"error":{"message":"polis"}}`)
	}
	return b
}

func anthropicType(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusBadRequest:
		return "invalid_request_error"
	}
	return "api_error"
}

func openAIType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "insufficient_quota"
	case status < http.StatusInternalServerError:
		return "invalid_request_error"
	}
	return "server_error"
}

func geminiStatus(status int) string {
	switch status {
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusBadRequest, http.StatusRequestEntityTooLarge:
		return "INVALID_ARGUMENT"
	}
	return "UNAVAILABLE"
}
