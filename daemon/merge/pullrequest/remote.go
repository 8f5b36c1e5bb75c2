package pullrequest

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"

	"polis/daemon/api"
)

// Kind is what software a forge runs.
type Kind string

// The forges whose pages are known.
const (
	GitHub    Kind = "github"
	GitLab    Kind = "gitlab"
	Bitbucket Kind = "bitbucket"
	Gitea     Kind = "gitea" // Forgejo too
	Sourcehut Kind = "sourcehut"
	Azure     Kind = "azure"
	Unknown   Kind = ""
)

// ParseKind reads the name of a forge as a person gives it.
func ParseKind(s string) (Kind, error) {
	switch k := Kind(strings.ToLower(s)); k {
	case GitHub, GitLab, Bitbucket, Gitea, Sourcehut, Azure, Unknown:
		return k, nil
	case "forgejo", "codeberg":
		return Gitea, nil
	}
	return Unknown, api.Errorf(api.CodeBadRequest, "forge = %q: must be github, gitlab, bitbucket, gitea, forgejo, sourcehut or azure", api.Shorten(s, 32))
}

// Remote is a repository on a forge.
type Remote struct {
	Kind Kind
	// Host has the port of an http URL, if that has one; empty for a directory.
	Host string
	// Path is the repository's path at Host, without a slash at its ends and
	// without ".git": owner/name, or group/subgroup/name.
	Path string
	// Insecure: the URL was http.
	Insecure bool
}

var scp = regexp.MustCompile(`^(?:[^/@:]+@)?(\[[0-9a-fA-F:.]+\]|[^/:@\[\]]+):(.+)$`)

// ParseRemote reads the URL of a remote. One that is no repository of a forge
// (a directory, a bundle) has no Host.
func ParseRemote(raw string) Remote {
	if strings.ContainsFunc(raw, unicode.IsControl) {
		return Remote{}
	}
	var r Remote
	if strings.Contains(raw, "://") {
		u, err := url.Parse(raw)
		if err != nil || u.Scheme == "file" {
			return Remote{}
		}
		r.Host, r.Path = u.Hostname(), u.Path
		if u.Scheme == "http" || u.Scheme == "https" {
			// The port of ssh is not that of the pages.
			r.Host, r.Insecure = u.Host, u.Scheme == "http"
		}
	} else if m := scp.FindStringSubmatch(raw); m != nil && !strings.HasPrefix(raw, "/") {
		r.Host, r.Path = m[1], m[2]
	} else {
		return Remote{}
	}
	r.Host = strings.ToLower(r.Host)
	r.Path = strings.TrimSuffix(strings.Trim(r.Path, "/"), ".git")
	r.Kind = kindOf(r.Host)
	if r.Kind == Azure {
		r = azure(r)
	}
	return r
}

// azure brings the three spellings of an Azure repository together.
func azure(r Remote) Remote {
	if rest, ok := strings.CutPrefix(r.Path, "v3/"); ok { // git@ssh.dev.azure.com:v3/org/project/repo
		if p := strings.SplitN(rest, "/", 3); len(p) == 3 {
			r.Host, r.Path = "dev.azure.com", p[0]+"/"+p[1]+"/_git/"+p[2]
		}
	}
	return r
}

func kindOf(host string) Kind {
	name, _, _ := strings.Cut(host, ":")
	switch {
	case name == "github.com" || name == "ssh.github.com" || named(name, "github") || strings.HasSuffix(name, ".ghe.com"):
		return GitHub
	case named(name, "gitlab"):
		return GitLab
	case name == "bitbucket.org" || named(name, "bitbucket"):
		return Bitbucket
	case name == "codeberg.org" || named(name, "gitea") || named(name, "forgejo"):
		return Gitea
	case name == "git.sr.ht" || strings.HasSuffix(name, ".sr.ht"):
		return Sourcehut
	case strings.HasSuffix(name, "dev.azure.com") || strings.HasSuffix(name, ".visualstudio.com"):
		return Azure
	}
	return Unknown
}

// named reports whether one label of host is word: gitlab.example.com is, and
// notgitlab.com is not.
func named(host, word string) bool {
	for _, label := range strings.Split(host, ".") {
		if label == word {
			return true
		}
	}
	return false
}

// Repository is the remote as gh and glab name it.
func (r Remote) Repository() string { return r.Host + "/" + r.Path }

// Owner is the first part of the path.
func (r Remote) Owner() string {
	owner, _, _ := strings.Cut(r.Path, "/")
	return owner
}

func (r Remote) page() string {
	scheme := "https://"
	if r.Insecure {
		scheme = "http://"
	}
	parts := strings.Split(r.Path, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	host := r.Host
	if host == "ssh.github.com" {
		host = "github.com"
	}
	return scheme + host + "/" + strings.Join(parts, "/")
}

// ref escapes a branch for a path, where its slashes stay.
func ref(branch string) string {
	parts := strings.Split(branch, "/")
	for i, p := range parts {
		parts[i] = url.PathEscape(p)
	}
	return strings.Join(parts, "/")
}

// CompareURL is the page where a person can open a pull request of branch, in
// the repository from, into the branch target of r. It is empty if the forge
// is not known, and a page of the branch where there are no pull requests.
func (r Remote) CompareURL(target string, from Remote, branch string) string {
	if r.Host == "" || r.Path == "" {
		return ""
	}
	fork := from.Path != r.Path && from.Host == r.Host
	switch r.Kind {
	case GitHub:
		head := ref(branch)
		if fork {
			head = url.PathEscape(from.Owner()) + ":" + head
		}
		return r.page() + "/compare/" + ref(target) + "..." + head + "?expand=1"
	case GitLab:
		q := url.Values{"merge_request[source_branch]": {branch}, "merge_request[target_branch]": {target}}
		return from.page() + "/-/merge_requests/new?" + q.Encode()
	case Bitbucket:
		return from.page() + "/pull-requests/new?" + url.Values{"source": {branch}, "dest": {target}}.Encode()
	case Gitea:
		head := ref(branch)
		if fork {
			head = url.PathEscape(from.Owner()) + ":" + head
		}
		return r.page() + "/compare/" + ref(target) + "..." + head
	case Azure:
		return r.page() + "/pullrequestcreate?" + url.Values{"sourceRef": {branch}, "targetRef": {target}}.Encode()
	case Sourcehut:
		return from.page() + "/log/" + ref(branch)
	case Unknown:
	}
	return ""
}

// Display is the URL without a password.
func Display(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		if scheme, _, rest, ok := cutUser(raw); ok {
			return scheme + "://" + rest
		}
		return raw
	}
	if u.User == nil {
		return raw
	}
	if _, secret := u.User.Password(); secret || u.Scheme != "ssh" {
		u.User = nil
	}
	return u.String()
}

// cutUser takes a URL apart that is none by the rules: git takes a password such as "a%b".
func cutUser(raw string) (scheme, user, rest string, ok bool) {
	scheme, rest, ok = strings.Cut(raw, "://")
	end := strings.LastIndexByte(rest, '@')
	if !ok || end < 0 {
		return "", "", "", false
	}
	return scheme, rest[:end], rest[end+1:], true
}
