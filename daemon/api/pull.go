package api

// PullRequest asks to push an agent's branch and to open a pull request.
type PullRequest struct {
	// Remote is the remote of the project to push to; the project's own choice if empty. Into is
	// the remote whose repository gets the pull request; Remote if empty.
	Remote string `json:"remote,omitempty"`
	Into   string `json:"into,omitempty"`
	// Forge names the software that the remote's host runs, if the host's name does not show it.
	Forge string `json:"forge,omitempty"`
	Title string `json:"title,omitempty"`
	Body  string `json:"body,omitempty"`
	Draft bool   `json:"draft,omitempty"`
	// Force replaces what the remote has of the branch.
	Force bool `json:"force,omitempty"`
	// DryRun only says what would be done.
	DryRun bool `json:"dry_run,omitempty"`
	// AcceptProtected accepts changes of protected paths.
	AcceptProtected bool `json:"accept_protected,omitempty"`
	// Env is what the caller's environment says of credentials; names that are
	// not known are ignored.
	Env map[string]string `json:"env,omitempty"`
}

// PullEnv are the variables of PullRequest.Env that are heeded: they name
// credentials of git, ssh and the forges' programs, and how to reach a forge.
func PullEnv() []string {
	return []string{
		"SSH_AUTH_SOCK", "GH_TOKEN", "GITHUB_TOKEN", "GH_ENTERPRISE_TOKEN", "GITHUB_ENTERPRISE_TOKEN", "GH_CONFIG_DIR",
		"GITLAB_TOKEN", "GLAB_CONFIG_DIR", "SSL_CERT_FILE", "https_proxy", "HTTPS_PROXY", "http_proxy", "no_proxy", "NO_PROXY",
	}
}

// PullResponse has the place of the branch, and of the pull request.
type PullResponse struct {
	Agent  string `json:"agent"`
	Branch string `json:"branch"`
	Target string `json:"target"`
	Commit string `json:"commit"`
	Remote string `json:"remote"`
	// RemoteURL has no password.
	RemoteURL string `json:"remote_url"`
	// Pushed: the remote has changed; it had the commit already if not.
	Pushed bool   `json:"pushed"`
	DryRun bool   `json:"dry_run,omitempty"`
	Forge  string `json:"forge,omitempty"`
	Tool   string `json:"tool,omitempty"`
	// URL is the pull request's page; empty if none was opened. Existed: it was
	// open before.
	URL     string `json:"url,omitempty"`
	Existed bool   `json:"existed,omitempty"`
	// CompareURL is where a person can open it, RequestPull the text to mail.
	CompareURL  string   `json:"compare_url,omitempty"`
	RequestPull string   `json:"request_pull,omitempty"`
	Title       string   `json:"title"`
	Body        string   `json:"body"`
	Draft       bool     `json:"draft,omitempty"`
	Commits     int      `json:"commits"`
	Notes       []string `json:"notes,omitempty"`
}
