package main

import (
	"archive/tar"
	"net/http"
	"strings"
	"time"

	"polis/daemon/api"
)

// treeOfReplay is the tree of the one file that a replay has.
const treeOfReplay = "4d593e935186bcc35450336864a1aad148210a14"

// receiptRoutes answer about receipts: those of workspace project are intact, those of shop are not.
func (f *fake) receiptRoutes(mux *http.ServeMux) {
	broken := &api.BrokenReceipt{Log: "claude", Seq: 7, File: "00000000000000000001.log", Why: "it does not match its hash"}
	mux.HandleFunc("GET /v1/receipts", func(w http.ResponseWriter, r *http.Request) {
		at := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		out := api.Receipts{Workspace: "project", Receipts: []api.Receipt{}}
		if r.URL.Query().Get("agent") != "gemini" {
			out.Receipts = append(out.Receipts, api.Receipt{Seq: 3, Time: at, Type: api.EventAgentCreated, Agent: "claude", Message: "agent claude was added", Hash: strings.Repeat("ab", 32)},
				api.Receipt{Log: "claude", Seq: 9, Time: at, Type: api.EventDenied, Agent: "claude", Message: "evil\x1b[2J", Count: 12, Hash: strings.Repeat("cd", 32)})
		}
		if r.URL.Query().Get("workspace") == "shop" {
			out.Workspace, out.Broken = "shop", broken
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET /v1/receipts/verify", func(w http.ResponseWriter, r *http.Request) {
		v := api.ReceiptsCheck{Workspace: "project", Intact: true, Entries: 12, Logs: []api.LogCheck{{Entries: 3, First: 1, Last: 3, Head: strings.Repeat("ab", 32)}, {Log: "claude", Entries: 9, First: 1, Last: 9, Head: strings.Repeat("cd", 32)}}}
		if r.URL.Query().Get("workspace") == "shop" {
			v.Workspace, v.Intact, v.Broken, v.Fault = "shop", false, broken, "no space left on device"
			v.Logs[1].Broken = broken
		}
		answer(w, 200, v)
	})
	mux.HandleFunc("GET /v1/receipts/provenance", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write([]byte("{\"_type\":\"" + r.URL.Query().Get("entry") + "\"}\n"))
	})
	mux.HandleFunc("GET /v1/receipts/replay", func(w http.ResponseWriter, r *http.Request) {
		out := api.ReceiptsReplay{Workspace: "project", Entry: 17, Hash: strings.Repeat("ab", 32), Time: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), First: 1, Last: true, StateHash: strings.Repeat("cd", 32), Verified: 9,
			Agents:  []api.ReplayedAgent{{Name: "claude", Branch: "agent/claude", Role: "docs", PolicyHash: strings.Repeat("ef", 32), Leases: []api.ReplayedLease{{Path: "evil\x1b[2J"}}}},
			Targets: []api.ReplayedTarget{{Branch: "main", Commit: strings.Repeat("12", 20), Tree: treeOfReplay, Entry: 9, Merges: 2}},
			Refs:    []api.ReplayedRef{{Agent: "claude", Ref: "refs/heads/x"}}, Snapshots: []api.ReplayedSnapshot{{ID: "3", Agent: "claude", Hash: strings.Repeat("34", 32)}},
			Differences: []api.ReplayDifference{}, Unknown: []string{}}
		switch r.URL.Query().Get("workspace") {
		case "shop":
			refuse(w, api.Errorf(api.CodeReceiptsBroken, "receipts of workspace shop, log of agent claude: entry 7: it does not match its hash"))
			return
		case "other":
			out.Workspace, out.Unknown = "other", []string{"entries before 7 were removed"}
			out.Differences = append(out.Differences, api.ReplayDifference{What: "target main", Recorded: "commit 12", Found: "no such commit"})
		}
		answer(w, 200, out)
	})
	mux.HandleFunc("GET /v1/receipts/tree", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-tar")
		t := tar.NewWriter(w)
		_ = t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Size: 2, Mode: 0o644})
		_, _ = t.Write([]byte("x\n"))
		_ = t.Close()
	})
	mux.HandleFunc("GET /v1/receipts/export", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/x-ndjson")
		_, _ = w.Write([]byte("{\"seq\":1}\n"))
	})
}
