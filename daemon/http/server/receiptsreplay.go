package server

import (
	"io"
	"net/http"
	"strconv"

	"polis/daemon/api"
)

// entryOf reads the number of an entry; 0 is the newest.
func entryOf(r *http.Request) (uint64, error) {
	text := r.URL.Query().Get("entry")
	if text == "" {
		return 0, nil
	}
	entry, err := strconv.ParseUint(text, 10, 64)
	if err != nil || entry == 0 {
		return 0, api.Errorf(api.CodeBadRequest, "entry is not a number above 0: %q", api.Shorten(text, 32))
	}
	return entry, nil
}

func (s *Server) replayReceipts(w http.ResponseWriter, r *http.Request) error {
	entry, err := entryOf(r)
	if err != nil {
		return err
	}
	res, err := s.Backend.ReplayReceipts(r.Context(), r.URL.Query().Get("workspace"), entry)
	if err != nil {
		return err
	}
	return s.reply(w, http.StatusOK, res)
}

// replayTree streams, as exportReceipts does.
func (s *Server) replayTree(w http.ResponseWriter, r *http.Request) error {
	entry, err := entryOf(r)
	if err != nil {
		return err
	}
	q := r.URL.Query()
	return s.streamed(w, "application/x-tar", "tree of receipts", func(to io.Writer) error {
		return s.Backend.ReplayTree(r.Context(), q.Get("workspace"), entry, q.Get("branch"), to)
	})
}
