package steps

import "strings"

// ownPrefixes and ownParts are how programs word that their own permission system has
// refused a call. Seen in: Claude Code 2.1, Copilot CLI 1.0, Gemini CLI 0.61,
// OpenCode 1.18, Codex 0.169.
var (
	ownPrefixes = []string{
		"Claude requested permissions to ",
		"Permission denied because no interactive user response was available",
		"Permission denied and could not request permission from user",
		"The user has specified a rule which prevents you from using this specific tool call",
		"The user rejected permission to use this specific tool call",
		"Tool execution denied by policy",
	}
	ownParts = []string{
		" has been denied.",
		" require approval",
		" requires approval",
		" rejected: blocked by policy",
		" requires user confirmation, which is not supported in non-interactive mode",
	}
)

// maxRule bounds how much of a message is searched, in bytes.
const maxRule = 1 << 10

// ownRules says whether the error of a call is a refusal of the agent's own permission
// system.
func ownRules(message string) bool {
	message = strings.TrimPrefix(strings.TrimSpace(message[:min(len(message), maxRule)]), "Error: ")
	for _, p := range ownPrefixes {
		if strings.HasPrefix(message, p) {
			return true
		}
	}
	for _, p := range ownParts {
		if strings.Contains(message, p) {
			return true
		}
	}
	return false
}
