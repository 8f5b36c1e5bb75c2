package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"html"
	"net/http"
	"slices"
	"strings"
	"time"
)

// known is an agent as the list has it.
type known struct {
	Agent string   `json:"agent"`
	URL   string   `json:"url"`
	Ports []string `json:"ports"` // their URLs
}

type page struct {
	Message string  `json:"message"`
	Agents  []known `json:"agents,omitempty"`
}

// pageHead and pageFoot surround the page's message and list.
const (
	pageHead = `<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>polis</title>
<style>body{font-family:sans-serif;margin:3em;max-width:50em}li{margin:.4em 0}</style>
<h1>polis</h1><p>`
	pageFoot = "\n</html>\n"
)

// html returns the page for a browser. html/template is not used: what it calls by name keeps the
// linker from leaving out methods, which made polisd 3 MB larger. Every value is escaped here, and a
// URL is one that this package made.
func (p page) html() []byte {
	var b bytes.Buffer
	b.WriteString(pageHead + html.EscapeString(p.Message) + "</p>\n")
	link := func(url, text string) {
		b.WriteString(`<a href="` + html.EscapeString(url) + `">` + html.EscapeString(text) + "</a>")
	}
	if len(p.Agents) > 0 {
		b.WriteString("<ul>")
		for _, k := range p.Agents {
			b.WriteString("<li>")
			link(k.URL, k.Agent)
			for _, port := range k.Ports {
				b.WriteByte(' ')
				link(port, port)
			}
			b.WriteString("</li>")
		}
		b.WriteString("</ul>")
	}
	b.WriteString(pageFoot)
	return b.Bytes()
}

// refuse answers for the proxy itself: a page for browsers, JSON for who wants
// that, with the names there are if list is set.
func (p *Proxy) refuse(w http.ResponseWriter, r *http.Request, status int, message string, list bool) {
	out := page{Message: message}
	if list {
		out.Agents = p.list(r)
	}
	accept := r.Header.Get("Accept")
	var body bytes.Buffer
	kind := "text/html; charset=utf-8"
	var err error
	if strings.Contains(accept, "json") && !strings.Contains(accept, "text/html") {
		kind = "application/json"
		err = json.NewEncoder(&body).Encode(out)
	} else {
		body.Write(out.html())
	}
	if err != nil {
		http.Error(w, "polis: "+http.StatusText(status), status)
		return
	}
	h := w.Header()
	h.Set("Content-Type", kind)
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'")
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	_, _ = w.Write(body.Bytes()) // the client may have left
}

// list is who there is, with the ports they listen on.
func (p *Proxy) list(r *http.Request) []known {
	ctx, cancel := context.WithTimeout(r.Context(), 2*time.Second)
	defer cancel()
	at := 80
	if p.listener != nil {
		at = int(p.Listening().Port())
	}
	names := p.Agents.Names()
	slices.Sort(names)
	out := make([]known, 0, len(names))
	for _, name := range names {
		k := known{Agent: name, URL: strings.Replace(URL(name, 0, at), "//0.", "//", 1), Ports: []string{}}
		ports, err := p.Agents.Web(ctx, name)
		if err != nil {
			continue // it went meanwhile, or does not answer
		}
		for _, port := range ports {
			k.Ports = append(k.Ports, URL(name, port, at))
		}
		out = append(out, k)
	}
	return out
}
